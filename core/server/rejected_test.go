package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/ledger"
)

// reject has the server reject a tree that somebody else put into the ledger.
func (b *bed) reject(files map[string]string) {
	b.t.Helper()
	docs := documents(files)
	set, err := json.Marshal(map[string]any{"version": 1, "hash": definitions.Hash(docs), "revision": definitions.Revision{Commit: "bad1"}, "documents": docs})
	must(b.t, err)
	data, err := json.Marshal(map[string]json.RawMessage{"set": set})
	must(b.t, err)
	_, err = b.ledger.PutDocument(b.t.Context(), ledger.AllTenants(), "bob", ledger.Document{Kind: "definitions", Name: "current", Revision: "bad1", Data: data}, b.cat.Current().Version)
	must(b.t, err)
	if _, err = b.cat.Apply(b.t.Context(), "test", documents(tree()), definitions.Revision{}, 99); !errors.Is(err, core.ErrConflict) {
		b.t.Fatalf("the ledger's version was not read: %v", err)
	}
}

// A rejected revision shows its files beside its mistakes: playbooks to each viewer of all
// tenants, the rest to admins, and nothing to a single tenant.
func TestRejectedRevisionShowsItsChanges(t *testing.T) {
	t.Parallel()
	const path = "/v1/definitions/rejected"
	b := newBed(t)
	viewer, admin := b.token(everyTenant, Viewer), b.token(everyTenant, Admin)
	if got := want[api.RejectedChanges](t, b.ask(viewer, "GET", path, nil), http.StatusOK); got.Rejected != nil || got.Files == nil || got.Changes == nil {
		t.Errorf("nothing is rejected: %+v", got)
	}
	bad := tree()
	bad["playbooks/acme.yaml"] += "stepz: [\"<script>alert(1)</script>\x1b[2J\"]\n"
	bad["inventory/hosts.yaml"] += "  acme-9: {address: 192.0.2.9, customer: acme, window_set: acme-day, vars: {pin: hunter2}}\n"
	bad["windows/sets.yaml"] += strings.Repeat("# a comment of some length\n", 2000)
	bad["playbooks/new.yaml"] = "playbook: ["
	b.reject(bad)
	seen := func(token string) map[string]api.FileChange {
		t.Helper()
		got := want[api.RejectedChanges](t, b.ask(token, "GET", path, nil), http.StatusOK)
		if got.Rejected == nil || got.Rejected.Revision != "bad1" || !strings.Contains(got.Rejected.Error, "playbooks/acme.yaml:") {
			t.Errorf("%+v", got.Rejected)
		}
		if len(got.Changes) != 3 || got.Changes[0].Name != "acme-patch" || got.Changes[2].Name != "acme-9" {
			t.Errorf("what the files without mistakes change: %+v", got.Changes)
		}
		files := map[string]api.FileChange{}
		for _, f := range got.Files {
			files[f.Path] = f
		}
		if len(files) != 4 || files["playbooks/new.yaml"].Action != "added" || files["windows/sets.yaml"].Added != 2000 {
			t.Errorf("%+v", got.Files)
		}
		return files
	}
	files := seen(admin)
	if text := files["playbooks/acme.yaml"].Text; !strings.Contains(text, "+stepz: [\"<script>") || strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
	if !strings.Contains(files["inventory/hosts.yaml"].Text, "hunter2") || files["inventory/hosts.yaml"].Note != "" {
		t.Errorf("an admin reads all files: %+v", files)
	}
	if f := files["windows/sets.yaml"]; len(f.Text) > 16<<10 || f.Note == "" {
		t.Errorf("%d bytes: %s", len(f.Text), f.Note)
	}
	for _, role := range []Role{Viewer, Operator, Approver} {
		for p, f := range seen(b.token(everyTenant, role)) {
			if shown := p == "playbooks/acme.yaml"; shown != (f.Text != "") || !shown && f.Note == "" {
				t.Errorf("the role %s sees of %s: %+v", role, p, f)
			}
		}
	}
	for _, tenant := range []string{"acme", "globex"} {
		for _, role := range []Role{Viewer, Operator, Approver, Admin} {
			if a := b.ask(b.token(tenant, role), "GET", path, nil); a.status != http.StatusForbidden || strings.Contains(a.body, "bad1") {
				t.Errorf("%s with the role %s: %d %s", tenant, role, a.status, a.body)
			}
		}
	}
}
