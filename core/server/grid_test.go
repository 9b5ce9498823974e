package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts"
)

// The grid has a letter for each recorded step, and a page of hosts at a time; results that are the
// same are one group, the worst first.
func TestGrid(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.launch("acme", api.NewRun{})
	path := "/v1/runs/" + run.ID
	secret := b.token("acme", Viewer)
	g := want[api.Grid](t, b.ask(secret, "GET", path+"/grid", nil), http.StatusOK)
	if len(g.Items) != 3 || g.Items[0].Host != "acme-1" || g.Items[0].Cells != "" || g.Items[0].Group != "" || len(g.Steps) != 1 || g.Steps[0] != (api.GridStep{Name: "look", Uses: "command"}) {
		t.Errorf("%+v", g)
	}
	if got := fmt.Sprint(want[api.StepCounts](t, b.ask(secret, "GET", path+"/steps", nil), http.StatusOK).Waves); got != "[{1 1 0 [map[]]} {2 2 0 [map[]]}]" {
		t.Errorf("before the end: %s", got)
	}
	b.finish(run)
	g = want[api.Grid](t, b.ask(secret, "GET", path+"/grid?limit=2", nil), http.StatusOK)
	if len(g.Items) != 2 || g.Next != "2" || g.Items[0].Outcome != core.Failed || g.Items[0].Cells != "C" || g.Items[0].Group == g.Items[1].Group {
		t.Errorf("%+v", g)
	}
	g = want[api.Grid](t, b.ask(secret, "GET", path+"/grid?cursor=2", nil), http.StatusOK)
	if len(g.Items) != 1 || g.Items[0].Index != 2 || g.Next != "" {
		t.Errorf("%+v", g)
	}
	want[any](t, b.ask(secret, "GET", path+"/grid?cursor=x", nil), http.StatusUnprocessableEntity)
	groups := want[struct{ Items []api.ResultGroup }](t, b.ask(secret, "GET", path+"/groups", nil), http.StatusOK).Items
	if len(groups) != 2 || groups[0].Outcome != core.Failed || groups[1].Total != 2 || !slices.Equal(groups[1].Hosts, []string{"acme-2", "acme-3"}) || groups[1].Index != 1 || groups[1].ID != g.Items[0].Group {
		t.Errorf("%+v", groups)
	}
	counts := want[api.StepCounts](t, b.ask(secret, "GET", path+"/steps", nil), http.StatusOK)
	if got := fmt.Sprint(counts); got != "{[{look command false}] [{1 1 1 [map[changed:1]]} {2 2 2 [map[changed:2]]}]}" {
		t.Error(got)
	}
	if waits := want[struct{ Items []api.Wait }](t, b.ask(secret, "GET", path+"/waits", nil), http.StatusOK).Items; len(waits) != 0 {
		t.Errorf("a run that is over waits: %+v", waits)
	}
	line := want[api.Timeline](t, b.ask(secret, "GET", path+"/timeline", nil), http.StatusOK)
	if len(line.Waves) != 2 || line.Waves[1].Hosts != 2 || line.Waves[1].Done != 2 || line.Done[len(line.Done)-1].Hosts != 3 || len(line.P50) != 0 || line.To.Before(line.From) || line.OfWave != nil {
		t.Errorf("%+v", line)
	}
	line = want[api.Timeline](t, b.ask(secret, "GET", path+"/timeline?wave=2", nil), http.StatusOK)
	if of := line.OfWave; of == nil || of.Wave != 2 || of.Left != 0 || len(of.Hosts) != 2 || of.Hosts[0].Outcome != core.Changed || of.Hosts[0].From.IsZero() || of.Hosts[0].To.Before(of.Hosts[0].From) || of.Hosts[0].Host == "acme-1" {
		t.Errorf("wave 2: %+v", of)
	}
	if a := b.ask(secret, "GET", path+"/timeline?wave=3", nil); a.status != http.StatusNotFound || !strings.Contains(a.body, "has waves 1 to 2, and no wave 3") {
		t.Errorf("wave 3: %d %s", a.status, a.body)
	}
	want[any](t, b.ask(secret, "GET", path+"/timeline?wave=0", nil), http.StatusUnprocessableEntity)
}

// The waits of hosts are counted by reason: first that the run is not in the queue, then the wave
// and the workers' concurrency.
func TestWaits(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.launch("acme", api.NewRun{})
	waits := func() (text string) {
		for _, w := range want[struct{ Items []api.Wait }](t, b.ask(b.token("acme", Viewer), "GET", "/v1/runs/"+run.ID+"/waits", nil), http.StatusOK).Items {
			text += fmt.Sprintf("%d %s %v; ", w.Total, w.Code, w.Hosts)
		}
		return text
	}
	if got := waits(); got != "3 queue [acme-1 acme-2 acme-3]; " {
		t.Error(got)
	}
	line := want[api.Timeline](t, b.ask(b.token("acme", Viewer), "GET", "/v1/runs/"+run.ID+"/timeline", nil), http.StatusOK)
	if len(line.P50) < 2 || line.P50[len(line.P50)-1].Hosts != 3 || line.Waves[1].Late.Before(line.Waves[1].To) || line.Waves[0].From.IsZero() {
		t.Errorf("%+v", line)
	}
	line = want[api.Timeline](t, b.ask(b.token("acme", Viewer), "GET", "/v1/runs/"+run.ID+"/timeline?wave=2", nil), http.StatusOK)
	if of := line.OfWave; of == nil || len(of.Hosts) != 2 || of.Hosts[0].State != api.JobQueued || of.Hosts[0].Outcome != "" || of.Hosts[0].From.IsZero() || of.Hosts[0].Late.Before(of.Hosts[0].To) {
		t.Errorf("expected of wave 2: %+v", of)
	}
	b.work()
	_, err := b.queue.Post(t.Context(), api.WorkerDocument("w1"), asJSON(api.Worker{Name: "w1", State: api.WorkerReady}), api.WorkerKeep)
	must(t, err)
	until(t, "the run is in the queue", func() bool {
		kept, err := b.ledger.Run(t.Context(), ledger.AllTenants(), run.ID)
		return err == nil && kept.Incarnation != ""
	})
	until(t, "its first host waits for concurrency", func() bool { return waits() == "2 wave [acme-2 acme-3]; 1 concurrency [acme-1]; " })
}

// Steps without a record have no letter; handlers go by their names, wherever they ran.
func TestCellsOf(t *testing.T) {
	t.Parallel()
	columns := []api.GridStep{{Name: "a"}, {Name: "b"}, {Name: "a"}, {Name: "restart", Handler: true}, {Name: "reload", Handler: true}}
	for _, c := range []struct {
		did  []launch.StepBrief
		want string
	}{
		{nil, ""},
		{[]launch.StepBrief{{Name: "a", Outcome: core.Changed}}, "C"},
		{[]launch.StepBrief{{Name: "a", Outcome: core.Unchanged}, {Name: "b", Outcome: core.Skipped}, {Name: "a", Outcome: core.Failed}}, "=SF"},
		{[]launch.StepBrief{{Name: "a", Outcome: core.Changed}, {Name: "reload", Handler: true, Outcome: core.Changed}, {Name: "b", Outcome: core.Lost}}, "CL..C"},
		{[]launch.StepBrief{{Name: "gone", Handler: true, Outcome: core.Changed}}, ""},
		{slices.Repeat([]launch.StepBrief{{Outcome: core.Changed}}, 9), "CCCCC"},
	} {
		if got := cellsOf(columns, c.did); got != c.want {
			t.Errorf("%v: %q, expected %q", c.did, got, c.want)
		}
	}
}

// The host's own name makes no difference where it is a word; everything else does.
func TestGroupOf(t *testing.T) {
	t.Parallel()
	row := func(host, reason string) *sheetRow {
		return &sheetRow{Job: ledger.Job{Host: host, Outcome: core.Failed, Step: "look", Reason: reason}}
	}
	did := func(diff string) []launch.StepBrief {
		return []launch.StepBrief{{Name: "look", Outcome: core.Failed, Diff: diff}}
	}
	first := groupOf(row("web1", "web1 refused"), did("+name web1"))
	if got := groupOf(row("web2", "web2 refused"), did("+name web2")); got != first {
		t.Error("two hosts with the same result are two groups")
	}
	for what, other := range map[string]string{
		"reason": groupOf(row("web1", "timeout"), did("+name web1")), "diff": groupOf(row("web1", "web1 refused"), did("+name web9")), "steps": groupOf(row("web1", "web1 refused"), nil),
		"time in a diff": groupOf(row("web1", "web1 refused"), did("+name web1 10:00:00")),
	} {
		if other == first {
			t.Errorf("another %s is the same group", what)
		}
	}
	if groupOf(row("a", "path /var"), nil) == groupOf(row("o", "poth /vor"), nil) {
		t.Error("the letters of a word count as the name of a host")
	}
}

// 300 equal failures are one group, and so are the hosts that did well; failures that differ are
// groups of their own.
func TestEqualFailuresOfManyHostsAreOneGroup(t *testing.T) {
	t.Parallel()
	end := func(s *sheet, host string, outcome core.Outcome, reason string) {
		r := sheetRow{Job: ledger.Job{JobID: core.JobID{Index: len(s.rows)}, Host: host, Outcome: outcome, Reason: reason}}
		r.group = groupOf(&r, nil)
		s.rows = append(s.rows, r)
	}
	for name, reason := range testparts.SameFailures() {
		s := &sheet{}
		for i := range 300 {
			host := fmt.Sprint("web", i+1)
			end(s, host, core.Unreachable, reason(host, i)+"\nhint: compare with ssh -v "+host)
			end(s, fmt.Sprint("db", i+1), core.Changed, "")
		}
		end(s, "db0", core.Changed, "")
		got := s.groups()
		varied := name != "the host's own"
		if len(got.Items) != 2 || got.Items[0].Total != 300 || got.Items[0].Outcome != core.Unreachable || got.Items[0].Varied != varied || got.Items[1].Varied ||
			got.Same != 301 || got.Differ != 300 || got.LeftOut != 0 || !strings.HasPrefix(got.Items[0].Reason, reason("web1", 0)) {
			t.Errorf("%s: %d groups, %.2v", name, len(got.Items), got)
		}
	}
	for _, two := range testparts.DifferentFailures() {
		s := &sheet{}
		end(s, "a", core.Failed, two[0])
		end(s, "b", core.Failed, two[1])
		if got := s.groups(); len(got.Items) != 2 || got.Same != 1 || got.Differ != 1 {
			t.Errorf("%q: %+v", two, got)
		}
	}
}

// The counts are of all groups, also of those that the list leaves out: the largest one here.
func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	s := &sheet{}
	for i := range maxGroups + 3 {
		s.rows = append(s.rows, sheetRow{Job: ledger.Job{Host: fmt.Sprint("web", i), Outcome: core.Failed}, group: fmt.Sprint(i)})
	}
	for i := range 500 {
		s.rows = append(s.rows, sheetRow{Job: ledger.Job{Host: fmt.Sprint("db", i), Outcome: core.Changed}, group: "changed"})
	}
	if got := s.groups(); len(got.Items) != maxGroups || got.Same != 500 || got.Differ != maxGroups+3 || got.LeftOut != 4 || got.LeftOutHosts != 503 {
		t.Errorf("%d groups, %d the same, %d differ, %d left out of %d hosts", len(got.Items), got.Same, got.Differ, got.LeftOut, got.LeftOutHosts)
	}
}

func TestWavesClosed(t *testing.T) {
	t.Parallel()
	limits := []int{1, 4, 10}
	for _, c := range []struct {
		from, to int
		want     string
	}{{1, 3, "wave 2 of 3 is not released"}, {1, 9, "waves 2 to 3 of 3 are not released"}} {
		if got := wavesClosed(limits, c.from, c.to); got != c.want {
			t.Errorf("%s, expected %s", got, c.want)
		}
	}
}

// A curve has a bounded number of points, and ends with all.
func TestCurve(t *testing.T) {
	t.Parallel()
	from := time.Unix(1000, 0)
	for _, n := range []int{0, 1, 7, timelinePoints, 3000} {
		times := make([]time.Time, n)
		for i := range times {
			times[i] = from.Add(time.Duration(n-i) * time.Second)
		}
		got := curve(from, 5, times, timelinePoints)
		if last := got[len(got)-1]; len(got) > timelinePoints+1 || last.Hosts != 5+n || !slices.IsSortedFunc(got, func(a, b api.TimelinePoint) int { return a.At.Compare(b.At) }) {
			t.Errorf("%d: %d points, the last %+v", n, len(got), last)
		}
	}
}

// Sheets of many runs make room for each other: those that nobody watches go first.
func TestSheetsAreBounded(t *testing.T) {
	t.Parallel()
	var c sheets
	for i := range 30 {
		c.keep(&ledger.Run{ID: fmt.Sprint("r", i), Total: gridHosts * 2})
		c.keep(&ledger.Run{ID: "r0", Total: gridHosts})
	}
	var ids []string
	for id := range c.runs {
		ids = append(ids, id)
	}
	if len(ids) != sheetRows/gridHosts || !slices.Contains(ids, "r0") || !slices.Contains(ids, "r29") {
		t.Error(strings.Join(ids, " "))
	}
}

// The hosts of a wave are bounded, those that took longest first.
func TestHostsOfAWaveAreBounded(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	at := time.Now()
	many := &sheet{limits: []int{1, 301}}
	for i := range 301 {
		many.rows = append(many.rows, sheetRow{Job: ledger.Job{JobID: core.JobID{Index: i}, Host: fmt.Sprint("h", i), Outcome: core.Failed, Started: at, Took: time.Duration(i) * time.Second}})
	}
	line := timelineOf(at, at, many)
	of, err := b.server.hostsOfWave(t.Context(), caller{}, &line, many, nil, 2)
	if err != nil || len(of.Hosts) != timelineHosts || of.Left != 100 || of.Hosts[0].Index != 300 || of.Hosts[199].Index != 101 {
		t.Fatalf("%v, %+v", err, of)
	}
	many.limits = []int{1, 301, 901} // more than the server has rows of
	line = timelineOf(at, at, many)
	if of, err = b.server.hostsOfWave(t.Context(), caller{}, &line, many, nil, 3); err != nil || len(of.Hosts) != 0 || of.Left != 600 {
		t.Errorf("a wave behind the rows: %v, %+v", err, of)
	}
}
