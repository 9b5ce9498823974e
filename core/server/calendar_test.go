package server

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/ledger"
)

// The calendar has the lanes of the caller's hosts, and what the caller's schedules and runs do
// there.
func TestCalendar(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.launch("acme", api.NewRun{})
	calendar := func(tenant, query string) api.Calendar {
		t.Helper()
		return want[api.Calendar](t, b.ask(b.token(tenant, Viewer), "GET", "/v1/calendar"+query, nil), http.StatusOK)
	}
	lanes := func(c api.Calendar) string {
		names := make([]string, len(c.Lanes))
		for i, l := range c.Lanes {
			names[i] = l.Tenant + "/" + l.Set
		}
		return strings.Join(names, " ")
	}
	for _, c := range []struct{ tenant, query, want string }{
		{"acme", "", "acme/ acme/acme-day acme/acme-night"},
		{"globex", "", "globex/ globex/globex-day globex/globex-night"},
		{"globex", "?tenant=acme", ""},
		{everyTenant, "", "acme/ acme/acme-day acme/acme-night globex/ globex/globex-day globex/globex-night"},
		{everyTenant, "?tenant=acme", "acme/ acme/acme-day acme/acme-night"},
	} {
		if got := lanes(calendar(c.tenant, c.query)); got != c.want {
			t.Errorf("%s%s: %s, expected %s", c.tenant, c.query, got, c.want)
		}
	}
	own := calendar("acme", "?from=2027-03-26T00:00:00Z&to=2027-04-02T00:00:00Z")
	for i, want := range []api.CalendarCount{{FireTimes: 1}, {Unapproved: 7}, {Open: 8}} {
		if own.Lanes[i].Counts != want {
			t.Errorf("%s: %+v, expected %+v", own.Lanes[i].Set, own.Lanes[i].Counts, want)
		}
	}
	if f := own.Lanes[0].FireTimes[0]; f.Schedule != "acme:acme-patch" || f.At.Weekday() != time.Monday || !f.Open {
		t.Errorf("%+v", f)
	}
	if z := own.Zones; len(z) != 2 || z[0].Name != "Europe/Berlin" || len(z[0].Changes) != 1 || z[0].Changes[0].After != "03:00" {
		t.Errorf("%+v", z)
	}
	soon := calendar("acme", "").Lanes[0] // the next launch has a forecast, of this tenant's hosts
	if n := len(soon.Runs); n != 2 || soon.Runs[0].Run != run.ID || soon.Runs[0].FinishP90.IsZero() || soon.Runs[0].Hosts != 3 || soon.Runs[1].Run != "" || soon.Runs[1].Schedule != "acme:acme-patch" || soon.Runs[1].Hosts != 3 || !soon.Runs[1].FinishP90.After(soon.Runs[1].Begin) || soon.Runs[1].Begin.Before(soon.FireTimes[0].At) {
		t.Errorf("%+v", soon.Runs)
	}
	want[any](t, b.ask(b.token("acme", Operator), "POST", "/v1/schedules/acme-patch/pause", api.Why{}), http.StatusOK)
	if got := calendar("acme", ""); got.Lanes[0].Counts.FireTimes != 0 {
		t.Errorf("a schedule that is paused: %+v", got.Lanes[0].FireTimes)
	}
	for _, query := range []string{"?from=2027-01-01T00:00:00Z&to=2027-05-01T00:00:00Z", "?from=2027-01-01T00:00:00Z&to=2026-01-01T00:00:00Z"} {
		if a := b.ask(b.token("acme", Viewer), "GET", "/v1/calendar"+query, nil); a.status != http.StatusUnprocessableEntity && a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
}

// Runs of a playbook without a forecast share what they do in each lane.
func TestRunsShareTheirLanes(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	set, err := b.server.set()
	must(t, err)
	l := &lanes{Server: b.server, by: caller{scope: ledger.AllTenants()}, set: set, places: map[string]*place{}}
	parts := func(hosts int) map[forecast.LaneKey]forecast.LanePart { return l.of("everywhere", "").of(hosts) }
	first := parts(6)
	if len(first) != 2 || first[forecast.LaneKey{Tenant: "acme"}].Hosts != 6 {
		t.Errorf("%+v", first)
	}
	if reflect.ValueOf(parts(6)).Pointer() != reflect.ValueOf(first).Pointer() || reflect.ValueOf(parts(5)).Pointer() == reflect.ValueOf(first).Pointer() {
		t.Error("runs over the same hosts have lanes of their own, or others have theirs")
	}
}

// A set that only a tenant's playbook names has the same lane for the tenant and for the provider.
func TestCalendarOfASetThatOnlyAPlaybookNames(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	named := tree()
	named["windows/sets.yaml"] += "  works: {timezone: UTC, allow: [{rrule: FREQ=DAILY, from: \"01:00\", to: \"02:00\"}]}\n" +
		"  spare: {timezone: UTC, allow: [{rrule: FREQ=DAILY, from: \"01:00\", to: \"02:00\"}]}\n"
	named["playbooks/gated.yaml"] = "playbook: gated\ntenant: acme\ntargets: host.customer == \"acme\"\nsteps: [{name: look, uses: command, window: works, needs: 30m, with: {run: reboot}}]\n"
	_, err := b.cat.Apply(t.Context(), "test", documents(named), definitions.Revision{}, catalog.AnyVersion)
	must(t, err)
	for _, c := range []struct{ tenant, query, want string }{
		{"acme", "", "acme/works"},
		{everyTenant, "", "/spare acme/works"}, // nobody names spare: it is the provider's
		{everyTenant, "?tenant=acme", "acme/works"},
		{"globex", "", ""},
	} {
		var lanes []string
		for _, l := range want[api.Calendar](t, b.ask(b.token(c.tenant, Viewer), "GET", "/v1/calendar"+c.query, nil), http.StatusOK).Lanes {
			if l.Set == "works" || l.Set == "spare" {
				lanes = append(lanes, l.Tenant+"/"+l.Set)
			}
		}
		if got := strings.Join(lanes, " "); got != c.want {
			t.Errorf("%s%s: %s, expected %s", c.tenant, c.query, got, c.want)
		}
	}
}

// A tenant hears that other runs have a share of the workers, and not how many.
func TestAForecastDoesNotCountTheRunsOfOthers(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run, err := b.ledger.Run(t.Context(), ledger.AllTenants(), b.launch("acme", api.NewRun{}).ID)
	must(t, err)
	e, err := b.server.estimate(t.Context(), &run)
	must(t, err)
	e.Binding, e.shared = forecast.Constraint{Cause: forecast.ByConcurrency}, 42
	if shown := e.show().Binds; shown == nil || !strings.Contains(shown.Text, "other runs") || strings.Contains(shown.Text, "42") {
		t.Errorf("%+v", shown)
	}
}
