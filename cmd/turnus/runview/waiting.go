package runview

import (
	"fmt"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/engine"
)

// WaitingText returns what the hosts of a run wait for.
func WaitingText(e engine.Event) string {
	hosts := "1 host waits"
	if e.Waiting != 1 {
		hosts = fmt.Sprintf("%d hosts wait", e.Waiting)
	}
	if e.Until.IsZero() {
		return fmt.Sprintf("%s for windows, and %s is not known to open: %s", hosts, setName(e.Set), e.Reason)
	}
	return fmt.Sprintf("%s for windows; the next is %s, from %s: %s", hosts, setName(e.Set), admission.Local(e.Until, e.Zone), e.Reason)
}

// WaitingNote is the short form for the live view: it follows "waiting for windows".
func WaitingNote(e engine.Event) string {
	if e.Until.IsZero() {
		return fmt.Sprintf("; %s is not known to open", setName(e.Set))
	}
	return fmt.Sprintf("; next %s %s", setName(e.Set), admission.Local(e.Until, e.Zone))
}

func setName(set string) string {
	if set == "" {
		return "a host without a window set"
	}
	return set
}

// unapproved reports whether a job ended because somebody has to approve again.
func unapproved(r api.Result) bool { return r.ReasonCode == core.NeedsReapproval }
