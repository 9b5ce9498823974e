package service

import (
	"context"
	"errors"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/plugins/host/sandbox"
)

// ServerFlags define what a server is made of.
type ServerFlags struct {
	Service Flags
	Plugins node.PluginFlags
	Secrets node.SecretFlags
	Logs    LogFlags
	Trace   TraceFlags
}

// Serve runs until it is asked to stop.
func Serve(ctx context.Context, con *console.Console, f *ServerFlags) (err error) {
	if err := sandbox.Harden(); err != nil { // it has keys, and the passwords for mail relays and receivers of tenants
		return err
	}
	log, err := f.Logs.Open(con)
	if err != nil {
		return err
	}
	sup, err := f.Plugins.Supervisor(log)
	if err != nil {
		return err
	}
	traces, err := f.Trace.Open(ctx, "server", log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, traces.Close()) }()
	store, err := f.Secrets.Open(log)
	if err != nil {
		return err
	}
	defer store.Close()
	s := &service{con: con, f: &f.Service, log: log, traces: traces.Spans(), secrets: store}
	if s.manager, err = Supervised(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(), s.manager.Close()) }()
	if err := s.open(ctx, sup); err != nil {
		return err
	}
	ctx, _, release := con.Signals(ctx, "stopping: other servers continue", con.Message, func() {})
	defer release()
	con.Message("listening on " + s.url())
	return s.run(ctx, func() error { return nil })
}
