// Package planview owns how people see what a run would do: the forecast of a launch, and its forms
// as text, chart, picture and document. It also shows when work may start at all: windows and their
// calendar.
//
// It must not know flags, nor how a launch is prepared.
package planview

import (
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/playbooks"
)

// View is a launch with its forecast.
type View struct {
	launch      *launch.Launch
	at          time.Time
	byHost      bool
	windows     bool // some are given
	workers     int
	concurrency int // of all workers
	result      *launch.Estimate
	warnings    []string
	notes       []string
}

// Options define what a forecast is made for.
type Options struct {
	At          time.Time // of the launch
	By          string    // host, customer, or "" for what the number of hosts asks for
	Workers     int
	Concurrency int                                       // of each worker
	Calendar    *admission.Calendar                       // nil: no windows are given
	Past        func(step, uses string) *forecast.Learned // what earlier runs show; nil: nothing
	Types       func(string) (playbooks.Type, bool)
}

// New makes the forecast of a launch.
func New(l *launch.Launch, o Options) (*View, error) {
	d := &View{launch: l, at: o.At, workers: o.Workers, concurrency: o.Workers * o.Concurrency, windows: o.Calendar != nil}
	d.byHost = o.By == "host" || o.By == "" && len(l.Hosts) <= maxPlanHosts
	var err error
	if d.result, err = l.Forecast(launch.Outlook{At: o.At, Concurrency: d.concurrency, Calendar: o.Calendar, Types: o.Types, Past: o.Past}); err != nil {
		return nil, err
	}
	d.remark()
	return d, nil
}

// remark adds the notes that a reader of the forecast needs.
func (d *View) remark() {
	l := d.launch
	if l.Asks != "" && l.Starts == nil {
		why := "none are given: the forecast takes all times as open\nhint: --windows windows.yaml"
		if d.windows {
			why = "none of the selected steps is disruptive: nothing waits"
			if l.Inert {
				why = "none of its steps is disruptive, so nothing would wait, and turnus run refuses it\nhint: a step with disruptive: true, or with a window: of its own, waits whatever its job type"
			}
		}
		d.warnings = append(d.warnings, fmt.Sprintf("playbook %s asks for the window %q, but %s", l.Playbook.Name, l.Asks, why))
	}
	if n := l.Waves() - 1; l.Playbook.Strategy.PauseBetween.Approve && n > 0 {
		d.notes = append(d.notes, fmt.Sprintf("%s between waves: how long they take is not known, and not counted", core.Plural(n, "approval")))
	}
	if l.Playbook.Strategy.PerGroup["ha_group"] == 1 || l.Run.Disruptive {
		if slices.ContainsFunc(l.Hosts, func(h core.Host) bool { return h.HAGroup != "" }) {
			d.notes = append(d.notes, "hosts of one HA group are done one after the other")
		}
	}
	if len(l.Passes()) > 1 {
		d.notes = append(d.notes, "a step that begins after all hosts is counted roughly: from the median end of what comes before it")
	}
	var assumed []string
	for _, t := range d.result.Steps {
		if t.Selected && t.Source == "assumed" {
			assumed = append(assumed, t.Name)
		}
	}
	if len(assumed) > 0 {
		d.notes = append(d.notes, "durations are assumed, not measured: "+core.Few(assumed, 5))
	}
	if d.result.Samples < forecast.DefaultSamples {
		d.notes = append(d.notes, fmt.Sprintf("only %d samples were taken: hosts miss many windows", d.result.Samples))
	}
}
