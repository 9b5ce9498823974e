package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/api"
)

func TestShares(t *testing.T) {
	shown := api.ShareHistory{LeftOut: 1, Partial: true, Tenants: []api.TenantHours{{Tenant: "acme", Weight: 3, Hosts: 12, Used: 90, Fair: 7200, Hours: make([]api.HourShare, 24)}}}
	server := answers(t, func(r *http.Request) any {
		if r.URL.Path != "/v1/shares/history" {
			return nil
		}
		return shown
	})
	t.Setenv("TURNUS_TOKEN", "t")
	args := []string{"admin", "shares", "--server", server}
	out, said := turnus(t, console.ExitOK, args...)
	if got := strings.Join(strings.Fields(out), " "); got != "TENANT WEIGHT HOST TASKS WORKER TIME FAIR SHARE acme 3 12 1.5 min 2.0 h 1 further tenant left out" || !strings.Contains(said, "only the newest runs") {
		t.Errorf("%s%s", out, said)
	}
	if out, _ := turnus(t, console.ExitOK, append(args, "-o", "svg")...); !strings.HasPrefix(out, "<?xml") || !strings.Contains(out, "1.5 min of 2.0 h") {
		t.Error(out)
	}
	if out, _ := turnus(t, console.ExitOK, append(args, "-o", "json")...); !strings.Contains(out, `"fair_seconds": 7200`) {
		t.Error(out)
	}
}
