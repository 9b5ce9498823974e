package service

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
)

// UpFlags define how the service runs in one process.
type UpFlags struct {
	Service Flags
	Node    node.Flags
	Log     LogFlags
	Trace   TraceFlags
	Name    string
	Context string
}

// Up runs until it is asked to stop.
func Up(ctx context.Context, con *console.Console, f *UpFlags) (err error) {
	f.Log.Verbose = f.Node.Verbose
	log, err := f.Log.Open(con)
	if err != nil {
		return err
	}
	traces, err := f.Trace.Open(ctx, "up", log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, traces.Close()) }()
	s := &service{con: con, f: &f.Service, log: log, traces: traces.Spans()}
	if s.manager, err = Supervised(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.manager.Close()) }()
	n, err := f.Node.Reach(ctx, node.ByCredentials, s.inventory, log)
	if err != nil {
		return err
	}
	s.secrets, n.Lent = n.Secrets, true
	defer n.Secrets.Close() // notifications need it when the worker has stopped
	stop := sync.OnceValue(n.Stop)
	defer func() { err = errors.Join(err, stop(), s.close()) }()
	if err := node.Unconfined(con, n); err != nil {
		return err
	}
	f.Node.Plugins.ReportDev(con)
	node.WarnWithoutCredentials(con, n)
	if s.configs, err = f.Node.OpenConfigs(); err != nil {
		return err
	}
	if s.configs != nil {
		s.closes(s.configs.Close)
	}
	if err := s.open(ctx, n.Plugins); err != nil {
		return err
	}
	ctx, _, release := con.Signals(ctx, finishingSteps, con.Message, n.Kill)
	defer release()
	w := node.WorkOptions{Queue: s.queue, Name: f.Name, Pool: f.Service.Queue.Pool, Files: s.catalog.FilesDir, Report: true, Outputs: s.keepOutput, Events: node.JobLog(log, nil), Metrics: s.metrics, Scraped: true, Traces: s.traces}
	if f.Service.Project != "" { // checkouts of a branch are in the data folder; nothing else is sent from it
		w.Data = s.data.Path
	}
	if err := n.Work(&f.Node, w, log); err != nil {
		return err
	}
	s.stuck = n.Worker.Stuck
	if f.Context != "" {
		if err := settings.WriteContext(con, f.Context, settings.Context{Server: s.url(), TokenFile: s.data.tokenFile(), CAFile: f.Service.tlsCert}); err != nil {
			con.Report(con.Paint(console.Yellow, "warning: ") + "the context " + f.Context + " was not written: " + core.ErrorText(err))
		}
	}
	con.Message("listening on " + s.url())
	if link := s.loginLink(ctx); link != "" && con.Terminal {
		con.Message("log one browser in, once, within 10 minutes: " + link)
	}
	return s.run(ctx, stop)
}

// loginLink returns an address that logs one browser in, once, with the first token; "" if that
// token is gone, or if browsers would not keep the session.
func (s *service) loginLink(ctx context.Context) string {
	listens, _, _ := net.SplitHostPort(s.f.listen)
	if !s.f.secure() && !core.ThisMachine(listens) {
		return ""
	}
	secret, err := settings.ReadTokenFile(s.data.tokenFile())
	if err != nil {
		return ""
	}
	if _, err := s.ledger.Authenticate(ctx, secret); err != nil {
		return ""
	}
	return s.url() + s.pages.Link(secret, "/")
}

// finishingSteps explains the effect of the first signal on a service.
const finishingSteps = "stopping: steps that run finish, the rest continues after the next start; once more cancels them"
