package runview

import (
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/engine"
)

func TestWhatIsSaidOfWaitingHosts(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 21, 21, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		e          engine.Event
		text, note string
	}{
		{
			engine.Event{Waiting: 37, Set: "acme-fra", Until: at, Zone: berlin, Reason: "no rule opens at this time"},
			"37 hosts wait for windows; the next is acme-fra, from Sat 2026-11-21 22:00 CET (2026-11-21T21:00:00Z): no rule opens at this time",
			"; next acme-fra Sat 2026-11-21 22:00 CET (2026-11-21T21:00:00Z)",
		},
		{
			engine.Event{Waiting: 1, Set: "acme-fra", Zone: berlin, Reason: `window set acme-fra is closed: no window set has the name "acme-fra"`},
			`1 host waits for windows, and acme-fra is not known to open: window set acme-fra is closed: no window set has the name "acme-fra"`,
			"; acme-fra is not known to open",
		},
		{
			engine.Event{Waiting: 2, Reason: "the host has no window set, so it is closed; give it window_set: in the inventory"},
			"2 hosts wait for windows, and a host without a window set is not known to open: the host has no window set, so it is closed; give it window_set: in the inventory",
			"; a host without a window set is not known to open",
		},
	} {
		if got := WaitingText(c.e); got != c.text {
			t.Errorf("%s\nexpected\n%s", got, c.text)
		}
		if got := WaitingNote(c.e); got != c.note {
			t.Errorf("%s, expected %s", got, c.note)
		}
	}
}

func TestUnapprovedHostsAreListedApart(t *testing.T) {
	results := []api.Result{
		{Host: "a", Outcome: core.Cancelled, Reason: "needs_reapproval: approval CHG7 was revoked", ReasonCode: core.NeedsReapproval},
		{Host: "b", Outcome: core.Cancelled, Reason: "cancelled by the operator"},
		{Host: "c", Outcome: core.Changed},
	}
	for _, r := range results {
		var kinds []string
		for _, k := range recapKinds() {
			if k.has(r) {
				kinds = append(kinds, k.name)
			}
		}
		want := map[string]string{"a": "unapproved", "b": "cancelled"}[r.Host]
		if len(kinds) > 1 || want != "" && (len(kinds) != 1 || kinds[0] != want) || want == "" && len(kinds) > 0 {
			t.Errorf("%s is listed as %v, expected %q", r.Host, kinds, want)
		}
	}
}
