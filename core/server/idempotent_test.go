package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
)

// A key belongs to its caller, to what the caller may reach, and to the operation. Control: the
// same caller gets the same run.
func TestFaultS12AKeyBelongsToItsCaller(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const key = "change-4711"
	create := func(secret string, n api.NewRun) answer {
		return b.ask(secret, "POST", "/v1/runs", n, "Idempotency-Key", key)
	}
	admin, operator, provider := b.token("acme", Admin), b.token("acme", Operator), b.token(everyTenant, Admin)
	body := api.NewRun{Playbook: "acme-patch"}
	first := want[api.Run](t, create(operator, body), http.StatusCreated)
	if same := want[api.Run](t, create(operator, body), http.StatusCreated); same.ID != first.ID {
		t.Errorf("control: the same caller got %s and %s", first.ID, same.ID)
	}
	for name, secret := range map[string]string{"another person": admin, "the provider": provider} {
		if run := want[api.Run](t, create(secret, body), http.StatusCreated); run.ID == first.ID {
			t.Errorf("%s was answered with the run of somebody else", name)
		}
	}
	// Another body is refused, also where its run would be another tenant's.
	for _, n := range []api.NewRun{{Playbook: "acme-patch", LaunchOptions: api.LaunchOptions{Check: true}}, {Playbook: "globex-patch"}, {Playbook: "everywhere"}} {
		if a := create(provider, n); a.status != http.StatusConflict || strings.Contains(a.body, first.ID) {
			t.Errorf("%+v: %d %s", n, a.status, a.body)
		}
	}
	// Of another operation it is another key.
	b.finish(first)
	retry := func(secret string) answer {
		return b.ask(secret, "POST", "/v1/runs/"+first.ID+"/retry", api.Retry{}, "Idempotency-Key", key)
	}
	again := want[api.Run](t, retry(operator), http.StatusCreated)
	if other := want[api.Run](t, retry(admin), http.StatusCreated); other.ID == again.ID || again.ID == first.ID {
		t.Errorf("%s, %s and %s", first.ID, again.ID, other.ID)
	}
	// A repeat is answered with its run, whatever became of the playbook.
	project := tree()
	delete(project, "playbooks/acme.yaml")
	b.apply(project)
	if same := want[api.Run](t, create(operator, body), http.StatusCreated); same.ID != first.ID {
		t.Errorf("a repeat made %s", same.ID)
	}
	if same := want[api.Run](t, retry(operator), http.StatusCreated); same.ID != again.ID {
		t.Errorf("a repeated retry made %s", same.ID)
	}
	want[any](t, b.ask(operator, "POST", "/v1/runs", body), http.StatusNotFound) // control: the playbook is gone
}

// The same of triggers and of words on windows.
func TestFaultS12KeysOfTriggersAndApprovals(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.work()
	admin, operator, approver := b.token("acme", Admin), b.token("acme", Operator), b.token("acme", Approver)
	trigger := func(secret string) string {
		a := b.ask(secret, "POST", "/v1/schedules/acme:acme-patch/trigger", api.Why{}, "Idempotency-Key", "k")
		return want[api.Launched](t, a, http.StatusOK).Run
	}
	if mine, same, other := trigger(operator), trigger(operator), trigger(admin); mine != same || mine == other {
		t.Errorf("%s, %s and %s", mine, same, other)
	}
	approve := func(secret string, body api.ApproveWindow) answer {
		return b.ask(secret, "POST", "/v1/windows/acme-day/approve", body, "Idempotency-Key", "k")
	}
	want[any](t, approve(approver, api.ApproveWindow{Ticket: "CHG1"}), http.StatusOK)
	if p := want[api.WindowApproval](t, approve(approver, api.ApproveWindow{Ticket: "CHG1"}), http.StatusOK); len(p.Given) != 1 {
		t.Errorf("%+v", p.Given)
	}
	want[any](t, approve(approver, api.ApproveWindow{Ticket: "CHG2"}), http.StatusConflict)
	if p := want[api.WindowApproval](t, approve(admin, api.ApproveWindow{Ticket: "CHG1"}), http.StatusOK); len(p.Given) != 2 {
		t.Errorf("%+v", p.Given)
	}
}
