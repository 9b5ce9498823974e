package pictures

import (
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
)

func TestShareHistory(t *testing.T) {
	t.Parallel()
	hours := make([]api.HourShare, 24)
	hours[3], hours[23] = api.HourShare{Used: 1800, Fair: 5400}, api.HourShare{Used: 7200, Fair: 3600}
	h := &api.ShareHistory{From: time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC), At: time.Date(2026, 11, 27, 8, 30, 0, 0, time.UTC), Tenants: []api.TenantHours{
		{Tenant: hostile, Used: 9000, Fair: 9000, Hours: hours}, {Used: 90, Fair: 30, Hours: hours},
	}}
	markup := ShareHistory(h).Markup
	if n := elements(t, markup); n["rect"] != 4 || n["line"] != 6 || n["script"] != 0 { // hours without use have no bar
		t.Errorf("%v", n)
	}
	for _, text := range []string{"2.5 h of 2.5 h", "1.5 min of 30.0 s", "Thu 12:00 UTC: 30.0 min of worker time, fair share 1.5 h", ">09:00<", ">15:00<", ">provider<"} {
		if !strings.Contains(markup, text) {
			t.Errorf("%q is not in %s", text, markup)
		}
	}
	if !strings.Contains(markup, `height="34.0"`) || !strings.Contains(markup, `height="8.5"`) {
		t.Errorf("the bars are not to scale: %s", markup)
	}
	elements(t, ShareHistoryDocument(h))
	elements(t, ShareHistoryDocument(&api.ShareHistory{}))
	many := &api.ShareHistory{Tenants: make([]api.TenantHours, 1000)}
	if b := ShareHistory(many); strings.Count(b.Markup, ">provider<") != MostHistory {
		t.Errorf("height %d", b.Height)
	}
}
