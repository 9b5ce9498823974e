package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/ledger"
)

const (
	sse        = "text/event-stream"
	eventsHelp = "Server-sent events, each data line an event in JSON as `turnus run --events` prints it. It begins with what is kept of the live events " +
		"(or behind Last-Event-ID), continues while they come, and ends with the recorded end: job_done with all steps, and run_done. " +
		"When live events are no longer kept, what is recorded is all that comes."
)

func (s *Server) events() {
	run := route{id: "follow-run", method: http.MethodGet, path: "/v1/runs/{run}/events", summary: "Follow a run", detail: eventsHelp, role: Viewer, stream: true, content: sse}
	handle(s, run, func(ctx context.Context, by caller, in *struct {
		RunPath
		LastEvent
	},
	) (*huma.StreamResponse, error) {
		if _, err := s.cfg.Ledger.Run(ctx, by.scope, in.Run); err != nil {
			return nil, err
		}
		if _, err := board.ParseCursor(in.Last); err != nil {
			return nil, err
		}
		return s.stream(run, by, func(ctx context.Context, out *eventStream) error {
			f := follow{s: s, out: out, run: in.Run, cursor: in.Last}
			return f.wholeRun(ctx)
		})
	})
	job := route{id: "follow-job", method: http.MethodGet, path: "/v1/runs/{run}/jobs/{job}/events", summary: "Follow a job and its output", detail: eventsHelp, role: Viewer, stream: true, content: sse}
	handle(s, job, func(ctx context.Context, by caller, in *struct {
		JobPath
		LastEvent
	},
	) (*huma.StreamResponse, error) {
		if _, err := s.cfg.Ledger.Job(ctx, by.scope, in.id()); err != nil {
			return nil, err
		}
		if _, err := board.ParseCursor(in.Last); err != nil {
			return nil, err
		}
		return s.stream(job, by, func(ctx context.Context, out *eventStream) error {
			f := follow{s: s, out: out, run: in.Run, cursor: in.Last, job: in.id().String()}
			return f.oneJob(ctx, in.id())
		})
	})
}

// LastEvent is where a reader was.
type LastEvent struct {
	Last string `header:"Last-Event-ID" maxLength:"200" doc:"continue behind this event"`
}

// How live events are read.
const (
	feedPage   = 500
	feedWait   = streamRights    // of one read; the caller's rights are checked in between
	lateFor    = 2 * time.Second // events that workers send behind the recorded end
	checkEvery = time.Second     // at the ledger, for the end
)

// follow is one reader of a run's events.
type follow struct {
	s      *Server
	out    *eventStream
	run    string
	job    string // RUN/INDEX; "" is all
	cursor string
	topic  *topic // nil without a feed

	done   map[string]bool // jobs whose job_done was sent; of a whole run
	ended  bool            // the worker's last event of the job came
	looked time.Time
}

// wholeRun sends live events until the run is complete, then the end that the live events did not
// have.
func (f *follow) wholeRun(ctx context.Context) error {
	f.done = map[string]bool{}
	var run ledger.Run
	away := false
	err := f.live(ctx, func(ctx context.Context) (over bool, err error) {
		now, err := f.s.cfg.Ledger.Run(ctx, f.out.by.scope, f.run)
		if err != nil {
			return false, err
		}
		before, wasAway := run, away
		run, away = now, f.s.cfg.Controller.Away() != nil
		return run.Complete(), f.changed(before, run, away != wasAway)
	}, func() bool { return len(f.done) >= run.Total })
	if err != nil {
		return err
	}
	for p := (ledger.Page{Limit: ledger.MaxPage}); ; {
		if err := f.out.allowed(ctx); err != nil { // a client that reads slowly takes long for a large run
			return err
		}
		jobs, next, err := f.s.cfg.Ledger.Jobs(ctx, f.out.by.scope, f.run, ledger.JobFilter{}, p)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if f.done[j.String()] {
				continue
			}
			if err := f.out.send(doneOf(j, nil)); err != nil {
				return err
			}
		}
		if err := f.out.flush(); err != nil {
			return err
		}
		if next == "" {
			break
		}
		p.Cursor = next
	}
	over := runOf(run)
	if err := f.out.send(api.Event{Time: run.Ended, Event: api.RunDone, Run: run.ID, Text: run.Reason.Text(), Over: &over}); err != nil {
		return err
	}
	return f.out.flush()
}

// changed sends an event of what happened to a run and to none of its jobs.
func (f *follow) changed(before, now ledger.Run, queue bool) error {
	if !isChanged(before, now, queue) {
		return nil
	}
	if err := f.out.send(api.Event{Time: time.Now().UTC(), Event: api.RunChanged, Run: now.ID, Text: string(now.Phase)}); err != nil {
		return err
	}
	return f.out.flush()
}

// isChanged reports whether something happened to a run itself: somebody paused it or decided, it
// waits for a decision now, or (queue) the queue went away or is back. At the first look, before is
// the zero value: a reader may have read an older state before the stream began.
func isChanged(before, now ledger.Run, queue bool) bool {
	return !now.Complete() && (queue || now.Version != before.Version || now.Progress != before.Progress)
}

// oneJob sends live events until the job has its outcome, then what is recorded of it, steps and
// their output in full.
func (f *follow) oneJob(ctx context.Context, id core.JobID) error {
	var job ledger.Job
	err := f.live(ctx, func(ctx context.Context) (over bool, err error) {
		job, err = f.s.cfg.Ledger.Job(ctx, f.out.by.scope, id)
		return job.Outcome != "", err
	}, func() bool { return f.ended })
	if err != nil {
		return err
	}
	steps, err := f.s.steps(ctx, f.out.by.scope, id)
	if err != nil {
		return err
	}
	if err := f.out.send(doneOf(job, steps)); err != nil {
		return err
	}
	return f.out.flush()
}

// live sends what the feed has until over reports that the end is recorded, and behind it until
// heard reports that all live events of it have come, or lateFor has passed.
func (f *follow) live(ctx context.Context, over func(context.Context) (bool, error), heard func() bool) error {
	if f.s.cfg.Feed != nil {
		var leave func()
		f.topic, leave = f.s.broadcaster.join(f.run)
		defer leave()
	}
	var late time.Time // when to stop waiting for events behind the recorded end
	for {
		if err := f.out.allowed(ctx); err != nil {
			return err
		}
		if late.IsZero() && time.Since(f.looked) >= checkEvery {
			f.looked = time.Now()
			done, err := over(ctx)
			if err != nil && !errors.Is(err, core.ErrUnavailable) {
				return err
			}
			if err == nil && done {
				late = time.Now().Add(lateFor)
			}
		}
		last := !late.IsZero() && !time.Now().Before(late)
		n, err := f.page(ctx, !late.IsZero(), last)
		switch {
		case err != nil:
			return err
		case n > 0:
			if err := f.out.flush(); err != nil {
				return err
			}
		case !late.IsZero() && (heard() || last || f.quiet()):
			return nil
		default:
			if err := f.out.idle(); err != nil {
				return err
			}
		}
	}
}

// quiet reports whether nothing live was ever heard of: the feed has forgotten the run, or there is
// none.
func (f *follow) quiet() bool { return f.cursor == "" || f.s.cfg.Feed == nil }

// page sends one page of the feed; behind the end it does not wait long, and the last look is at
// the feed itself: what shares the reading may be behind it on a busy server.
func (f *follow) page(ctx context.Context, behind, last bool) (n int, err error) {
	wait := feedWait
	if behind {
		wait = 100 * time.Millisecond
	}
	if f.s.cfg.Feed == nil {
		return 0, core.Sleep(ctx, wait)
	}
	at, err := board.ParseCursor(f.cursor)
	if err != nil {
		return 0, err
	}
	read := func() ([]message, board.Cursor, error) { return f.topic.read(ctx, at, feedPage, wait) }
	if last {
		read = func() ([]message, board.Cursor, error) { return f.topic.own(ctx, at, feedPage) }
	}
	messages, next, err := read()
	if errors.Is(err, core.ErrUnavailable) || errors.Is(err, core.ErrUnknown) { // the ledger has the end nevertheless
		return 0, core.Sleep(ctx, wait)
	}
	if err != nil {
		return 0, err
	}
	if len(messages) == 0 {
		return 0, nil
	}
	if lost := board.LostMessages(f.cursor, next.String(), len(messages)); lost > 0 {
		if err := f.out.send(api.Event{Time: time.Now().UTC(), Event: api.EventsLost, Run: f.run, Text: strconv.Itoa(lost) + " events of the run are not kept any more"}); err != nil {
			return 0, err
		}
	}
	for _, m := range messages {
		if m.line == nil || f.job != "" && m.job != f.job || m.event == api.RunDone {
			continue
		}
		if m.event == api.JobDone {
			f.ended = true
			if f.job != "" {
				continue // the recorded one ends the stream
			}
			f.done[m.job] = true
		}
		if err := f.out.raw(m.at.String(), m.line); err != nil {
			return 0, err
		}
	}
	f.cursor = next.String()
	return len(messages), nil
}

// doneOf is the event of a job's recorded end.
func doneOf(j ledger.Job, steps []api.StepResult) api.Event {
	result := api.Result{
		Job: j.JobID, Host: j.Host, Customer: j.Tenant, Outcome: j.Outcome, Reason: j.Reason, Step: j.Step, Attempt: j.Attempt,
		Worker: j.Worker, Started: j.Started, Took: core.InSeconds(j.Took), Steps: steps,
	}
	return api.Event{Time: j.Recorded, Event: api.JobDone, Run: j.Run, Job: j.String(), Host: j.Host, Result: &result}
}
