package host

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

// separate makes labs of the modes, each a plugin of its own with a job type of its name.
func separate(t *testing.T, modes ...string) option {
	t.Helper()
	return config(func(c *Config) {
		for _, mode := range modes {
			m := labManifest()
			m.Name, m.Types = mode, m.Types[:1]
			m.Types[0].Name = mode + ".echo"
			c.Builtins = append(c.Builtins, Plugin{Argv: []string{self(t), "lab", mode}, Manifest: m})
		}
	})
}

// started are the processes that were started for each plugin.
func (b *bench) started() (n map[string]int) {
	n = map[string]int{}
	for _, st := range b.Stats() {
		n[st.Plugin] = st.Starts
	}
	return n
}

// Plugins are started before anything is called, also when one of them does not start; the calls
// start none again. The one that failed is started by its call, which has the error.
func TestWarm(t *testing.T) {
	b := open(t, &fleet{}, separate(t, "stubborn", "quit", "named:early@1"))
	b.Warm([]string{"lab.echo", "quit.echo", "nobody.echo", "named:early@1.echo", "lab.cmd"})
	until(t, "all are started that can be, and it is reported what cannot", func() bool {
		n := b.started()
		return n["lab"] == 1 && n["named:early@1"] == 1 && b.log.has("plugin did not start ahead of its first call")()
	})
	if n := b.started(); n["stubborn"] != 0 {
		t.Errorf("%v: a plugin was started that was not asked for", n)
	}
	b.must(t, call("echo", labParams{}))
	if n := b.started(); n["lab"] != 1 {
		t.Errorf("%v: a call started a process beside the one that was there", n)
	}
	if st := b.pools["quit"].stats(); st.Deaths != 0 {
		t.Errorf("%+v: a start that no call waited for counts as a death", st)
	}
	c := call("echo", labParams{})
	c.Type = "quit.echo"
	out, err := b.Run(t.Context(), c)
	if !errors.Is(err, core.ErrUnavailable) || out.Effects != EffectsNone || !strings.Contains(err.Error(), "cannot find my config") {
		t.Errorf("%+v, %v; expected the call's own error", out, err)
	}
	if st := b.pools["quit"].stats(); st.Deaths != 1 {
		t.Errorf("%+v, expected the start of the call as a death", st)
	}
}

// A call that comes while a process is being started waits for that one, and has its failure.
func TestCallDuringWarm(t *testing.T) {
	b := open(t, &fleet{}, mode("mute"))
	p := b.pool()
	b.Warm([]string{"lab.echo"})
	until(t, "it is being started", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.starting != nil })
	failed := make(chan error)
	go func() {
		_, err := b.Run(t.Context(), call("echo", labParams{}))
		failed <- err
	}()
	until(t, "the call waits", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.waiting) == 1 })
	p.mu.Lock()
	p.giveUp()
	p.mu.Unlock()
	if err := <-failed; !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "plugin lab 1.0.0 did not start: ") {
		t.Errorf("%v, expected why it did not start", err)
	}
	if st := p.stats(); st.Deaths != 1 || b.log.has("ahead of its first call")() {
		t.Errorf("%+v, expected one death, since a call waited", st)
	}
}

// Stop ends starts that nobody waits for, and those that were to follow. TestMain finds the
// remaining processes.
func TestStopDuringWarm(t *testing.T) {
	b := open(t, &fleet{}, mode("mute"), separate(t, "named:a@1", "named:b@1", "named:c@1"))
	p := b.pool()
	b.Warm(slices.Repeat([]string{"lab.echo", "named:a@1.echo", "named:b@1.echo", "named:c@1.echo"}, 3))
	until(t, "it is being started", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return p.starting != nil })
	if err := b.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	b.Warm([]string{"lab.echo"})
	if n := b.started(); n["lab"] != 0 || p.starting != nil {
		t.Errorf("%v: something was started by a supervisor that has stopped", n)
	}
}
