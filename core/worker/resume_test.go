package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/plugins/host"
)

// disk is the state of a host, by path.
type disk struct {
	wrote map[string]string
	calls []string // STEP of a step, STEP PATH of each call
	fail  int      // the call that fails, from 1; 0: none
	half  bool     // it fails after it has changed the host
}

// files returns the files on the disk, except those that restarts wrote.
func (d *disk) files() string {
	var all []string
	for path, content := range d.wrote {
		if !strings.HasPrefix(path, "/restart") {
			all = append(all, path+"="+content)
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// on makes the script's calls write to the disk. A call is changed where the content differs.
func (d *disk) on(l *lab) {
	l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
		p := params(c)
		path, content := fmt.Sprint(p["path"]), fmt.Sprint(p["content"])
		d.calls = append(d.calls, c.Step+" "+path)
		fails := len(d.calls) == d.fail
		if fails && !d.half {
			return host.Outcome{Failed: true, Reason: "no"}, nil
		}
		out := host.Outcome{Outputs: map[string]any{"made": path + "=" + content, "size": len(content)}}
		if strings.HasPrefix(path, "/restart") { // restarted with what is there
			content = d.files()
		}
		if d.wrote[path] != content {
			if c.BeforeChange != nil {
				if err := c.BeforeChange(ctx); err != nil {
					return host.Outcome{Failed: true, Reason: err.Error()}, nil //nolint:nilerr // the outcome says it
				}
			}
			d.wrote[path], out.Changed = content, true
		}
		if fails {
			d.wrote[path] = "half of " + content
			return host.Outcome{Failed: true, Reason: "no"}, nil
		}
		return out, nil
	}
}

const resumable = `
params: {users: {type: list, default: [ann, ben, cy]}}
steps:
  - {name: conf, uses: file, with: {path: /conf, content: v1}, notify: [web]}
  - {name: never, uses: file, when: run.check, with: {path: /never}}
  - {flush: handlers}
  - {name: login, uses: file, redo: always, with: {path: /login, content: "by ${{ steps.conf.outputs.size }}"}}
  - {name: site, include: steps/part.yaml, with: {port: "${{ steps.conf.outputs.size + 78 }}"}, when: steps.conf.changed}
  - {name: off, include: steps/part.yaml, with: {port: 1}, when: steps.never.changed}
  - {name: users, uses: file, foreach: params.users, with: {path: "/home/${{ item }}", content: "${{ steps.site.outputs.port }}"}, notify: [log]}
  - {name: sum, uses: file, with: {path: /sum, content: "${{ len(steps.users.outputs.items) }} ${{ steps.users.outputs.items[1].outputs.made }} ${{ steps.off.outcome }}"}, notify: [web]}
handlers:
  - {name: web, uses: file, with: {path: /restart/web}}
  - {name: log, uses: file, with: {path: /restart/log}}
`

const resumablePart = `
params: {port: {type: integer, required: true}}
steps:
  - {name: port, uses: file, with: {path: /port, content: "${{ params.port }}"}}
  - {name: probe, uses: file, with: {path: /probe, content: "${{ steps.port.changed }}"}}
outputs: {port: "${{ steps.port.outputs.made }}"}
`

// again runs the playbook on the host of a result, from the step that failed.
func (l *lab) again(id string, r core.Result, steps string, changes ...change) core.Result {
	l.t.Helper()
	l.pending = map[string]core.Handlers{}
	if r.Handlers != nil && len(r.Handlers.Pending) > 0 {
		l.pending[r.Host] = core.Handlers{From: []string{r.Job.Run}, Pending: r.Handlers.Pending}
	}
	la := l.prepare(id, 1, steps, changes...)
	text, err := json.Marshal(r) // as the record has it
	if err == nil {
		r, err = launch.DecodeResult(text)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	resume, err := launch.ResumeOf(la.Playbook, launch.Past{Run: r.Job.Run, Recorded: time.Now(), Result: r}, time.Now())
	if err == nil {
		err = la.SetResume(r.Job.Run, map[string]snapshot.Resume{r.Host: resume})
	}
	if err == nil {
		_, err = queue.SubmitOne(context.Background(), l.q, la.Run)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	n := l.start(l.config())
	defer n.drain()
	return l.results(la)[0]
}

// A playbook fails at each of its calls in turn, before the call changes the host and within it.
// From the failed step the host ends as without a failure, and no earlier call is made again.
func TestResumeEndsAsWithoutAFailure(t *testing.T) {
	whole := &disk{wrote: map[string]string{}}
	inLab(t, func(l *lab) {
		l.files = map[string]string{"steps/part.yaml": resumablePart}
		whole.on(l)
		if r := l.one(resumable); r.Outcome != core.Changed {
			t.Fatalf("%+v", r)
		}
	})
	if len(whole.calls) != 11 {
		t.Fatalf("the playbook makes the calls %q", whole.calls)
	}
	for fail := 1; fail <= len(whole.calls); fail++ {
		for _, half := range []bool{false, true} {
			t.Run(fmt.Sprint(whole.calls[fail-1], " half ", half), func(t *testing.T) {
				inLab(t, func(l *lab) {
					l.files = map[string]string{"steps/part.yaml": resumablePart}
					d := &disk{wrote: map[string]string{}, fail: fail, half: half}
					d.on(l)
					first := l.one(resumable)
					if first.Outcome != core.Failed {
						t.Fatalf("%+v", first)
					}
					second := l.again("again", first, resumable)
					if !second.Outcome.Good() {
						t.Fatalf("%+v", second)
					}
					if !maps.Equal(d.wrote, whole.wrote) {
						t.Errorf("the host has %v\nexpected %v", d.wrote, whole.wrote)
					}
					made := map[string]int{}
					for _, c := range d.calls {
						made[c]++
					}
					for _, c := range whole.calls {
						most := 1
						switch {
						case strings.Contains(c, "/restart/"):
							most = 3
						case c == whole.calls[fail-1], c == "login /login":
							most = 2
						}
						if made[c] < 1 || made[c] > most {
							t.Errorf("%s was called %d times in %q", c, made[c], d.calls)
						}
					}
				})
			})
		}
	}
}

// Two retries follow each other; the record has the run that called a kept step.
func TestResumeOfAResume(t *testing.T) {
	const steps = "steps:\n  - {name: a, uses: file, with: {path: /a, content: x}}\n  - {name: b, uses: file, with: {path: /b, content: \"${{ steps.a.outputs.made }}\"}}\n" +
		"  - {name: c, uses: file, with: {path: /c, content: \"${{ steps.a.outputs.made }} ${{ steps.a.changed }}\"}}\n"
	inLab(t, func(l *lab) {
		d := &disk{wrote: map[string]string{}, fail: 2}
		d.on(l)
		first := l.one(steps)
		d.fail = 4
		second := l.again("second", first, steps)
		third := l.again("third", second, steps)
		if got := strings.Join(d.calls, ", "); got != "a /a, b /b, b /b, c /c, c /c" || d.wrote["/c"] != "/a=x true" {
			t.Errorf("called %s; %v", got, d.wrote)
		}
		if a, b, c := third.Steps[0], third.Steps[1], third.Steps[2]; a.Kept == nil || a.Kept.Run != "r" || b.Kept == nil || b.Kept.Run != "second" || c.Kept != nil {
			t.Errorf("%+v", third.Steps)
		}
	})
}

// The control of the tests above: a retry that begins with the first step calls all steps again.
func TestRetryWithoutResumeCallsAllSteps(t *testing.T) {
	const steps = "steps:\n  - {name: a, uses: file, with: {path: /a, content: x}}\n  - {name: b, uses: file, with: {path: /b, content: x}}\n"
	inLab(t, func(l *lab) {
		d := &disk{wrote: map[string]string{}, fail: 2}
		d.on(l)
		l.one(steps)
		n := l.start(l.config())
		defer n.drain()
		l.results(l.submit("again", 1, steps))
		if got := strings.Join(d.calls, ", "); got != "a /a, b /b, a /a, b /b" {
			t.Errorf("called %s", got)
		}
	})
}

// The job's outcome is what this run did.
func TestResumeCountsNoKeptChange(t *testing.T) {
	const steps = "steps:\n  - {name: a, uses: file, with: {path: /a, content: x}}\n  - {name: b, uses: file, with: {path: /b, content: \"\"}}\n"
	inLab(t, func(l *lab) {
		d := &disk{wrote: map[string]string{}, fail: 2}
		d.on(l)
		if r := l.again("again", l.one(steps), steps); r.Outcome != core.Unchanged || r.Steps[0].Outcome != core.Changed || r.Steps[0].ReasonCode != core.WasKept {
			t.Errorf("%+v", r)
		}
	})
}

// A list that has changed since keeps what finished by its value.
func TestResumeAsksTheItemsAgain(t *testing.T) {
	const steps = "params: {users: {type: list, default: [ann, ben, cy]}}\nsteps:\n  - {name: a, uses: file, foreach: params.users, with: {path: \"/${{ item }}\", content: x}}\n"
	inLab(t, func(l *lab) {
		d := &disk{wrote: map[string]string{}, fail: 3}
		d.on(l)
		first := l.one(steps)
		l.again("again", first, steps, func(o *launch.Options, _ *queue.Run) {
			o.Vars = map[string]any{"users": []any{"dan", "ben", "ann", "ann"}}
		})
		if got := strings.Join(d.calls[3:], ", "); got != "a /dan, a /ann" {
			t.Errorf("called %s", got)
		}
	})
}

// A run that is cancelled within a foreach keeps on record which items finished.
func TestResumeBehindACancel(t *testing.T) {
	const steps = "steps:\n  - {name: a, uses: file, foreach: [x, y, z], with: {path: \"/${{ item }}\", content: x}}\n"
	inLab(t, func(l *lab) {
		d := &disk{wrote: map[string]string{}}
		d.on(l)
		write := l.plugins.do
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			out, err := write(ctx, c)
			if len(d.calls) == 2 && d.fail == 0 {
				d.fail = -1
				l.cancel()
				<-ctx.Done()
				return host.Outcome{Failed: true, Cancelled: true, Reason: "cancelled"}, nil
			}
			return out, err
		}
		first := l.one(steps)
		if first.Outcome != core.Cancelled {
			t.Fatalf("%+v", first)
		}
		l.again("again", first, steps)
		if got := strings.Join(d.calls, ", "); got != "a /x, a /y, a /y, a /z" {
			t.Errorf("called %s", got)
		}
	})
}

// A host that has booted since the run that it continues calls nothing, whether or not the run read
// facts. Only hosts that fail behind a successful step, and those that continue, are asked.
func TestResumeOfAHostThatBooted(t *testing.T) {
	const a, b = "  - {name: a, uses: file, with: {path: /a, content: x}}\n", "  - {name: b, uses: file, with: {path: /b, content: x}}\n"
	const reads = "  - {name: a, uses: file, when: host.facts.boot_id != '', with: {path: /a, content: x}}\n"
	for name, c := range map[string]struct {
		steps, before, at, since string // boot ids before the run, when b fails, at the retry
		outcome                  core.Outcome
		calls                    string // to the host, in both runs
	}{
		"the same boot":      {a + b, "1", "1", "1", core.Changed, "a b asks asks b"},
		"another boot":       {a + b, "1", "1", "2", core.Failed, "a b asks asks"},
		"it rebooted within": {a + b, "1", "2", "2", core.Changed, "a b asks asks b"},
		"not known":          {a + b, "", "", "2", core.Changed, "a b b"},
		"reads facts, same":  {reads + b, "1", "1", "1", core.Changed, "asks a b asks asks b"},
		"reads facts, other": {reads + b, "1", "1", "2", core.Failed, "asks a b asks asks"},
		"facts of before":    {reads + b, "1", "2", "2", core.Changed, "asks a b asks asks b"},
		"nothing is kept":    {b, "1", "1", "2", core.Changed, "b b"},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				d := &disk{wrote: map[string]string{}, fail: strings.Count(c.steps, "name:")}
				d.on(l)
				write := l.plugins.do
				l.plugins.do = func(ctx context.Context, call host.Call) (host.Outcome, error) {
					if call.Step == "b" {
						l.plugins.boot = c.at
					}
					return write(ctx, call)
				}
				l.plugins.boot = c.before
				first := l.one("steps:\n" + c.steps)
				l.plugins.do, l.plugins.boot = write, c.since
				second := l.again("again", first, "steps:\n"+c.steps)
				var calls []string
				for _, call := range l.plugins.seen() {
					calls = append(calls, map[bool]string{true: "asks", false: call.Step}[call.Type == factsType])
				}
				if got := strings.Join(calls, " "); got != c.calls || second.Outcome != c.outcome {
					t.Errorf("%s %s: %s; called %s, expected %s", second.Outcome, second.Step, second.Reason, got, c.calls)
				}
				if c.outcome == core.Failed {
					if second.Step != "b" || !strings.HasPrefix(second.Reason, "the host has booted since run r, ") {
						t.Errorf("%s: %s", second.Step, second.Reason)
					}
					p := l.prepare("third", 1, "steps:\n"+c.steps).Playbook
					if r, err := launch.ResumeOf(p, launch.Past{Run: "again", Recorded: time.Now(), Result: second}, time.Now()); err == nil {
						t.Errorf("a retry of the retry continues with %+v", r)
					}
				}
			})
		})
	}
}

// A step of a retry that first reads facts has those of the time when it begins.
func TestResumeReadsFactsWhenAStepBegins(t *testing.T) {
	const steps = "steps:\n  - {name: a, uses: file, with: {path: /a, content: x}}\n  - {name: b, uses: file, with: {path: /b, content: x}}\n" +
		"  - {name: c, uses: file, with: {path: /c, content: \"${{ host.facts.boot_id }}\"}}\n"
	inLab(t, func(l *lab) {
		d := &disk{wrote: map[string]string{}, fail: 2}
		d.on(l)
		l.plugins.boot = "1"
		first := l.one(steps)
		write := l.plugins.do
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			if c.Step == "b" {
				l.plugins.boot = "2"
			}
			return write(ctx, c)
		}
		if r := l.again("again", first, steps); r.Outcome != core.Changed || d.wrote["/c"] != "2" {
			t.Errorf("%s: %s; wrote %q", r.Outcome, r.Reason, d.wrote)
		}
	})
}

// A retry that does not reach its host puts on record again what it was given: the next retry
// continues with the kept steps and items, and notices a boot.
func TestResumeOfARetryThatDidNotReachTheHost(t *testing.T) {
	const steps = "steps:\n  - {name: a, uses: file, with: {path: /a, content: x}}\n  - {name: b, uses: file, foreach: [x, y], with: {path: \"/${{ item }}\", content: x}}\n"
	for since, want := range map[string]struct {
		outcome core.Outcome
		calls   string
	}{
		"1": {core.Changed, "a /a, b /x, b /y, b /y"},
		"2": {core.Failed, "a /a, b /x, b /y"},
	} {
		inLab(t, func(l *lab) {
			d := &disk{wrote: map[string]string{}, fail: 3}
			d.on(l)
			write := l.plugins.do
			l.plugins.boot = "1"
			first := l.one(steps)
			l.plugins.boot, l.plugins.do = "", func(context.Context, host.Call) (host.Outcome, error) {
				return host.Outcome{Failed: true, Unreachable: true, Reason: "no answer"}, nil
			}
			second := l.again("second", first, steps)
			if second.Outcome != core.Unreachable || second.Step != "b" || second.Facts == nil || second.Facts.Boot != "1" {
				t.Fatalf("%+v", second)
			}
			l.plugins.boot, l.plugins.do = since, write
			third := l.again("third", second, steps)
			if got := strings.Join(d.calls, ", "); third.Outcome != want.outcome || got != want.calls {
				t.Errorf("boot %s: %s: %s; called %s, expected %s", since, third.Outcome, third.Reason, got, want.calls)
			}
		})
	}
}

// A host that waits for its turn is not asked for its boot id before.
func TestResumeAsksNoHostBeforeItsTurn(t *testing.T) {
	inLab(t, func(l *lab) {
		all := behind(1)
		la := l.prepareTurns([]core.Host{all[1], all[3]}, "strategy: {waves: [100%]}\nsteps: [{name: a, uses: file, with: {path: /a}}, {name: push, uses: reboot}, {name: b, uses: file, with: {path: /b}}]\n")
		resume := snapshot.Resume{Boot: "1", Steps: []core.StepResult{{Name: "a", Uses: "file", Outcome: core.Changed, Kept: &core.Kept{Run: "old", At: time.Now()}}}}
		if err := la.SetResume("old", map[string]snapshot.Resume{"h00001": resume, "bastion-1": resume}); err != nil {
			t.Fatal(err)
		}
		l.plugins.boot = "1"
		for name, r := range l.drive(la, &diary{}) {
			if r.Outcome != core.Changed || len(r.Steps) != 3 {
				t.Errorf("%s: %+v", name, r)
			}
		}
		var calls []string
		for _, c := range l.plugins.seen() {
			calls = append(calls, c.Host.Name+" "+c.Type)
		}
		if got := strings.Join(calls, ", "); got != "bastion-1 facts, bastion-1 reboot, bastion-1 file, h00001 facts, h00001 reboot, h00001 file" {
			t.Errorf("called %s", got)
		}
	})
}
