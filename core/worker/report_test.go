package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/plugins/host"
)

// reporting starts a node with a reporter; end drains the node and joins the reporter.
func (l *lab) reporting(c ReportConfig) (r *Reporter, end func()) {
	l.t.Helper()
	cfg := l.config()
	cfg.Events = func(e Event) { r.Event(e) }
	w, err := New(cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	c.Worker, c.Board, c.Feed = w, l.q, l.q
	r = NewReporter(c)
	work, stopWork := context.WithCancel(context.Background())
	report, stopReport := context.WithCancel(context.Background())
	worked, reported := make(chan error, 1), make(chan struct{})
	go func() { defer close(reported); r.Run(report) }()
	go func() { worked <- w.Run(work) }()
	return r, func() {
		stopWork()
		if err := <-worked; err != nil {
			l.t.Errorf("Run: %v", err)
		}
		stopReport()
		<-reported
	}
}

// shown returns the node as the board has it.
func (l *lab) shown() (w api.Worker, there bool) {
	l.t.Helper()
	text, _, err := l.q.Posted(context.Background(), api.WorkerDocument("node-1"), 0)
	if errors.Is(err, core.ErrNotFound) {
		return w, false
	}
	if err == nil {
		err = json.Unmarshal(text, &w)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return w, true
}

func (l *lab) order(o api.Order) {
	l.t.Helper()
	o.At = time.Now()
	text, err := json.Marshal(o)
	if err == nil {
		_, err = l.q.Post(context.Background(), api.OrderDocument("node-1"), text, api.OrderKeep)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// reported reads the feed of a run.
func (l *lab) reported(run string) []api.Event {
	l.t.Helper()
	var all []api.Event
	for cursor := ""; ; {
		messages, next, err := l.q.Follow(context.Background(), run, cursor, board.MaxFollow, 0)
		if err != nil {
			l.t.Fatal(err)
		}
		if len(messages) == 0 {
			return all
		}
		cursor = next
		for _, m := range messages {
			var e api.Event
			if err := json.Unmarshal(m, &e); err != nil {
				l.t.Fatalf("%v: %s", err, m)
			}
			all = append(all, e)
		}
	}
}

func TestNodeReportsHowItIsAndVanishesWhenItEnds(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = sleep(10 * time.Second)
		_, end := l.reporting(ReportConfig{Version: "v1", Load: func() (float64, float64) { return 0.5, 0.25 }})
		pass(time.Second)
		if w, _ := l.shown(); w.State != api.WorkerReady || w.Concurrency != 4 || w.Version != "v1" || w.CPU != 0.5 || w.Memory != 0.25 {
			t.Errorf("an idle node: %+v", w)
		}
		l.submit("r", 6, oneStep)
		pass(3 * time.Second)
		if w, _ := l.shown(); w.State != api.WorkerBusy || w.Running != 4 {
			t.Errorf("a busy node: %+v", w)
		}
		end()
		pass(2 * time.Second)
		if w, there := l.shown(); there {
			t.Errorf("a node that ended is still shown: %+v", w)
		}
	})
}

func TestCordonedNodeTakesNothingNewUntilItMayAgain(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = sleep(time.Second)
		r, end := l.reporting(ReportConfig{})
		l.order(api.Order{Cordoned: true})
		pass(5 * time.Second)
		l.submit("r", 4, oneStep)
		pass(30 * time.Second)
		if n := len(l.plugins.seen()); n != 0 {
			t.Errorf("a cordoned node began %d jobs", n)
		}
		if w, _ := l.shown(); w.State != api.WorkerCordoned {
			t.Errorf("it reports %q", w.State)
		}
		if err := r.cfg.Worker.Unready(); err == nil || err.Error() != "cordoned" {
			t.Errorf("it is ready: %v", err)
		}
		l.order(api.Order{})
		pass(5 * time.Second)
		if err := r.cfg.Worker.Unready(); err != nil {
			t.Errorf("it is not ready: %v", err)
		}
		if n := len(l.plugins.seen()); n != 4 {
			t.Errorf("%d jobs were begun after it was given jobs again, expected 4", n)
		}
		end()
	})
}

func TestDrainIsObeyedOnce(t *testing.T) {
	inLab(t, func(l *lab) {
		drained := 0
		_, end := l.reporting(ReportConfig{Drain: func() { drained++ }})
		pass(time.Second)
		l.order(api.Order{Cordoned: true, Draining: true})
		pass(20 * time.Second)
		if drained != 1 {
			t.Errorf("Drain was called %d times, expected once", drained)
		}
		end()
	})
}

// An order to drain was for the process that was here before: one that is started again under its
// name is cordoned, so that a node which a supervisor restarts does not end again and again.
func TestOrderToDrainOfAnEarlierLifeCordons(t *testing.T) {
	inLab(t, func(l *lab) {
		l.order(api.Order{Cordoned: true, Draining: true})
		pass(time.Minute)
		_, end := l.reporting(ReportConfig{Drain: func() { t.Error("it drains") }})
		pass(5 * time.Second)
		if w, _ := l.shown(); w.State != api.WorkerCordoned {
			t.Errorf("it reports %q", w.State)
		}
		end()
	})
}

func TestEventsOfAJobArePublishedInOrderAndSmall(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			for i := range 3 {
				c.Sink(host.Event{Stdout: fmt.Appendf(nil, "line %d\x1b[2J\n", i)})
			}
			return host.Outcome{Changed: true}, nil
		}
		_, end := l.reporting(ReportConfig{})
		la := l.submit("r", 1, oneStep)
		l.results(la)
		end()
		var kinds []string
		for _, e := range l.reported("r") {
			kinds = append(kinds, e.Event)
			switch {
			case e.Run != "r" || e.Job != "r/0" || e.Host != "h00000":
				t.Errorf("an event of another job: %+v", e)
			case e.Event == string(Output) && e.Stdout != "line 0\\x1b[2J\nline 1\\x1b[2J\nline 2\\x1b[2J\n":
				t.Errorf("output %q: expected the lines together, and printable", e.Stdout)
			case e.Event == api.JobDone && (e.Result == nil || e.Result.Outcome != core.Changed || e.Result.Steps != nil):
				t.Errorf("the end: %+v", e.Result)
			}
		}
		if got := strings.Join(kinds, " "); got != "job_started step_started output step_done job_done" {
			t.Errorf("events %s", got)
		}
	})
}

// A flood of one job is cut off, its size is reported, and so is where jobs are.
func TestFloodIsDroppedAndSaid(t *testing.T) {
	inLab(t, func(l *lab) {
		p := newPublisher(l.q, "node-1")
		event := func(kind EventKind, step int) Event {
			return Event{Kind: kind, Time: time.Now(), Job: core.JobID{Run: "r"}, Step: fmt.Sprint(step), Stdout: []byte(strings.Repeat("x", 1000))}
		}
		const flood = 100_000
		for i := range flood {
			p.add(event(Output, i))
		}
		p.add(Event{Kind: JobDone, Time: time.Now(), Job: core.JobID{Run: "r"}, Result: &core.Result{Outcome: core.Changed}})
		p.flush(context.Background())
		all := l.reported("r")
		if len(all) > publishRate*publishBurst+2 {
			t.Errorf("%d events were published immediately", len(all))
		}
		last, notice := all[len(all)-2], all[len(all)-1]
		if last.Event != api.JobDone {
			t.Errorf("the end of the job was dropped: %+v", last)
		}
		if want := fmt.Sprintf("%d events of worker node-1 are not shown here", flood-len(all)+2); notice.Event != dropNotice || notice.Text != want {
			t.Errorf("the notice: %+v, expected %s", notice, want)
		}
		pass(time.Second) // the next second has room again
		p.add(event(Output, 1))
		p.flush(context.Background())
		if again := l.reported("r"); len(again) != len(all)+1 {
			t.Errorf("%d events after a second, expected %d", len(again), len(all)+1)
		}
	})
}

// noFeed is a feed that does not answer.
type noFeed struct{ board.Feed }

func (noFeed) Publish(context.Context, string, ...[]byte) error { return core.ErrUnavailable }

func TestEventsThatNobodyTakesAreCounted(t *testing.T) {
	inLab(t, func(l *lab) {
		p := newPublisher(noFeed{}, "node-1")
		p.add(Event{Kind: JobStarted, Time: time.Now(), Job: core.JobID{Run: "r"}})
		p.flush(context.Background())
		p.feed = l.q
		p.flush(context.Background())
		if all := l.reported("r"); len(all) != 1 || all[0].Event != dropNotice || !strings.HasPrefix(all[0].Text, "1 events") {
			t.Errorf("events %+v", all)
		}
	})
}

func TestLargeTextsFitAMessage(t *testing.T) {
	inLab(t, func(l *lab) {
		p := newPublisher(l.q, "node-1")
		bad := []byte(strings.Repeat("\x00", 200<<10))
		p.add(Event{Kind: Output, Time: time.Now(), Job: core.JobID{Run: "r"}, Step: "s", Stdout: bad, Stderr: bad})
		p.flush(context.Background())
		if all := l.reported("r"); len(all) != 1 || all[0].Event != string(Output) {
			t.Errorf("events %+v", all)
		}
	})
}

// Where nobody asks the node for its metrics, they are on the board for servers; not more often
// than they are wanted.
func TestReporterPostsMetrics(t *testing.T) {
	inLab(t, func(l *lab) {
		asked := 0
		_, end := l.reporting(ReportConfig{Metrics: func(context.Context) ([]byte, error) {
			asked++
			return []byte("figures"), nil
		}})
		<-time.After(25 * time.Second)
		text, _, err := l.q.Posted(context.Background(), api.MetricsDocument("node-1"), 0)
		if err != nil || string(text) != "figures" {
			t.Errorf("%q, %v", text, err)
		}
		if shown, _ := l.shown(); !shown.Fixed {
			t.Error("a node that cannot end does not report that")
		}
		end()
		if asked != 3 {
			t.Errorf("asked %d times in 25 s, expected every %v", asked, api.MetricsEvery)
		}
		<-time.After(api.MetricsKeep + time.Second)
		if _, _, err := l.q.Posted(context.Background(), api.MetricsDocument("node-1"), 0); !errors.Is(err, core.ErrNotFound) {
			t.Errorf("metrics of a node that is gone stay: %v", err)
		}
	})
}
