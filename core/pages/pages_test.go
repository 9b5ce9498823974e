package pages

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hostile is text of hosts, people and git that would do something if a page took it for markup.
const hostile = `</td><script>alert(1)</script><img src=x onerror=alert(1)>" onmouseover="alert(1)' {{.}} &amp;`

// fakeAPI answers as the server does, to the token "good", and notes what was asked.
type fakeAPI struct {
	mu     sync.Mutex
	asked  []string
	refuse bool // every token
	run    api.Run
	next   chan struct{} // closed or fed: an event of the run
	// output is the output of step 1 of job 1.
	output string
	diff   string // of the hosts that failed
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	f.asked = append(f.asked, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
	run, refuse := f.run, f.refuse
	f.mu.Unlock()
	answer := func(v any) {
		w.Header().Set("Content-Type", "application/problem+json")
		_ = json.NewEncoder(w).Encode(v)
	}
	if refuse || r.Header.Get("Authorization") != "Bearer good" {
		w.WriteHeader(http.StatusUnauthorized)
		answer(api.Problem{Title: "Unauthorized", Status: 401, Detail: "unknown token"})
		return
	}
	switch path := r.URL.Path; {
	case path == "/v1/whoami":
		answer(api.Whoami{Name: "ann", Tenant: "acme", Roles: []string{"operator"}})
	case path == "/v1/logout":
		answer(api.Token{})
	case path == "/v1/session": // the token is of one
		w.WriteHeader(http.StatusConflict)
		answer(api.Problem{Title: "Conflict", Status: 409})
	case path == "/v1/runs":
		answer(map[string]any{"items": []api.Run{run}})
	case path == "/v1/schedules":
		answer(map[string]any{"items": []api.Schedule{}})
	case path == "/v1/runs/r1/jobs":
		answer(map[string]any{"items": []api.Job{{Run: "r1", Host: "web1" + hostile, Outcome: core.Failed, Step: "s", Reason: hostile}}})
	case path == "/v1/runs/r1/grid":
		answer(api.Grid{Steps: []api.GridStep{{Name: hostile, Uses: "command"}}, Items: []api.GridHost{
			{Host: "web0", Outcome: core.Changed, Cells: "C", Group: "g1"}, {Index: 1, Host: "web1" + hostile, Outcome: core.Failed, Cells: "F", Group: "g2"}, {Index: 2, Host: "web2"},
		}})
	case path == "/v1/runs/r1/groups":
		answer(api.ResultGroups{Same: 2871, Differ: 9, LeftOut: 3, LeftOutHosts: 7, Items: []api.ResultGroup{
			{ID: "g2", Outcome: core.Failed, Step: hostile, Reason: hostile, Varied: true, Diff: f.diff, Total: 2, Hosts: []string{"web1" + hostile}}, {ID: "g1", Outcome: core.Changed, Total: 2871, Hosts: []string{"web0"}},
		}})
	case path == "/v1/runs/r1/steps":
		answer(api.StepCounts{Steps: []api.GridStep{{Name: hostile, Uses: "command"}}, Waves: []api.WaveCounts{{Wave: 1, Hosts: 3000, Done: 2001, Steps: []map[core.Outcome]int{{core.Failed: 1, core.Changed: 2000}}}}})
	case path == "/v1/runs/r1/waits":
		answer(map[string]any{"items": []api.Wait{{Reason: hostile, Total: 120, Hosts: []string{"web2"}}}})
	case path == "/v1/runs/r1/timeline":
		answer(api.Timeline{Run: "r1", Hosts: 3000, Windows: []api.TimelineSet{{Set: hostile}}})
	case path == "/v1/runs/r1/jobs/1":
		answer(api.Job{Run: "r1", Index: 1, Host: "web1" + hostile, Outcome: core.Failed, Step: "s", Reason: hostile, Steps: []api.StepResult{{Name: hostile, On: "lb1" + hostile, Outcome: core.Failed}, {Name: "s", Outcome: core.Failed, Reason: hostile}}})
	case path == "/v1/runs/r1/jobs/2":
		answer(api.Job{Run: "r1", Index: 2, Host: "web2", State: core.Leased})
	case path == "/v1/runs/r1/jobs/2/explain":
		answer(api.Explanation{State: core.Leased, Reason: hostile})
	case strings.HasSuffix(path, "/attempts"):
		answer(map[string]any{"items": []api.Attempt{}})
	case path == "/v1/runs/r1/jobs/2/outputs":
		answer(map[string]any{"items": []api.Output{}})
	case path == "/v1/runs/r1/jobs/2/events":
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range []api.Event{{Event: "step_started", Step: hostile}, {Event: "output", Stdout: "one\n" + hostile + "\n"}, {Event: api.JobDone, Result: &api.Result{Outcome: core.Changed}}} {
			text, _ := json.Marshal(e)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Event, text)
		}
	case path == "/v1/runs/r1/jobs/1/outputs":
		answer(map[string]any{"items": []api.Output{{Name: "0/stdout", Step: hostile, Size: 10}, {Name: "1/stdout", Step: "s", Size: int64(len(f.output))}}})
	case path == "/v1/runs/r1/jobs/1/outputs/1/stdout":
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(f.output))
	case path == "/v1/runs/r1/decisions":
		answer(map[string]any{"items": []api.Decision{{By: hostile, Reason: hostile}}})
	case path == "/v1/audit":
		answer(map[string]any{"items": []api.Entry{}})
	case path == "/v1/runs/r1/events":
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		for range f.next {
			fmt.Fprint(w, "event: job_done\ndata: {\"event\":\"job_done\",\"job\":\"r1/2\",\"result\":{\"outcome\":\"failed\"}}\n\n")
		}
		fmt.Fprintf(w, "event: run_done\ndata: {\"event\":\"run_done\"}\n\n")
	case strings.HasPrefix(path, "/v1/runs/r1"):
		answer(run)
	case path == "/v1/fleet":
		answer(map[string]any{"items": []api.FleetHost{
			{Name: "web1", Customer: "acme", Groups: []string{"all", "web"}, Outcome: core.Failed, Playbook: hostile, Run: "r1", Index: 1},
			{Name: "web2", Customer: "acme", Groups: []string{"all", "web"}},
			{Name: "x" + hostile, Customer: hostile, Groups: []string{hostile}, Outcome: core.Changed},
		}})
	case path == "/v1/hosts/web1":
		answer(api.Host{Name: "web1", Labels: map[string]string{"x": hostile}})
	case path == "/v1/hosts/web1/history":
		answer(map[string]any{"items": []api.Job{{Run: "r1", Playbook: hostile, Outcome: core.Changed}}})
	default:
		w.WriteHeader(http.StatusNotFound)
		answer(api.Problem{Title: "Not Found", Status: 404, Detail: "there is no " + path})
	}
}

// site serves the pages of f to a browser that keeps cookies.
func site(t *testing.T, f http.Handler) (*httptest.Server, *http.Client) {
	t.Helper()
	p, err := New(Config{API: f, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewTLSServer(p) // a Secure cookie needs https
	t.Cleanup(web.Close)
	browser := web.Client()
	browser.Jar, _ = cookiejar.New(nil) // no options, no error
	return web, browser
}

func newFake() *fakeAPI {
	return &fakeAPI{next: make(chan struct{}), output: hostile + "\n", diff: hostile, run: api.Run{
		ID: "r1", Playbook: hostile, Phase: api.Active, Reason: hostile, LaunchReason: hostile, LaunchedBy: hostile, Total: 3000,
		Outcomes: map[core.Outcome]int{core.Failed: 1, core.Changed: 2000}, Live: &api.Live{InFlight: 900, Wave: 1, Waves: 2},
		Sources: []api.RunSource{{Source: hostile, Generation: hostile}, {Source: "nb", Generation: "sha256:01", Hosts: 2, Good: time.Unix(0, 0).UTC()}}, Created: time.Unix(240, 0).UTC(),
	}}
}

func get(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

func logIn(t *testing.T, web *httptest.Server, browser *http.Client, token, next string) (*http.Response, string) {
	t.Helper()
	resp, err := browser.PostForm(web.URL+"/login", url.Values{"token": {token}, "next": {next}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return resp, string(text)
}

// Without a session each page leads to the login and back; a token that the API does not know
// starts none.
func TestLogin(t *testing.T) {
	web, browser := site(t, newFake())
	resp, text := get(t, browser, web.URL+"/runs/r1?outcome=failed")
	if resp.Request.URL.Path != "/login" || !strings.Contains(text, `value="/runs/r1?outcome=failed"`) {
		t.Fatalf("%s: %s", resp.Request.URL, text)
	}
	if resp, text := logIn(t, web, browser, "bad", "/"); resp.StatusCode != http.StatusUnauthorized || !strings.Contains(text, "does not know this token") {
		t.Errorf("%d: %s", resp.StatusCode, text)
	}
	if resp, _ := get(t, browser, web.URL+"/"); resp.Request.URL.Path != "/login" {
		t.Errorf("a wrong token made a session: %s", resp.Request.URL)
	}
	resp, text = logIn(t, web, browser, "good", "/runs/r1?outcome=failed")
	if !strings.Contains(text, "nb: 2 hosts, generation <code>sha256:01</code>, 4 min old at the launch") {
		t.Errorf("no source in %s", text)
	}
	if resp.Request.URL.RequestURI() != "/runs/r1?outcome=failed" || !strings.Contains(text, "ann of acme") {
		t.Errorf("%s: %s", resp.Request.URL, text)
	}
	set := resp.Request.Response.Header.Get("Set-Cookie")
	for _, part := range []string{"__Host-turnus=", "Path=/", "HttpOnly", "Secure", "SameSite=Lax"} {
		if !strings.Contains(set, part) {
			t.Errorf("the cookie lacks %s: %s", part, set)
		}
	}
	if strings.Contains(set, "good") || strings.Contains(text, "good") {
		t.Error("the token is in the clear")
	}
	if resp, err := browser.PostForm(web.URL+"/logout", asAnn("acme", nil)); err != nil {
		t.Fatal(err)
	} else {
		_ = resp.Body.Close()
	}
	if resp, _ := get(t, browser, web.URL+"/"); resp.Request.URL.Path != "/login" {
		t.Errorf("after the logout: %s", resp.Request.URL)
	}
}

func TestWhereALoginLeads(t *testing.T) {
	for next, want := range map[string]string{
		"/runs/r1?state=open": "/runs/r1?state=open", "/": "/", "": "/", "//evil.example.net": "/", "https://evil.example.net": "/",
		`/\evil.example.net`: "/", "/v1/tokens": "/", "javascript:alert(1)": "/", "/hosts/web1": "/hosts/web1",
	} {
		if got := within(next); got != want {
			t.Errorf("%q leads to %q, expected %q", next, got, want)
		}
	}
}

// Words of hosts, people and git are text on every page. Control: it is there, escaped.
func TestTextIsNoMarkup(t *testing.T) {
	f := newFake()
	web, browser := site(t, f)
	logIn(t, web, browser, "good", "/")
	for _, path := range []string{"/", "/runs/r1", "/runs/r1/hosts/1", "/hosts/web1", "/fleet", "/hosts/nosuch" + url.PathEscape(strings.ReplaceAll(hostile, "/", ""))} {
		resp, text := get(t, browser, web.URL+path)
		if strings.Contains(text, "<script>") || strings.Contains(text, "<img src=x") || strings.Contains(text, `" onmouseover`) {
			t.Errorf("%s holds markup of others: %s", path, text)
		}
		if !strings.Contains(text, "&lt;script&gt;") {
			t.Errorf("%s: the text is not shown: %s", path, text)
		}
		if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: %s", path, csp)
		}
		if strings.Contains(text, " style=") || strings.Contains(text, "onclick") {
			t.Errorf("%s has what the policy blocks", path)
		}
	}
}

// A button asks the API as the person; a form of another site asks nothing, and who may not act has
// no button.
func TestActions(t *testing.T) {
	f := newFake()
	web, browser := site(t, f)
	_, text := logIn(t, web, browser, "good", "/runs/r1")
	if !strings.Contains(text, "/runs/r1/pause") || strings.Contains(text, "/runs/r1/approve") {
		t.Errorf("the buttons of an operator: %s", text)
	}
	post := func(origin string) int {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/runs/r1/pause", strings.NewReader(asAnn("acme", url.Values{"reason": {"deploy"}}).Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", origin)
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode
	}
	if code := post("https://evil.example.net"); code != http.StatusForbidden {
		t.Errorf("a form of another site: %d", code)
	}
	paused := func() (n int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, a := range f.asked {
			if strings.HasPrefix(a, "POST /v1/runs/r1/pause") && strings.Contains(a, "deploy") {
				n++
			}
		}
		return n
	}
	if paused() != 0 {
		t.Error("a form of another site paused the run")
	}
	if code := post(web.URL); code != http.StatusOK || paused() != 1 {
		t.Errorf("the page's own form: %d, paused %d times", code, paused())
	}
}

// A host that ends lines with CR, as progress bars do, neither breaks nor forges the events of a
// live page. Its text stays in the data of one event, as a browser reads the stream.
func TestHostsForgeNoEvents(t *testing.T) {
	f := newFake()
	f.diff = "10%\r20%\r\revent: forged\rdata: x\r\n\r\nevent: forged\n\nevent: forged"
	web, browser := site(t, f)
	logIn(t, web, browser, "good", "/")
	close(f.next)
	_, stream := get(t, browser, web.URL+"/live?view=/runs/r1")
	var events []string
	for line := range strings.SplitSeq(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(stream), "\n") {
		name, is := strings.CutPrefix(line, "event: ")
		if is {
			events = append(events, name)
		}
		if !is && line != "" && !strings.HasPrefix(line, "data: ") && !strings.HasPrefix(line, "id: ") {
			t.Fatalf("a line outside of the data: %q", line)
		}
	}
	if want := []string{"0:cells", "0:page", "0:done"}; !slices.Equal(slices.Compact(events), want) || !strings.Contains(stream, "data: event: forged") {
		t.Errorf("events %q, expected %q, of\n%s", events, want, stream)
	}
}

// An open page gets the state at first, again after an event, and is notified when the run ends.
func TestLive(t *testing.T) {
	f := newFake()
	web, browser := site(t, f)
	logIn(t, web, browser, "good", "/")
	resp, err := browser.Get(web.URL + "/live?view=/runs/r1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	read := func(until string) {
		t.Helper()
		var got strings.Builder
		b := make([]byte, 1)
		for !strings.HasSuffix(got.String(), until) {
			if _, err := resp.Body.Read(b); err != nil {
				t.Fatalf("no %q: %v, after %.200s", until, err, got.String())
			}
			got.Write(b)
		}
	}
	read("event: 0:page\n")
	read("2000 changed")
	f.mu.Lock()
	f.run.Outcomes = map[core.Outcome]int{core.Changed: 2999}
	f.mu.Unlock()
	f.next <- struct{}{}
	read("event: 0:cells\ndata: [[2,-1,\"F\"]]\n")
	read("2999 changed")
	close(f.next)
	read("event: 0:done\n")
}
