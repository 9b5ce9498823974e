package pages

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core/api"
)

// The calendar, windows, the project, a host and a schedule change while they are open. The state
// of a page is the same as long as nothing changed, so that its stream begins behind it.
func TestMorePagesChangeWhileTheyAreOpen(t *testing.T) {
	items := func(v any) map[string]any { return map[string]any{"items": v} }
	for _, path := range []string{"/calendar", "/windows", "/windows/night", "/project", "/hosts/web1", "/schedules/acme:night"} {
		t.Run(path, func(t *testing.T) {
			c := newChangingAPI()
			c.roles["ann"] = "approver"
			for _, o := range []*operations{windowAPI(t), calendarAPI(t)} {
				for operation, answer := range o.answers {
					c.set(operation, answer)
				}
			}
			c.set("GET /v1/definitions", api.Definitions{Revision: "abc", Applied: time.Unix(0, 0)})
			c.set("GET /v1/definitions/changes", api.DefinitionChanges{})
			c.set("GET /v1/hosts/web1", api.Host{Name: "web1", WindowSet: "night"})
			c.set("GET /v1/hosts/web1/history", items([]api.Job{}))
			c.set("GET /v1/hosts/web1/locks", items([]api.Lock{}))
			schedule := acmeSchedule()
			c.set("GET /v1/schedules/acme:night", schedule)
			web := liveSite(t, c)
			browser := *web.Client()
			browser.Jar, _ = cookiejar.New(nil)
			logIn(t, web, &browser, "ann", "/settings")
			seen := func() string {
				t.Helper()
				status, text := visitor{t, web, &browser, "acme"}.get(path)
				if status != http.StatusOK {
					t.Fatalf("%d: %s", status, text)
				}
				return between(t, text, `data-seen="`, `"`)
			}
			first := seen()
			if again := seen(); again != first {
				t.Error("nothing changed, and the state is another one")
			}
			s := streams(t, web, "ann", url.Values{"view": {path}, "seen": {first}}.Encode())
			s.want("0:same")
			schedule.Paused, schedule.PauseReason = true, "a colleague's storm"
			for operation, answer := range map[string]any{
				"GET /v1/calendar":             api.Calendar{},
				"GET /v1/windows":              items([]api.WindowSet{{Name: "other", Reason: "closed"}}),
				"GET /v1/schedules/acme:night": schedule,
				"GET /v1/windows/night":        api.WindowSet{Name: "night", Reason: "another reason", Timezone: "UTC"},
				"GET /v1/definitions":          api.Definitions{Revision: "def", Applied: time.Unix(0, 0)},
			} {
				c.set(operation, answer)
			}
			c.change()
			s.want("0:page", map[string]string{"/calendar": "There is no lane", "/windows": "other", "/windows/night": "another reason", "/project": "def", "/hosts/web1": "another reason", "/schedules/acme:night": "paused: a colleague"}[path])
		})
	}
}

// A page that depends on the clock is made again as time passes. Control: another page is not.
func TestPagesThatDependOnTheClock(t *testing.T) {
	for every, want := range map[time.Duration]int{0: 1, time.Minute: 5} {
		synctest.Test(t, func(t *testing.T) {
			p, err := New(Config{Version: "test", Log: slog.New(slog.DiscardHandler), API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				changes := api.Changes{At: "1", Topics: []api.Topic{}}
				if r.URL.Query().Get("since") == "" {
					changes.Topics = api.Topics()
				} else {
					select {
					case <-time.After(viewWait):
					case <-r.Context().Done():
					}
				}
				_ = json.NewEncoder(w).Encode(changes)
			})})
			if err != nil {
				t.Fatal(err)
			}
			made := 0
			rule := &livePage{template: "problem", every: every, read: func(context.Context, visit, url.Values) (any, error) {
				made++
				return time.Now().String(), nil
			}}
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute+time.Second+viewWait/2)
			defer stop()
			v := &view{rule: rule, states: map[string]int{}, news: make(chan struct{})}
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://turnus.test/", nil)
			if err := p.follow(ctx, v, visit{client: p.client(r, "ann")}); err == nil || made != want {
				t.Errorf("every %v: made %d times in 5 min, expected %d: %v", every, made, want, err)
			}
		})
	}
}
