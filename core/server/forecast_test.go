package server

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
)

// ended records results of a run whose step took so long on each host.
func (b *bed) ended(run api.Run, took time.Duration) {
	b.t.Helper()
	batch := ledger.Batch{Run: run.ID}
	for i := range run.Total {
		detail, err := launch.EncodeResult(core.Result{Outcome: core.Changed, Steps: []core.StepResult{{Name: "look", Uses: "command", Outcome: core.Changed, Took: took}}})
		must(b.t, err)
		batch.Outcomes = append(batch.Outcomes, ledger.Outcome{Index: i, Outcome: core.Changed, Attempt: 1, Started: time.Now(), Took: took, Detail: detail})
	}
	_, err := b.ledger.Record(b.t.Context(), batch)
	must(b.t, err)
}

// Steps take what they took in earlier runs of the playbook, those in check mode excepted, once
// enough hosts were measured.
func TestForecastLearnsFromTheLedger(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	viewer := b.token("acme", Viewer)
	durations := func() []api.LearnedStep {
		return want[struct{ Items []api.LearnedStep }](t, b.ask(viewer, "GET", "/v1/playbooks/acme-patch/durations", nil), http.StatusOK).Items
	}
	checked := b.launch("acme", api.NewRun{LaunchOptions: api.LaunchOptions{Check: true}})
	for range 3 { // of three hosts
		b.ended(b.launch("acme", api.NewRun{}), 3*time.Minute)
	}
	b.ended(checked, time.Second)
	if all := durations(); len(all) != 0 {
		t.Errorf("nine hosts are too few to learn from: %+v", all)
	}
	forecast := func() api.Forecast {
		run := b.launch("acme", api.NewRun{})
		return want[api.Forecast](t, b.ask(viewer, "GET", "/v1/runs/"+run.ID+"/forecast", nil), http.StatusOK)
	}
	if f := forecast(); f.Steps[0].Source != "assumed" || !strings.Contains(strings.Join(f.Notes, "; "), "durations are assumed") {
		t.Errorf("before: %+v", f)
	}
	b.ended(b.launch("acme", api.NewRun{}), 3*time.Minute)
	all := durations()
	if len(all) != 1 || all[0].Step != "look" || all[0].P50 != 180 || all[0].Hosts != 12 || all[0].Runs != 4 || all[0].Took[20] != 180 {
		t.Fatalf("durations %+v", all)
	}
	f := forecast()
	if f.Hosts != 3 || f.Steps[0].Source != "learned" || f.Steps[0].P90 != 180 || f.FinishP50.Before(f.At.Add(3*time.Minute)) || f.Binds == nil {
		t.Errorf("after: %+v", f)
	}
	if a := b.ask(viewer, "GET", "/v1/runs/"+checked.ID+"/forecast", nil); a.status != http.StatusConflict {
		t.Errorf("of a run that has ended: %d %s", a.status, a.body)
	}
	for _, path := range []string{"/v1/playbooks/acme-patch/durations", "/v1/runs/" + f.Run + "/forecast"} {
		if a := b.ask(b.token("globex", Viewer), "GET", path, nil); a.status != http.StatusNotFound {
			t.Errorf("another tenant's: %d %s", a.status, a.body)
		}
	}
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	run := &api.Run{ID: "r", Phase: api.Active}
	open := func(change func(*queue.Status)) *queue.Status {
		st := &queue.Status{Phase: queue.Active, Total: 100, Limit: 100, InFlight: 2}
		if change != nil {
			change(st)
		}
		return st
	}
	pending := api.Explanation{State: core.Pending}
	waves := plan{limits: []int{1, 5, 100}, waves: 3}
	for name, c := range map[string]struct {
		held
		causes, text string
	}{
		"due":            {held{run: run, status: open(nil), why: pending}, "concurrency", "free concurrency"},
		"it runs":        {held{run: run, status: open(nil), why: api.Explanation{State: core.Leased}}, "", ""},
		"approval":       {held{run: &api.Run{ID: "r", Phase: api.Approval}, why: pending}, "approval", "turnus runs approve r"},
		"queued":         {held{run: &api.Run{ID: "r", Phase: api.Queued}, why: pending}, "queue", "not in the queue"},
		"paused":         {held{run: run, status: open(func(s *queue.Status) { s.Phase = queue.Paused }), why: pending}, "paused", "turnus runs resume r"},
		"wave":           {held{run: run, status: open(func(s *queue.Status) { s.Limit = 1 }), plan: waves, index: 4, why: pending}, "wave", "wave 2 of 3"},
		"last wave":      {held{run: run, status: open(func(s *queue.Status) { s.Limit = 5 }), plan: waves, index: 5, why: pending}, "wave", "wave 3 of 3"},
		"its approval":   {held{run: &api.Run{ID: "r", Phase: api.Active, Waits: &api.WaveWait{Wave: 2}}, status: open(func(s *queue.Status) { s.Limit = 1 }), plan: waves, index: 4, why: pending}, "approval", "turnus runs approve r --wave 2"},
		"another's":      {held{run: &api.Run{ID: "r", Phase: api.Active, Waits: &api.WaveWait{Wave: 2}}, status: open(func(s *queue.Status) { s.Limit = 1 }), plan: waves, index: 5, why: pending}, "wave", "wave 3 of 3"},
		"released":       {held{run: run, status: open(func(s *queue.Status) { s.Limit = 5 }), plan: waves, index: 4, why: pending}, "concurrency", ""},
		"max_in_flight":  {held{run: run, status: open(nil), plan: plan{shares: shares{MaxInFlight: 2}}, why: pending}, "max_in_flight", "max_in_flight is 2"},
		"below it":       {held{run: run, status: open(nil), plan: plan{shares: shares{MaxInFlight: 3}}, why: pending}, "concurrency", ""},
		"lock":           {held{run: run, status: open(nil), why: api.Explanation{State: core.Blocked, Reason: "waits for host x"}}, "lock", "waits for host x"},
		"window":         {held{run: run, status: open(nil), why: pending, window: &api.HostWindow{Set: "night", Opens: time.Unix(1, 0), OpensLocal: "22:00"}}, "window", "night opens at 22:00"},
		"window is open": {held{run: run, status: open(nil), why: pending, window: &api.HostWindow{Set: "night"}}, "concurrency", ""},
		"never":          {held{run: run, status: open(nil), why: pending, window: &api.HostWindow{Set: "night", Reason: "no window fits"}}, "window", "no window fits"},
		"parked":         {held{run: run, status: open(nil), why: api.Explanation{State: core.Suspended}, window: &api.HostWindow{Set: "night", Opens: time.Unix(1, 0)}}, "window", ""},
		"once":           {held{run: run, status: open(nil), why: api.Explanation{State: core.Suspended}, once: []string{"host db calls step migrate"}}, "once", "db calls step migrate"},
		"all of it": {held{
			run: run, status: open(func(s *queue.Status) { s.Phase, s.Limit = queue.Paused, 1 }), plan: plan{limits: []int{1, 100}, waves: 2, shares: shares{MaxInFlight: 1}}, index: 9, why: pending, unworked: nobodyWorks,
		}, "paused wave max_in_flight worker", ""},
	} {
		var causes, texts []string
		for _, b := range c.blocks() {
			causes, texts = append(causes, string(b.Cause)), append(texts, b.Text)
		}
		if !slices.Equal(causes, strings.Fields(c.causes)) || !strings.Contains(strings.Join(texts, "\n"), c.text) {
			t.Errorf("%s: %v %q, expected %s with %q", name, causes, texts, c.causes, c.text)
		}
	}
}

// A host that waits is explained with its position, and what it waits for.
func TestExplainSaysWhatBlocksAHost(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.work()
	run := b.launch("acme", api.NewRun{LaunchOptions: api.LaunchOptions{MaxInFlight: 1}})
	until(t, "the run is in the queue", func() bool {
		kept, err := b.ledger.Run(t.Context(), ledger.AllTenants(), run.ID)
		return err == nil && kept.Phase == ledger.PhaseActive && kept.Incarnation != ""
	})
	session, err := b.queue.Open(t.Context(), "w")
	must(t, err)
	until(t, "a job is leased", func() bool {
		r, err := b.queue.Turn(t.Context(), queue.Turn{Session: session, Want: 3})
		must(t, err)
		return len(r.Leases) > 0
	})
	e := want[api.Explanation](t, b.ask(b.token("acme", Viewer), "GET", "/v1/runs/"+run.ID+"/jobs/2/explain", nil), http.StatusOK)
	if e.State != core.Pending || e.ReasonCode != core.NoWorker || e.Ahead == nil || *e.Ahead != 1 || len(e.Blocks) != 3 || e.Blocks[0].Cause != "wave" || e.Blocks[1].Cause != "max_in_flight" || e.Starts == nil || e.Starts.FinishP50.Before(e.Starts.P50) {
		t.Errorf("%+v", e)
	}
	first := want[api.Explanation](t, b.ask(b.token("acme", Viewer), "GET", "/v1/runs/"+run.ID+"/jobs/0/explain", nil), http.StatusOK)
	if first.State != core.Leased || first.Worker != "w" || first.ReasonCode != "" || len(first.Blocks) != 0 || first.Starts != nil {
		t.Errorf("%+v", first)
	}
	for _, j := range want[struct{ Items []api.Job }](t, b.ask(b.token("acme", Viewer), "GET", "/v1/runs/"+run.ID+"/jobs", nil), http.StatusOK).Items {
		if leased := j.State == core.Leased; leased != (j.Worker == "w") || leased != strings.HasPrefix(j.Reason, "leased by w for ") {
			t.Errorf("host %s is %s, of worker %q: %q", j.Host, j.State, j.Worker, j.Reason)
		}
	}
}

// A host that waits for the one that calls a step with once is explained with that host.
func TestExplainNamesTheHostThatCallsOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	tree := twoSteps()
	replace(tree, "name: first, ", "name: first, once: true, ")
	b.apply(tree)
	b.work()
	run := b.launch("acme", api.NewRun{})
	var kept ledger.Run
	until(t, "the run is in the queue", func() bool {
		var err error
		kept, err = b.ledger.Run(t.Context(), ledger.AllTenants(), run.ID)
		return err == nil && kept.Phase == ledger.PhaseActive && kept.Incarnation != ""
	})
	_, _, err := b.ledger.ElectOnce(t.Context(), &kept, 0, 1)
	must(t, err)
	session, err := b.queue.Open(t.Context(), "w")
	must(t, err)
	var leases []queue.Lease
	until(t, "a job is leased", func() bool {
		r, err := b.queue.Turn(t.Context(), queue.Turn{Session: session, Want: 3})
		must(t, err)
		leases = append(leases, r.Leases...)
		return len(leases) > 0
	})
	_, err = b.queue.Turn(t.Context(), queue.Turn{Session: session, Acks: []queue.Ack{{Job: leases[0].Job, Token: leases[0].Token, Kind: queue.AckSuspend, Event: snapshot.OnceEvent(0, snapshot.AwaitResult)}}})
	must(t, err)
	e := want[api.Explanation](t, b.ask(b.token("acme", Viewer), "GET", "/v1/runs/"+run.ID+"/jobs/0/explain", nil), http.StatusOK)
	if e.ReasonCode != core.AwaitsOnce || len(e.Blocks) == 0 || !strings.Contains(e.Blocks[0].Text, "host acme-2 calls step first") {
		t.Errorf("%+v", e)
	}
	waits := want[struct{ Items []api.Wait }](t, b.ask(b.token("acme", Viewer), "GET", "/v1/runs/"+run.ID+"/waits", nil), http.StatusOK).Items
	if !slices.ContainsFunc(waits, func(w api.Wait) bool { return w.Code == core.AwaitsOnce && w.Reason == e.Reason }) {
		t.Errorf("waits %+v, expected the reason of the job", waits)
	}
}

// The forecast of the launch is kept, and shown beside what happened; a later call changes nothing.
// A run that has no host to estimate, and one that ended before anybody looked, have none.
// A run that was replaced is not explained by the estimate of what it was.
func TestTheForecastOfAReplacedRunIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	operator := b.token("acme", Operator)
	run := want[api.Run](t, b.ask(operator, "POST", "/v1/runs", api.NewRun{Playbook: "acme-patch", FourEyes: true, LaunchOptions: api.LaunchOptions{Limit: []string{"acme-1"}}}), http.StatusCreated)
	path := "/v1/runs/" + run.ID
	if f := want[api.Forecast](t, b.ask(operator, "GET", path+"/forecast", nil), http.StatusOK); f.Hosts != 1 {
		t.Fatalf("%+v", f)
	}
	if run = want[api.Run](t, b.ask(operator, "PUT", path, api.NewRun{Playbook: "acme-patch"}), http.StatusOK); run.Total < 2 {
		t.Fatalf("%+v", run)
	}
	want[any](t, b.ask(operator, "GET", path+"/jobs/1/explain", nil), http.StatusOK)
}

// A list of runs does not wait for an estimate that is made meanwhile.
func TestAListOfRunsDoesNotWaitForAnEstimate(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.work()
	run := b.launch("acme", api.NewRun{})
	viewer := b.token("acme", Viewer)
	list := func() []api.Run {
		return want[struct{ Items []api.Run }](t, b.ask(viewer, "GET", "/v1/runs?live=true", nil), http.StatusOK).Items
	}
	until(t, "the run is active", func() bool { all := list(); return len(all) == 1 && all[0].Phase == api.Active })
	other := ledger.Run{ID: "large"}
	_, err := b.server.estimates.of(&other, func(*estimate) error {
		listed := make(chan []api.Run, 1)
		go func() {
			defer close(listed)
			listed <- list()
		}()
		select {
		case all := <-listed:
			if len(all) != 1 || all[0].ID != run.ID || !all[0].FinishP50.IsZero() {
				t.Errorf("while an estimate is made: %+v", all)
			}
		case <-time.After(time.Minute):
			t.Error("the list waits for the estimate")
		}
		return core.ErrUnavailable
	})
	if !errors.Is(err, core.ErrUnavailable) {
		t.Error(err)
	}
	until(t, "control: the list has an estimate", func() bool { return !list()[0].FinishP50.IsZero() })
}

func TestTheForecastOfALaunchIsKept(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	viewer := b.token("acme", Viewer)
	run := b.launch("acme", api.NewRun{})
	shown := func(id string) api.Run {
		return want[api.Run](t, b.ask(viewer, "GET", "/v1/runs/"+id, nil), http.StatusOK)
	}
	if x := shown(run.ID).Expected; x != nil {
		t.Errorf("before: %+v", x)
	}
	must(t, b.server.Expect(t.Context(), run.ID))
	x := shown(run.ID).Expected
	if x == nil || x.Hosts != run.Total || !x.FinishP50.After(run.Created) || x.FinishP90.Before(x.FinishP50) || x.P50 != nil {
		t.Fatalf("%+v", x)
	}
	must(t, b.server.Expect(t.Context(), run.ID))
	b.ended(run, time.Second)
	must(t, b.server.Expect(t.Context(), run.ID))
	after := shown(run.ID)
	if after.Ended.IsZero() || !after.Expected.At.Equal(x.At) || after.Expected.Beside(after.Ended, time.Now()) == "" {
		t.Errorf("%+v, expected the one of %v", after.Expected, x.At)
	}
	line := want[api.Timeline](t, b.ask(viewer, "GET", "/v1/runs/"+run.ID+"/timeline", nil), http.StatusOK)
	if e := line.Expected; e == nil || len(e.P50) < 2 || e.P50[len(e.P50)-1].Hosts != run.Total || line.To.Before(e.FinishP90) || len(line.P50) != 0 {
		t.Errorf("the timeline: %+v", line)
	}
	late := b.launch("acme", api.NewRun{})
	b.ended(late, time.Second)
	must(t, b.server.Expect(t.Context(), late.ID))
	if x := shown(late.ID).Expected; x != nil {
		t.Errorf("of a run that had ended: %+v", x)
	}
	for _, one := range want[struct{ Items []api.Run }](t, b.ask(viewer, "GET", "/v1/runs", nil), http.StatusOK).Items {
		if one.Expected != nil {
			t.Errorf("a list has what was expected of run %s", one.ID)
		}
	}
}
