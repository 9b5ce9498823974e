package runview

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
)

var update = flag.Bool("update", false, "write the golden files")

// rollout is a big run in its last wave.
func rollout() progress {
	p := progress{
		name: "ntp-everywhere", total: 3000, done: 1530, stopAfter: 300, stopUnreachable: 300, running: 240,
		outcomes: map[core.Outcome]int{core.Changed: 1490, core.Unchanged: 12, core.Failed: 3, core.Unreachable: 25},
		wave:     3, waves: 3, released: 3000, limits: []waveCount{{1, 1, true}, {149, 149, true}, {2850, 1380, true}},
		steps: []stepCount{{"stage", 60, 1682}, {"verify", 90, 1592}, {"system", 90, 1502}},
		rate:  127.6, left: 15 * time.Second, elapsed: 12345 * time.Millisecond,
		slowest: []slowHost{{"edge-0007", "system", 8100 * time.Millisecond, "one\ntwo\n"}, {"edge-0133", "verify", 3400 * time.Millisecond, ""}},
		failures: []failure{
			{core.Failed, "edge-0021", "system: exit code 1: fwctl: rule 17: no such interface: wan1", 3, "fwctl: rule 17\n"},
			{core.Unreachable, "edge-0040", "edge-0040 (127.0.0.1:2222): connection reset", 24, ""},
			{core.Unreachable, "edge-0055", "unknown host key", 1, ""},
		},
	}
	return p
}

func urgent() progress {
	return progress{name: "urgent-check", total: 4, done: 2, running: 2, elapsed: time.Second, steps: []stepCount{{"check", 2, 2}}, outcomes: map[core.Outcome]int{core.Unchanged: 2}, rate: 2}
}

func ended() progress {
	p := urgent()
	p.done, p.running, p.ended, p.outcomes = 4, 0, true, map[core.Outcome]int{core.Unchanged: 4}
	return p
}

// staged waits for an approval and for windows, with many waves and steps.
func staged() progress {
	p := progress{
		name: "firmware", total: 500, done: 40, running: 0, outcomes: map[core.Outcome]int{core.Changed: 40}, wave: 3, waves: 9, released: 40,
		elapsed: 75 * time.Minute, note: "wave 4 of 9 waits for an approval", waiting: 7, opening: "; next acme-fra Sat 2026-11-21 22:00 CET",
		retrying: 2, retryWhy: "plugin lab 1.0.0 died\nsecond line",
	}
	for i, hosts := range []int{1, 4, 35, 60, 80, 80, 80, 80, 80} {
		w := waveCount{hosts: hosts, released: i < 3}
		if w.released {
			w.finished = hosts
		}
		p.limits = append(p.limits, w)
	}
	for i := range 12 {
		p.steps = append(p.steps, stepCount{fmt.Sprintf("step-%d of the firmware", i+1), 0, 40})
	}
	return p
}

func TestFrames(t *testing.T) {
	both := []progress{rollout(), urgent()}
	many := rollout()
	for i := range 30 {
		many.failures = append(many.failures, failure{core.Failed, fmt.Sprintf("edge-%04d", i), fmt.Sprintf("reason %d \x1b[2J", i), 1, ""})
	}
	for _, c := range []struct {
		name          string
		v             view
		width, height int
	}{
		{"one", view{runs: []progress{rollout()}, keys: true}, 80, 24},
		{"demo", view{runs: both, keys: true}, 80, 24},
		{"demo-ended", view{runs: []progress{rollout(), ended()}}, 80, 24},
		{"detail", view{runs: []progress{many}, keys: true, detail: true}, 80, 24},
		{"many", view{runs: []progress{many}}, 80, 24},
		{"chosen", view{runs: []progress{rollout()}, keys: true, chosen: "edge-0133"}, 80, 24},
		{"logs", view{runs: []progress{rollout()}, keys: true, chosen: "edge-0007", logs: true}, 80, 24},
		{"no-logs", view{runs: []progress{rollout()}, keys: true, chosen: "edge-0133", logs: true}, 80, 24},
		{"narrow", view{runs: both}, 40, 24},
		{"low", view{runs: both, keys: true}, 80, 8},
		{"staged", view{runs: []progress{staged()}, keys: true}, 80, 24},
		{"watched", view{runs: []progress{{name: "site", total: 60, done: 3, running: 5, wave: 2, waves: 4, released: 10, elapsed: time.Minute, outcomes: map[core.Outcome]int{core.Failed: 3}}}}, 80, 24},
	} {
		t.Run(c.name, func(t *testing.T) {
			con := console.New(strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer))
			lines := frame(con, c.v, c.width, c.height)
			if len(lines) > c.height-1 {
				t.Errorf("%d lines on %d rows", len(lines), c.height)
			}
			got := strings.Join(lines, "\n") + "\n"
			if strings.ContainsRune(got, '\x1b') {
				t.Error("an escape sequence of a host is in the frame")
			}
			file := filepath.Join("testdata", "frames", c.name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// A frame of 3000 running hosts, of which there are five a second.
func BenchmarkFrame(b *testing.B) {
	con := console.New(strings.NewReader(""), new(bytes.Buffer), new(bytes.Buffer))
	ta := NewTally(Outline{Name: "site", Total: 3000, Steps: []string{"stage", "verify", "system"}})
	for i := range 3000 {
		host := fmt.Sprintf("edge-%04d", i)
		ta.JobStarted(host)
		ta.StepStarted(host, "verify")
	}
	for b.Loop() {
		frame(con, view{runs: []progress{ta.snapshot(slowRowsDetail)}}, 80, 24)
	}
}
