package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/playbooks"
)

func (s *Server) forecasts() {
	handle(s, route{
		id: "forecast-run", method: http.MethodGet, path: "/v1/runs/{run}/forecast", summary: "Estimate when a run ends, and what holds it up", role: Viewer,
		detail: "From how long its steps took in recent runs of the playbook. A run that waits for a person is taken as if it continued now. It is kept for up to 10 s.",
	}, s.forecastRun)
	handle(s, route{
		id: "list-durations", method: http.MethodGet, path: "/v1/playbooks/{playbook}/durations", summary: "List how long the steps of a playbook took in recent runs", role: Viewer,
		detail: "Of at most 25 hosts that succeeded in each of the 20 newest runs; a step that was measured on fewer than 10 hosts is left out.",
	}, s.listDurations)
}

const (
	estimateAge = 10 * time.Second
	keepTimes   = 10        // and, once further hosts have ended, so many times as long as it took to make
	mostKept    = 16        // estimates; one of 100,000 hosts has 20 MB
	sampleHosts = 2_000_000 // samples × hosts of an estimate
)

// estimate is how a run that is not over continues, as it was seen at a time.
type estimate struct {
	*launch.Estimate
	at       time.Time
	took     time.Duration
	version  int64 // of the run: another may be of other hosts
	recorded int   // hosts of the run that had an outcome
	launch   *launch.Launch
	hosts    int    // that have not ended
	shared   int    // other runs that want the same concurrency
	unworked string // why no worker takes a job
}

// estimates are made one at a time, and kept for a few seconds. The zero value is ready.
type estimates struct {
	mu   sync.Mutex
	kept map[string]*estimate
}

func (e *estimates) of(run *ledger.Run, estimateRun func(*estimate) error) (*estimate, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.locked(run, estimateRun)
}

// locked does what of does, for a caller that holds mu.
func (e *estimates) locked(run *ledger.Run, estimateRun func(*estimate) error) (*estimate, error) {
	if made := e.kept[run.ID]; made != nil && made.version == run.Version {
		age := time.Since(made.at)
		if age < made.took*keepTimes || made.recorded == run.Recorded && age < estimateAge {
			return made, nil
		}
	}
	made := &estimate{at: time.Now(), version: run.Version, recorded: run.Recorded}
	if err := estimateRun(made); err != nil {
		return nil, err
	}
	made.took = time.Since(made.at)
	if e.kept == nil || len(e.kept) >= mostKept {
		e.kept = map[string]*estimate{}
	}
	e.kept[run.ID] = made
	return made, nil
}

// Bounds of the estimates that a list of runs makes: their number, the hosts of such a run, and the
// time for all of them. A larger run shows an estimate in lists while its own page is open.
const (
	listedEnds  = 12
	listedHosts = 2000
	listedTime  = 200 * time.Millisecond
)

// endsOf adds when active runs will end, as far as that is known or quickly made.
func (s *Server) endsOf(ctx context.Context, runs []ledger.Run, shown []api.Run) {
	begun, left := time.Now(), listedEnds
	for i := range runs {
		if shown[i].Phase != api.Active || left == 0 {
			continue
		}
		left--
		quick := runs[i].Total <= listedHosts && time.Since(begun) < listedTime
		e := s.estimates.listed(&runs[i], quick, func(e *estimate) error { return s.fill(ctx, &runs[i], e, true) })
		if e != nil {
			shown[i].FinishP50, shown[i].FinishP90 = e.FinishP50, e.FinishP90
		}
	}
}

// listed returns an estimate that is kept, or makes one where that is quick. It returns nil if that
// fails, and while another one is made: a list does not wait.
func (e *estimates) listed(run *ledger.Run, quick bool, estimateRun func(*estimate) error) *estimate {
	if !e.mu.TryLock() {
		return nil
	}
	defer e.mu.Unlock()
	made := e.kept[run.ID]
	if made != nil && made.version == run.Version && time.Since(made.at) <= max(estimateAge, made.took*keepTimes) {
		return made
	}
	if !quick {
		return nil
	}
	made, _ = e.locked(run, estimateRun)
	return made
}

func (s *Server) estimate(ctx context.Context, run *ledger.Run) (*estimate, error) {
	return s.estimates.of(run, func(e *estimate) error { return s.fill(ctx, run, e, true) })
}

// fill makes the estimate of a run: of the hosts that have no outcome, or of all.
func (s *Server) fill(ctx context.Context, run *ledger.Run, e *estimate, open bool) (err error) {
	if e.launch, err = s.restore(ctx, run.ID); err != nil {
		return err
	}
	e.launch.Run.MaxInFlight = run.Shares.Most(e.launch.Run.MaxInFlight)
	past, err := controller.Learned(ctx, s.cfg.Ledger, ledger.Tenants(run.Tenant), run.Playbook)
	if err != nil {
		return err
	}
	ended := make([]core.Outcome, len(e.launch.Hosts))
	e.hosts = len(ended)
	if open {
		list, err := s.cfg.Ledger.Ended(ctx, run.ID)
		if err != nil {
			return err
		}
		for _, some := range list {
			for i := some.Index; i < min(some.Index+some.Count, len(ended)); i++ {
				ended[i] = some.Outcome
				e.hosts--
			}
		}
	}
	cal, _ := s.cfg.Catalog.Windows()
	o := launch.Outlook{
		At: e.at, Calendar: cal, Types: s.typeOf, Past: past.Step, Ended: func(i int) core.Outcome { return ended[i] },
		Samples: min(max(sampleHosts/max(e.hosts, 1), 1), forecast.DefaultSamples),
	}
	o.Concurrency, e.shared, e.unworked = s.share(ctx)
	e.Estimate, err = e.launch.Forecast(o)
	return err
}

// typeOf finds a job type; none where the server knows none.
func (s *Server) typeOf(name string) (playbooks.Type, bool) {
	if s.cfg.Types == nil {
		return playbooks.Type{}, false
	}
	return s.cfg.Types(name)
}

// share is how much concurrency of the workers a run gets, 0 where that is not known, and how many
// other runs want some.
func (s *Server) share(ctx context.Context) (concurrency, others int, unworked string) {
	c, err := s.census.read(ctx, s)
	if err != nil {
		return 0, 0, ""
	}
	if unworked = takesNone(c.workers); unworked != "" {
		return 0, 0, unworked
	}
	others = max(c.load.Ready-1, 0)
	return max(concurrencyOf(c.workers)/(others+1), 1), others, ""
}

func (s *Server) listDurations(ctx context.Context, by caller, in *struct {
	Playbook string `path:"playbook" maxLength:"200"`
},
) (*list[api.LearnedStep], error) {
	_, playbook, err := s.playbook(by, in.Playbook)
	if err != nil {
		return nil, err
	}
	past, err := controller.Learned(ctx, s.cfg.Ledger, by.scope, playbook.Name)
	if err != nil {
		return nil, err
	}
	items := []api.LearnedStep{}
	for _, step := range playbook.Calls() {
		l := past.Step(step.Name, step.Uses)
		if l == nil {
			continue
		}
		const parts = 20
		took := forecast.Observed(l.Took)
		shown := api.LearnedStep{Step: step.Name, Uses: step.Uses, Runs: l.Runs, Hosts: l.Hosts, P50: core.InSeconds(took.Quantile(0.5)), P90: core.InSeconds(took.Quantile(0.9))}
		for k := range parts + 1 {
			shown.Took = append(shown.Took, core.InSeconds(took.Quantile(float64(k)/parts)))
		}
		items = append(items, shown)
	}
	return listOf(items, ""), nil
}

func (s *Server) forecastRun(ctx context.Context, by caller, in *RunPath) (*body[api.Forecast], error) {
	run, err := s.cfg.Ledger.Run(ctx, by.scope, in.Run)
	if err != nil {
		return nil, err
	}
	if run.Complete() || runOf(run).Phase.Over() {
		return nil, fmt.Errorf("run %s is %s: %w", run.ID, run.Phase, core.ErrConflict)
	}
	e, err := s.estimate(ctx, &run)
	if err != nil {
		return nil, err
	}
	return &body[api.Forecast]{e.show()}, nil
}

// show is the estimate as clients read it.
func (e *estimate) show() api.Forecast {
	f := api.Forecast{
		Run: e.launch.Run.ID, At: e.at.UTC(), Hosts: e.hosts, FinishP50: e.FinishP50, FinishP90: e.FinishP90, Unfinished: e.Unfinished,
		Steps: []api.StepTime{}, Notes: []string{},
	}
	if b := e.Binding; !f.FinishP50.IsZero() {
		f.Binds = &api.Binds{Cause: string(b.Cause), Name: b.Name, Text: b.Cause.Text(b.Name), Hosts: b.Hosts}
		if b.Gain > 0 {
			f.Binds.Gain = core.InSeconds(b.Gain)
		}
		if b.Cause == forecast.ByConcurrency && e.shared > 0 {
			f.Binds.Text += ", of which other runs have their share" // how many is not a tenant's business
		}
	}
	var assumed []string
	for _, t := range e.Steps {
		if !t.Selected {
			continue
		}
		f.Steps = append(f.Steps, api.StepTime{Step: t.Name, Uses: t.Uses, P50: core.InSeconds(t.Took.Quantile(0.5)), P90: core.InSeconds(t.Took.Quantile(0.9)), Source: t.Source, From: t.From})
		if t.Source == "assumed" {
			assumed = append(assumed, t.Name)
		}
	}
	if e.launch.Playbook.Strategy.PauseBetween.Approve && e.launch.Waves() > 1 {
		f.Notes = append(f.Notes, "how long approvals between waves take is not known, and not counted")
	}
	if e.unworked != "" {
		f.Notes = append(f.Notes, e.unworked+": it is taken as if enough of them worked")
	}
	if len(assumed) > 0 {
		f.Notes = append(f.Notes, "durations are assumed, not measured: "+strings.Join(assumed, ", "))
	}
	return f
}

// host returns the estimate for a job: its window, and when it starts.
func (e *estimate) host(index int) (*api.HostWindow, *api.HostEstimate) {
	var w *api.HostWindow
	h, window := e.Hosts[index], e.Windows[index]
	if window.Set != nil {
		w = &api.HostWindow{Set: window.Set.Name, Reason: cmp.Or(h.Never, window.Reason)}
		if h.Earliest.After(e.at) {
			w.Opens, w.OpensLocal = h.Earliest, h.Earliest.In(window.Zone()).Format(localTime)
		}
	}
	if h.Begin.IsZero() {
		return w, nil
	}
	return w, &api.HostEstimate{P50: h.Begin, FinishP50: h.Finish, FinishP90: h.Late}
}
