package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/windows/ics"
)

// feed makes a calendar feed, and returns its path.
func (b *bed) feed(secret string, n api.NewCalendarFeed) api.CalendarFeed {
	b.t.Helper()
	f := want[api.CalendarFeed](b.t, b.ask(secret, "POST", "/v1/calendar-feeds", n), http.StatusCreated)
	if !strings.HasPrefix(f.Path, FeedPath+ledger.TokenPrefix) || len(f.Path) < len(FeedPath+ledger.TokenPrefix)+43 { // 256 bits
		b.t.Fatalf("%+v", f)
	}
	return f
}

// values lists the values of a property of a calendar, unfolded.
func values(text, property string) (all []string) {
	for l := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n ", ""), "\r\n") {
		if v, ok := strings.CutPrefix(l, property+":"); ok {
			all = append(all, v)
		}
	}
	return all
}

// freeze adds a freeze to acme's and globex's nights, with a text that looks like lines.
func (b *bed) freeze(from time.Time) {
	b.t.Helper()
	frozen := tree()
	sets := strings.ReplaceAll(frozen["windows/sets.yaml"], "-night:\n", "-night:\n    deny: [{use: freeze/year-end}]\n")
	frozen["windows/sets.yaml"] = sets + fmt.Sprintf("freezes:\n  year-end: {timezone: UTC, from: \"%s\", to: \"%s\", reason: \"closed; books, all\\nBEGIN:VEVENT\"}\n", from.Format(time.DateOnly), from.AddDate(0, 0, 2).Format(time.DateOnly))
	_, err := b.cat.Apply(b.t.Context(), "test", documents(frozen), definitions.Revision{}, catalog.AnyVersion)
	must(b.t, err)
}

// A feed has the windows of its tenant, in a form that a calendar program and Turnus itself read.
func TestCalendarFeed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	day := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 5)
	b.freeze(day)
	acme := b.feed(b.token("acme", Viewer), api.NewCalendarFeed{Name: "phone"})
	read := func(f api.CalendarFeed) string {
		t.Helper()
		a := b.ask("", "GET", f.Path, nil)
		if a.status != http.StatusOK || a.header.Get("Content-Type") != "text/calendar; charset=utf-8" || a.header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%d %v %s", a.status, a.header, a.body)
		}
		for l := range strings.SplitSeq(a.body, "\r\n") {
			if len(l) > 75 || strings.ContainsAny(l, "\n\r") {
				t.Errorf("line %q", l)
			}
		}
		return a.body
	}
	text := read(acme)
	nights, days := 0, 0
	for _, s := range values(text, "SUMMARY") {
		switch s {
		case "Maintenance window acme-night":
			nights++
		case "Not approved: maintenance window acme-day":
			days++
		case "Freeze year-end":
		default:
			t.Errorf("summary %q", s)
		}
	}
	if nights < 90 || nights > 93 || days < 92 || days > 94 { // the freeze closes two or three nights
		t.Errorf("%d nights, %d days", nights, days)
	}
	utc := func(t time.Time) string { return t.Format("20060102T150405Z") }
	if starts, ends := values(text, "DTSTART"), values(text, "DTEND"); !slices.Contains(starts, utc(day)) || !slices.Contains(ends, utc(day.AddDate(0, 0, 2))) {
		t.Errorf("the freeze from %s is not there: %s", day, starts)
	}
	if got := values(text, "DESCRIPTION"); !slices.Contains(got, `closed\; books\, all\nBEGIN:VEVENT`) || !slices.Contains(got, "2 hosts") {
		t.Errorf("%.300q", got)
	}
	uids := values(text, "UID")
	slices.Sort(uids)
	if n := len(uids); n != len(slices.Compact(uids)) || n != strings.Count(text, "\r\nBEGIN:VEVENT\r\n") {
		t.Errorf("%d UIDs are not one for each event", n)
	}
	if again := read(acme); again != text {
		t.Error("the same windows are another text")
	}
	set, err := ics.Read([]byte(text), ics.Import{Name: "again"})
	must(t, err)
	if len(set.Skipped) != days+1 || strings.Count(string(set.YAML), "- id: ") < nights {
		t.Errorf("read back: %d skipped, %s", len(set.Skipped), set.YAML)
	}

	want[any](t, b.ask(b.token("acme", Approver), "POST", "/v1/windows/acme-day/approve", api.ApproveWindow{}), http.StatusOK)
	if approved := values(read(acme), "SUMMARY"); !slices.Contains(approved, "Maintenance window acme-day") {
		t.Errorf("after the approval: %.300q", approved)
	}
	listed := want[struct{ Items []api.CalendarFeed }](t, b.ask(b.token("acme", Viewer), "GET", "/v1/calendar-feeds", nil), http.StatusOK).Items
	if len(listed) != 1 || listed[0].ID != acme.ID || listed[0].Path != "" || listed[0].LastUsed.IsZero() || listed[0].CreatedBy != "acme/the viewer" || listed[0].Tenant != "acme" {
		t.Errorf("%+v", listed)
	}
	if e := b.newestBy("acme/the viewer", 0); e.What != "token.create" || e.Object != acme.ID || strings.Contains(string(asJSON(e)), acme.Path) {
		t.Errorf("%s", asJSON(e))
	}
}

// A feed shows the lanes of its tenant alone, and its secret opens nothing else.
func TestCalendarFeedsOfTenantsAreApart(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	provider := b.token(everyTenant, Viewer)
	for _, c := range []struct {
		secret string
		of     api.NewCalendarFeed
		acme   bool
		globex bool
	}{
		{b.token("acme", Viewer), api.NewCalendarFeed{Name: "x"}, true, false},
		{b.token("globex", Viewer), api.NewCalendarFeed{Name: "x", Tenant: "globex"}, false, true},
		{provider, api.NewCalendarFeed{Name: "x"}, true, true},
		{provider, api.NewCalendarFeed{Name: "x", Tenant: "acme"}, true, false},
	} {
		f := b.feed(c.secret, c.of)
		text := b.ask("", "GET", f.Path, nil).body
		if strings.Contains(text, "acme-night") != c.acme || strings.Contains(text, "globex-night") != c.globex {
			t.Errorf("%+v: %.500s", c.of, text)
		}
		secret := strings.TrimSuffix(strings.TrimPrefix(f.Path, FeedPath), ".ics")
		for _, path := range []string{"/v1/whoami", "/v1/calendar", "/v1/calendar-feeds", "/v1/windows"} {
			if a := b.ask(secret, "GET", path, nil); a.status != http.StatusForbidden {
				t.Errorf("the secret of a feed reads %s: %d %s", path, a.status, a.body)
			}
		}
	}
	for _, tenant := range []string{"globex", everyTenant, "nobody"} {
		if a := b.ask(b.token("acme", Admin), "POST", "/v1/calendar-feeds", api.NewCalendarFeed{Name: "x", Tenant: tenant}); a.status != http.StatusForbidden {
			t.Errorf("acme makes a feed of %s: %d %s", tenant, a.status, a.body)
		}
	}
	if a := b.ask(b.token("acme", Admin), "POST", "/v1/tokens", map[string]string{"name": "x", "tenant": "acme", "role": string(Feed)}); a.status != http.StatusUnprocessableEntity {
		t.Errorf("a token with the role of a feed: %d %s", a.status, a.body)
	}
}

// An address that is wrong, was revoked, or has another token's secret gets the same answer.
func TestCalendarFeedIsRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	viewer := b.token("acme", Viewer)
	f := b.feed(viewer, api.NewCalendarFeed{Name: "x"})
	if a := b.ask("", "GET", f.Path, nil); a.status != http.StatusOK { // control, and the token is remembered
		t.Fatalf("%d %s", a.status, a.body)
	}
	want[any](t, b.ask(viewer, "DELETE", "/v1/calendar-feeds/"+f.ID, nil), http.StatusOK)
	unknown := b.ask("", "GET", FeedPath+ledger.NewSecret()+".ics", nil)
	if unknown.status != http.StatusNotFound {
		t.Fatalf("%d %s", unknown.status, unknown.body)
	}
	for what, path := range map[string]string{
		"revoked": f.Path, "a viewer's token": FeedPath + viewer + ".ics", "an admin's token": FeedPath + b.token(everyTenant, Admin) + ".ics", "no token": FeedPath + "x.ics",
		"an id": FeedPath + f.ID + ".ics",
	} {
		a := b.ask("", "GET", path, nil)
		if a.status != unknown.status || a.body != unknown.body || fmt.Sprint(a.header) != fmt.Sprint(unknown.header) {
			t.Errorf("%s: %d %v %s", what, a.status, a.header, a.body)
		}
	}
	if a := b.ask(viewer, "DELETE", "/v1/calendar-feeds/"+f.ID, nil); a.status != http.StatusNotFound {
		t.Errorf("revoked again: %d %s", a.status, a.body)
	}
}

// A person sees and revokes the person's own feeds, an admin those of the tenant.
func TestWhoseCalendarFeeds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	bob, _, err := b.ledger.NewToken(t.Context(), "test", ledger.Token{Name: "bob", Tenant: "acme", Roles: []string{string(Operator)}})
	must(t, err)
	f := b.feed(bob, api.NewCalendarFeed{Name: "of bob"})
	for _, c := range []struct {
		who    string
		secret string
		sees   bool
	}{
		{"another viewer", b.token("acme", Viewer), false},
		{"another tenant's admin", b.token("globex", Admin), false},
		{"the provider's viewer", b.token(everyTenant, Viewer), false},
		{"bob", bob, true},
		{"the tenant's admin", b.token("acme", Admin), true},
		{"the provider's admin", b.token(everyTenant, Admin), true},
	} {
		if got := strings.Contains(b.ask(c.secret, "GET", "/v1/calendar-feeds", nil).body, f.ID); got != c.sees {
			t.Errorf("%s sees it: %v", c.who, got)
		}
		if c.sees {
			continue
		}
		if a := b.ask(c.secret, "DELETE", "/v1/calendar-feeds/"+f.ID, nil); a.status != http.StatusNotFound {
			t.Errorf("%s revokes it: %d %s", c.who, a.status, a.body)
		}
	}
	spare := want[struct{ Items []api.Token }](t, b.ask(b.token("acme", Admin), "GET", "/v1/tokens", nil), http.StatusOK).Items
	for _, one := range spare { // no other token is revoked as a feed
		if one.Role == string(Feed) {
			continue
		}
		if a := b.ask(b.token("acme", Admin), "DELETE", "/v1/calendar-feeds/"+one.ID, nil); a.status != http.StatusNotFound {
			t.Errorf("a token is revoked as a feed: %d %s", a.status, a.body)
		}
	}
	want[any](t, b.ask(b.token("acme", Admin), "DELETE", "/v1/calendar-feeds/"+f.ID, nil), http.StatusOK)
	if e := b.newestBy("acme/the admin", 0); e.What != "token.revoke" || e.Object != f.ID {
		t.Errorf("%s", asJSON(e))
	}
	for i := range feedsEach {
		b.feed(bob, api.NewCalendarFeed{Name: fmt.Sprintf("f%d", i)})
	}
	if a := b.ask(bob, "POST", "/v1/calendar-feeds", api.NewCalendarFeed{Name: "one more"}); a.status != http.StatusConflict || !strings.Contains(a.body, "revoke one") {
		t.Errorf("%d %s", a.status, a.body)
	}
	for i, status := range []int{http.StatusCreated, http.StatusConflict} {
		if a := b.ask(b.token("acme", Viewer), "POST", "/v1/calendar-feeds", api.NewCalendarFeed{Name: "once"}, "Idempotency-Key", "k"); a.status != status {
			t.Errorf("request %d with a key: %d %s", i+1, a.status, a.body)
		}
	}
	w := httptest.NewRecorder() // pages of one run, whose process ends
	b.server.Viewing("me").ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/v1/calendar-feeds", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// More feeds than the server makes at the same time are sent away, and come again.
func TestCalendarFeedsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	f := b.feed(b.token("acme", Viewer), api.NewCalendarFeed{Name: "x"})
	for range feedsAtOnce {
		b.server.feeding <- struct{}{}
	}
	if a := b.ask("", "GET", f.Path, nil); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %v", a.status, a.header)
	}
	<-b.server.feeding
	if a := b.ask("", "GET", f.Path, nil); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
}
