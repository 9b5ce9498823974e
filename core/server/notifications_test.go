package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify/policy"
)

func TestNotifications(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	all, acme := b.token(everyTenant, Operator), b.token("acme", Operator)
	names := func(token string) string {
		var out []string
		for _, c := range want[struct{ Items []api.Channel }](t, b.ask(token, "GET", "/v1/channels", nil), http.StatusOK).Items {
			out = append(out, c.Name+"="+c.Medium)
		}
		return strings.Join(out, " ")
	}
	if got := names(all); got != "acme:ops=webhook globex:ops=webhook noc=email" {
		t.Error(got)
	}
	if got := names(acme); got != "acme:ops=webhook" {
		t.Error(got)
	}
	// A bare name is the tenant's own to a tenant's token, and the service's to one of all tenants.
	for token, c := range map[string][2]string{acme: {"ops", "acme:ops"}, all: {"noc", "noc"}} {
		n := want[api.Notification](t, b.ask(token, "POST", "/v1/channels/"+c[0]+"/test", nil), http.StatusCreated)
		if n.Channel != c[1] || n.State != api.NotificationWaiting || n.Kind != policy.Test || !strings.Contains(n.Title, "the operator") || len(n.Notice) == 0 {
			t.Errorf("%+v", n)
		}
		shown := want[api.Notification](t, b.ask(token, "GET", "/v1/notifications/"+n.ID, nil), http.StatusOK)
		if shown.Title != n.Title || len(shown.Notice) == 0 {
			t.Errorf("%+v", shown)
		}
	}
	want[any](t, b.ask(acme, "POST", "/v1/channels/noc/test", nil), http.StatusNotFound)
	want[any](t, b.ask(all, "POST", "/v1/channels/ops/test", nil), http.StatusNotFound)
	listed := want[struct{ Items []api.Notification }](t, b.ask(acme, "GET", "/v1/notifications?state=waiting&kind=test", nil), http.StatusOK).Items
	if len(listed) != 1 || listed[0].Channel != "acme:ops" || len(listed[0].Notice) != 0 {
		t.Errorf("%+v", listed)
	}
	n, ok, err := b.ledger.ClaimNotification(t.Context(), "x", ledger.Queue{Owner: ledger.Owner{Tenant: "acme"}, Channel: "ops"}, 1<<40)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	must(t, b.ledger.Failed(t.Context(), n, "410 Gone", 0, true))
	for _, state := range []string{"dead_lettered", "dead"} { // the present name, and the former one
		list := want[struct{ Items []api.Notification }](t, b.ask(acme, "GET", "/v1/notifications?state="+state, nil), http.StatusOK).Items
		if len(list) != 1 || list[0].ID != n.ID || list[0].State != "dead_lettered" {
			t.Errorf("%s: %+v", state, list)
		}
	}
	back := want[api.Notification](t, b.ask(acme, "POST", "/v1/notifications/"+n.ID+"/retry", nil), http.StatusOK)
	if back.State != api.NotificationWaiting || back.Reason != "410 Gone" {
		t.Errorf("%+v", back)
	}
	if n, _, err = b.ledger.ClaimNotification(t.Context(), "x", ledger.Queue{Owner: ledger.Owner{Tenant: "acme"}, Channel: "ops"}, 1<<40); err != nil {
		t.Fatal(err)
	}
	must(t, b.ledger.Sent(t.Context(), n))
	want[any](t, b.ask(acme, "POST", "/v1/notifications/"+n.ID+"/retry", nil), http.StatusConflict)
	want[any](t, b.ask(acme, "GET", "/v1/notifications?state=odd", nil), http.StatusUnprocessableEntity)
}
