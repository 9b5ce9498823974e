package pages

import (
	"net/http"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
)

// The project is the provider's: a tenant has no link to it, and is refused.
func TestProject(t *testing.T) {
	at := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	o := &operations{roles: []string{"viewer"}, tenant: "*", answers: map[string]any{"GET /v1/schedules": map[string]any{"items": []api.Schedule{}}}}
	active := api.Definitions{Revision: "abc123", Source: "git", Author: hostile, Subject: hostile, Applied: at, Playbooks: 3, Hosts: 1}
	o.set("GET /v1/definitions", active)
	v := visits(t, o)
	_, text := v.get("/project")
	has(t, "a project", text, "abc123", "2026-11-26 08:00:00 UTC", "3 playbooks", "1 host", `href="/project"`)
	has(t, "changes that the API does not show", text, "The changes cannot be shown")
	lacks(t, "a project", text, "Rejected")
	harmless(t, "a project", text)
	edit := api.Change{Kind: "window_set", Name: "acme day", Action: "changed", Details: []string{"rule noon: to: 13h -> 14h", hostile}}
	o.set("GET /v1/definitions/changes", api.DefinitionChanges{From: "abc122", To: "abc123", At: at, Changes: []api.Change{edit}, LeftOut: 3})
	_, text = v.get("/project")
	has(t, "a change that voids nothing", text, "abc122", "None of these changes voids an approval", "window set", "rule noon: to: 13h -&gt; 14h", "3 further changes")
	lacks(t, "a change that voids nothing", text, "It voids these approvals")
	harmless(t, "a change that voids nothing", text)
	edit.Voids = []string{"CHG7 by " + hostile}
	o.set("GET /v1/definitions/changes", api.DefinitionChanges{To: "abc123", At: at, Changes: []api.Change{edit}})
	_, text = v.get("/project")
	has(t, "a change that voids", text, "It voids these approvals", `<a href="/windows/acme%20day">acme day</a>: CHG7 by`)
	lacks(t, "a change that voids", text, "It voids no approval")
	harmless(t, "a change that voids", text)
	o.set("GET /v1/definitions/changes", api.DefinitionChanges{Changes: []api.Change{}})
	_, text = v.get("/project")
	has(t, "the first version", text, "nothing to compare it with")
	active.Rejected = &api.Rejected{Revision: "def456", Author: hostile, Since: at, Error: "playbooks/shop.yaml:7:3: unknown key\n  7 | stepz:\n" + hostile}
	o.set("GET /v1/definitions", active)
	_, text = v.get("/project")
	has(t, "a rejected revision", text, "def456", "playbooks/shop.yaml:7:3: unknown key\n  7 | stepz:", "turnus validate")
	has(t, "a diff that the API does not show", text, "What it changes", "The changes cannot be shown")
	harmless(t, "a rejected revision", text)
	wrong := api.RejectedChanges{Rejected: active.Rejected, From: "abc123", FilesLeftOut: 7, At: at, LeftOut: 1,
		Files:   []api.FileChange{{Path: "playbooks/" + hostile, Action: "changed", Added: 1, Removed: 2, Text: "@@ -1 +1 @@\n+stepz:\n" + hostile, Note: hostile}},
		Changes: []api.Change{edit}}
	o.set("GET /v1/definitions/rejected", wrong)
	_, text = v.get("/project")
	has(t, "a rejected revision's diff", text, "<details open>", "1 line added, 2 removed", "@@ -1 &#43;1 @@\n&#43;stepz:", "7 further files", "The files without mistakes have this effect", "rule noon: to: 13h", "1 further change")
	harmless(t, "a rejected revision's diff", text)
	o.set("GET /v1/definitions/rejected", api.RejectedChanges{Rejected: active.Rejected, Files: make([]api.FileChange, 9)})
	_, text = v.get("/project")
	has(t, "a diff of many files", text, "More is wrong than single files", "<details>")
	lacks(t, "a diff of many files", text, "<details open>", "have this effect")
	o.set("GET /v1/runs", map[string]any{"items": []api.Run{}})
	o.set("GET /v1/sources", map[string]any{"items": []api.Source{}})
	_, text = v.get("/")
	has(t, "the overview", text, "is rejected", `<a href="/project">its mistakes</a>`)
	harmless(t, "the overview", text)
	o.set("GET /v1/definitions", api.Definitions{})
	o.set("GET /v1/approvals", api.Problem{Status: http.StatusServiceUnavailable, Detail: "no valid project"})
	_, text = v.get("/project")
	has(t, "no project", text, "There is no project yet")
	_, text = v.get("/")
	has(t, "the overview of a newcomer", text, "There is no project yet", "turnus project apply DIR")
	lacks(t, "the overview of a newcomer", text, "cannot be shown")
	o.set("GET /v1/playbooks", api.Problem{Status: http.StatusServiceUnavailable, Detail: "no valid project"})
	_, text = v.get("/playbooks")
	has(t, "the playbooks of a newcomer", text, "Not available now", "no valid project")

	tenant := scheduleAPI("admin")
	tenant.set("GET /v1/definitions", api.Problem{Status: http.StatusForbidden, Detail: "this concerns all tenants"})
	v = visits(t, tenant)
	status, text := v.get("/project")
	if status != http.StatusForbidden {
		t.Errorf("a tenant's project: %d", status)
	}
	lacks(t, "a tenant's pages", text, `href="/project"`)
}
