package pages

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
)

// serviceAPI answers what a person of all tenants may ask; denied lists paths that fail.
type serviceAPI struct {
	*fakeAPI
	me     api.Whoami
	denied []string
}

func (s *serviceAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	items := func(v any) { _ = json.NewEncoder(w).Encode(map[string]any{"items": v}) }
	if slices.Contains(s.denied, r.URL.Path) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(api.Problem{Title: "Forbidden", Status: 403, Detail: "refused " + r.URL.Path})
		return
	}
	switch path := r.URL.Path; {
	case path == "/v1/session":
		s.fakeAPI.ServeHTTP(w, r)
	case r.Method == http.MethodPost || r.Method == http.MethodDelete:
		s.mu.Lock()
		s.asked = append(s.asked, r.Method+" "+path)
		s.mu.Unlock()
		_, _ = w.Write([]byte("{}"))
	case path == "/v1/whoami":
		_ = json.NewEncoder(w).Encode(s.me)
	case path == "/v1/runs" && r.URL.Query().Get("phase") != string(api.Active):
		items([]api.Run{})
	case path == "/v1/workers":
		items([]api.Worker{{Name: "w1", State: api.WorkerReady, Concurrency: 8, Running: 3, Pool: hostile, CPU: 0.5}, {Name: "w2", State: api.WorkerCordoned}})
	case path == "/v1/queue":
		_ = json.NewEncoder(w).Encode(api.Queue{Backend: "redis", InFlight: 900, Oldest: 3})
	case path == "/v1/shares":
		share := api.Share{Tenant: "acme", Running: 900, Due: 7, Before: 2}
		if s.me.Tenant == "*" {
			share.Tenant, share.Fair, share.Use = hostile, 1200.0, 1.0
		}
		items([]api.Share{share})
	case path == "/v1/shares/history":
		hours := make([]api.HourShare, 24)
		hours[2] = api.HourShare{Used: 90, Fair: 7200}
		_ = json.NewEncoder(w).Encode(api.ShareHistory{From: time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC), LeftOut: 3, Tenants: []api.TenantHours{{Tenant: hostile, Hosts: 41, Used: 90, Fair: 7200, Hours: hours}}})
	case path == "/v1/definitions":
		_ = json.NewEncoder(w).Encode(api.Definitions{Source: hostile, Hosts: 3})
	case path == "/v1/settings":
		items([]api.Setting{{Name: "notify", Value: hostile, Default: hostile, From: "file", Where: hostile}})
	case path == "/v1/audit":
		items([]api.Entry{{Who: hostile, What: "run.cancel", Object: hostile, Before: json.RawMessage(`{"phase":"active"}`), After: json.RawMessage(fmt.Sprintf(`{"phase":%q}`, "</del><script>x"))}})
	case path == "/v1/notifications":
		items([]api.Notification{{ID: "n1", State: api.NotificationDeadLettered, Title: hostile, Channel: hostile, Reason: hostile, Run: "r1"}, {ID: "n2", State: api.NotificationSent}})
	case path == "/v1/channels":
		items([]api.Channel{{Name: hostile, DeadLettered: 1}})
	case path == "/v1/tokens":
		items([]api.Token{{ID: "t1", Name: "own", Role: "admin", Tenant: "*"}, {ID: "t2", Name: hostile, Role: "viewer"}, {ID: "t3", Name: "old", Revoked: time.Unix(1, 0)}})
	default:
		s.fakeAPI.ServeHTTP(w, r)
	}
}

// service serves pages to somebody who is logged in.
func service(t *testing.T, tenant, role string, refuse ...string) (*serviceAPI, *httptest.Server, *http.Client) {
	t.Helper()
	f := &serviceAPI{newFake(), api.Whoami{Name: "ann", Token: "t1", Tenant: tenant, Roles: []string{role}}, refuse}
	f.run.Tenant = "acme" + hostile
	web, browser := site(t, f)
	logIn(t, web, browser, "good", "/")
	return f, web, browser
}

var servicePages = []string{"/queue", "/audit", "/notifications", "/tokens", "/settings"}

func TestServicePagesEscape(t *testing.T) {
	_, web, browser := service(t, "*", "admin")
	for _, path := range servicePages {
		resp, text := get(t, browser, web.URL+path)
		if resp.StatusCode != http.StatusOK || strings.Contains(text, "<script>") || strings.Contains(text, "<img") || strings.Contains(text, `" onmouseover`) || strings.Contains(text, " style=") {
			t.Errorf("%s: %d: %s", path, resp.StatusCode, text)
		}
		if !strings.Contains(text, "&lt;script&gt;") {
			t.Errorf("%s: the text is not shown: %s", path, text)
		}
	}
}

// A person without the right has no button and no link, and a person of one tenant sees nothing of
// the service.
func TestServicePagesShowWhatOneMay(t *testing.T) {
	for _, c := range []struct {
		tenant, role, path string
		has, lacks         []string
	}{
		{"*", "operator", "/queue", []string{"/queue/workers/w1/cordon", "/queue/workers/w2/uncordon", "/queue/workers/w1/drain", "100 %", "1200.0", `<path class="c-bad"`, "Oldest overdue", "Worker time of the last 24 hours", "1.5 min of 2.0 h", "11:00 UTC: 1.5 min of worker time", "3 further tenants"}, []string{`href="/tokens"`}},
		{"*", "viewer", "/queue", []string{"<td>w1 <small>", `href="/audit?object=w1"`}, []string{"cordon\"", "drain\""}},
		{"acme", "operator", "/queue", []string{"Your runs", "7, 2 other tenants first"}, []string{"w1", "Share of all", "Fair share", "Worker time", "further tenant"}},
		{"*", "operator", "/notifications", []string{"/notifications/n1/retry"}, []string{"/notifications/n2/retry"}},
		{"*", "viewer", "/notifications", []string{"dead-lettered", `href="/audit?object=n1"`}, []string{"/retry"}},
		{"*", "admin", "/tokens", []string{`href="/tokens"`, "/tokens/t2/revoke", "this session", `href="/audit?object=t2"`}, []string{"/tokens/t1/revoke", "/tokens/t3/revoke"}},
		{"acme", "viewer", "/settings", []string{"<dd>acme</dd>"}, []string{"<dt>Queue</dt>"}},
		{"*", "admin", "/settings", []string{"Settings of this server", "<code>notify</code>", "<td>file <small>"}, []string{"cannot be shown"}},
		{"*", "operator", "/settings", []string{"<dt>Queue</dt>"}, []string{"Settings of this server", "cannot be shown"}},
		{"acme", "admin", "/settings", []string{"<dd>acme</dd>"}, []string{"Settings of this server", "cannot be shown"}},
		{"*", "viewer", "/audit", []string{"<del>active</del>"}, nil},
	} {
		_, web, browser := service(t, c.tenant, c.role)
		_, text := get(t, browser, web.URL+c.path)
		for _, part := range c.has {
			if !strings.Contains(text, part) {
				t.Errorf("%s of %s: no %s: %s", c.path, c.role, part, text)
			}
		}
		for _, part := range c.lacks {
			if strings.Contains(text, part) {
				t.Errorf("%s of %s %s has %s", c.path, c.tenant, c.role, part)
			}
		}
	}
}

// A refusal of the API is shown, and a panel that fails leaves the rest.
func TestServicePagesFailInPart(t *testing.T) {
	_, web, browser := service(t, "*", "viewer", "/v1/workers", "/v1/queue", "/v1/shares", "/v1/shares/history", "/v1/channels", "/v1/tokens", "/v1/definitions")
	if resp, text := get(t, browser, web.URL+"/tokens"); resp.StatusCode != http.StatusForbidden || !strings.Contains(text, "refused /v1/tokens") {
		t.Errorf("%d: %s", resp.StatusCode, text)
	}
	for path, parts := range map[string][]string{
		"/queue":         {"Workers cannot be shown", "Shares cannot be shown", "Worker time cannot be shown", "The queue cannot be shown", `href="/runs/r1"`},
		"/notifications": {"Channels cannot be shown", `href="/runs/r1"`},
		"/settings":      {"cannot be shown", "<dd>ann</dd>"},
	} {
		_, text := get(t, browser, web.URL+path)
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s: no %s: %s", path, part, text)
			}
		}
	}
}

func TestServiceActions(t *testing.T) {
	f, web, browser := service(t, "*", "admin")
	for path, asked := range map[string]string{
		"/queue/workers/w1/cordon": "POST /v1/workers/w1/cordon", "/queue/workers/w1/drain": "POST /v1/workers/w1/drain", "/queue/workers/w2/uncordon": "POST /v1/workers/w2/uncordon",
		"/notifications/n1/retry": "POST /v1/notifications/n1/retry", "/tokens/t2/revoke": "DELETE /v1/tokens/t2", "/queue/workers/w1/explode": "",
	} {
		resp, err := browser.PostForm(web.URL+path, asAnn("*", url.Values{"reason": {"kernel"}}))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		f.mu.Lock()
		done := slices.Contains(f.asked, asked)
		f.mu.Unlock()
		if asked == "" && resp.StatusCode != http.StatusNotFound || asked != "" && !done {
			t.Errorf("%s: %d, asked %v", path, resp.StatusCode, f.asked)
		}
	}
}

func TestAuditFilter(t *testing.T) {
	_, web, browser := service(t, "*", "viewer")
	if resp, text := get(t, browser, web.URL+"/audit?since=yesterday"); resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(text, "is not a time") || !strings.Contains(text, `value="yesterday"`) {
		t.Errorf("%d: %s", resp.StatusCode, text)
	}
	_, text := get(t, browser, web.URL+"/audit?since=2026-11-01T00:00&who=ann")
	has(t, "the audit log", text, `href="/audit/export?format=csv&amp;since=2026-11-01T00%3A00"`, "Download all entries of this time")
	if got := nextPage(url.Values{"who": {"a&b"}, "cursor": {"x"}}, "y"); got != "?cursor=y&who=a%26b" {
		t.Error(got)
	}
}

// The whole log of a time is a download. A format or time that is none is refused, and an export
// that breaks off is no whole file.
func TestAuditExport(t *testing.T) {
	const line = "2026-11-26,ann,run.cancel\n"
	var asked url.Values
	breaks := false
	f := newFake()
	web, browser := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/export/audit" {
			f.ServeHTTP(w, r)
			return
		}
		asked = r.URL.Query()
		_, _ = w.Write([]byte(line))
		if breaks {
			panic(http.ErrAbortHandler)
		}
	}))
	logIn(t, web, browser, "good", "/")
	resp, text := get(t, browser, web.URL+"/audit/export?format=csv&since=2026-11-01T00:00")
	if h := resp.Header; text != line || h.Get("Content-Type") != "text/csv; charset=utf-8" || h.Get("Content-Disposition") != `attachment; filename="audit.csv"` || asked.Get("since") != "2026-11-01T00:00:00Z" || asked.Get("format") != "csv" {
		t.Errorf("%q, %v, asked for %v", text, h, asked)
	}
	for _, query := range []string{"format=xls", "format=csv&until=today", ""} {
		if resp, text := get(t, browser, web.URL+"/audit/export?"+query); resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(text, "expected") {
			t.Errorf("%s: %d: %s", query, resp.StatusCode, text)
		}
	}
	breaks = true
	resp, err := browser.Get(web.URL + "/audit/export?format=csv")
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	if err == nil {
		t.Error("an export that breaks off looks like a whole one")
	}
}

func TestChangesOf(t *testing.T) {
	for _, c := range []struct{ before, after, want string }{
		{"", "", "[]"},
		{`{"a":1,"b":"x"}`, `{"a":1,"b":"y","c":[2]}`, "[{b x y} {c  2}]"},
		{`{"a":1}`, "null", "[{a 1 }]"},
		{"", `{"a":"x"}`, "[{a  x}]"},
		{`[1]`, `[2]`, "[{ 1 2}]"},
		{"", `{"word":{"ticket":"CHG7","at":{"zone":"UTC"}},"roles":["admin","viewer"],"none":[],"no":null,"big":9007199254740993}`, "[{big  9007199254740993} {roles  admin, viewer} {word.at.zone  UTC} {word.ticket  CHG7}]"},
		{`[{"host":"a","pending":["x"]}]`, `[]`, "[{1.host a } {1.pending x }]"},
		{`{"a":{"b":1}}`, `{"a":2}`, "[{a  2} {a.b 1 }]"},
		{"", `{"a":[[[[[[[[1]]]]]]]]}`, "[{a.1.1.1.1.1  [[[1]]]}]"},
		{"", "no JSON", "[{  no JSON}]"},
		{`[1]`, `[1]`, "[]"},
		{`{"a":"` + strings.Repeat("ä", maxValue) + `"}`, `{}`, "[{a " + strings.Repeat("ä", maxValue/2) + "… }]"},
	} {
		if got := fmt.Sprint(changesOf(json.RawMessage(c.before), json.RawMessage(c.after))); got != c.want {
			t.Errorf("%.40s → %.40s: %.80s, expected %.80s", c.before, c.after, got, c.want)
		}
	}
}

// A change of very many fields stays a page that can be read.
func TestChangesAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 2 * maxFields {
		fmt.Fprintf(&b, ",%q:%d", fmt.Sprint("f", i), i)
	}
	got := changesOf(nil, json.RawMessage("{"+b.String()[1:]+"}"))
	if len(got) != maxFields+1 || got[maxFields].After != "200 further fields" {
		t.Errorf("%d: %v", len(got), got[len(got)-1])
	}
}

func TestQueueLoad(t *testing.T) {
	var view queueView
	view.load([]api.Run{
		{ID: "1", Tenant: "a", Live: &api.Live{InFlight: 3, Pending: 5}},
		{ID: "2", Tenant: "b", Live: &api.Live{InFlight: 1, Suspended: 10, Deferred: 10}},
		{ID: "3", Tenant: "a"},
	})
	if view.Runs[0].ID != "2" || view.Unknown != 1 {
		t.Errorf("%s is first; %d unknown", view.Runs[0].ID, view.Unknown)
	}
	view.share([]api.Share{{Tenant: "late", Oldest: 9}, {Tenant: "later", Oldest: 99}, {Tenant: "short", Running: 1, Due: 5, Fair: 3.0}, {Tenant: "waits", Waiting: 3}, {Tenant: "idle"}})
	got := ""
	for _, s := range view.Shares {
		got += s.Tenant + " "
	}
	if want := "short later late waits idle "; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
}
