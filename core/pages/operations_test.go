package pages

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/turnus/turnus/core/api"
)

// operation is a request that a page made, and its key.
type operation struct {
	method, path, key, match string
	body                     map[string]any
}

// items is a list as the API answers it.
func items(v any) map[string]any { return map[string]any{"items": v} }

// runTag is the ETag of all answers of operations.
const runTag = `"7"`

// operations gives the answers that a test sets, by method and path, to the token "good" of a
// person with roles, and notes what was asked. Other paths are not found, as those of other
// tenants.
type operations struct {
	roles  []string
	tenant string

	mu      sync.Mutex
	answers map[string]any // "GET /v1/schedules": a value, or an api.Problem, or a function that returns one
	asked   []operation
}

func (o *operations) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/session" { // the token is of one
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(api.Problem{Status: http.StatusConflict})
		return
	}
	asked := operation{method: r.Method, path: r.URL.EscapedPath(), key: r.Header.Get("Idempotency-Key"), match: r.Header.Get("If-Match")}
	text, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(text, &asked.body) // requests without a body have none
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, asked)
	answer, ok := o.answers[r.Method+" "+r.URL.Path]
	if next, changes := answer.(func() any); changes {
		answer = next()
	}
	if r.URL.Path == "/v1/whoami" {
		answer, ok = api.Whoami{Name: "ann", Tenant: o.tenant, Roles: o.roles}, true
	}
	if !ok {
		answer = api.Problem{Status: http.StatusNotFound, Detail: "there is no " + r.URL.Path}
	}
	w.Header().Set("ETag", runTag)
	w.Header().Set("Content-Type", "application/problem+json")
	if p, refused := answer.(api.Problem); refused {
		w.WriteHeader(p.Status)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// set replaces an answer.
func (o *operations) set(operation string, answer any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answers[operation] = answer
}

// count is how often the API was asked.
func (o *operations) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.asked)
}

// changes are the requests that were no GET, the last one last.
func (o *operations) changes() (all []operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.asked {
		if a.method != http.MethodGet {
			all = append(all, a)
		}
	}
	return all
}

// visitor is a browser of ann, who is logged in.
type visitor struct {
	t       *testing.T
	web     *httptest.Server
	browser *http.Client
	tenant  string
}

// asAnn is a form as a page makes it for ann of a tenant, unless it names another person.
func asAnn(tenant string, form url.Values) url.Values {
	form = maps.Clone(form)
	if form == nil {
		form = url.Values{}
	}
	if !form.Has(fieldAs) {
		form.Set(fieldAs, who{Name: "ann", Tenant: tenant}.Mark())
	}
	return form
}

func visits(t *testing.T, o *operations) visitor {
	t.Helper()
	web, browser := site(t, o)
	logIn(t, web, browser, "good", "/schedules")
	return visitor{t, web, browser, o.tenant}
}

func (v visitor) get(path string) (int, string) {
	v.t.Helper()
	resp, text := get(v.t, v.browser, v.web.URL+path)
	return resp.StatusCode, text
}

// post sends a form, and returns the page that it leads to. The form is ann's of v.tenant, unless
// it names another person.
func (v visitor) post(path string, form url.Values) (status int, at, text string) {
	v.t.Helper()
	resp, err := v.browser.PostForm(v.web.URL+path, asAnn(v.tenant, form))
	if err != nil {
		v.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return resp.StatusCode, resp.Request.URL.RequestURI(), string(body)
}

// has fails unless the page has all parts.
func has(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q: %s", what, part, text)
		}
	}
}

// lacks fails if the page has one of the parts.
func lacks(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("%s has %q: %s", what, part, text)
		}
	}
}

// harmless fails where text of others is markup on a page, or is not on it at all.
func harmless(t *testing.T, what, text string) {
	t.Helper()
	has(t, what, text, "&lt;script&gt;")
	lacks(t, what, text, "<script>", "<img", `" onmouseover`, " style=", " onclick")
}
