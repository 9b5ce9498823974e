package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/turnus/turnus/plugins/internal/wire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
)

// Serve makes the process a plugin of the job types; it is all that main does. It
// returns when the worker has asked the process to end. Started by hand, it prints the
// manifest for the argument "manifest", and otherwise says what it is and exits with 1.
func Serve(defs ...Def) {
	if len(os.Args) > 1 && os.Args[1] == "manifest" {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(Describe(defs...)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(wire.CookieKey) != wire.CookieValue {
		fmt.Fprintf(os.Stderr, "This is a Turnus plugin (%s): a worker starts it, from DIR/NAME/VERSION/plugin.\n"+
			"To write its manifest: %s manifest > manifest.json\n", Describe(defs...).Name, os.Args[0])
		os.Exit(1)
	}
	handshakeStdout()
	server := NewServer(dialWorker, defs...)
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue,
		},
		Plugins: goplugin.PluginSet{wire.ServiceName: &served{server: server}},
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(opts,
				grpc.MaxRecvMsgSize(wire.MaxMessage), grpc.MaxSendMsgSize(wire.MaxMessage),
				grpc.StatsHandler(&orphanage{after: orphanGrace}))...)
		},
		Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Error, Output: os.Stderr, JSONFormat: true}),
	})
}

// served is the server as go-plugin wants it.
type served struct {
	goplugin.NetRPCUnsupportedPlugin
	server *Server
}

func (p *served) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	p.server.Register(s)
	return nil
}

func (p *served) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("the sdk is a plugin's end only")
}

func dialWorker() (grpc.ClientConnInterface, error) {
	path := os.Getenv(wire.HostSocketEnv)
	if path == "" {
		return nil, fmt.Errorf("no host services: the worker did not set %s", wire.HostSocketEnv)
	}
	// passthrough, since a path is no URL and may hold any character
	return grpc.NewClient("passthrough:///worker",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxMessage), grpc.MaxCallSendMsgSize(wire.MaxMessage)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}))
}

// orphanGrace is how long a plugin outlives its worker's last connection.
const orphanGrace = 3 * time.Second

// orphanage ends the process some time after its worker went away without a word: a
// killed worker cannot stop its plugins, and the kernel's parent death signal
// follows a thread, not the process.
type orphanage struct {
	after time.Duration

	mu    sync.Mutex
	conns int
	timer *time.Timer
}

func (o *orphanage) HandleConn(_ context.Context, s stats.ConnStats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch s.(type) {
	case *stats.ConnBegin:
		o.conns++
		if o.timer != nil {
			o.timer.Stop()
		}
	case *stats.ConnEnd:
		o.conns--
		if o.conns == 0 {
			o.timer = time.AfterFunc(o.after, func() {
				fmt.Fprintln(os.Stderr, "the worker is gone; so is this plugin")
				os.Exit(1)
			})
		}
	}
}

func (o *orphanage) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (o *orphanage) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (o *orphanage) HandleRPC(context.Context, stats.RPCStats)                         {}
