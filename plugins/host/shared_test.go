package host

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

// halves are two built-ins in one process: lab has the first job type, and other all others.
func halves(t *testing.T) []Plugin {
	t.Helper()
	argv := []string{self(t), "lab", "good"}
	lab, other := labManifest(), labManifest()
	lab.Types, other.Types, other.Name = lab.Types[:1], other.Types[1:], "other"
	return []Plugin{{Argv: argv, Manifest: lab, Process: "both"}, {Argv: argv, Manifest: other, Process: "both"}}
}

// Built-ins of one process are started once, and are two plugins all the same. The control is the
// same two with processes of their own.
func TestBuiltinsShareAProcess(t *testing.T) {
	for _, share := range []bool{true, false} {
		all := halves(t)
		if !share {
			all[0].Process, all[1].Process = "", ""
		}
		box, err := confining()
		if err != nil {
			t.Fatal(err)
		}
		s, err := newSupervisor(Config{Sandbox: box, Builtins: all, Log: slog.New(slog.DiscardHandler)}, &fleet{})
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{Supervisor: s, tree: box.Tree()}
		pids := []any{b.must(t, call("echo", labParams{}))["pid"], b.must(t, call("version", labParams{}))["pid"]}
		if _, err := b.Run(t.Context(), call("nothing", labParams{})); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("a job type that neither has: %v", err)
		}
		var stats []string
		for _, st := range s.Stats() {
			stats = append(stats, st.Plugin)
			if st.Starts != 1 || st.Processes != 1 {
				t.Errorf("%+v, expected one process", st)
			}
		}
		want := []string{"both"}
		if !share {
			want = []string{"lab", "other"}
		}
		if (pids[0] == pids[1]) != share || !slices.Equal(stats, want) {
			t.Errorf("shared %v: processes %v, stats of %q, expected of %q", share, pids, stats, want)
		}
		if p := s.Plugins(); len(p) != 2 || p[0].Name != "lab" || p[1].Name != "other" || len(p[0].Manifest.Types) != 1 {
			t.Errorf("%+v, expected both plugins with their own job types", p)
		}
		if tp, ok := s.Type("lab.version"); !ok || tp.Plugin != "other 1.0.0" {
			t.Errorf("%q, expected the plugin that has the job type", tp.Plugin)
		}
		if n := s.pools["lab"].plugin.concurrency(); share && n != 128 || !share && n != 64 {
			t.Errorf("shared %v: %d calls at the same time in a process, expected 64 for each plugin", share, n)
		}
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func TestBuiltinsOfOneProcessHaveTheSameNeeds(t *testing.T) {
	for name, change := range map[string]func(*Plugin){
		"arguments": func(p *Plugin) { p.Argv = append(slices.Clone(p.Argv), "more") },
		"needs":     func(p *Plugin) { p.Allow.Network = true },
	} {
		all := halves(t)
		change(&all[1])
		_, err := newSupervisor(Config{Builtins: all}, &fleet{})
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "lab and other share processes, and differ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
