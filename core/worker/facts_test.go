package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host"
)

// A host whose shell hangs uses no concurrency and no lock: the step's time limit is also that of
// asking for the facts that its expressions read. Red without it: the step took an hour.
func TestAskingForFactsTimesOut(t *testing.T) {
	const hangs = ", and did not end within 1s; its process is killed"
	for what, do := range map[string]func(context.Context, host.Call) (host.Outcome, error){
		"": sleep(time.Hour),
		hangs: func(ctx context.Context, _ host.Call) (host.Outcome, error) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
			}
			<-time.After(time.Second)
			return host.Outcome{Failed: true, TimedOut: true, How: hangs}, fmt.Errorf("%w: lab 1.0.0", core.ErrPluginFailed)
		},
	} {
		inLab(t, func(l *lab) {
			l.plugins.do = do
			r := l.one("steps: [{name: a, uses: command, when: host.facts.cpus > 0, with: {run: x}, timeout: 10s}]")
			if r.Outcome != core.Failed || r.ReasonCode != core.TimedOut || !strings.HasPrefix(r.Reason, "host.facts: timed out after 10s"+what+" (") {
				t.Errorf("%s, %s: %s", r.Outcome, r.ReasonCode, r.Reason)
			}
			if r.Took > 11*time.Second || l.plugins.steps() != "a.1" {
				t.Errorf("after %v and %s", r.Took, l.plugins.steps())
			}
		})
	}
}

// A step reads how old the facts are when it begins. Facts that grew too old while the host waited
// fail the first step that would read them, and no step that does not.
func TestStepsReadTheAgeOfFacts(t *testing.T) {
	const steps = `
steps:
  - {name: first, uses: command, with: {run: "age ${{ host.facts.age }} of ${{ host.facts.cpus }}"}}
  - {name: wait, uses: file}
  - {name: blind, uses: command, with: {run: blind}}
  - {name: again, uses: command, when: host.facts.age > 3600, with: {run: "age ${{ host.facts.age }}"}}
`
	for head, want := range map[string]string{
		"":                         "age 0 of 4, wait, wait, blind, age 7200: changed",
		"facts: {max_age: 2h}\n":   "age 0 of 4, wait, wait, blind, age 7200: changed",
		"facts: {max_age: 119m}\n": "age 0 of 4, wait, wait, blind: failed",
	} {
		inLab(t, func(l *lab) {
			var said []string
			l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
				switch {
				case c.Type == factsType:
					return host.Outcome{Outputs: map[string]any{"cpus": 4}}, nil
				case c.Step != "wait":
					said = append(said, fmt.Sprint(params(c)["run"]))
				case c.State == nil:
					said = append(said, "wait")
					return host.Outcome{Suspended: true, ResumeAfter: 2 * time.Hour, State: &host.State{JSON: []byte("1")}}, nil
				default:
					said = append(said, "wait")
				}
				return host.Outcome{Changed: true}, nil
			}
			r := l.one(head + steps)
			if got := strings.Join(said, ", ") + ": " + string(r.Outcome); got != want {
				t.Errorf("%s\ngot %s\nwant %s\n%s", head, got, want, r.Reason)
			}
			if r.Outcome != core.Failed {
				return
			}
			last := r.Steps[len(r.Steps)-1]
			for _, part := range []string{"test.yaml:9: step again: the facts of host h00000 are 2h old, and facts: {max_age: 1h59m} allows no older ones", "\nhint: turnus run and turnus submit ask the host again"} {
				if !strings.Contains(last.Reason, part) {
					t.Errorf("got %s\nwant %s", last.Reason, part)
				}
			}
			if last.Name != "again" || last.At != "test.yaml:9" || last.ReasonCode != core.BadExpression {
				t.Errorf("%+v", last)
			}
		})
	}
}
