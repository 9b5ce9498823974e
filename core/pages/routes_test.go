package pages

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// routes reads from the source which routes the pages register, with things that somebody else has
// in their paths.
func routes(t *testing.T) (all [][2]string) {
	t.Helper()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	registers := regexp.MustCompile(`mux\.HandleFunc\("(GET|POST) ([^"]+)"`)
	for _, name := range sources {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range registers.FindAllStringSubmatch(string(text), -1) {
			all = append(all, [2]string{m[1], m[2]})
		}
	}
	return all
}

// pathOf returns an address that a route's pattern matches.
func pathOf(pattern string) string {
	verbs := strings.NewReplacer("/runs/{run}/{verb}", "/runs/1/pause", "/queue/workers/{worker}/{verb}", "/queue/workers/1/cordon", "/audit/export", "/audit/export?format=csv", "/schedules/{schedule}/{verb}", "/schedules/1/pause", "/windows/{set}/{verb}", "/windows/1/approve")
	return regexp.MustCompile(`\{[^}]*\}`).ReplaceAllString(verbs.Replace(pattern), "1")
}

// Every route asks for a session, and shows nothing of what the API refuses to it: the page of a
// thing of another tenant is not found. Each request to the API has the token of the session, and
// the API's own test has what that token may see. Control: with the session each page asks the API.
func TestEveryPageIsWhatItsSessionMaySee(t *testing.T) {
	o := &operations{tenant: "globex", roles: []string{"admin"}, answers: map[string]any{}}
	web, browser := site(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer good" {
			t.Errorf("%s %s is asked with another token than that of the session", r.Method, r.URL.Path)
		}
		o.ServeHTTP(w, r)
	}))
	v := visitor{t, web, browser, o.tenant}
	open := map[string]bool{"/login": true, "/logout": true}
	all := routes(t)
	visit := func(method, path string) (status int, at string) {
		if method == http.MethodGet {
			resp, text := get(t, browser, web.URL+path)
			if strings.Contains(path, "/live") {
				return resp.StatusCode, text
			}
			return resp.StatusCode, resp.Request.URL.Path
		}
		status, at, _ = v.post(path, url.Values{"reason": {"x"}})
		return status, at
	}
	for _, in := range []bool{false, true} {
		if in {
			logIn(t, web, browser, "good", "/settings")
		}
		for _, r := range all {
			method, pattern := r[0], strings.ReplaceAll(r[1], "{$}", "")
			if open[pattern] {
				continue
			}
			path := pathOf(pattern)
			if pattern == "/live" {
				path += "?view=/runs/1"
			}
			before := o.count()
			status, at := visit(method, path)
			switch {
			case !in && o.count() != before:
				t.Errorf("%s %s asks the API without a session", method, path)
			case !in && at != "/login" && status != http.StatusUnauthorized && at != "event: login\ndata: 1\n\n":
				t.Errorf("%s %s without a session: %d at %s", method, path, status, at)
			case in && o.count() == before && pattern != "/hosts": // it leads to a host by its name
				t.Errorf("control: %s %s does not ask the API: %d at %s", method, path, status, at)
			case in && strings.Contains(pattern, "{") && status != http.StatusNotFound:
				t.Errorf("%s %s of another tenant: %d at %s", method, path, status, at)
			}
		}
	}
	if len(all) < 35 {
		t.Errorf("%d routes: the pages have more", len(all))
	}
}
