package pages

import (
	"fmt"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/pictures"
)

// Summary describes the state of a run, for people who hear the page.
func (v *runView) Summary() string {
	parts := make([]string, 0, len(v.Bars))
	for _, b := range v.Bars {
		parts = append(parts, fmt.Sprintf("%s %s", core.Plural(b.Hosts, "host"), b.Kind))
	}
	return strings.Join(parts, ", ")
}

// Summary describes what runs and what waits.
func (view overviewView) Summary() string {
	bad := 0
	for _, run := range view.Active {
		for outcome, n := range run.Outcomes {
			if pictures.Bad(outcome) {
				bad += n
			}
		}
	}
	text := core.Plural(len(view.Active), "active run") + ", " + core.Plural(len(view.Waiting), "run") + " for a person"
	if bad > 0 {
		text += ", " + core.Plural(bad, "bad host") + " of active runs"
	}
	return text
}

// Summary counts hosts by their last outcomes.
func (view fleetView) Summary() string {
	parts := make([]string, 0, len(view.Counts))
	for _, c := range view.Counts {
		parts = append(parts, fmt.Sprintf("%s %s", core.Plural(c.Hosts, "host"), c.Word()))
	}
	return strings.Join(parts, ", ")
}

// Summary counts what waits in the queue.
func (view queueView) Summary() string {
	running, waiting := 0, 0
	for i := range view.Runs {
		waiting += view.Runs[i].Waiting
		if l := view.Runs[i].Live; l != nil {
			running += l.InFlight
		}
	}
	return core.Plural(running, "host") + " running, " + core.Plural(waiting, "host") + " waiting"
}
