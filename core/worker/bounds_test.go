package worker

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/plugins/host"
)

func TestCaptureKeepsHeadAndTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c capture
		var all []byte
		letter := byte('a')
		for range rapid.IntRange(0, 12).Draw(t, "writes") {
			p := make([]byte, rapid.IntRange(0, 40<<10).Draw(t, "bytes"))
			for i := range p {
				p[i] = letter
				letter = 'a' + (letter-'a'+1)%26
			}
			c.write(p)
			all = append(all, p...)
		}
		text, cut := c.text()
		if len(all) <= streamKeep {
			if cut || text != string(all) {
				t.Fatalf("%d bytes were changed", len(all))
			}
			return
		}
		head, tail, ok := strings.Cut(text, "\n[… ")
		_, tail, _ = strings.Cut(tail, "…]\n")
		if !cut || !ok || head != string(all[:streamKeep/2]) || tail != string(all[len(all)-streamKeep/2:]) {
			t.Fatalf("%d bytes became %d: cut %v", len(all), len(text), cut)
		}
		if cap(c.head)+cap(c.tail) > 3*streamKeep {
			t.Fatalf("%d bytes are kept", cap(c.head)+cap(c.tail))
		}
	})
}

// A foreach that did its work is not failed for the size of what it reports, and can be suspended
// at any item.
func TestForeachOfManyItemsFits(t *testing.T) {
	code := 0
	for _, c := range []struct {
		items, bytes int // bytes of each item's outputs
		thin         int
	}{{3, 10, 0}, {300, 1000, thinOutputs}, {maxItems, 10, thinGone}} {
		var p progress
		for i := range c.items {
			one := core.StepResult{Outcome: core.Unchanged, Outputs: map[string]any{"x": strings.Repeat("y", c.bytes)}, ExitCode: &code}
			if i == c.items/2 {
				one.Outcome = core.Changed
			}
			p.add(i, one)
			if i%97 != 0 && i != c.items-1 {
				continue
			}
			if _, err := (&state{Current: p}).encode(); err != nil {
				t.Fatalf("suspended at item %d of %d: %v", i, c.items, err)
			}
		}
		sr := p.total(core.StepResult{Name: "e"}, c.items)
		if sr.Outcome != core.Changed || sr.Truncated != (c.thin > 0) || p.Thin != c.thin || p.Item != c.items {
			t.Errorf("%d items: %s, truncated %v, thin %d: %s", c.items, sr.Outcome, sr.Truncated, p.Thin, sr.Reason)
		}
		items, _ := sr.Outputs["items"].([]any)
		if c.thin < thinGone && len(items) != c.items {
			t.Errorf("%d of %d items are reported", len(items), c.items)
		}
		if c.thin == 0 && items[0].(map[string]any)["outputs"].(map[string]any)["x"] != "yyyyyyyyyy" {
			t.Errorf("negative control: %v", items[0])
		}
		failed := p
		failed.add("last", core.StepResult{Outcome: core.Failed, Reason: "boom"})
		if sr := failed.total(core.StepResult{}, c.items+1); sr.Outcome != core.Failed || !strings.Contains(sr.Reason, "boom") || !strings.Contains(sr.Reason, "item") {
			t.Errorf("%d items, then a failure: %+v", c.items, sr.Reason)
		}
	}
}

// A command that prints much did its work: what it printed is cut, the step is not failed.
func TestLongOutputsAreCutNotFailed(t *testing.T) {
	long, binary := strings.Repeat("0123456789\n", 10_000), strings.Repeat("\x01\ufffd", 30_000)
	for _, c := range []struct {
		name    string
		outputs map[string]any
		outcome core.Outcome
		cut     bool
	}{
		{"short", map[string]any{"stdout": "x"}, core.Changed, false},
		{"long", map[string]any{"stdout": long, "stderr": "y", "exit_code": 0}, core.Changed, true},
		{"both long", map[string]any{"stdout": long, "stderr": long, "exit_code": 0}, core.Changed, true},
		{"binary", map[string]any{"stdout": binary, "stderr": binary, "exit_code": 0}, core.Changed, true},
		{"no stream", map[string]any{"list": strings.Split(long, "\n"), "stdout": long}, core.Failed, true},
	} {
		sr := boundOutputs(core.StepResult{Outcome: core.Changed, Outputs: c.outputs})
		if sr.Outcome != c.outcome || sr.Truncated != c.cut {
			t.Errorf("%s: %s, truncated %v: %s", c.name, sr.Outcome, sr.Truncated, sr.Reason)
		}
		data, err := json.Marshal(sr.Outputs)
		if err != nil || len(data) > maxOutputs {
			t.Errorf("%s: %d bytes are kept, %v", c.name, len(data), err)
		}
		if c.outcome != core.Changed {
			continue
		}
		if sr.Outputs["exit_code"] != c.outputs["exit_code"] {
			t.Errorf("%s: exit code %v", c.name, sr.Outputs["exit_code"])
		}
		for name, v := range sr.Outputs {
			if text, ok := v.(string); ok && (!strings.HasPrefix(c.outputs[name].(string), text) || !utf8.ValidString(text) || c.cut && len(data) < maxOutputs/4) {
				t.Errorf("%s: %s is %d bytes of %d, in %d of JSON", c.name, name, len(text), len(c.outputs[name].(string)), len(data))
			}
		}
	}
}

// A queue refuses a Turn with an event that it does not take, and the node stops all its jobs then.
// A job type that names one fails its own step only.
func TestAnEventThatNoQueueTakesEndsItsOwnJobOnly(t *testing.T) {
	for _, event := range []string{strings.Repeat("e", queue.MaxIDLength+1), "event\xff"} {
		inLab(t, func(l *lab) {
			la := l.submit("r", 2, oneStep)
			l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
				if c.Host.Name == la.Hosts[0].Name {
					return host.Outcome{Suspended: true, Signal: event, ResumeAfter: time.Minute}, nil
				}
				select {
				case <-time.After(time.Minute):
					return host.Outcome{Changed: true}, nil
				case <-ctx.Done():
					return host.Outcome{Cancelled: true, Reason: "cut"}, nil
				}
			}
			n := l.start(l.config())
			res := l.results(la)
			n.drain()
			if r := res[0]; r.Outcome != core.Failed || !strings.Contains(r.Reason, "suspended itself until an event: the event's name") {
				t.Errorf("%.20q: %s: %s", event, r.Outcome, r.Reason)
			}
			if r := res[1]; r.Outcome != core.Changed || r.Attempt != 1 {
				t.Errorf("%.20q: the other job: %s in attempt %d: %s", event, r.Outcome, r.Attempt, r.Reason)
			}
			if got := l.said(SessionLost); len(got) > 0 {
				t.Errorf("%.20q: the node lost its session", event)
			}
		})
	}
}

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"plain\n", "é", "\xff\xfe", "\x1b[2J", "\u0085", "tab\tnul\x00", "\xe2\x82"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := escape(s)
		if !utf8.ValidString(out) {
			t.Errorf("%q became %q", s, out)
		}
		for _, r := range out {
			if r < ' ' && r != '\n' && r != '\t' && r != '\r' || r >= 0x7f && r < 0xa0 {
				t.Errorf("%q kept control character %U", s, r)
			}
		}
		if again := escape(out); again != out {
			t.Errorf("%q is not stable: %q", out, again)
		}
		if short := shorten(out, 64); utf8.ValidString(out) && !utf8.ValidString(short) {
			t.Errorf("shorten broke %q", out)
		}
	})
}

func TestResultsFitTheQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := core.Result{Host: "h", Outcome: core.Failed, Reason: strings.Repeat("r", rapid.IntRange(0, 1<<19).Draw(t, "reason"))}
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			r.Steps = append(r.Steps, core.StepResult{
				Name: "s", Stdout: strings.Repeat("\"", rapid.IntRange(0, 70<<10).Draw(t, "stdout")),
				Outputs: map[string]any{"x": strings.Repeat("o", rapid.IntRange(0, 30<<10).Draw(t, "outputs"))},
			})
		}
		data := fit(&r, queue.MaxDetail)
		var got core.Result
		if err := json.Unmarshal(data, &got); err != nil || len(data) > queue.MaxDetail {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
		if got.Outcome != core.Failed || got.Host != "h" {
			t.Fatalf("%+v", got)
		}
	})
}

func TestStateFitsTheQueueAndKeepsOutputs(t *testing.T) {
	s := &state{Current: progress{Attempts: 2, Plugin: &host.State{Version: 1, JSON: json.RawMessage(`{}`)}}}
	for range 5 {
		s.Done = append(s.Done, core.StepResult{Name: "s", Outcome: core.Changed, Stdout: strings.Repeat("x", streamKeep), Outputs: map[string]any{"n": 12345678, "text": strings.Repeat("o", 20<<10)}})
	}
	data, err := s.encode()
	if err != nil || len(data) > queue.MaxDetail {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	got, err := decodeState(data)
	if err != nil || len(got.Done) != 5 || got.Done[4].Outputs["n"] != 12345678 || len(got.Done[4].Outputs["text"].(string)) != 20<<10 || got.Current.Attempts != 2 {
		t.Errorf("%v", err)
	}
	if len(s.Done[0].Stdout) != streamKeep {
		t.Error("encoding cut the texts of the state itself")
	}
	for range 20 {
		s.Done = append(s.Done, s.Done[0])
	}
	if _, err := s.encode(); err == nil || !strings.Contains(err.Error(), "at most 262144") {
		t.Errorf("outputs over the bound: %v", err)
	}
}

func TestStateOfAnotherVersion(t *testing.T) {
	for _, text := range []string{"{", `{"v":0}`, `{"v":4}`} {
		if _, err := decodeState([]byte(text)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

func TestNodeLoad(t *testing.T) {
	measure := NodeLoad()
	measure()
	c, m := measure()
	if c < 0 || c > 1 || m <= 0 || m > 1.5 {
		t.Errorf("CPU %v, memory %v", c, m)
	}
}

func TestMemoryOfACgroup(t *testing.T) {
	machine := memoryShare(filepath.Join(t.TempDir(), "none"))
	cases := []struct {
		max, current, stat string
		want               float64
	}{
		{"1000000\n", "950000\n", "anon 1\ninactive_file 0\n", 0.95},
		{"1000000\n", "1950000\n", "anon 1\ninactive_file 1000000\n", 0.95},
		{"max\n", "950000\n", "", machine},
		{"1000000\n", "", "", machine},
	}
	for _, c := range cases {
		dir := t.TempDir()
		for name, text := range map[string]string{"memory.max": c.max, "memory.current": c.current, "memory.stat": c.stat} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := memoryShare(dir); got < c.want-0.1 || got > max(c.want, machine)+0.1 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestLoadGuardHasHysteresis(t *testing.T) {
	var cpu, memory float64
	g := loadGuard{limits: Limits{CPU: 0.9, Memory: 0.9}, measure: func() (float64, float64) { return cpu, memory }}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	steps := []struct {
		cpu, memory   float64
		over, changed bool
	}{
		{0.5, 0.5, false, false}, {0.89, 0.5, false, false}, {0.91, 0.5, true, true}, {0.85, 0.5, true, false},
		{0.79, 0.5, false, true}, {0.1, 0.95, true, true}, {0.1, 0.95, true, false}, {0.1, 0.5, false, true},
	}
	for i, s := range steps {
		cpu, memory = s.cpu, s.memory
		over, changed := false, false
		for n := range loadWindow {
			var flipped bool
			now = now.Add(loadEvery)
			over, flipped, _ = g.check(now)
			changed = changed || flipped
			if n == 0 && s.cpu >= 0.9 && over {
				t.Errorf("step %d: one measurement of a busy CPU is an overload", i)
			}
		}
		if over != s.over || changed != s.changed {
			t.Errorf("step %d: over %v, changed %v, expected %v, %v", i, over, changed, s.over, s.changed)
		}
		cpu = 1 - cpu
		if over, changed, _ := g.check(now.Add(loadEvery / 2)); over != s.over || changed {
			t.Errorf("step %d: measured again too soon", i)
		}
	}
}
