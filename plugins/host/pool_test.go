package host

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
)

func TestCrashHitsItsOwnCallsOnly(t *testing.T) {
	for _, how := range []string{"exit", "panic"} {
		t.Run(how, func(t *testing.T) {
			b := open(t, &fleet{})
			other := open(t, &fleet{})
			other.must(t, call("echo", labParams{}))
			var wg sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p := b.pool()
			for range 2 {
				wg.Go(func() {
					out, err := b.Run(ctx, call("wait", labParams{})) // it is called again, and waits again
					if err != nil || !out.Cancelled {
						t.Errorf("call of the crashed process: %+v, %v", out, err)
					}
				})
			}
			until(t, "two calls run", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.live) == 1 && p.live[0].calls == 2 })
			_, err := b.Run(t.Context(), call(how, labParams{}))
			if !errors.Is(err, core.ErrPluginFailed) || !strings.Contains(err.Error(), "exit status") {
				t.Errorf("%v, expected ErrPluginFailed and how it ended", err)
			}
			cancel()
			wg.Wait()
			other.must(t, call("echo", labParams{}))
			b.must(t, call("echo", labParams{}))
		})
	}
}

func TestBreakerHoldsBackAPluginThatKeepsDying(t *testing.T) {
	b := open(t, &fleet{})
	for range breakerDeaths {
		_, err := b.Run(t.Context(), call("exit", labParams{}))
		if !errors.Is(err, core.ErrPluginFailed) {
			t.Fatalf("%v, expected ErrPluginFailed", err)
		}
	}
	p := b.pool()
	until(t, "the third death is noticed", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.restart.deaths) == 3 })
	out, err := b.Run(t.Context(), call("echo", labParams{}))
	if !errors.Is(err, core.ErrUnavailable) || errors.Is(err, core.ErrPluginFailed) || !strings.Contains(err.Error(), "it is tried again in") || !strings.Contains(err.Error(), "The last time: exit status 3") {
		t.Errorf("%v, expected ErrUnavailable and when it is tried again", err)
	}
	if out.Effects != EffectsNone || !out.Retryable {
		t.Errorf("%+v, expected retryable without effects", out)
	}
	if n := strings.Count(b.log.String(), "plugin is suspended"); n != 1 {
		t.Errorf("the log reports %d times that it is suspended, expected once", n)
	}
	if s := p.stats(); !s.Blocked || s.Deaths != breakerDeaths || s.Starts != breakerDeaths || s.Plugin == "" {
		t.Errorf("%+v, expected %d deaths and blocked", s, breakerDeaths)
	}
	p.mu.Lock()
	p.timing.now = func() time.Time { return time.Now().Add(5 * time.Minute) }
	p.mu.Unlock()
	b.must(t, call("echo", labParams{}))
	if s := p.stats(); s.Blocked {
		t.Errorf("%+v, expected not blocked", s)
	}
}

func TestStartFailureSaysWhy(t *testing.T) {
	b := open(t, &fleet{}, mode("quit"))
	out, err := b.Run(t.Context(), call("echo", labParams{}))
	if !errors.Is(err, core.ErrUnavailable) || out.Effects != EffectsNone {
		t.Errorf("%+v, %v", out, err)
	}
	for _, want := range []string{"exit status 7", "cannot find my config"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; expected %q in it", err, want)
		}
	}
}

// slowLog takes longer for each line than a process for its end.
type slowLog struct{ slog.Handler }

func (l slowLog) Handle(ctx context.Context, r slog.Record) error {
	<-time.After(150 * time.Millisecond)
	return l.Handler.Handle(ctx, r)
}

func (l slowLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return slowLog{l.Handler.WithAttrs(attrs)}
}

// The last output of a process is read, though it ended long before the log has taken the rest.
func TestLastWordsBehindASlowLog(t *testing.T) {
	t.Parallel()
	b := open(t, &fleet{}, mode("chatty"), config(func(c *Config) { c.Log = slog.New(slowLog{c.Log.Handler()}) }))
	if _, err := b.Run(t.Context(), call("echo", labParams{})); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "cannot find my config") {
		t.Errorf("%v; expected its last words", err)
	}
}

func TestSingleFlightStart(t *testing.T) {
	b := open(t, &fleet{}, concurrency(1000))
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { b.must(t, call("echo", labParams{})) })
	}
	wg.Wait()
	if n := strings.Count(b.log.String(), "plugin process started"); n != 1 {
		t.Errorf("%d processes were started, expected 1", n)
	}
}

func TestIdleProcessIsStopped(t *testing.T) {
	b := open(t, &fleet{}, bare(), config(func(c *Config) { c.Idle = 20 * time.Millisecond }))
	first := b.must(t, call("echo", labParams{}))["pid"]
	p := b.pool()
	until(t, "it is gone", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.live) == 0 })
	if alive(int(first.(float64))) {
		t.Error("it lives on")
	}
	b.must(t, call("echo", labParams{}))
	if strings.Contains(b.log.String(), "died") {
		t.Error("a reaped process counts as one that died")
	}
}

func TestOldProcessIsReplaced(t *testing.T) {
	b := open(t, &fleet{}, config(func(c *Config) { c.MaxAge = time.Hour }))
	first := b.must(t, call("echo", labParams{}))["pid"]
	p := b.pool()
	p.mu.Lock()
	p.live[0].born = time.Now().Add(-2 * time.Hour)
	p.mu.Unlock()
	if again := b.must(t, call("echo", labParams{}))["pid"]; again == first {
		t.Error("a process older than MaxAge took a call")
	}
}

// A process may be found too old at the very end of its last call, when others wait in line for its
// slot.
func TestOldProcessIsReplacedWhileCallsWait(t *testing.T) {
	b := open(t, &fleet{}, concurrency(1), config(func(c *Config) { c.MaxAge = time.Hour }))
	p := b.pool()
	p.processes = 1
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { _, _ = b.Run(ctx, call("wait", labParams{})) })
	until(t, "it runs", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.live) == 1 && p.live[0].calls == 1 })
	wg.Go(func() {
		if now := b.must(t, call("echo", labParams{}))["pid"]; now == nil {
			t.Error("no process took the call that waited")
		}
	})
	until(t, "a call waits", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.waiting) == 1 })
	p.mu.Lock()
	old := p.live[0]
	old.born = time.Now().Add(-2 * time.Hour)
	p.mu.Unlock()
	cancel()
	until(t, "the old one is gone", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return !slices.Contains(p.live, old) })
}

func TestStop(t *testing.T) {
	b := open(t, &fleet{}, mode("stubborn"), config(func(c *Config) { c.Grace = 200 * time.Millisecond }))
	pid := int(b.must(t, call("echo", labParams{}))["pid"].(float64))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		out, err := b.Run(context.Background(), call("wait", labParams{}))
		if !errors.Is(err, core.ErrPluginFailed) || out.Effects != EffectsUnknown {
			t.Errorf("call that did not end before Stop's context: %+v, %v", out, err)
		}
	})
	p := b.pool()
	until(t, "it runs", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.live[0].calls == 1 })
	if err := b.Stop(ctx); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if alive(pid) {
		t.Error("a process that ignores TERM lives on")
	}
	if _, err := b.Run(t.Context(), call("echo", labParams{})); !errors.Is(err, core.ErrUnavailable) {
		t.Errorf("after Stop: %v, expected ErrUnavailable", err)
	}
	if err := b.Stop(t.Context()); err != nil {
		t.Errorf("second Stop: %v", err)
	}
}

func TestRestartTable(t *testing.T) {
	r := newRestart()
	r.backoff.Jitter = 0
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		after  time.Duration
		dies   bool
		wait   time.Duration
		refuse bool
	}{
		{0, false, 0, false},
		{0, true, time.Second, false},
		{time.Second, false, 0, false},
		{0, true, 2 * time.Second, false},
		{2 * time.Second, true, 2 * time.Minute, true},
		{time.Minute, false, time.Minute, true},
		{time.Minute, false, 0, false}, // tried again
		{0, true, 2 * time.Minute, true},
		{61 * time.Minute, true, time.Second, false}, // all forgotten
	} {
		at = at.Add(row.after)
		if row.dies {
			r.died(at)
		}
		if wait, refuse := r.wait(at); wait != row.wait || refuse != row.refuse {
			t.Errorf("at %s: wait %s refuse %v, expected %s %v", at.Format(time.TimeOnly), wait, refuse, row.wait, row.refuse)
		}
	}
}
