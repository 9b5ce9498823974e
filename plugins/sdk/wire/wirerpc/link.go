// Package wirerpc is the plugin's end of the services between a worker and its plugin processes:
// gRPC on net/http, without compression. The runner's end is another package, on grpc-go, which
// brings six times the modules. plugintest serves the worker's services with it.
package wirerpc

import (
	"context"
	"net"
	"net/http"
	"time"
)

// maxCalls is how many calls a connection takes at the same time: the worker bounds them by the
// manifest's concurrency.
const maxCalls = 1 << 16

// NewServer returns a server of HTTP/2 without TLS, for a socket that only its owner reaches.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, Protocols: protocols(), ReadHeaderTimeout: time.Minute,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxCalls},
	}
}

// NewClient returns a client of gRPC without TLS; dial connects it when it is first needed and
// whenever the connection was lost.
func NewClient(dial func(context.Context) (net.Conn, error)) *Client {
	return &Client{&http.Transport{
		Protocols: protocols(), DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		HTTP2:       &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 20, MaxReceiveBufferPerConnection: 16 << 20},
	}}
}

func protocols() *http.Protocols {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &p
}
