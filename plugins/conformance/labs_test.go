//go:build labs

package conformance

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/host/sandbox"
)

const (
	besideHosts = 40
	victims     = 100
	hung        = 5 * time.Minute // what only a hang reaches
)

// beside runs the faulty plugin's jobs at all hosts, eight at the same time, and a victim's hundred
// in between, each plugin in processes of its own under one supervisor. It returns the victims that
// did not end well.
func beside(t *testing.T, w *world, fault, victim string) (bad []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	box, err := sandbox.New(sandbox.Config{Mode: sandbox.Auto})
	if err != nil {
		t.Fatal(err)
	}
	plugin := func(name, kind string, types ...string) host.Plugin {
		p := host.Plugin{Argv: []string{self, "specimen", kind}, Manifest: host.Manifest{Name: name, Version: "1.0.0", Protocol: 1, Concurrency: 32}, Allow: host.Allow{Read: []string{filepath.Dir(self)}}}
		for _, typ := range types {
			one := host.Type{Name: typ, Summary: "For tests", Params: []byte(specimenSchema), Check: typ == "lab.echo", OnLost: "hold"}
			if typ == "lab.phases" {
				one.StateVersion = 1
			}
			p.Manifest.Types = append(p.Manifest.Types, one)
		}
		return p
	}
	s, err := host.New(host.Config{
		Reach: w.pool, Sandbox: box, Grace: 2 * time.Second, Log: slog.New(slog.DiscardHandler),
		Builtins: []host.Plugin{plugin("faulty", fault, "lab.echo", "lab.phases", "lab.copy"), plugin("victim", victim, "lab.secret")},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	defer func() { // its processes are killed with what they left running
		end, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		if err := s.Stop(end); err != nil {
			t.Errorf("Stop: %v", err)
		}
	}()
	call := func(typ string, i int) host.Call {
		h := w.hosts[i%len(w.hosts)]
		return host.Call{
			Job: core.JobID{Run: "20260102-030405-beside", Index: i}, Step: "step", Attempt: 1, Type: typ, Params: []byte(`{"text":"hello","times":2}`),
			Host: h, Key: fmt.Sprint("key-", typ, i), Fence: 1, Secrets: map[string][]byte{"password": []byte("secret of " + h.Name)}, Check: typ == "lab.echo",
			Checkpoint: func(context.Context, host.State) error { return nil },
		}
	}
	faulty, stop := context.WithCancel(ctx)
	defer stop()
	var tormentors, crowd, met sync.WaitGroup
	for n := range 8 {
		met.Add(1)
		once := sync.OnceFunc(met.Done)
		tormentors.Go(func() {
			defer once()
			for i := n; i < besideHosts; i += 8 {
				for j, typ := range []string{"lab.echo", "lab.phases", "lab.copy"} {
					one := call(typ, i)
					one.Job.Index += 1000 * (j + 1)
					if fault == "hangs" || fault == "floods-stderr" { // which is read at a megabyte a second: its calls take minutes
						one.Live = func() error { once(); return nil } // the last word before
					}
					_, _ = s.Run(faulty, one)
					once()
					if faulty.Err() != nil {
						return
					}
				}
			}
		})
	}
	var mu sync.Mutex
	concurrency := make(chan struct{}, 32)
	for i := range victims {
		if i == victims/2 {
			met.Wait() // half of the victims at least come when the fault was met
		}
		concurrency <- struct{}{}
		crowd.Go(func() {
			defer func() { <-concurrency }()
			var said bytes.Buffer
			one := call("lab.secret", i)
			one.Sink = func(e host.Event) { said.Write(e.Stdout); said.WriteString(e.Log + e.Diff) }
			out, err := s.Run(ctx, one)
			if err != nil || out.Failed || out.Cancelled || out.Suspended || out.Reason != "" || len(out.Outputs) > 0 || said.Len() > 0 {
				mu.Lock()
				defer mu.Unlock()
				bad = append(bad, fmt.Sprintf("job %d: %+v, %v, said %q", i, out, err, clipped(said.String())))
			}
		})
	}
	crowd.Wait()
	if ctx.Err() != nil {
		t.Errorf("it takes %v", hung)
	}
	stop()
	tormentors.Wait()
	return bad
}

func clipped(s string) string { return s[:min(len(s), 200)] }

// Beside each of the faulty plugins, a victim's hundred jobs all end well.
func TestLabAVictimBesideEachFaultyPlugin(t *testing.T) {
	w, err := newWorld(t.Context(), &Lab{}, besideHosts)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for _, fault := range []string{
		"noise-before", "check-lies", "lies-unchanged", "hangs", "grandchild", "dies-second", "dies-one-host", "floods", "floods-stderr", "not-idempotent",
		"open-schema", "prints-environment", "ignores-term", "eats-memory", "bad-utf8", "mixes", "leaks-outputs", "never-starts",
	} {
		t.Run(fault, func(t *testing.T) {
			begun := time.Now()
			for _, bad := range beside(t, w, fault, "none") {
				t.Error(bad)
			}
			t.Logf("took %v", time.Since(begun).Round(time.Millisecond))
		})
	}
	// The control: it is the victim's being well-made that makes its jobs end well.
	for fault, want := range map[string]int{"dies-second": 1, "never-succeeds": victims, "bad-utf8": victims} {
		t.Run("the victim "+fault, func(t *testing.T) {
			if bad := beside(t, w, "none", fault); len(bad) < want {
				t.Errorf("%d of the victim's jobs end badly, expected at least %d", len(bad), want)
			}
		})
	}
}
