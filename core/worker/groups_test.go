package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

// group is a group of a playbook in one line.
func group(name string, parts ...string) string {
	return strings.ReplaceAll("{name: "+name+", "+strings.Join(parts, ", ")+"}", "\n", "")
}

func swap(more ...string) string {
	return under("steps", file("a"), group("swap", append([]string{under("steps", file("b"), file("c")), under("rescue", file("r1"), file("r2")), under("always", file("z1"), file("z2"))}, more...)...), file("d"))
}

// nested returns a group with rescue and always, in whose steps another one stands.
func nested(inner ...string) string {
	return under("steps", group("outer", under("steps", group("inner", append([]string{under("steps", file("b")), under("rescue", file("r1"))}, inner...)...), file("c")), under("rescue", file("r2")), under("always", file("z1"))), file("d"))
}

// The steps that run, by how steps end. A step in capitals behind "cut" is the one at which the
// host had to end.
func TestGroupsDecide(t *testing.T) {
	const failed, lost, away, back = core.Failed, core.Lost, core.Unreachable, core.RolledBack
	for name, tc := range map[string]struct {
		playbook string
		ends     map[string]core.Outcome
		cut      string // "x" before it began, "x!" in its middle
		ran      string
		step     string // that ended the host
		rescued  string
	}{
		"nothing fails":                 {playbook: swap(), ran: "a b c z1 z2 d"},
		"before the group":              {playbook: swap(), ends: map[string]core.Outcome{"a": failed}, ran: "a", step: "a"},
		"the first":                     {playbook: swap(), ends: map[string]core.Outcome{"b": failed}, ran: "a b r1 r2 z1 z2", step: "b"},
		"the last":                      {playbook: swap(), ends: map[string]core.Outcome{"c": failed}, ran: "a b c r1 r2 z1 z2", step: "c"},
		"rolled back":                   {playbook: swap("recover: true"), ends: map[string]core.Outcome{"c": back}, ran: "a b c r1 r2 z1 z2 d", rescued: "c"},
		"recover":                       {playbook: swap("recover: true"), ends: map[string]core.Outcome{"b": failed}, ran: "a b r1 r2 z1 z2 d", rescued: "b"},
		"recover, nothing fails":        {playbook: swap("recover: true"), ran: "a b c z1 z2 d"},
		"recover, later failure":        {playbook: swap("recover: true"), ends: map[string]core.Outcome{"b": failed, "d": failed}, ran: "a b r1 r2 z1 z2 d", step: "d", rescued: "b"},
		"the rescue fails":              {playbook: swap("recover: true"), ends: map[string]core.Outcome{"b": failed, "r1": failed}, ran: "a b r1 z1 z2", step: "b"},
		"the rescue ends worse":         {playbook: swap("recover: true"), ends: map[string]core.Outcome{"b": back, "r2": failed}, ran: "a b r1 r2 z1 z2", step: "r2"},
		"always fails":                  {playbook: swap(), ends: map[string]core.Outcome{"z1": failed}, ran: "a b c z1", step: "z1"},
		"always fails after a rescue":   {playbook: swap("recover: true"), ends: map[string]core.Outcome{"b": failed, "z1": failed}, ran: "a b r1 r2 z1", step: "z1", rescued: "b"},
		"always fails after a failure":  {playbook: swap(), ends: map[string]core.Outcome{"b": failed, "z2": failed}, ran: "a b r1 r2 z1 z2", step: "b"},
		"unreachable":                   {playbook: swap("recover: true"), ends: map[string]core.Outcome{"b": away}, ran: "a b", step: "b"},
		"lost":                          {playbook: swap("recover: true"), ends: map[string]core.Outcome{"c": lost}, ran: "a b c", step: "c"},
		"unreachable in the rescue":     {playbook: swap("recover: true"), ends: map[string]core.Outcome{"b": failed, "r1": away}, ran: "a b r1", step: "r1"},
		"lost in the rescue":            {playbook: swap("recover: true"), ends: map[string]core.Outcome{"b": failed, "r2": lost}, ran: "a b r1 r2", step: "r2"},
		"cut in its middle":             {playbook: swap("recover: true"), cut: "b!", ran: "a b z1 z2", step: "b"},
		"cut before it began":           {playbook: swap("recover: true"), cut: "c", ran: "a b z1 z2", step: "c"},
		"cut before the group began":    {playbook: swap("recover: true"), cut: "b", ran: "a", step: "b"},
		"cut in the rescue":             {playbook: swap("recover: true"), ends: map[string]core.Outcome{"b": failed}, cut: "r1!", ran: "a b r1 z1 z2", step: "r1"},
		"cut behind the group":          {playbook: swap(), cut: "d!", ran: "a b c z1 z2 d", step: "d"},
		"cut and rolled back":           {playbook: swap("recover: true"), ends: map[string]core.Outcome{"b": back}, cut: "b!", ran: "a b z1 z2", step: "b"},
		"cut, continue_on_failure":      {playbook: under("steps", group("g", under("steps", file("b", "continue_on_failure: true"), file("c")), under("always", file("z"))), file("d")), ends: map[string]core.Outcome{"b": back}, cut: "b!", ran: "b z", step: "b"},
		"continue_on_failure":           {playbook: under("steps", group("g", under("steps", file("b", "continue_on_failure: true"), file("c")), under("rescue", file("r")))), ends: map[string]core.Outcome{"b": failed}, ran: "b c"},
		"without rescue":                {playbook: under("steps", group("g", under("steps", file("b"), file("c")), under("always", file("z"))), file("d")), ends: map[string]core.Outcome{"b": failed}, ran: "b z", step: "b"},
		"without always":                {playbook: under("steps", group("g", under("steps", file("b"), file("c")), under("rescue", file("r"))), file("d")), ends: map[string]core.Outcome{"b": failed}, ran: "b r", step: "b"},
		"only steps":                    {playbook: under("steps", group("g", under("steps", file("b"), file("c"))), file("d")), ends: map[string]core.Outcome{"b": failed}, ran: "b", step: "b"},
		"nested, nothing fails":         {playbook: nested(), ran: "b c z1 d"},
		"nested, the inner fails":       {playbook: nested(), ends: map[string]core.Outcome{"b": failed}, ran: "b r1 r2 z1", step: "b"},
		"nested, the inner recovers":    {playbook: nested("recover: true"), ends: map[string]core.Outcome{"b": failed}, ran: "b r1 c z1 d", rescued: "b"},
		"nested, the outer fails":       {playbook: nested("recover: true"), ends: map[string]core.Outcome{"c": failed}, ran: "b c r2 z1", step: "c"},
		"nested, both":                  {playbook: nested("recover: true"), ends: map[string]core.Outcome{"b": failed, "c": failed}, ran: "b r1 c r2 z1", step: "c", rescued: "b"},
		"nested, the inner rescue lost": {playbook: nested("recover: true"), ends: map[string]core.Outcome{"b": failed, "r1": lost}, ran: "b r1", step: "r1"},
		"nested, cut":                   {playbook: nested("recover: true"), cut: "b!", ran: "b z1", step: "b"},
		"nested, cut before it began":   {playbook: nested("recover: true"), cut: "b", ran: "", step: "b"},
		"in a rescue": {playbook: under("steps", group("outer", "recover: true", under("steps", file("a")), under("rescue", group("inner", under("steps", file("b")), under("rescue", file("r")), "recover: true"))), file("d")),
			ends: map[string]core.Outcome{"a": failed, "b": failed}, ran: "a b r d", rescued: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := playbooks.Parse("test.yaml", []byte("playbook: test\ntargets: true\n"+tc.playbook), playbooks.Options{})
			if err != nil {
				t.Fatal(err)
			}
			c, ran := course{playbook: p, cut: -1}, []string{}
			v := c.next()
			for ; !v.ends && len(c.done) < len(p.Steps); v = c.next() {
				sr := core.StepResult{Name: p.Steps[len(c.done)].Name, Outcome: core.Skipped, Attempts: 1}
				if v.reason == "" {
					sr.Outcome = core.Unchanged
					if o := tc.ends[sr.Name]; o != "" {
						sr.Outcome = o
					}
					if strings.TrimSuffix(tc.cut, "!") == sr.Name {
						c.cut = len(c.done)
						if sr.Outcome.Good() {
							sr.Outcome = core.Cancelled
						}
						if tc.cut == sr.Name {
							sr.Attempts = 0
						}
					}
					if sr.Attempts > 0 {
						ran = append(ran, sr.Name)
					}
				}
				c.done = append(c.done, sr)
			}
			step, rescued := "", ""
			if v.ends {
				step = v.failed.Name
			}
			if r := c.recovered(); r != nil {
				rescued = r.Name
			}
			if got := strings.Join(ran, " "); got != tc.ran || step != tc.step || rescued != tc.rescued {
				t.Errorf("ran %q, ended by %q, rescued %q\nexpected %q, %q, %q", got, step, rescued, tc.ran, tc.step, tc.rescued)
			}
		})
	}
}

const restoreBook = `
steps:
  - {name: swap, recover: RECOVER, steps: [{name: b, uses: file, with: {path: /b}, notify: [web]}, {name: c, uses: file, with: {path: /c}}],
     rescue: [{name: r, uses: file, with: {path: "/${{ error.step }}/${{ error.reason }}"}}, {include: steps/site.yaml, with: {port: 1}, when: error.step == "c"}],
     always: [{name: z, uses: file, with: {path: "/${{ steps.r.outcome }}"}}]}
  - {name: d, uses: file, with: {path: "/${{ steps.swap.outcome }}"}}
handlers: [{name: web, uses: file, with: {path: /restart}}]
`

// The worker does as is decided: error is read, the record shows that a host was rescued, and a
// change keeps its handler.
func TestGroups(t *testing.T) {
	for name, tc := range map[string]struct {
		recover string
		ends    map[string][]string
		want    string
		outcome core.Outcome
		reason  string
		left    []string
	}{
		"nothing fails":                  {"true", nil, "/b /c /skipped /unchanged", core.Unchanged, "", nil},
		"not recovered":                  {"false", map[string][]string{"b": {"changed"}, "c": {"failed"}}, "/b /c /c/failed /port/1 /was/false /unchanged", core.Failed, "failed (test.yaml:5)", []string{"web"}},
		"recovered":                      {"true", map[string][]string{"b": {"changed"}, "c": {"failed"}}, "/b /c /c/failed /port/1 /was/false /unchanged /changed /restart", core.Changed, "rescued: step c: failed", nil},
		"a change of a step that failed": {"true", map[string][]string{"b": {"failed"}}, "/b /b/failed /unchanged /unchanged /restart", core.Unchanged, "rescued: step b: failed", nil},
		"unreachable":                    {"true", map[string][]string{"b": {"unreachable"}}, "/b", core.Unreachable, "unreachable", []string{"web"}},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.files = map[string]string{"steps/site.yaml": siteFile}
				l.ends(tc.ends)
				r := l.one(strings.Replace(restoreBook, "RECOVER", tc.recover, 1))
				if got := l.plugins.paths(); got != tc.want || r.Outcome != tc.outcome || r.Reason != tc.reason {
					t.Errorf("called %s: %s, %s\nexpected %s: %s, %s", got, r.Outcome, r.Reason, tc.want, tc.outcome, tc.reason)
				}
				if strings.HasPrefix(tc.reason, "rescued") != (r.ReasonCode == core.Rescued) {
					t.Errorf("reason code %s", r.ReasonCode)
				}
				if r.Handlers == nil || !slices.Equal(r.Handlers.Left(), tc.left) {
					t.Errorf("left %+v, expected %v", r.Handlers, tc.left)
				}
			})
		})
	}
}

// A worker dies at each call, also in rescue and always; the next one decides the same.
func TestGroupsSurviveTheirWorker(t *testing.T) {
	for call := 1; call <= 8; call++ {
		t.Run(fmt.Sprint("call ", call), func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.files = map[string]string{"steps/site.yaml": siteFile}
				first := l.dieAt(call, map[string]string{"b": "changed", "c": "failed"})
				res := l.dies(strings.Replace(restoreBook, "RECOVER", "true", 1), first, sound)
				paths := strings.Split(l.plugins.paths(), " ")
				want := strings.Split("/b /c /c/broken /port/1 /was/false /unchanged /changed /restart", " ")
				if !res.Outcome.Good() || res.ReasonCode != core.Rescued || !slices.Equal(slices.Compact(paths), want) {
					t.Errorf("%s, %s: called %v, expected %v", res.Outcome, res.Reason, paths, want)
				}
			})
		})
	}
}

// A pause between attempts suspends the job within the group, and the group continues after it.
func TestGroupSuspended(t *testing.T) {
	inLab(t, func(l *lab) {
		l.ends(map[string][]string{"b": {"failed", "failed"}, "r": {"failed", "changed"}})
		retry := "retry: {attempts: 2, interval: 1m}"
		r := l.one(under("steps", group("g", under("steps", file("b", retry)), under("rescue", file("r", retry)), under("always", file("z")))))
		if got := l.plugins.steps(); got != "b.1 b.2 r.1 r.2 z.1" || r.Outcome != core.Failed || r.Step != "b" {
			t.Errorf("called %s: %+v", got, r)
		}
	})
}

// In check mode the same steps run, and nothing else.
func TestGroupsInCheckMode(t *testing.T) {
	inLab(t, func(l *lab) {
		l.ends(map[string][]string{"b": {"failed"}})
		r := l.one(swap(), func(o *launch.Options, _ *queue.Run) { o.Check = true })
		if got := l.plugins.steps(); got != "a.1 b.1 r1.1 r2.1 z1.1 z2.1" || r.Outcome != core.Failed || len(r.Steps) != 7 {
			t.Errorf("called %s: %+v", got, r)
		}
	})
}

// The run is cancelled in each step: always of a group that has begun runs to its end all the same,
// and nothing else does.
func TestAlwaysRunsOnCancel(t *testing.T) {
	for name, tc := range map[string]struct {
		in      string // step that is under way
		want    string
		outcome core.Outcome
		step    string
	}{
		"before the group": {in: "a", want: "a", outcome: core.Cancelled, step: "a"},
		"in its steps":     {in: "b", want: "a b z1 z2", outcome: core.Cancelled, step: "b"},
		"in the rescue":    {in: "r1", want: "a b c r1 z1 z2", outcome: core.Cancelled, step: "r1"},
		"in always":        {in: "z1", want: "a b c r1 r2 z1 z2", outcome: core.Failed, step: "c"},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				var ended []string
				l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
					ended = append(ended, c.Step)
					if c.Step == tc.in {
						l.cancel()
						out, err := sleep(time.Minute)(ctx, c)
						if !out.Cancelled {
							return host.Outcome{}, err
						}
						return out, err
					}
					if c.Step == "c" && tc.in != "b" {
						return host.Outcome{Failed: true, Reason: "broken"}, nil
					}
					if err := ctx.Err(); err != nil {
						t.Errorf("step %s began in a call that had ended", c.Step)
					}
					return host.Outcome{}, nil
				}
				r := l.one(swap())
				if got := strings.Join(ended, " "); got != tc.want || r.Outcome != tc.outcome || r.Step != tc.step {
					t.Errorf("called %s: %s at %s, %s\nexpected %s: %s at %s", got, r.Outcome, r.Step, r.Reason, tc.want, tc.outcome, tc.step)
				}
			})
		})
	}
}

// A cancel that came in always ends the job after the group. No handler runs at a flush there.
func TestNoFlushBehindACancelledAlways(t *testing.T) {
	for _, cancel := range []bool{true, false} {
		inLab(t, func(l *lab) {
			var called []string
			l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
				called = append(called, c.Step)
				if c.Step == "z" && cancel {
					l.cancel()
					pass(time.Minute)
				}
				return host.Outcome{Changed: true}, nil
			}
			r := l.one(under("steps", group("g", under("steps", file("b", "notify: [web]")), under("always", file("z"))), "{flush: handlers}", file("d")) + under("handlers", file("web")))
			want, outcome, left := "b z web d", core.Changed, 0
			if cancel {
				want, outcome, left = "b z", core.Cancelled, 1
			}
			if got := strings.Join(called, " "); got != want || r.Outcome != outcome || len(r.Handlers.Left()) != left {
				t.Errorf("cancel %v: called %s: %s at %s, %s, handlers %v", cancel, got, r.Outcome, r.Step, r.Reason, r.Handlers)
			}
		})
	}
}

// A retry of always waits in place once the run was cancelled.
func TestAlwaysIsRetriedAfterACancel(t *testing.T) {
	inLab(t, func(l *lab) {
		tried := 0
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			switch c.Step {
			case "b":
				l.cancel()
				return sleep(time.Hour)(ctx, c)
			case "z":
				if tried++; tried < 3 {
					return host.Outcome{Failed: true, Reason: "busy"}, nil
				}
			}
			return host.Outcome{}, nil
		}
		r := l.one(under("steps", group("g", under("steps", file("b")), under("always", file("z", "retry: {attempts: 3, interval: 1m}")))))
		if tried != 3 || r.Outcome != core.Cancelled || r.Step != "b" || len(r.Steps) != 2 || r.Steps[1].Outcome != core.Unchanged {
			t.Errorf("%d attempts: %+v", tried, r)
		}
	})
}

// killed runs steps on one host. One of their calls receives its worker, kills it and closes ended;
// the next worker continues. The first one must not warn of a state that its ack brings.
func (l *lab) killed(steps string, nodes chan<- *node, ended <-chan struct{}) core.Result {
	l.t.Helper()
	var log strings.Builder
	la, c := l.submit("r", 1, steps), l.config()
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	n := l.start(c)
	nodes <- n
	<-ended
	n.drain()
	if strings.Contains(log.String(), "not on record yet") {
		l.t.Errorf("warned of a state that the ack brings: %s", &log)
	}
	next := l.start(l.config())
	res := l.results(la)
	next.drain()
	l.exactlyOnce(la, res)
	return res[0]
}

// command is file with a job type that must not be repeated.
func command(name string, more ...string) string {
	return strings.Replace(file(name, more...), "file, with: {path", "command, with: {run", 1)
}

// Always ends when its worker is killed, because it must not outlive its lease. The next worker
// continues with it.
func TestKillEndsAlways(t *testing.T) {
	inLab(t, func(l *lab) {
		nodes, ended, killed, tried := make(chan *node, 1), make(chan struct{}), false, 0
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			switch c.Step {
			case "b":
				l.cancel()
			case "z":
				if tried++; tried > 1 {
					return host.Outcome{Changed: true}, nil
				}
				(<-nodes).Kill()
				out, err := sleep(time.Hour)(ctx, c)
				killed = out.Cancelled
				close(ended)
				return out, err
			}
			return sleep(time.Hour)(ctx, c)
		}
		r := l.killed(under("steps", group("g", under("steps", file("b")), under("always", file("z")))), nodes, ended)
		if r.Outcome != core.Cancelled || r.Step != "b" || !killed || tried != 2 {
			t.Errorf("killed: %v, %d tries, %+v", killed, tried, r)
		}
	})
}

// A worker is stopped immediately in a step that must not be repeated, also after a cancel of the
// run: the next worker runs always, and nothing else.
func TestKillLeavesAlwaysToTheNextWorker(t *testing.T) {
	for name, tc := range map[string]struct {
		cancel, rolledBack bool
		outcome            core.Outcome
	}{
		"killed":                            {outcome: core.Cancelled},
		"killed, and the step rolls back":   {rolledBack: true, outcome: core.RolledBack},
		"cancelled, and killed right after": {cancel: true, outcome: core.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				nodes, ended := make(chan *node, 1), make(chan struct{})
				l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
					if c.Step != "b" {
						return host.Outcome{Changed: true}, nil
					}
					n := <-nodes
					if err := c.Checkpoint(ctx, host.State{Version: 1, JSON: json.RawMessage(`{}`)}); err != nil {
						t.Error(err)
					}
					if tc.cancel {
						l.cancel()
						<-ctx.Done()
					}
					n.Kill()
					<-ctx.Done()
					synctest.Wait()
					close(ended)
					return host.Outcome{Cancelled: !tc.rolledBack, Failed: tc.rolledBack, RolledBack: tc.rolledBack}, nil
				}
				r := l.killed(under("steps", group("g", "recover: true", under("steps", command("b", "continue_on_failure: true"), file("c")), under("rescue", file("r")), under("always", file("z"))), file("d")), nodes, ended)
				if got := l.plugins.steps(); got != "b.1 z.1" || r.Outcome != tc.outcome || r.Step != "b" {
					t.Errorf("called %s: %s at %s, %s", got, r.Outcome, r.Step, r.Reason)
				}
			})
		})
	}
}

// A worker is killed in always of a group whose step was cut, and may not repeat it. The next
// worker runs always of the outer group.
func TestKillInAlwaysLeavesTheOuterOne(t *testing.T) {
	inLab(t, func(l *lab) {
		nodes, ended := make(chan *node, 1), make(chan struct{})
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			switch c.Step {
			case "b":
				l.cancel()
				return sleep(time.Hour)(ctx, c)
			case "z":
				(<-nodes).Kill()
				defer close(ended)
				return sleep(time.Hour)(ctx, c)
			}
			return host.Outcome{Changed: true}, nil
		}
		r := l.killed(under("steps", group("outer", under("steps", group("inner", under("steps", file("b")), under("always", command("z"), file("z2"))), file("c")), under("always", file("y")))), nodes, ended)
		if got := l.plugins.steps(); got != "b.1 z.1 y.1" || r.Outcome != core.Cancelled || r.Step != "b" {
			t.Errorf("called %s: %s at %s, %s", got, r.Outcome, r.Step, r.Reason)
		}
	})
}

// A step fails when its window has closed: rescue and always run then, and the same steps outside
// of a group wait for the next window.
func TestRescueWaitsForNoWindow(t *testing.T) {
	const stop = night + "    overrun: stop_at_checkpoint\n"
	const flash, reset, look = "{name: flash, uses: firmware.set, needs: 30m, with: {v: 1}MORE}", "{name: reset, uses: firmware.set, NEEDSwith: {v: 1}}", "{name: look, uses: command, with: {run: x}}"
	in := under("steps", group("g", under("steps", strings.Replace(flash, "MORE", "", 1)), under("rescue", strings.Replace(reset, "NEEDS", "", 1)), under("always", look)))
	out := under("steps", strings.Replace(flash, "MORE", ", continue_on_failure: true", 1), strings.Replace(reset, "NEEDS", "needs: 30m, ", 1), look)
	for name, tc := range map[string]struct{ defs, steps, want string }{
		"rescue":               {night, in, "flash@0 reset@3 look@3"},
		"rescue, overrun stop": {stop, in, "flash@0 reset@3 look@3"},
		"no group":             {night, out, "flash@0 reset@22 look@22"},
	} {
		t.Run(name, func(t *testing.T) {
			inDays(t, func(l *lab) {
				var got []string
				l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
					got = append(got, fmt.Sprintf("%s@%d", c.Step, int(time.Since(hour(0)).Hours()+0.01)))
					if c.Step != "flash" {
						return sleep(time.Minute)(ctx, c)
					}
					if out, err := sleep(3*time.Hour)(ctx, c); !out.Changed {
						return out, err
					}
					return host.Outcome{Failed: true, Reason: "broken"}, nil
				}
				la := l.windowed("r", 1, tc.defs, "\n"+tc.steps)
				n := l.start(l.windowedConfig())
				r := l.results(la)[0]
				n.drain()
				if s := strings.Join(got, " "); s != tc.want {
					t.Errorf("%s (%s): %s, expected %s", r.Outcome, r.Reason, s, tc.want)
				}
			})
		})
	}
}
