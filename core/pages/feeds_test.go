package pages

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
)

// The page of the calendar makes an address, which it shows once, lists the others and revokes
// them.
func TestCalendarFeeds(t *testing.T) {
	o := calendarAPI(t)
	v := visits(t, o)
	_, text := v.get("/calendar")
	has(t, "the calendar", text, `action="/calendar/feeds/f%2F1/revoke"`, "never", `<form action="/calendar/feeds" method="post">`, "2026-12-01 00:00:00 UTC")
	lacks(t, "the calendar", text, "/feeds/turnus_", `name="tenant"`)
	harmless(t, "the calendar", text)

	status, _, text := v.post("/calendar/feeds", url.Values{"name": {" phone "}, "key": {"k1"}})
	has(t, "a new feed", text, `value="`+v.web.URL+`/feeds/turnus_secret.ics"`, "shown once")
	harmless(t, "a new feed", text)
	if asked := o.changes(); status != http.StatusOK || len(asked) != 1 || asked[0].path != "/v1/calendar-feeds" || asked[0].key != "k1" || asked[0].body["name"] != "phone" {
		t.Errorf("%d, %+v", status, asked)
	}
	if _, at, _ := v.post("/calendar/feeds/f%2F1/revoke", nil); at != "/calendar" {
		t.Errorf("at %s", at)
	}
	if asked := o.changes(); len(asked) != 2 || asked[1].method != http.MethodDelete || asked[1].path != "/v1/calendar-feeds/f%2F1" {
		t.Errorf("%+v", asked)
	}

	o.set("POST /v1/calendar-feeds", api.Problem{Status: http.StatusConflict, Detail: "ann has 20 calendar feeds"})
	status, _, text = v.post("/calendar/feeds", url.Values{"name": {"phone"}})
	if has(t, "a quota", text, "ann has 20 calendar feeds"); status != http.StatusConflict {
		t.Errorf("%d", status)
	}
	o.set("GET /v1/calendar-feeds", api.Problem{Status: http.StatusServiceUnavailable, Detail: "the ledger is away"})
	_, text = v.get("/calendar")
	has(t, "feeds that cannot be read", text, "Calendar feeds cannot be shown", "Check first")
	o.set("GET /v1/calendar-feeds", api.Problem{Status: http.StatusForbidden, Detail: "no feeds here"})
	_, text = v.get("/calendar")
	lacks(t, "pages of one run", text, "calendar program", "no feeds here")
}

// Another site's form makes and revokes nothing.
func TestCalendarFeedsRefuseForeignForms(t *testing.T) {
	o := calendarAPI(t)
	v := visits(t, o)
	for _, path := range []string{"/calendar/feeds", "/calendar/feeds/f%2F1/revoke"} {
		for origin, want := range map[string]int{"https://evil.example": http.StatusForbidden, v.web.URL: http.StatusOK} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, v.web.URL+path, strings.NewReader(asAnn(o.tenant, url.Values{"name": {"x"}}).Encode()))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("Origin", origin)
			before := len(o.changes())
			resp, err := v.browser.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if asked := len(o.changes()) - before; resp.StatusCode != want || (asked == 1) != (want == http.StatusOK) {
				t.Errorf("%s from %s: %d, asked %d", path, origin, resp.StatusCode, asked)
			}
		}
	}
}
