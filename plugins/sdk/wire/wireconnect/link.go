// Package wireconnect owns the plugin's end of the services between a worker and its plugin
// processes: gRPC on net/http, by connect. "make generate" writes all but this file. The runner's end
// is another package, on grpc-go, which brings six times the modules.
package wireconnect

import (
	"context"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// maxCalls is how many calls a connection takes at once: the worker bounds them by the manifest's concurrency.
const maxCalls = 1 << 16

// ClientOptions are those of every client here.
func ClientOptions() connect.ClientOption {
	return connect.WithClientOptions(connect.WithGRPC(), connect.WithAcceptCompression("gzip", nil, nil),
		connect.WithReadMaxBytes(wire.MaxMessage), connect.WithSendMaxBytes(wire.MaxMessage))
}

// HandlerOptions are those of every handler here.
func HandlerOptions() connect.HandlerOption {
	return connect.WithHandlerOptions(connect.WithCompression("gzip", nil, nil),
		connect.WithReadMaxBytes(wire.MaxMessage), connect.WithSendMaxBytes(wire.MaxMessage))
}

// BaseURL is that of every client: the connection leads to one worker or plugin, whatever the name.
const BaseURL = "http://worker"

// NewServer returns a server of HTTP/2 without TLS, for a socket that nobody else reaches.
func NewServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, Protocols: protocols(), ReadHeaderTimeout: time.Minute,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxCalls},
	}
}

// NewClient returns a client of HTTP/2 without TLS; dial connects it, when it is first needed and whenever the
// connection was lost.
func NewClient(dial func(context.Context) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: transport{&http.Transport{
		Protocols: protocols(), DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		HTTP2:       &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 20, MaxReceiveBufferPerConnection: 16 << 20},
	}}}
}

// transport ends a stream with its context. net/http does not look at the context of an answered request while it
// waits for more of the request's body.
type transport struct{ *http.Transport }

// RoundTrip implements [http.RoundTripper]. The context of a stream must end.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.ContentLength < 0 { // a stream of the caller's
		context.AfterFunc(req.Context(), func() { _ = req.Body.Close() })
	}
	return t.Transport.RoundTrip(req)
}

func protocols() *http.Protocols {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &p
}
