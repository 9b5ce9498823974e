package pages

import (
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// The page of a run shows its commit, the handlers that it left pending, and the hosts that may
// have been touched when the queue was lost. The page of a host shows its pending handlers.
// Control: without them both pages have no such row.
func TestPagesShowWhatARunLeaves(t *testing.T) {
	since := time.Date(2026, 12, 5, 22, 0, 0, 0, time.UTC)
	run := api.Run{ID: "r0", Playbook: "shop", Phase: api.Active, Total: 9, Revision: "0a1b2c"}
	o := retryAPI(t, "viewer")
	o.set("GET /v1/runs/r0", run)
	o.set("GET /v1/handlers", items([]api.PendingHandler{}))
	o.set("GET /v1/hosts/web1", api.Host{Name: "web1"})
	o.set("GET /v1/hosts/web1/history", items([]api.Job{}))
	v := visits(t, o)
	_, text := v.get("/runs/r0")
	has(t, "a run", text, "<dt>Commit</dt><dd><code>0a1b2c</code>")
	lacks(t, "a run that left nothing", text, "Pending handlers", "May have been touched")
	_, text = v.get("/hosts/web1")
	lacks(t, "a host without handlers", text, "Pending handlers")

	run.Handlers, run.MayHaveBegun = 3, 9
	o.set("GET /v1/runs/r0", run)
	o.set("GET /v1/runs/r0/jobs", map[string]any{"items": []api.Job{{Run: "r0", Index: 4, Host: "db4", State: core.Pending}}, "next": "x"})
	o.set("GET /v1/handlers", map[string]any{"items": []api.PendingHandler{{Playbook: "shop", Host: "web1", Handler: hostile, Run: "r0", Since: since, Removed: true, At: "shop.yaml:6" + hostile}}, "next": "x"})
	_, text = v.get("/runs/r0")
	has(t, "a run", text, "<dt>Pending handlers</dt><dd>3: ", `(removed: no run calls it) on <a href="/hosts/web1#handlers">web1</a>, and others, which`, "turnus hosts handlers ls --run r0",
		"<dt>May have been touched</dt>", `<a href="/runs/r0/hosts/4">db4</a> and others: <code>turnus runs show r0<`)
	has(t, "a run", text, "&lt;script&gt;")
	lacks(t, "a run", text, "<script>", "<img src=x", `" onmouseover`)
	_, text = v.get("/hosts/web1")
	has(t, "a host", text, `id="handlers">Pending handlers</h2>`, `<td><a href="/runs/r0">shop</a></td><td><time datetime="2026-12-05T22:00:00Z">`, "turnus hosts handlers ls --host web1", "removed, was at shop.yaml:6", "turnus hosts handlers drop shop --handler")
	harmless(t, "a host", text)

	o.set("GET /v1/handlers", api.Problem{Status: 503, Detail: "the ledger is away"})
	_, text = v.get("/runs/r0")
	has(t, "a run", text, "Pending handlers cannot be shown: the ledger is away", "<dd>3, which the next run")
	_, text = v.get("/hosts/web1")
	has(t, "a host", text, "Pending handlers cannot be shown: the ledger is away")
}
