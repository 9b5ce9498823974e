package server

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/inventory/sources"
)

// workers returns the answer that workers get about a set: the state of its windows on the queue's
// board.
func (b *bed) workers(set string) admission.Answer {
	b.t.Helper()
	data, _, err := b.queue.Posted(b.t.Context(), catalog.BoardName, 0)
	must(b.t, err)
	p, err := admission.DecodeCalendar(data)
	must(b.t, err)
	a, err := p.Ask(time.Now(), admission.Question{Set: set, Need: time.Minute})
	must(b.t, err)
	return a
}

// place is the state of a set, as a token sees it.
func (b *bed) place(secret, set string) (api.WindowApproval, bool) {
	b.t.Helper()
	l := want[struct{ Items []api.WindowApproval }](b.t, b.ask(secret, "GET", "/v1/approvals", nil), http.StatusOK)
	for _, one := range l.Items {
		if one.Set == set && one.Rule == "" {
			return one, true
		}
	}
	return api.WindowApproval{}, false
}

// An approver's word reaches the board that workers ask, the server's answers and the audit log,
// counts until the window is edited or the word is revoked, and is there after a restart.
func TestWindowIsApprovedAtTheServer(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	approver, viewer := b.token("acme", Approver), b.token("acme", Viewer)
	b.newest() // its token is made now, and audited
	explain := func() api.WindowAnswer {
		at := time.Now().AddDate(0, 0, 1).UTC().Format("2006-01-02") + "T10:30:00Z" // half past noon, or past eleven, in Berlin
		a := want[api.WindowAnswer](t, b.ask(viewer, "GET", "/v1/windows/acme-day/explain?need_seconds=60&at="+at, nil), http.StatusOK)
		return a
	}
	if p, ok := b.place(viewer, "acme-day"); !ok || p.State != "proposed" || len(p.Waiting) == 0 || p.File == nil || p.File.By != "acme-cab" {
		t.Fatalf("%+v", p)
	}
	if a := explain(); !a.Next.IsZero() || b.workers("acme-day").Open || !b.workers("acme-day").Next.IsZero() {
		t.Fatalf("open before it was approved: %+v", a)
	}
	p := want[api.WindowApproval](t, b.ask(approver, "POST", "/v1/windows/acme-day/approve", api.ApproveWindow{Ticket: "CHG7", Reason: "agreed"}), http.StatusOK)
	if p.State != "approved" || len(p.Waiting) != 0 || len(p.Given) != 1 || p.Given[0].By != "acme/the approver" || p.Given[0].Window != p.Hash {
		t.Fatalf("%+v", p)
	}
	if w := b.workers("acme-day"); !w.Open && w.Next.IsZero() {
		t.Fatalf("the workers know nothing of it: %+v", w)
	}
	if a := explain(); !a.Fits && a.Next.IsZero() {
		t.Fatalf("%+v", a)
	}
	if shown := want[api.WindowSet](t, b.ask(viewer, "GET", "/v1/windows/acme-day", nil), http.StatusOK); shown.Approval != "approved" || shown.ApprovedBy != "acme/the approver" {
		t.Fatalf("%+v", shown)
	}
	e := b.newest()
	var before, after struct {
		Approved bool
		Why      string
		Word     *catalog.Approval
	}
	must(t, json.Unmarshal(e.Before, &before))
	must(t, json.Unmarshal(e.After, &after))
	if e.What != "window.approve" || e.Who != "acme/the approver" || e.Tenant != "acme" || e.Object != "acme-day" || before.Approved || !after.Approved || after.Word == nil || after.Word.Ticket != "CHG7" {
		t.Fatalf("%s", asJSON(e))
	}

	// Another server, or this one after a restart, has it from the ledger.
	again, err := catalog.New(catalog.Config{Ledger: b.ledger, Board: b.queue, Controller: b.ctl})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = again.Run(ctx) }()
	until(t, "another server knows of it", func() bool { return len(again.Approvals()) == 1 && again.Set() != nil })
	stop()
	<-done

	p = want[api.WindowApproval](t, b.ask(approver, "POST", "/v1/windows/acme-day/revoke", api.RevokeWindow{Reason: "not now"}), http.StatusOK)
	if p.State != "revoked" || b.workers("acme-day").Open || !b.workers("acme-day").Next.IsZero() || b.newest().What != "window.revoke" {
		t.Fatalf("%+v", p)
	}
	if a := explain(); !a.Next.IsZero() {
		t.Fatalf("%+v", a)
	}
	want[any](t, b.ask(approver, "POST", "/v1/windows/acme-day/approve", api.ApproveWindow{}), http.StatusOK)

	for _, far := range []time.Time{time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(2201, 1, 1, 0, 0, 0, 0, time.UTC)} { // no definitions can contain it
		if a := b.ask(approver, "POST", "/v1/windows/acme-day/approve", api.ApproveWindow{Until: far}); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, "expected a year from 1970 to 2200") {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}

	// An edit of the times voids it.
	edited := tree()
	edited["windows/sets.yaml"] = strings.ReplaceAll(edited["windows/sets.yaml"], `"13:00"`, `"14:00"`)
	_, err = b.cat.Apply(t.Context(), "test", documents(edited), definitions.Revision{}, catalog.AnyVersion)
	must(t, err)
	if p, _ := b.place(viewer, "acme-day"); p.State != "void" || !strings.Contains(p.Reason, "edited") || !b.workers("acme-day").Next.IsZero() {
		t.Fatalf("the approval of an older definition counts: %+v", p)
	}
	if a := b.ask(approver, "POST", "/v1/windows/acme-day/approve", api.ApproveWindow{Window: p.Hash}); a.status != http.StatusConflict {
		t.Fatalf("approved a change that was not read: %d %s", a.status, a.body)
	}
	must(t, func() error { _, err := b.ledger.VerifyAudit(t.Context()); return err }())
}

// The provider sees which approvals the newest definitions voided, and which an edit would void,
// those given at the server included. The tenant sees that its own is void; another one sees
// nothing.
func TestAnEditNamesTheApprovalsThatItVoids(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	provider, acme, globex := b.token(everyTenant, Operator), b.token("acme", Approver), b.token("globex", Approver)
	changed := func() api.DefinitionChanges {
		return want[api.DefinitionChanges](t, b.ask(provider, "GET", "/v1/definitions/changes", nil), http.StatusOK)
	}
	voids := func(changes []api.Change) (all []string) {
		for _, c := range changes {
			all = append(all, c.Voids...)
		}
		return all
	}
	if first := changed(); len(first.Changes) != 0 || !first.At.IsZero() {
		t.Fatalf("the first definitions changed something: %+v", first)
	}
	want[any](t, b.ask(acme, "POST", "/v1/windows/acme-day/approve", api.ApproveWindow{Ticket: "CHG7"}), http.StatusOK)

	harmless := moreTree()
	_, err := b.cat.Apply(t.Context(), "test", documents(harmless), definitions.Revision{Commit: "c1"}, catalog.AnyVersion)
	must(t, err)
	if c := changed(); c.To != "c1" || len(c.Changes) != 1 || c.Changes[0].Name != "more" || len(voids(c.Changes)) != 0 {
		t.Fatalf("%+v", c)
	}

	edited := moreTree()
	edited["windows/sets.yaml"] = strings.Replace(edited["windows/sets.yaml"], `"13:00"`, `"14:00"`, 1)
	mine := []string{"CHG7 by acme/the approver"}
	asked := want[struct{ Items []api.Change }](t, b.ask(provider, "POST", "/v1/definitions/diff", applied(edited)), http.StatusOK)
	if got := voids(asked.Items); !slices.Equal(got, mine) {
		t.Fatalf("before it is applied: %q in %+v", got, asked)
	}
	_, err = b.cat.Apply(t.Context(), "test", documents(edited), definitions.Revision{Commit: "c2"}, catalog.AnyVersion)
	must(t, err)
	if c := changed(); c.From != "c1" || c.To != "c2" || len(c.Changes) != 1 || !slices.Equal(voids(c.Changes), mine) {
		t.Fatalf("%+v", c)
	}
	if p, _ := b.place(acme, "acme-day"); p.State != "void" || len(p.Given) != 1 || p.Given[0].Ticket != "CHG7" {
		t.Fatalf("%+v", p)
	}
	if a := b.ask(globex, "GET", "/v1/approvals", nil); a.status != http.StatusOK || strings.Contains(a.body, "CHG7") || strings.Contains(a.body, "acme") {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for _, tenant := range []string{acme, globex} {
		if a := b.ask(tenant, "GET", "/v1/definitions/changes", nil); a.status != http.StatusForbidden {
			t.Errorf("%d %s", a.status, a.body)
		}
	}

	// Another server has it from the ledger.
	again, err := catalog.New(catalog.Config{Ledger: b.ledger, Board: b.queue, Controller: b.ctl})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = again.Run(ctx) }()
	until(t, "another server has read it", func() bool { return again.Set() != nil })
	if c := again.Current().Changes; c.New.Commit != "c2" || len(c.Changes) != 1 || !slices.Equal(c.Changes[0].Voids, mine) {
		t.Errorf("%+v", c)
	}
	stop()
	<-done
}

// A window that needs no approval is not approved, and closed by a revocation.
func TestRevokingAWindowThatNeededNoApproval(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	approver := b.token("acme", Approver)
	if a := b.ask(approver, "POST", "/v1/windows/acme-night/approve", api.ApproveWindow{}); a.status != http.StatusConflict {
		t.Fatalf("%d %s", a.status, a.body)
	}
	want[any](t, b.ask(approver, "POST", "/v1/windows/acme-night/revoke", api.RevokeWindow{}), http.StatusOK)
	if w := b.workers("acme-night"); w.Open || !w.Next.IsZero() {
		t.Fatalf("%+v", w)
	}
	want[any](t, b.ask(approver, "POST", "/v1/windows/acme-night/approve", api.ApproveWindow{}), http.StatusOK)
	if w := b.workers("acme-night"); !w.Open && w.Next.IsZero() {
		t.Fatalf("%+v", w)
	}
}

// A revocation of a set closes a rule that has an approval of its own, and the rule shows it.
func TestRevokingASetRevokesItsRules(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	approver, own := b.token("acme", Approver), tree()
	own["windows/sets.yaml"] = strings.Replace(own["windows/sets.yaml"], `to: "+1d 04:00"`, `to: "+1d 04:00", approval: {by: acme-cab}`, 1)
	_, err := b.cat.Apply(t.Context(), "test", documents(own), definitions.Revision{}, catalog.AnyVersion)
	must(t, err)
	if w := b.workers("acme-night"); !w.Open && w.Next.IsZero() {
		t.Fatalf("control: %+v", w)
	}
	want[any](t, b.ask(approver, "POST", "/v1/windows/acme-night/revoke", api.RevokeWindow{}), http.StatusOK)
	if w := b.workers("acme-night"); w.Open || !w.Next.IsZero() {
		t.Errorf("%+v", w)
	}
	for _, p := range want[struct{ Items []api.WindowApproval }](t, b.ask(approver, "GET", "/v1/approvals", nil), http.StatusOK).Items {
		if p.Set == "acme-night" && (p.State != "revoked" || len(p.Given) != 1) {
			t.Errorf("rule %q: %+v", p.Rule, p)
		}
	}
	want[any](t, b.ask(approver, "POST", "/v1/windows/acme-night/approve", api.ApproveWindow{Rule: "night"}), http.StatusOK)
	if w := b.workers("acme-night"); !w.Open && w.Next.IsZero() {
		t.Errorf("%+v", w)
	}
}

func TestWhoMayApproveAWindow(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	shared := tree()
	shared["windows/sets.yaml"] += "  shared: {timezone: UTC, approval: {by: cab, state: proposed}, allow: [{rrule: FREQ=DAILY, from: \"01:00\", to: \"02:00\"}]}\n" +
		"  behind: {timezone: UTC, requires: [only-acme], allow: [{rrule: FREQ=DAILY, from: \"01:00\", to: \"02:00\"}]}\n" +
		"  only-acme: {timezone: UTC, approval: {by: cab, state: proposed}, allow: [{rrule: FREQ=DAILY, from: \"01:00\", to: \"02:00\"}]}\n"
	shared["inventory/hosts.yaml"] += "  acme-4: {address: 192.0.2.4, customer: acme, window_set: shared}\n  globex-4: {address: 192.0.2.4, customer: globex, window_set: shared}\n" +
		"  acme-5: {address: 192.0.2.4, customer: acme, window_set: only-acme}\n  globex-5: {address: 192.0.2.4, customer: globex, window_set: behind}\n"
	_, err := b.cat.Apply(t.Context(), "test", documents(shared), definitions.Revision{}, catalog.AnyVersion)
	must(t, err)
	for _, c := range []struct {
		tenant string
		role   Role
		set    string
		want   int
	}{
		{"acme", Viewer, "acme-day", http.StatusForbidden},
		{"acme", Operator, "acme-day", http.StatusForbidden},
		{"globex", Approver, "acme-day", http.StatusNotFound},
		{"globex", Admin, "acme-day", http.StatusNotFound},
		{"acme", Approver, "nope", http.StatusNotFound},
		{"acme", Approver, "shared", http.StatusForbidden},
		{"acme", Approver, "only-acme", http.StatusForbidden}, // globex starts by it, through behind
		{"acme", Approver, "acme-day", http.StatusOK},
		{everyTenant, Approver, "shared", http.StatusOK},
		{everyTenant, Operator, "shared", http.StatusForbidden},
	} {
		for _, verb := range []string{"approve", "revoke"} {
			if a := b.ask(b.token(c.tenant, c.role), "POST", "/v1/windows/"+c.set+"/"+verb, map[string]string{}); a.status != c.want {
				t.Errorf("%s of %s %ss %s: %d %s", c.role, c.tenant, verb, c.set, a.status, a.body)
			}
		}
	}
	approver := b.token("acme", Approver)
	for name, body := range map[string]api.ApproveWindow{
		"an unknown rule":     {Rule: "nope"},
		"a time that is over": {Until: time.Now().Add(-time.Hour)},
		"an unknown freeze":   {Freezes: []string{"nope"}},
		"another hash":        {Window: "sha256:" + strings.Repeat("0", 64)},
	} {
		if a := b.ask(approver, "POST", "/v1/windows/acme-day/approve", body); a.status < 400 || a.status >= 500 {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

// The source of one tenant does not make it a user of another's windows. The other's approver still
// decides, and the tenant does not see them.
func TestASourceDoesNotShareTheWindowsOfOthers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	keep(t, b.ledger, 0, func(_ context.Context, s sources.Source) (*sources.Generation, error) {
		return &sources.Generation{Source: s.Name, Fetched: time.Now().UTC(), Body: `{"hosts": {"foreign": {"customer": "globex"}, "acme-n1": {"window_set": "acme-night"}, "acme-n2": {"window_set": "globex-night"}}}`}, nil
	})
	b.work()
	until(t, "the server has its hosts", func() bool { _, ok := b.cat.Set().Inventory.Host("acme-n1"); return ok })
	want[any](t, b.ask(b.token("globex", Approver), "POST", "/v1/windows/globex-night/revoke", api.RevokeWindow{}), http.StatusOK)
	want[any](t, b.ask(b.token("acme", Viewer), "GET", "/v1/windows/globex-night", nil), http.StatusNotFound)
	want[any](t, b.ask(b.token("acme", Viewer), "GET", "/v1/windows/acme-night", nil), http.StatusOK)
}

// The rules of a set are listed by their names, whatever their order in the file: a page that ends
// within a set loses none of them.
func TestPagesOfApprovalsHaveEachRuleOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	rules := tree()
	rules["windows/sets.yaml"] += "  two: {timezone: UTC, approval: {by: cab, state: approved}, allow: [{id: weekday, rrule: FREQ=DAILY, from: \"01:00\", to: \"02:00\", approval: {by: cab, state: proposed}}, " +
		"{id: saturday, rrule: FREQ=DAILY, from: \"03:00\", to: \"04:00\", approval: {by: cab, state: proposed}}]}\n"
	rules["inventory/hosts.yaml"] += "  acme-4: {address: 192.0.2.4, customer: acme, window_set: two}\n"
	b.apply(rules)
	viewer := b.token("acme", Viewer)
	for _, limit := range []string{"1", "2", "50"} {
		var seen []string
		for cursor := ""; ; {
			page := want[struct {
				Items []api.WindowApproval
				Next  string
			}](t, b.ask(viewer, "GET", "/v1/approvals?limit="+limit+"&cursor="+url.QueryEscape(cursor), nil), http.StatusOK)
			for _, a := range page.Items {
				if a.Set == "two" {
					seen = append(seen, a.Rule)
				}
			}
			if cursor = page.Next; cursor == "" || len(seen) > 3 {
				break
			}
		}
		if !slices.Equal(seen, []string{"saturday", "weekday"}) && !slices.Equal(seen, []string{"", "saturday", "weekday"}) {
			t.Errorf("pages of %s: %q", limit, seen)
		}
	}
}

// The same key is one word.
func TestApprovalIsGivenOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	approver := b.token("acme", Approver)
	for range 3 {
		p := want[api.WindowApproval](t, b.ask(approver, "POST", "/v1/windows/acme-day/approve", api.ApproveWindow{}, "Idempotency-Key", "k"), http.StatusOK)
		if len(p.Given) != 1 {
			t.Fatalf("%+v", p)
		}
	}
	if a := b.ask(approver, "POST", "/v1/windows/acme-day/revoke", api.RevokeWindow{}, "Idempotency-Key", "k"); a.status != http.StatusConflict {
		t.Fatalf("%d %s", a.status, a.body)
	}
}

// A set that only playbooks name is for the hosts of these playbooks, each counted once.
func TestApprovalCountsTheHostsThatWaitForTheSet(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	named := tree()
	named["windows/sets.yaml"] += "  works: {timezone: UTC, approval: {by: cab, state: proposed}, allow: [{rrule: FREQ=DAILY, from: \"01:00\", to: \"02:00\"}]}\n" +
		"  unused: {timezone: UTC, approval: {by: cab, state: proposed}, allow: [{rrule: FREQ=DAILY, from: \"01:00\", to: \"02:00\"}]}\n"
	gated := func(name, targets, set string) string {
		return "playbook: " + name + "\ntargets: " + targets + "\nwindow: " + set + "\nsteps: [{name: look, uses: command, needs: 5m, with: {run: reboot}}]\n"
	}
	named["playbooks/one.yaml"] = gated("one", `'host.customer == "acme"'`+"\ntenant: acme", "works")
	named["playbooks/two.yaml"] = gated("two", `'host.name in ["acme-1", "globex-1"]'`, "works")
	named["playbooks/three.yaml"] = gated("three", `'host.name in ["acme-1", "acme-3"]'`, "acme-day") // acme-3 has it
	_, err := b.cat.Apply(t.Context(), "test", documents(named), definitions.Revision{}, catalog.AnyVersion)
	must(t, err)
	for _, c := range []struct {
		tenant, set string
		hosts       int
	}{
		{everyTenant, "works", 4}, {"acme", "works", 3},
		{everyTenant, "unused", 0}, {everyTenant, "acme-day", 2}, {everyTenant, "globex-day", 1}, // the control: its own host alone
	} {
		p, _ := b.place(b.token(c.tenant, Viewer), c.set)
		if p.Hosts != c.hosts {
			t.Errorf("%s sees %s for %d hosts, expected %d: %+v", c.tenant, c.set, p.Hosts, c.hosts, p.Work)
		}
	}
}
