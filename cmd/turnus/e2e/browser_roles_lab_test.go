//go:build linux && labs

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/transport/fleet"
)

// person is somebody with a token of one role, for one tenant or ("*") all.
type person struct{ tenant, role string }

// may reports whether the person has one of the roles. Each of them includes the viewer's.
func (p person) may(roles ...string) bool {
	return p.role == "admin" || slices.Contains(roles, "viewer") || slices.Contains(roles, p.role)
}

// pageAction is an action that a page offers to some people.
type pageAction struct {
	name, page string
	button     string // a selector of the form, link or button
	path, form string // of the request
	role       string // beside admin
	provider   bool   // for people of all tenants only
	again      bool   // it may be done again and again
}

// actionsOf are the actions on a run and other objects of customer-0.
func actionsOf(run, ended, token, worker, note string) []pageAction {
	runs := "/runs/" + run
	day := func(ago int) string { return time.Now().UTC().AddDate(0, 0, -ago).Format("2006-01-02T15:04") }
	past := "from=" + day(3) + "&to=" + day(1)
	return []pageAction{
		{"approve", runs, `form[action$="/approve"]`, runs + "/approve", "wave=2", "approver", false, false},
		{"refuse", runs, `button[formaction$="/refuse"]`, runs + "/refuse", "wave=2", "approver", false, false},
		{"pause", runs, `form[action$="/pause"]`, runs + "/pause", "", "operator", false, true},
		{"resume", runs, `form[action$="/resume"]`, runs + "/resume", "", "operator", false, true}, // after pause
		{"cancel", runs, `form[action$="/cancel"]`, runs + "/cancel", "reason=x", "operator", false, false},
		{"retry", "/runs/" + ended, `a[href$="/retry"]`, "/runs/" + ended + "/retry", "hash=x&hosts=6&key=k", "operator", false, false},
		{"launch", "/playbooks/branch", "#launch ~ form", "/playbooks/branch/launch", "hash=x&hosts=6&key=k", "operator", false, false},
		{"pause a schedule", "/schedules/customer-0:branch", `form[action$="/pause"]`, "/schedules/customer-0:branch/pause", "", "operator", false, true},
		{"resume a schedule", "/schedules/customer-0:branch", `form[action$="/resume"]`, "/schedules/customer-0:branch/resume", "", "operator", false, true},
		{"trigger", "/schedules/customer-0:branch", `form[action$="/trigger"]`, "/schedules/customer-0:branch/trigger", "key=k&reason=x", "operator", false, false},
		{"approve windows", "/windows/branch", `form[action$="/approve"]`, "/windows/branch/approve", "key=k&reason=x", "approver", false, false},
		{"refuse windows", "/windows/branch", `form[action$="/refuse"]`, "/windows/branch/refuse", "key=k&reason=x", "approver", false, false},
		{"backfill", "/schedules/customer-0:branch?" + past, `form[action$="/backfill"]`, "/schedules/customer-0:branch/backfill", past + "&runs=2&hosts=6&reason=x", "operator", false, false},
		{"revoke windows", "/windows/branch-days", `form[action$="/revoke"]`, "/windows/branch-days/revoke", "key=k&reason=x", "approver", false, false},
		{"retry a notification", "/notifications", `form[action$="/retry"]`, "/notifications/" + note + "/retry", "", "operator", false, false},
		{"make a feed", "/calendar", `form[action="/calendar/feeds"]`, "/calendar/feeds", "name=phone", "viewer", false, true},
		{"revoke a feed", "/calendar?only=conflict", `form[action^="/calendar/feeds/"]`, "", "", "viewer", false, false}, // their own: the action before made it
		{"drain", "/queue", `form[action$="/drain"]`, "/queue/workers/" + worker + "/drain", "reason=x", "operator", true, false},
		{"cordon", "/queue", `form[action$="/cordon"]`, "/queue/workers/" + worker + "/cordon", "", "operator", true, true},
		{"uncordon", "/queue", `form[action$="/uncordon"]`, "/queue/workers/" + worker + "/uncordon", "", "operator", true, true},
		{"revoke", "/tokens", `form[action$="/revoke"]`, "/tokens/" + token + "/revoke", "", "admin", false, false},
	}
}

// leave ends the session of a browser.
func (b *browser) leave() {
	b.t.Helper()
	b.click("header form.me button")
	b.wait("document.querySelector('#token') !== null")
}

// posts sends a form as the page's own scripts and forms can, and returns the status.
func (b *browser) posts(path, form string) int {
	b.t.Helper()
	status, err := chromedp.Run(b.ctx, chromedp.Evaluate[int](fmt.Sprintf("fetch(%q, {method: 'POST', body: new URLSearchParams(%q + '&as=' + document.documentElement.dataset.as)}).then(r => r.status)", path, form), chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("POST %s: %v", path, err)
	}
	return status
}

// shown is the status of a page.
func (b *browser) shown(path string) int {
	b.t.Helper()
	status, err := chromedp.Run(b.ctx, chromedp.Evaluate[int](fmt.Sprintf("fetch(%q).then(r => r.status)", path), chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("GET %s: %v", path, err)
	}
	return status
}

// action checks one action of one person. An action that may be repeated is done.
func (b *browser) action(p person, a pageAction) {
	b.t.Helper()
	who := p.role + " of " + p.tenant + ": " + a.name
	if at, err := evaluated[string](b, "location.pathname"); err != nil || at != a.page || a.again { // which changes the page
		b.open(a.page)
	}
	button, err := evaluated[bool](b, fmt.Sprintf("document.querySelector(%q) !== null", "main "+a.button))
	if err != nil {
		b.t.Fatalf("%s: %v", who, err)
	}
	allowed := p.may(a.role) && (p.tenant == "*" || !a.provider)
	if button != allowed {
		b.t.Errorf("%s: there is a button: %t, expected %t", who, button, allowed)
	}
	switch {
	case !allowed:
		if status := b.posts(a.path, a.form); status != http.StatusForbidden {
			b.t.Errorf("%s: status %d, expected 403", who, status)
		}
	case a.again:
		if status := b.posts(a.path, a.form); status != http.StatusOK {
			b.t.Errorf("%s: status %d, expected 200", who, status)
		}
	}
}

// foreign checks that a tenant's person finds nothing of others, and changes nothing of them.
func (b *browser) foreign(p person, run, schedule, feed string) {
	b.t.Helper()
	for path, role := range map[string]string{run: "", schedule: "", run + "/pause": "operator", run + "/approve": "approver", schedule + "/trigger": "operator", "/calendar/feeds/" + feed + "/revoke": "viewer"} {
		want := http.StatusNotFound
		var status int
		if role == "" {
			status = b.shown(path)
		} else {
			status = b.posts(path, "wave=2&key=k&reason=x")
		}
		if role != "" && !p.may(role) {
			want = http.StatusForbidden
		}
		if status != want {
			b.t.Errorf("%s of %s at %s of others: status %d, expected %d", p.role, p.tenant, path, status, want)
		}
	}
}

// Each role of a tenant and of the provider has a button for what it may do, and none for what it
// may not: there the request itself is refused. Another tenant's things are not found. Control: a
// permitted action succeeds.
func TestLabBrowserShowsEachRoleItsActions(t *testing.T) {
	t.Parallel()
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
	defer refuses.Close()
	l := newLab(t, fleet.Config{Hosts: 12})
	l.project()
	l.file("ops/notify.yaml", "tenants: {customer-0: {channels: {ops: {webhook: {url: \""+refuses.URL+"\"}}}}}\n")
	l.file("ops/windows/days.yaml", "window_sets: {branch-days: {timezone: UTC, approval: {state: approved, by: customer, at: 2026-11-01}, allow: [{id: day, rrule: \"FREQ=DAILY\", from: \"10:00\", to: \"12:00\"}]}}\n")
	l.file("ops/playbooks/branch-days.yaml", "playbook: branch-days\ntenant: customer-0\ntargets: 'host.customer == \"customer-0\"'\nsteps: [{name: look, uses: command, window: branch-days, needs: 5m, with: {run: uptime}}]\n")
	s := l.site("--notify-allow", "127.0.0.1/32")
	run, foreign := s.launched("branch"), s.launched("waves")
	ended, err := s.client.CreateRun(t.Context(), "ended", api.NewRun{Playbook: "branch"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.CancelRun(t.Context(), ended.ID, "it ends before all hosts have an outcome"); err != nil {
		t.Fatal(err)
	}
	s.over(ended.ID)
	s.waiting(run)
	s.waiting(foreign)
	workers, err := s.client.Workers(t.Context(), client.Page{})
	if err != nil || len(workers.Items) == 0 {
		t.Fatalf("no worker: %v", err)
	}
	worker := workers.Items[0].Name
	note, err := s.client.TestChannel(t.Context(), "customer-0:ops")
	if err != nil {
		t.Fatal(err)
	}
	until(t, "a dead-lettered notification", func() bool {
		now, err := s.client.Notification(t.Context(), note.ID)
		return err == nil && now.State == api.NotificationDeadLettered
	})
	feed, err := s.client.CreateCalendarFeed(t.Context(), "", api.NewCalendarFeed{Name: "provider"})
	if err != nil {
		t.Fatal(err)
	}
	b := newBrowser(t, s.client.Server())
	for _, tenant := range []string{"*", "customer-0"} {
		spare := s.made("spare", "viewer", tenant).ID
		for _, role := range []string{"viewer", "operator", "approver", "admin"} {
			p := person{tenant, role}
			b.logIn(s.role(role, role, tenant))
			for _, a := range actionsOf(run, ended.ID, spare, worker, note.ID) {
				b.action(p, a)
			}
			if tenant != "*" {
				b.foreign(p, "/runs/"+foreign, "/schedules/:nights", feed.ID)
			}
			b.leave()
		}
	}
}
