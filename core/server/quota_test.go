package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/ledger"
)

// The table of docs/api.md has the quotas that hold.
func TestQuotasAreThoseOfTheGuide(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(guide)
	must(t, err)
	_, table, _ := strings.Cut(string(text), "## Quotas\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var rows []string
	for _, q := range []core.Quota{core.QuotaRuns, core.QuotaVars, core.QuotaSchedules, core.QuotaTests, core.QuotaSetApprovals, core.QuotaApprovals} {
		rows = append(rows, fmt.Sprintf("| %s | %s | %d |", q.What, q.Of, q.Max))
	}
	if !strings.Contains(table, "| --- | --- | --- |\n"+strings.Join(rows, "\n")+"\n") {
		t.Errorf("%s has other quotas than\n%s", guide, strings.Join(rows, "\n"))
	}
}

// approved puts n approvals of a tenant's set into the ledger that all count, as a server keeps
// them.
func (b *bed) approved(tenant, set string, n int) {
	b.t.Helper()
	place, _ := b.place(b.token(everyTenant, Viewer), set)
	var had []catalog.Approval
	doc, err := b.ledger.Document(b.t.Context(), ledger.AllTenants(), "approvals", "", "windows")
	if err == nil {
		must(b.t, json.Unmarshal(doc.Data, &had))
	}
	at := time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)
	for i := range n {
		had = append(had, catalog.Approval{
			ID: fmt.Sprint(set, i), Set: set, Tenant: tenant, By: "mallory", At: at.Add(time.Duration(i) * time.Microsecond), Window: place.Hash,
			From: at.AddDate(0, 0, i), Until: at.AddDate(0, 0, i+1).Add(time.Hour * 24),
		})
	}
	data, err := json.Marshal(had)
	must(b.t, err)
	_, err = b.ledger.PutDocument(b.t.Context(), ledger.AllTenants(), "test", ledger.Document{Kind: "approvals", Name: "windows", Data: data}, doc.Version)
	must(b.t, err)
}

// One tenant's approvals, however many, stop nobody else's, and no revocation. The control is the
// tenant's own approval, which meets its quota.
func TestFaultS5ApprovalsOfOneTenantBlockNobody(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.approved("acme", "acme-day", 2000)
	acme, globex := b.token("acme", Approver), b.token("globex", Approver)
	ask := func(secret, set, verb string) answer {
		return b.ask(secret, "POST", "/v1/windows/"+set+"/"+verb, map[string]string{})
	}
	if a := ask(acme, "acme-day", "approve"); a.status != http.StatusConflict || !strings.Contains(a.body, "approvals that count") {
		t.Errorf("the tenant that holds 2000 gave another: %d %s", a.status, a.body)
	}
	want[any](t, ask(globex, "globex-day", "approve"), http.StatusOK)
	if p := want[api.WindowApproval](t, ask(globex, "globex-day", "revoke"), http.StatusOK); p.State != "revoked" {
		t.Errorf("%+v", p)
	}
	if p := want[api.WindowApproval](t, ask(acme, "acme-day", "revoke"), http.StatusOK); p.State != "revoked" || !b.workers("acme-day").Next.IsZero() {
		t.Errorf("%+v", p)
	}
	// A revoked approval no longer counts, and makes room.
	if p := want[api.WindowApproval](t, ask(acme, "acme-day", "approve"), http.StatusOK); p.State != "approved" {
		t.Errorf("%+v", p)
	}
}

// The quota of a tenant holds over all its sets. The provider's word on one of them also counts for
// it.
func TestFaultS5ApprovalsOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	more := tree()
	for i := range 4 {
		more["windows/sets.yaml"] += fmt.Sprintf("  acme-%d: {timezone: UTC, approval: {by: cab, state: proposed}, allow: [{rrule: FREQ=DAILY, from: \"01:00\", to: \"02:00\"}]}\n", i)
		more["inventory/hosts.yaml"] += fmt.Sprintf("  acme-1%d: {address: 192.0.2.4, customer: acme, window_set: acme-%d}\n", i, i)
	}
	b.apply(more)
	for i := range 3 {
		b.approved("acme", fmt.Sprint("acme-", i), 100)
	}
	a := b.ask(b.token("acme", Approver), "POST", "/v1/windows/acme-3/approve", api.ApproveWindow{})
	if a.status != http.StatusConflict || !strings.Contains(a.body, "tenant acme has 300 approvals that count") {
		t.Errorf("%d %s", a.status, a.body)
	}
	want[any](t, b.ask(b.token(everyTenant, Approver), "POST", "/v1/windows/acme-3/approve", api.ApproveWindow{}), http.StatusConflict)
	want[any](t, b.ask(b.token("acme", Approver), "POST", "/v1/windows/acme-3/revoke", api.RevokeWindow{}), http.StatusOK)
	want[any](t, b.ask(b.token("globex", Approver), "POST", "/v1/windows/globex-day/approve", api.ApproveWindow{}), http.StatusOK)
}

// Nobody's word is refused because others speak at the same time.
func TestFaultS5RevocationsAtOnceAllCount(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	secrets := []string{b.token("acme", Approver), b.token("globex", Approver)}
	answers := make([]answer, 48)
	var asking sync.WaitGroup
	for i := range answers {
		asking.Go(func() {
			answers[i] = b.ask(secrets[i%2], "POST", "/v1/windows/"+[]string{"acme", "globex"}[i%2]+"-day/revoke", api.RevokeWindow{})
		})
	}
	asking.Wait()
	for _, a := range answers {
		want[any](t, a, http.StatusOK)
	}
	if n := len(b.cat.Approvals()); n > 48 {
		t.Errorf("%d words are kept", n)
	}
}

// The vars, schedules and tests of a tenant are bounded, and stop no other tenant. The controls are
// the other tenant's, the same thing just within the bound, and a replacement.
func TestFaultS8ATenantHoldsNoMoreThanItsQuotas(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	declared := tree()
	declared["playbooks/acme.yaml"] += "vars: {v: none}\n"
	b.apply(declared)
	operators := map[string]string{"acme": b.token("acme", Operator), "globex": b.token("globex", Operator)}
	refused := func(a answer, quota core.Quota) {
		t.Helper()
		if a.status != http.StatusConflict || !strings.Contains(a.body, quota.What) || !strings.Contains(a.body, quota.Do) {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	with := func(n int) api.NewRun { // {"v":"xxx"}
		return api.NewRun{Playbook: "acme-patch", LaunchOptions: api.LaunchOptions{Vars: map[string]any{"v": strings.Repeat("x", n-len(`{"v":""}`))}}}
	}
	tooMany := b.ask(operators["acme"], "POST", "/v1/runs", with(core.QuotaVars.Max+1))
	if refused(tooMany, core.QuotaVars); !strings.Contains(tooMany.body, fmt.Sprintf("the run has %d bytes of vars", core.QuotaVars.Max+1)) {
		t.Error(tooMany.body)
	}
	want[any](t, b.ask(operators["acme"], "POST", "/v1/runs", with(core.QuotaVars.Max)), http.StatusCreated)

	put := func(tenant, name string) answer {
		return b.ask(operators[tenant], "PUT", "/v1/schedules/"+name, api.NewSchedule{Playbook: tenant + "-patch", Cron: "0 4 * * *"}, "If-Match", "*")
	}
	want[any](t, put("acme", "first"), http.StatusOK)
	row, err := b.ledger.Schedule(t.Context(), ledger.AllTenants(), "acme", "first")
	must(t, err)
	var more []ledger.ScheduleChange
	for i := range core.QuotaSchedules.Max - 1 {
		row.Name, row.Version = fmt.Sprint("s", i), 0
		more = append(more, ledger.ScheduleChange{Schedule: row})
	}
	_, err = b.ledger.ChangeSchedules(t.Context(), more)
	must(t, err)
	refused(put("acme", "more"), core.QuotaSchedules)
	want[any](t, put("acme", "first"), http.StatusOK) // one that is there is replaced
	want[any](t, put("globex", "first"), http.StatusOK)

	test := func(tenant string) answer {
		return b.ask(operators[tenant], "POST", "/v1/channels/"+tenant+":ops/test", nil)
	}
	for range core.QuotaTests.Max {
		if a := test("acme"); a.status/100 != 2 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	refused(test("acme"), core.QuotaTests)
	if a := test("globex"); a.status/100 != 2 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
