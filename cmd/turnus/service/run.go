package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/server"
)

// webStop is how long requests that are under way may take when the service stops.
const webStop = 5 * time.Second

// run serves until ctx ends or a part fails. Then it stops in this order. The API takes no new
// requests. The worker of this process ends, by drain. The work of that worker is recorded.
// Controller and catalog leave unfinished runs to others, or to the next start. The progress of
// this process's own queue is kept for that start.
func (s *service) run(ctx context.Context, drain func() error) error {
	if err := s.data.forgetRemains(); err != nil {
		return errors.Join(err, drain())
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.ctl.Run(life) })
	wg.Go(func() { s.notify.Run(life) })
	wg.Go(func() {
		if err := s.catalog.Run(life); err != nil {
			failed(err)
		}
	})
	wg.Go(func() { s.forget(life) })
	wg.Go(func() { s.expect(life) })
	wg.Go(func() { s.scaling.Run(stop) })
	handler := beside(s.f.ownHosts(s.pages), s.api)
	if s.acme != nil {
		handler = afterChallenge(handler)
		s.answerChallenges(stop, &wg)
	}
	web := server.HTTP(handler, s.log)
	base := requests(stop)
	web.BaseContext = func(net.Listener) context.Context { return base }
	wg.Go(func() {
		if err := s.serve(web); !errors.Is(err, http.ErrServerClosed) {
			failed(fmt.Errorf("API: %w", err))
		}
	})
	s.con.WarnError(s.manager.Ready(s.hangs))
	<-stop.Done()
	cause := context.Cause(stop)
	s.con.WarnError(s.manager.Stopping())
	down, cancel := context.WithTimeout(life, webStop)
	if err := web.Shutdown(down); err != nil {
		_ = web.Close()
	}
	cancel()
	s.api.Close()
	err := drain()
	s.awaitRecords(life)
	end()
	wg.Wait()
	err = errors.Join(err, s.keepQueue(context.WithoutCancel(ctx)))
	if cause != nil && !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return err
}

// errStops is the cause with which requests under way end. Clients repeat idempotent requests after
// it.
var errStops = fmt.Errorf("the server stops, ask again: %w", core.ErrUnavailable)

// requests returns the context of requests. It ends with stop, and errStops is its cause.
func requests(stop context.Context) context.Context {
	ctx, end := context.WithCancelCause(context.WithoutCancel(stop))
	context.AfterFunc(stop, func() { end(errStops) })
	return ctx
}

func (s *service) serve(web *http.Server) error {
	if s.f.secure() {
		web.TLSConfig = s.tlsConfig()
		return web.ServeTLS(s.listener, "", "")
	}
	return web.Serve(s.listener)
}

// recordFor is how long a service that stops waits for what its own queue, which ends with it, has
// to be recorded.
const recordFor = 10 * time.Second

// awaitRecords waits until the outcomes in this process's own queue are in the ledger. Those of a
// queue in Redis stay there.
func (s *service) awaitRecords(ctx context.Context) {
	if s.f.Queue.URL != "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordFor)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !s.finished(ctx) {
		select {
		case <-ctx.Done():
			s.con.Report(s.con.Paint(console.Yellow, "warning: ") + "not all outcomes were recorded in time; those jobs run again after the next start, or their runs are paused")
			return
		case <-tick.C:
		}
	}
}

func (s *service) finished(ctx context.Context) bool {
	for run, err := range ledger.Each(ctx, ledger.MaxPage, s.ledger.Unfinished) {
		if err != nil || !recorded(ctx, s.queue, run) {
			return false
		}
	}
	return true
}
