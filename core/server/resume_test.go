package server

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/snapshot"
)

// twoSteps is tree with two steps in acme's playbook, the second of which reads the first.
func twoSteps() map[string]string {
	t := tree()
	t["playbooks/acme.yaml"] = strings.Replace(t["playbooks/acme.yaml"], "steps: [", "steps: [{name: first, uses: command, with: {run: one}}, ", 1)
	t["playbooks/acme.yaml"] = strings.Replace(t["playbooks/acme.yaml"], "run: uptime", `run: "echo ${{ steps.first.stdout }}"`, 1)
	return t
}

// failSecond records that all hosts of a run failed at the second step; change is made to the
// record of acme-1.
func (b *bed) failSecond(run api.Run, change func(*core.Result)) {
	b.t.Helper()
	batch := ledger.Batch{Run: run.ID}
	for i := range run.Total {
		r := core.Result{Outcome: core.Failed, Attempt: 1, Step: "look", Facts: core.Gathered(map[string]any{"boot_id": "b1"}, time.Now()), Steps: []core.StepResult{
			{Name: "first", Uses: "command", Outcome: core.Changed, Stdout: "said"},
			{Name: "look", Uses: "command", Outcome: core.Failed, Reason: "no"},
		}}
		if i == 0 {
			change(&r)
		}
		detail, err := launch.EncodeResult(r)
		must(b.t, err)
		batch.Outcomes = append(batch.Outcomes, ledger.Outcome{Index: i, Outcome: r.Outcome, Attempt: 1, Worker: "w", Started: time.Now(), Took: time.Second, Detail: detail, Facts: r.Facts})
	}
	recorded, err := b.ledger.Record(b.t.Context(), batch)
	must(b.t, err)
	must(b.t, recorded[0].Err)
}

// A retry from the failed step gives each host the results of the steps before it. A host that
// cannot continue refuses the retry, or begins with the first step.
func TestRetryFromTheFailedStep(t *testing.T) {
	t.Parallel()
	from := api.Retry{From: api.FromFailedStep}
	otherwise := api.Retry{From: api.FromFailedStep, Else: api.ElseRestart}
	for name, c := range map[string]struct {
		change  func(*core.Result)
		project func(map[string]string)
		asked   api.Retry
		status  int
		says    string
		resumed int
	}{
		"control":                {asked: from, status: http.StatusCreated, resumed: 3},
		"without from":           {status: http.StatusCreated},
		"else without from":      {asked: api.Retry{Else: api.ElseRestart}, status: http.StatusUnprocessableEntity, says: "needs from"},
		"from elsewhere":         {asked: api.Retry{From: "step-3"}, status: http.StatusUnprocessableEntity, says: "failed-step"},
		"lost":                   {change: func(r *core.Result) { r.Outcome = core.Lost }, asked: from, status: http.StatusConflict, says: "1 of 3 hosts cannot continue at the failed step: acme-1: its outcome is lost"},
		"lost, and restarted":    {change: func(r *core.Result) { r.Outcome = core.Lost }, asked: otherwise, status: http.StatusCreated, says: `"restarted":[{"host":"acme-1"`, resumed: 2},
		"cut":                    {change: func(r *core.Result) { r.Steps[0].Truncated = true }, asked: from, status: http.StatusConflict, says: "was cut"},
		"another boot":           {change: func(r *core.Result) { r.Facts.Boot = "b0" }, asked: from, status: http.StatusConflict, says: "booted"},
		"steps changed":          {project: func(t map[string]string) { replace(t, "run: one", "run: two") }, asked: from, status: http.StatusConflict, says: "3 of 3 hosts"},
		"steps changed, restart": {project: func(t map[string]string) { replace(t, "run: one", "run: two") }, asked: otherwise, status: http.StatusCreated, says: "other steps or params"},
		"other address, no boot": {change: func(r *core.Result) { r.Facts = nil }, project: moved, asked: from, status: http.StatusConflict, says: "its address was"},
		"other address":          {project: moved, asked: from, status: http.StatusCreated, resumed: 3},
		"another strategy":       {project: func(t map[string]string) { replace(t, "stop_after: 3", "stop_after: 2") }, asked: from, status: http.StatusCreated, resumed: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.apply(twoSteps())
			run := b.launch("acme", api.NewRun{})
			if c.change == nil {
				c.change = func(*core.Result) {}
			}
			b.failSecond(run, c.change)
			if name == "another boot" { // another run saw the host after it
				b.see("acme-1", "b2")
			}
			if c.project != nil {
				next := twoSteps()
				c.project(next)
				b.apply(next)
			}
			a := b.ask(b.token("acme", Operator), "POST", "/v1/runs/"+run.ID+"/retry", c.asked)
			if a.status != c.status || !strings.Contains(a.body, c.says) {
				t.Fatalf("%d %s, expected %d and %s", a.status, a.body, c.status, c.says)
			}
			if a.status != http.StatusCreated {
				return
			}
			again := want[api.Run](t, a, http.StatusCreated)
			if again.Retried.Resumed != c.resumed {
				t.Errorf("%d hosts continue, expected %d", again.Retried.Resumed, c.resumed)
			}
			m, err := b.ledger.Material(t.Context(), again.ID)
			must(t, err)
			l, err := (&launch.Restorer{}).Restore(m.Snapshot, m.Queue)
			must(t, err)
			kept := 0
			for _, target := range l.Run.Targets {
				r, err := snapshot.DecodeResume(target.Data)
				must(t, err)
				if len(r.Steps) == 1 && r.Steps[0].Stdout == "said" && r.Steps[0].Kept.Run == run.ID {
					kept++
				}
			}
			if kept != c.resumed || (l.Snapshot.Resumes == run.ID) != (c.asked.From != "") {
				t.Errorf("%d hosts have their results, expected %d; %q", kept, c.resumed, l.Snapshot.Resumes)
			}
		})
	}
}

// failedWithoutWindows is a run of acme-1 and acme-2 that failed at the second step. Since then the
// first step, which waits for a window, has none. change is made to the record of acme-1.
func failedWithoutWindows(t *testing.T, change func(*core.Result)) (b *bed, run api.Run) {
	t.Helper()
	b = newBed(t)
	project := twoSteps()
	replace(project, "name: first, ", "name: first, window: service, needs: 1m, ")
	const sets = "windows/sets.yaml"
	const night = `allow: [{id: night, rrule: FREQ=DAILY, from: "22:00", to: "+1d 04:00"}]` // of acme first
	project[sets] = strings.Replace(project[sets], night, strings.Replace(night, "22:00", "05:00", 1), 1)
	b.apply(project)
	run = want[api.Run](t, b.ask(b.token("acme", Operator), "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch", SkipNoWindow: true}), http.StatusCreated)
	b.failSecond(run, change)
	project[sets] = strings.Replace(project[sets], strings.Replace(night, "22:00", "05:00", 1), "allow: []", 1)
	b.apply(project)
	return b, run
}

// A retry from the failed step asks for no window of a step that it does not call. Control: one
// from the first step does.
func TestRetryFromTheFailedStepWaitsForItsOwnWindows(t *testing.T) {
	t.Parallel()
	b, run := failedWithoutWindows(t, func(*core.Result) {})
	if a := b.ask(b.token("acme", Operator), "POST", "/v1/runs/"+run.ID+"/retry", api.Retry{}); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, "no window fits 2 of 2 hosts") {
		t.Errorf("from the first step: %d %s", a.status, a.body)
	}
	again := want[api.Run](t, b.ask(b.token("acme", Operator), "POST", "/v1/runs/"+run.ID+"/retry", api.Retry{From: api.FromFailedStep}), http.StatusCreated)
	if again.Total != 2 || again.Retried.Resumed != 2 {
		t.Errorf("%+v", again)
	}
}

// A host that cannot continue does not refuse a retry that leaves it out, because no window fits
// its first step.
func TestRetryFromTheFailedStepLeavesOutHostsWithoutAWindow(t *testing.T) {
	t.Parallel()
	b, run := failedWithoutWindows(t, func(r *core.Result) { r.Outcome = core.Lost })
	asked := api.Retry{From: api.FromFailedStep, SkipNoWindow: true}
	again := want[api.Run](t, b.ask(b.token("acme", Operator), "POST", "/v1/runs/"+run.ID+"/retry", asked), http.StatusCreated)
	if r := again.Retried; again.Total != 1 || r.Resumed != 1 || len(r.Restarted) > 0 || !slices.Equal(r.LeftOut, []string{"acme-1"}) {
		t.Errorf("%d hosts, %+v", again.Total, r)
	}
}

// moved gives acme-1 another address.
func moved(tree map[string]string) {
	tree["inventory/hosts.yaml"] = strings.Replace(tree["inventory/hosts.yaml"], "acme-1: {address: 192.0.2.1,", "acme-1: {address: 192.0.2.9,", 1)
}

func replace(tree map[string]string, from, to string) {
	tree["playbooks/acme.yaml"] = strings.Replace(tree["playbooks/acme.yaml"], from, to, 1)
}

// see records a run that saw a host with a boot id.
func (b *bed) see(host, boot string) {
	b.t.Helper()
	run := b.launch("acme", api.NewRun{LaunchOptions: api.LaunchOptions{Limit: []string{host}}})
	detail, err := launch.EncodeResult(core.Result{Outcome: core.Changed, Attempt: 1})
	must(b.t, err)
	_, err = b.ledger.Record(b.t.Context(), ledger.Batch{Run: run.ID, Outcomes: []ledger.Outcome{{Outcome: core.Changed, Attempt: 1, Worker: "w", Started: time.Now(), Detail: detail,
		Facts: core.Gathered(map[string]any{"boot_id": boot}, time.Now().Add(time.Second))}}})
	must(b.t, err)
}

// A retry of each kind has the result of a step with once that the earlier run called.
func TestRetryKeepsOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(map[string]string)
		asked    api.Retry
		included bool
		kept     bool
	}{
		"control":          {kept: true},
		"from failed step": {asked: api.Retry{From: api.FromFailedStep}, kept: true},
		"another strategy": {change: func(t map[string]string) { replace(t, "stop_after: 3", "stop_after: 2") }, kept: true},
		"a later step":     {change: func(t map[string]string) { replace(t, "run: \"echo", "run: \"printf") }, kept: true},
		"it calls another": {change: func(t map[string]string) { replace(t, "run: \"one", "run: \"two") }},
		"it has another name": {change: func(t map[string]string) {
			replace(t, "name: first", "name: one")
			replace(t, "steps.first", "steps.one")
		}},
		"its var changed":             {change: func(t map[string]string) { replace(t, "version: 1", "version: 2") }},
		"with of its include changed": {change: func(t map[string]string) { replace(t, "p: 1", "p: 2") }, included: true},
		"included":                    {included: true, kept: true},
		"it is of each host":          {change: func(t map[string]string) { replace(t, "once: true, ", "") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, step := newBed(t), "first"
			if c.included {
				step = "site/first"
			}
			project := func() map[string]string {
				tree := twoSteps()
				replace(tree, "name: first, ", "name: first, once: true, ")
				replace(tree, "window: none", "window: none\nvars: {version: 1}")
				replace(tree, "run: one", "run: \"one ${{ vars.version }}\"")
				if c.included {
					replace(tree, "{name: first, once: true, uses: command, with: {run: \"one ${{ vars.version }}\"}}", "{name: site, include: steps/site.yaml, with: {p: 1}}")
					replace(tree, "steps.first.stdout", "steps.site.changed")
					tree["playbooks/steps/site.yaml"] = "params: {p: {type: integer}}\nsteps: [{name: first, once: true, uses: command, with: {run: \"one ${{ params.p }}\"}}]\n"
				}
				return tree
			}
			b.apply(project())
			run := b.launch("acme", api.NewRun{})
			kept, err := b.ledger.Run(t.Context(), ledger.AllTenants(), run.ID)
			must(t, err)
			_, _, err = b.ledger.ElectOnce(t.Context(), &kept, 0, 1)
			must(t, err)
			data, err := snapshot.Once{Job: 1, Host: "acme-2", At: time.Now(), Result: &core.StepResult{Name: step, Uses: "command", Outcome: core.Changed, Stdout: "once said"}}.Encode()
			must(t, err)
			must(t, b.ledger.KeepOnce(t.Context(), &kept, 0, 1, data))
			b.failSecond(run, func(*core.Result) {})
			if c.change != nil {
				next := project()
				c.change(next)
				b.apply(next)
			}
			again := want[api.Run](t, b.ask(b.token("acme", Operator), "POST", "/v1/runs/"+run.ID+"/retry", c.asked), http.StatusCreated)
			m, err := b.ledger.Material(t.Context(), again.ID)
			must(t, err)
			l, err := (&launch.Restorer{}).Restore(m.Snapshot, m.Queue)
			must(t, err)
			r, has := l.Snapshot.Once[step]
			if has != c.kept || has && (r.Name != step || r.Kept == nil || r.Kept.Host != "acme-2" || r.Kept.Run != run.ID) {
				t.Errorf("the retry has %+v, expected one: %v", r, c.kept)
			}
		})
	}
}
