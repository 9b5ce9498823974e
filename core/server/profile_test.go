package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/ledger"
)

func TestProfilesAreForAdminsOfAllTenants(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for who, status := range map[string]int{
		"":                                http.StatusUnauthorized,
		b.token("acme", Admin):            http.StatusForbidden,
		b.token(everyTenant, Operator):    http.StatusForbidden,
		b.token(everyTenant, Admin):       http.StatusOK,
		b.token(everyTenant, Admin) + "x": http.StatusUnauthorized,
	} {
		if a := b.ask(who, "GET", "/debug/pprof/heap?debug=1", nil); a.status != status || status == http.StatusOK && !strings.Contains(a.body, "heap profile") {
			t.Errorf("%q: %d, expected %d: %.100s", who, a.status, status, a.body)
		}
	}
	admin := b.token(everyTenant, Admin)
	if a := b.ask(admin, "GET", "/debug/pprof/cmdline", nil); a.status != http.StatusNotFound {
		t.Errorf("arguments are shown: %d", a.status)
	}
	if a := b.ask(admin, "GET", "/debug/pprof/profile?seconds=3600", nil); a.status != http.StatusUnprocessableEntity {
		t.Errorf("an hour of profile: %d", a.status)
	}
	said, _, err := b.ledger.AuditLog(context.Background(), ledger.AllTenants(), ledger.AuditFilter{Action: "server.profile"}, ledger.Page{Limit: 10})
	must(t, err)
	if len(said) != 2 || said[1].Subject+said[0].Subject != "heapcmdline" && said[1].Subject+said[0].Subject != "cmdlineheap" {
		t.Errorf("audit log: %+v", said)
	}
}

func TestHealthIsThatOfTheProcess(t *testing.T) {
	t.Parallel()
	var hangs error
	b := newBed(t, func(c *Config) { c.Stuck = func() error { return hangs } })
	must(t, b.ledger.Close()) // what the process needs is no matter of its own health
	if a := b.ask("", "GET", "/healthz", nil); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	hangs = errors.New("runs have not been looked at for 2m0s")
	if a := b.ask("", "GET", "/healthz", nil); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "looked at") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A request is logged with its caller and operation, and with nothing that it carried.
func TestRequestsAreLogged(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	b := newBed(t, func(c *Config) {
		c.Log = slog.New(slog.NewJSONHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	b.ask(b.token(everyTenant, Viewer), "GET", "/v1/runs?playbook=hunter2", nil)
	b.ask(b.token("acme", Viewer), "POST", "/v1/runs", map[string]any{"playbook": "hunter2"})
	type line struct {
		Level, Msg, Operation, Who, Took string
		Code                             int
	}
	var got []line
	for l := range strings.Lines(text.String()) {
		var one line
		must(t, json.Unmarshal([]byte(l), &one))
		if one.Msg == "request" {
			got = append(got, one)
		}
	}
	if len(got) != 2 || got[0].Operation != "list-runs" || got[0].Who != "the viewer" || got[0].Code != 200 || got[0].Level != "DEBUG" || got[0].Took == "" {
		t.Fatalf("%+v", got)
	}
	if got[1].Code != http.StatusForbidden || got[1].Level != "INFO" {
		t.Errorf("%+v", got[1])
	}
	if strings.Contains(text.String(), "hunter2") || strings.Contains(text.String(), ledger.TokenPrefix) {
		t.Errorf("the log has what a request carried:\n%s", text.String())
	}
}
