package planview

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/rollout"
)

// planDoc is plan in -o json: the plan as it was, and the forecast beside it.
type planDoc struct {
	launch.Plan
	Forecast forecastDoc `json:"forecast"`
}

// forecastDoc is an estimate. Times are RFC 3339; what is not known is null or left out.
type forecastDoc struct {
	At          string            `json:"at"`
	Workers     int               `json:"workers"`
	Concurrency int               `json:"concurrency"` // of all workers
	Samples     int               `json:"samples"`
	FinishP50   *string           `json:"finish_p50"`
	FinishP90   *string           `json:"finish_p90"`
	Binding     *constraintDoc    `json:"binding"`
	Lifted      []constraintDoc   `json:"lifted"`         // every limit that was tried, the one that gains most first
	Missed      float64           `json:"missed_windows"` // hosts that miss a window, in the mean
	Unfinished  float64           `json:"unfinished"`     // hosts that find no window any more or need a new approval, in the mean
	Steps       []stepDoc         `json:"steps"`
	Hosts       []hostDoc         `json:"hosts"`
	Customers   []customerDoc     `json:"customers"`
	Never       []launch.NoWindow `json:"never"`
	Approvals   []approvalDoc     `json:"approvals"`
	Notes       []string          `json:"notes"`
}

type constraintDoc struct {
	Cause forecast.Cause `json:"cause"`
	Name  string         `json:"name,omitempty"`
	Text  string         `json:"text"`
	Gain  core.Seconds   `json:"gain_seconds"`    // how much earlier P50 were without it
	Hosts int            `json:"hosts,omitempty"` // that would be done without it, and otherwise are not
}

type stepDoc struct {
	Name       string       `json:"name"`
	Uses       string       `json:"uses"`
	Handler    bool         `json:"handler,omitempty"`
	P50        core.Seconds `json:"p50_seconds"`
	P95        core.Seconds `json:"p95_seconds"`
	Source     string       `json:"source"` // given, learned or assumed
	From       string       `json:"from"`
	Need       core.Seconds `json:"need_seconds,omitempty"`
	NeedSource string       `json:"need_source,omitempty"` // given or learned
}

type hostDoc struct {
	Host          string       `json:"host"`
	Customer      string       `json:"customer,omitempty"`
	Wave          int          `json:"wave"` // from 1
	Set           string       `json:"window_set,omitempty"`
	Timezone      string       `json:"timezone"`
	Need          core.Seconds `json:"need_seconds,omitempty"`
	Earliest      string       `json:"earliest"` // when its windows let it start
	EarliestLocal string       `json:"earliest_local"`
	Begin         *string      `json:"begin"` // P50 of its first step; null: it starts in no window
	Start         *string      `json:"start"` // P50 of its first step with a window
	StartLocal    *string      `json:"start_local"`
	FinishP50     *string      `json:"finish_p50"`
	FinishP90     *string      `json:"finish_p90"`
	Takes         core.Seconds `json:"takes_seconds"` // from start to finish, P50
	Reason        string       `json:"reason,omitempty"`
	Waits         []waitDoc    `json:"waits"` // in the median sample, the longest first
	Misses        float64      `json:"misses"`
	Unfinished    float64      `json:"unfinished"`
}

type waitDoc struct {
	Cause forecast.Cause `json:"cause"`
	Name  string         `json:"name,omitempty"`
	For   core.Seconds   `json:"for_seconds"`
}

type customerDoc struct {
	Customer  string   `json:"customer"`
	Hosts     int      `json:"hosts"`
	FirstWave int      `json:"first_wave"`
	LastWave  int      `json:"last_wave"`
	Sets      []string `json:"window_sets"`
	Earliest  string   `json:"earliest"`
	Start     *string  `json:"start"` // of its first host
	FinishP50 *string  `json:"finish_p50"`
	FinishP90 *string  `json:"finish_p90"`

	earliest, start, p50, p90 time.Time
	zone                      *time.Location
	reason                    string
	took                      time.Duration // the longest of its hosts
	waits                     map[waitDoc]time.Duration
}

// approvalDoc names the content that an approval of a set may be bound to.
type approvalDoc struct {
	Set     string `json:"window_set"`
	Change  string `json:"change"`
	Targets string `json:"targets"`
}

// orNull is a time, or null where there is none.
func orNull(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := console.UTC(t)
	return &text
}

func constraintOf(c forecast.Constraint) constraintDoc {
	return constraintDoc{c.Cause, c.Name, c.Cause.Text(c.Name), core.InSeconds(c.Gain), c.Hosts}
}

func (d *View) doc() planDoc {
	r := d.result
	f := forecastDoc{
		At: console.UTC(d.at), Workers: d.workers, Concurrency: d.concurrency, Samples: r.Samples, FinishP50: orNull(r.FinishP50), FinishP90: orNull(r.FinishP90),
		Lifted: []constraintDoc{}, Missed: r.Missed, Unfinished: r.Unfinished, Steps: []stepDoc{}, Hosts: []hostDoc{},
		Customers: d.customers(), Never: append([]launch.NoWindow{}, d.launch.NoWindow...), Approvals: d.approvals(), Notes: append([]string{}, d.notes...),
	}
	if !r.FinishP50.IsZero() {
		binding := constraintOf(r.Binding)
		f.Binding = &binding
	}
	for _, c := range r.Tried {
		f.Lifted = append(f.Lifted, constraintOf(c))
	}
	for _, t := range d.result.Steps {
		if t.Selected {
			f.Steps = append(f.Steps, stepDoc{
				Name: t.Name, Uses: t.Uses, Handler: t.Handler, P50: core.InSeconds(t.Took.Quantile(0.5)), P95: core.InSeconds(t.Took.Quantile(0.95)),
				Source: t.Source, From: t.From, Need: core.InSeconds(t.Need), NeedSource: t.NeedSource,
			})
		}
	}
	for i := range r.Hosts {
		f.Hosts = append(f.Hosts, d.hostDoc(i))
	}
	return planDoc{d.launch.Plan(), f}
}

func (d *View) hostDoc(i int) hostDoc {
	h, at, p := d.launch.Hosts[i], &d.result.Hosts[i], d.result.Windows[i]
	out := hostDoc{
		Host: h.Name, Customer: h.Customer, Wave: rollout.Wave(d.launch.Limits, i) + 1, Timezone: p.Zone().String(), Need: core.InSeconds(p.Need),
		Earliest: console.UTC(at.Earliest), EarliestLocal: at.Earliest.In(p.Zone()).Format(time.RFC3339), Begin: orNull(at.Begin), Start: orNull(at.Start),
		FinishP50: orNull(at.Finish), FinishP90: orNull(at.Late), Reason: p.Reason, Waits: []waitDoc{}, Misses: at.Misses, Unfinished: at.Unfinished,
	}
	if p.Set != nil {
		out.Set = p.Set.Name
	}
	if !at.Start.IsZero() {
		local := at.Start.In(p.Zone()).Format(time.RFC3339)
		out.StartLocal, out.Takes = &local, core.InSeconds(at.Finish.Sub(at.Start))
	}
	for _, w := range at.Holds {
		out.Waits = append(out.Waits, waitDoc{w.Cause, w.Name, core.InSeconds(w.For)})
	}
	return out
}

// customers sums the hosts up, in the order in which they are first seen.
func (d *View) customers() []customerDoc {
	out := []customerDoc{}
	at := map[string]int{}
	for i, h := range d.launch.Hosts {
		k, ok := at[h.Customer]
		if !ok {
			k = len(out)
			at[h.Customer] = k
			out = append(out, customerDoc{Customer: h.Customer, FirstWave: rollout.Wave(d.launch.Limits, i) + 1, Sets: []string{}, waits: map[waitDoc]time.Duration{}})
		}
		out[k].add(&d.result.Hosts[i], d.result.Windows[i], rollout.Wave(d.launch.Limits, i)+1)
	}
	for k := range out {
		c := &out[k]
		c.Earliest, c.Start, c.FinishP50, c.FinishP90 = console.UTC(c.earliest), orNull(c.start), orNull(c.p50), orNull(c.p90)
		slices.Sort(c.Sets)
	}
	return out
}

func (c *customerDoc) add(r *forecast.HostResult, p launch.HostWindow, wave int) {
	if c.Hosts == 0 || r.Earliest.Before(c.earliest) {
		c.earliest, c.zone, c.reason = r.Earliest, p.Zone(), p.Reason
	}
	c.Hosts++
	c.LastWave = max(c.LastWave, wave)
	if p.Set != nil && !slices.Contains(c.Sets, p.Set.Name) {
		c.Sets = append(c.Sets, p.Set.Name)
	}
	for _, w := range r.Holds {
		c.waits[waitDoc{Cause: w.Cause, Name: w.Name}] += w.For
	}
	if r.Start.IsZero() {
		return
	}
	if c.start.IsZero() || r.Start.Before(c.start) {
		c.start = r.Start
	}
	c.took = max(c.took, r.Finish.Sub(r.Start))
	c.p50, c.p90 = later(c.p50, r.Finish), later(c.p90, r.Late)
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// longest returns the longest wait of the customer's hosts; ok is false where they wait for
// nothing.
func (c *customerDoc) longest() (w waitDoc, ok bool) {
	list := make([]waitDoc, 0, len(c.waits))
	for k, d := range c.waits {
		list = append(list, waitDoc{k.Cause, k.Name, core.InSeconds(d)})
	}
	if len(list) == 0 {
		return w, false
	}
	slices.SortFunc(list, func(a, b waitDoc) int {
		return cmp.Or(cmp.Compare(b.For, a.For), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Name, b.Name))
	})
	return list[0], true
}

// approvals are the hashes that approvals may be bound to.
func (d *View) approvals() []approvalDoc {
	if g := d.launch.Snapshot.Windows; g != nil {
		return approvalsOf(g.Change, g.Targets)
	}
	return []approvalDoc{}
}

func approvalsOf(change string, targets map[string]string) []approvalDoc {
	out := []approvalDoc{}
	for _, set := range slices.Sorted(maps.Keys(targets)) {
		if set != "" {
			out = append(out, approvalDoc{set, change, targets[set]})
		}
	}
	return out
}
