package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/wire/wirerpc"
)

// Serve makes the process a plugin of the job types; it is all that main does. It
// returns when the worker has asked the process to end. Started by hand, it prints the
// manifest for the argument "manifest", and otherwise prints what it is and exits with 1.
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
	if err := serve(NewServer(wirerpc.NewClient(dialWorker), defs...)); err != nil {
		fmt.Fprintln(os.Stderr, "sdk: "+err.Error())
		os.Exit(1)
	}
}

// pluginGC is how much garbage there is before it is collected, in percent of what lives: little
// lives in a plugin, and each job leaves garbage. At Go's 100 a sixth of a plugin's CPU time
// collects it.
const pluginGC = 300

// serve shakes hands with the worker, as go-plugin has it, and serves until the worker ends it.
func serve(server *Server) error {
	signal.Ignore(os.Interrupt) // the operator's Ctrl-C is the worker's
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(pluginGC)
	}
	dir := os.Getenv(socketDirEnv)
	if dir == "" {
		return fmt.Errorf("no folder for the socket: the worker did not set %s", socketDirEnv)
	}
	socket := filepath.Join(dir, "p")
	listener, err := net.Listen("unix", socket) //nolint:noctx // it is there at once or not at all
	if err != nil {
		return fmt.Errorf("listen for the worker: %w", err)
	}
	over := make(chan struct{})
	end := sync.OnceFunc(func() { close(over) })
	handler := server.Handler()
	wirerpc.Unary(handler, healthProcedure, health)
	wirerpc.Unary(handler, shutdownProcedure, func(context.Context, *emptypb.Empty) (*emptypb.Empty, error) {
		end()
		return &emptypb.Empty{}, nil
	})
	orphans := &orphanage{after: orphanGrace}
	web := wirerpc.NewServer(handler)
	web.ConnState = orphans.state
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	if _, err := fmt.Fprintf(handshakeFile, "1|%d|unix|%s|grpc\n", wire.ProtocolVersion, socket); err != nil {
		return fmt.Errorf("shake hands with the worker: %w", err)
	}
	select {
	case <-over:
		return nil
	case err := <-served:
		return fmt.Errorf("serve the worker: %w", err)
	}
}

// Names of go-plugin's own: the folder for the socket, and two procedures.
const (
	socketDirEnv      = "PLUGIN_UNIX_SOCKET_DIR"
	healthProcedure   = "/grpc.health.v1.Health/Check"
	shutdownProcedure = "/plugin.GRPCController/Shutdown"
)

// health answers that the process serves: field 1, status, is 1, SERVING. The messages of
// these two procedures are read and written as messages without known fields, which keeps their
// packages out.
func health(context.Context, *emptypb.Empty) (*emptypb.Empty, error) {
	serving := &emptypb.Empty{}
	serving.ProtoReflect().SetUnknown([]byte{0x08, 0x01})
	return serving, nil
}

func dialWorker(ctx context.Context) (net.Conn, error) {
	path := os.Getenv(wire.HostSocketEnv)
	if path == "" {
		return nil, fmt.Errorf("no host services: the worker did not set %s", wire.HostSocketEnv)
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", path)
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

// state follows a connection to its end.
func (o *orphanage) state(_ net.Conn, s http.ConnState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch s {
	case http.StateNew:
		o.conns++
		if o.timer != nil {
			o.timer.Stop()
		}
	case http.StateClosed:
		o.conns--
		if o.conns == 0 {
			o.timer = time.AfterFunc(o.after, func() {
				fmt.Fprintln(os.Stderr, "the worker is gone; so is this plugin")
				os.Exit(1)
			})
		}
	case http.StateActive, http.StateIdle, http.StateHijacked:
	}
}
