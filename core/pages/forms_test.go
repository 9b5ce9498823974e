package pages

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/api"
)

// A form that was made for another person than the one who is logged in does nothing, whichever it
// is, and leads to its page. So does one that no page made. Control: the person's own form asks the
// API.
func TestAFormIsOfThePersonForWhomItWasMade(t *testing.T) {
	o := &operations{tenant: "globex", roles: []string{"admin"}, answers: map[string]any{}}
	v := visits(t, o)
	own, other := who{Name: "ann", Tenant: "globex"}.Mark(), who{Name: "bob", Tenant: "globex"}.Mark()
	posts := 0
	for _, r := range routes(t) {
		if r[0] != http.MethodPost || r[1] == "/login" { // which makes a person of nobody
			continue
		}
		posts++
		path := pathOf(r[1])
		for says, marks := range map[string][]string{"made for another person, and this browser is now logged in as ann of globex": {other}, "does not name the person": {}, "": {own}} {
			before := o.count()
			status, at, text := v.post(path, url.Values{"as": marks, "reason": {"x"}})
			if says == "" {
				if o.count() == before && at != "/login" {
					t.Errorf("control: POST %s of the person asks the API nothing: %d", path, status)
				}
				if path == "/logout" {
					logIn(t, v.web, v.browser, "good", "/settings")
				}
				continue
			}
			if status != http.StatusConflict || o.count() != before {
				t.Errorf("POST %s that %s: %d, asked %d times", path, says, status, o.count()-before)
			}
			has(t, path, text, says, `<a href="/">Load its page</a>`)
		}
	}
	if posts < 11 {
		t.Errorf("%d routes take forms: the pages have more", posts)
	}
	for from, to := range map[string]string{"/runs/r1?find=x": "/runs/r1?find=x", "/runs/r1/pause": "/", "/hooks/x": "/", "//e": "/"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, v.web.URL+"/runs/r1/pause", strings.NewReader("as="+other))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Referer", v.web.URL+from)
		resp, err := v.browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if text := string(body); err != nil || resp.StatusCode != http.StatusConflict || !strings.Contains(text, `<a href="`+to+`">Load its page</a>`) {
			t.Errorf("a form on %s: %d %v %s", from, resp.StatusCode, err, text)
		}
	}
}

// Each form has the mark of the person for whom its page was made, also on a page that changes
// while it is open.
func TestEachFormHasTheMarkOfItsPerson(t *testing.T) {
	form := regexp.MustCompile(`<form [^>]*method="post"[^>]*>(\{\{template "as"\}\})?`)
	sources, err := files.ReadDir("templates")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, source := range sources {
		text, err := files.ReadFile("templates/" + source.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range form.FindAllStringSubmatch(string(text), -1) {
			found++
			if m[1] == "" && source.Name() != "login.html" && source.Name() != "ended.html" { // of nobody; with the fields that came
				t.Errorf("%s: a form without a mark: %s", source.Name(), m[0])
			}
		}
	}
	if found < 21 {
		t.Errorf("%d forms: the pages have more", found)
	}
	f, web, browser := service(t, "*", "admin")
	field := `<input type="hidden" name="as" value="` + who{Name: "ann", Tenant: "*"}.Mark() + `">`
	check := func(what, text string) {
		t.Helper()
		if n := strings.Count(text, `method="post"`); n == 0 || strings.Count(text, field) != n || strings.Contains(text, unmarked) {
			t.Errorf("%s: %d forms, %d with the mark: %s", what, n, strings.Count(text, field), text)
		}
	}
	for _, path := range append([]string{"/runs/r1"}, servicePages...) {
		_, text := get(t, browser, web.URL+path)
		check(path, text)
	}
	close(f.next)
	_, stream := get(t, browser, web.URL+"/live?view=/runs/r1")
	check("the stream of a run", stream)
}

// A form that outlives its session is sent again as the person for whom it was made, and as nobody
// else.
func TestAFormThatIsKeptStaysWithItsPerson(t *testing.T) {
	o := &operations{tenant: "globex", roles: []string{"admin"}, answers: map[string]any{"POST /v1/runs/r1/pause": api.Run{ID: "r1"}}}
	web, browser := site(t, o)
	v := visitor{t, web, browser, o.tenant}
	mark := who{Name: "bob", Tenant: "globex"}.Mark()
	status, _, text := v.post("/runs/r1/pause", url.Values{"as": {mark}, "reason": {"deploy"}})
	if status != http.StatusUnauthorized || !strings.Contains(text, `name="as" value="`+mark+`"`) || strings.Contains(text, "<dd>"+mark) {
		t.Fatalf("%d %s", status, text)
	}
	logIn(t, web, browser, "good", "/settings")
	if status, _, _ := v.post("/runs/r1/pause", formIn(t, text, `/runs/r1/pause" method="post`)); status != http.StatusConflict || len(o.changes()) != 0 {
		t.Errorf("sent as another person: %d, %v", status, o.changes())
	}
}
