package server

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.launch("acme", api.NewRun{})
	_, err := b.queue.Post(t.Context(), api.WorkerDocument("w1"), asJSON(api.Worker{Name: "w1", Pool: "default", State: api.WorkerReady, Concurrency: 8}), api.WorkerKeep)
	must(t, err)
	b.server.CountEvent("run_ended")
	b.server.CountEvent("run_ended")
	scrape := func(secret string) answer { return b.ask(secret, "GET", "/metrics", nil) }
	got := scrape(b.token(everyTenant, Viewer))
	if got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") {
		t.Fatalf("%d %v %s", got.status, got.header, got.body)
	}
	for _, line := range []string{
		`turnus_build_info{version="test"} 1`, `turnus_up{part="ledger"} 1`, `turnus_up{part="queue"} 1`, `turnus_project_rejected 0`,
		`turnus_playbooks 3`, `turnus_hosts 6`, `turnus_workers{pool="default",state="ready"} 1`, `turnus_queue_runs 0`, `turnus_queue_oldest_overdue_seconds 0`,
		`turnus_events_total{kind="run_ended"} 2`,
	} {
		if !strings.Contains("\n"+got.body, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, got.body)
		}
	}
	// They are of all tenants: a token is needed, and not a tenant's.
	for secret, status := range map[string]int{"": http.StatusUnauthorized, "guessed": http.StatusUnauthorized, b.token("acme", Admin): http.StatusForbidden} {
		if a := scrape(secret); a.status != status || strings.Contains(a.body, "turnus_") {
			t.Errorf("status %d, expected %d: %s", a.status, status, a.body)
		}
	}
	if a := b.ask(b.token("acme", Viewer), "POST", "/v1/tokens", api.NewToken{Name: "x", Tenant: "acme", Role: string(Viewer)}); a.status != http.StatusForbidden {
		t.Fatalf("a viewer makes a token: %d %s", a.status, a.body)
	}
	b.refused(map[string]int{"no_token": 1, "unknown_token": 1, "tenant": 1, "role": 1, "login": 0})
}

// refused compares what a bed's server has counted by reason.
func (b *bed) refused(want map[string]int) {
	b.t.Helper()
	now := b.ask(b.token(everyTenant, Viewer), "GET", "/metrics", nil).body
	for reason, n := range want {
		if line := fmt.Sprintf("turnus_access_refused_total{reason=%q} %d", reason, n); !strings.Contains(now, "\n"+line+"\n") {
			t := regexp.MustCompile(`(?m)^turnus_access_refused_total.*$`).FindAllString(now, -1)
			b.t.Errorf("expected %s, reported is %v", line, t)
		}
	}
}

// While the ledger is away those read metrics who did so before, and nobody else.
func TestScrapersWhileTheLedgerIsAway(t *testing.T) {
	t.Parallel()
	var k scrapers
	now := time.Now()
	for _, step := range []struct {
		who    string
		status int
		after  time.Duration
		may    bool
	}{
		{"a", http.StatusServiceUnavailable, 0, false}, // nobody knows it
		{"a", 0, 0, true},
		{"a", http.StatusServiceUnavailable, time.Hour, true},
		{"b", http.StatusServiceUnavailable, time.Hour, false},
		{"a", http.StatusForbidden, 0, false},
		{"a", http.StatusServiceUnavailable, 0, false}, // it was refused meanwhile
		{"a", 0, 0, true},
		{"a", http.StatusServiceUnavailable, 25 * time.Hour, false}, // too long ago
	} {
		now = now.Add(step.after)
		if got := k.admit(step.who, step.status, now); got != step.may {
			t.Errorf("%+v: admitted: %v", step, got)
		}
	}
	for i := range 1000 {
		k.admit(strconv.Itoa(i), 0, now)
	}
	if len(k.last) > scrapersMost {
		t.Errorf("%d are remembered", len(k.last))
	}
}
