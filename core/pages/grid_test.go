package pages

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// largeGrid is a run of 3000 hosts and 20 steps, of which some failed.
func largeGrid() api.Grid {
	var g api.Grid
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 20 {
		g.Steps = append(g.Steps, api.GridStep{Name: fmt.Sprintf("step %d of the playbook", i), Uses: "command"})
	}
	for i := range 3000 {
		h := api.GridHost{Index: i, Host: fmt.Sprintf("fw-%04d.customer%02d.example.net", i, i%40), Outcome: core.Changed, Group: "g0"}
		cells := bytes.Repeat([]byte("="), 20)
		for k := range cells {
			if r.IntN(3) == 0 {
				cells[k] = 'C'
			}
		}
		if i%100 == 7 {
			n := r.IntN(20)
			cells[n], h.Outcome, h.Group = 'F', core.Failed, fmt.Sprint("g", n)
			cells = cells[:n+1]
		}
		h.Cells = string(cells)
		g.Items = append(g.Items, h)
	}
	return g
}

// largeRun answers with largeGrid.
type largeRun struct {
	*fakeAPI
	grid []byte
}

func newLargeRun() *largeRun {
	text, _ := json.Marshal(largeGrid())
	return &largeRun{newFake(), text}
}

func (l *largeRun) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/runs/r1/grid" {
		_, _ = w.Write(l.grid)
		return
	}
	l.fakeAPI.ServeHTTP(w, r)
}

// The size of the page of 3000 hosts and 20 steps keeps to its bounds, compressed.
func TestSizeOfALargeRun(t *testing.T) {
	const most, mostScripts = 150_000, 40_000
	web, browser := site(t, newLargeRun())
	logIn(t, web, browser, "good", "/")
	total, script := 0, 0
	paths := []string{"/runs/r1", "/runs/r1/grid.json", "/assets/app.css", "/assets/idiomorph/idiomorph.min.js"}
	scripts, err := fs.Glob(files, "assets/*.js") // a page loads all of them
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	for _, name := range scripts {
		paths = append(paths, "/"+name)
	}
	for _, path := range paths {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+path, nil)
		req.Header.Set("Accept-Encoding", "gzip")
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Encoding") != "gzip" || resp.Header.Get("Content-Length") != "" && resp.Header.Get("Content-Length") != fmt.Sprint(len(body)) {
			t.Fatalf("%s: %d %v %v", path, resp.StatusCode, resp.Header, err)
		}
		plain, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, plain)
		if err != nil || n < int64(len(body)) {
			t.Errorf("%s: %d bytes of %d, %v", path, len(body), n, err)
		}
		t.Logf("%s: %d bytes compressed, %d plain", path, len(body), n)
		if total += len(body); strings.HasSuffix(path, ".js") {
			script += len(body)
		}
	}
	if total > most || script > mostScripts {
		t.Errorf("%d bytes, expected at most %d; of scripts %d, at most %d", total, most, script, mostScripts)
	}
}

// A part of a file, and a browser without gzip, get bytes as they are.
func TestWhatIsNotCompressed(t *testing.T) {
	web, browser := site(t, newFake())
	for _, header := range [][2]string{{"Accept-Encoding", "br"}, {"Range", "bytes=0-9"}} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/assets/app.css", nil)
		req.Header.Set("Accept-Encoding", "gzip")
		req.Header.Set(header[0], header[1])
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.Header.Get("Content-Encoding") != "" {
			t.Errorf("%v: %v", header, resp.Header)
		}
	}
}

func rowNames(v gridView) (names []string) {
	for _, r := range v.Rows {
		names = append(names, r.Host)
	}
	return names
}

// The filter of the address chooses rows; bad ones come first, those without an outcome next.
func TestGridOf(t *testing.T) {
	grid := func() api.Grid {
		return api.Grid{Steps: make([]api.GridStep, 3), Items: []api.GridHost{
			{Index: 0, Host: "a", Outcome: core.Changed, Cells: "C", Group: "g"}, {Index: 1, Host: "b"}, {Index: 2, Host: "AC", Outcome: core.Failed, Cells: "=F", Group: "h"},
			{Index: 3, Host: "d", Outcome: core.Unreachable, Cells: "N", Group: "h"},
		}}
	}
	for query, want := range map[string]string{
		"": "[AC d b a]", "show=bad": "[AC d]", "show=open": "[b]", "show=changed": "[a]", "show=lost": "[]", "find=A": "[AC a]", "group=h": "[AC d]", "group=h&find=d": "[d]",
		"from=3": "[a]", "from=99": "[]", "from=-1": "[AC d b a]", "from=x": "[AC d b a]",
	} {
		q, _ := url.ParseQuery(query)
		if got := fmt.Sprint(rowNames(gridOf(grid(), q))); got != want {
			t.Errorf("%s: %s, expected %s", query, got, want)
		}
	}
	if got := gridOf(grid(), nil).Rows[0].Cells; got != `<td class="c-F">F</td><td class="c-same">=</td><td class="c-F">F</td><td class="c-none">.</td>` {
		t.Error(got)
	}
	if got := cellsOf(&api.GridHost{Cells: "<\xff"}, 2); got != `<td class="c-none">.</td><td class="c-none">.</td><td class="c-none">.</td>` {
		t.Errorf("letters that are none: %s", got)
	}
	q, _ := url.ParseQuery("show=changed&find=fw")
	view := gridOf(largeGrid(), q)
	if len(view.Rows) != gridRows || view.Total != 2970 || view.Next != "?find=fw&from=100&show=changed#grid" {
		t.Errorf("%d rows of %d, then %s", len(view.Rows), view.Total, view.Next)
	}
}

// The newest letter of a cell counts. Steps of the same name, lost events and too many cells make
// the page read the grid again.
func TestChanges(t *testing.T) {
	steps := []api.GridStep{{Name: "a"}, {Name: "b"}, {Name: "b"}}
	event := func(kind, job, step string) api.Event { return api.Event{Event: kind, Job: job, Step: step} }
	for _, c := range []struct {
		name   string
		events []api.Event
		cells  string
		reread bool
	}{
		{"nothing", nil, "", false},
		{"of no host", []api.Event{event("run_released", "", "")}, "", false},
		{"a step", []api.Event{event("step_started", "r/7", "a"), {Event: "step_done", Job: "r/7", Detail: &api.StepResult{Name: "a", Outcome: core.Changed}}}, `[[7,0,"C"]]`, false},
		{"a host at work", []api.Event{event("job_started", "r/7", "")}, `[[7,-1,"R"]]`, false},
		{"one that waits", []api.Event{event("job_started", "r/7", ""), event("job_suspended", "r/7", "")}, `[[7,-1,"W"]]`, false},
		{"a result", []api.Event{{Event: "job_done", Job: "r/7", Result: &api.Result{Outcome: core.Lost}}}, `[[7,-1,"L"]]`, false},
		{"two steps of one name", []api.Event{event("step_started", "r/7", "b")}, "", false},
		{"the result of one of them", []api.Event{{Event: "step_done", Job: "r/7", Detail: &api.StepResult{Name: "b", Outcome: core.Changed}}}, "", true},
		{"lost events", []api.Event{event(api.EventsLost, "", "")}, "", true},
	} {
		said := newChanges(steps)
		for _, e := range c.events {
			said.note(e)
		}
		if cells, reread := said.take(); cells != c.cells || reread != c.reread || said.happened() != (len(c.events) > 0) || said.happened() {
			t.Errorf("%s: %s, again %v", c.name, cells, reread)
		}
	}
	said := newChanges(steps)
	for i := range changedCells + 1 {
		said.note(event("job_started", fmt.Sprint("r/", i), ""))
	}
	if cells, reread := said.take(); cells != "" || !reread {
		t.Errorf("%d bytes of cells, again %v", len(cells), reread)
	}
}

// The cost of a page of 3000 hosts and 20 steps beside the API's own work.
func BenchmarkLargeRun(b *testing.B) {
	p, err := New(Config{API: newLargeRun(), Version: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	cookie := httptest.NewRecorder()
	p.sessions.begin(cookie, session{Token: "good"})
	for name, path := range map[string]string{"page": "/runs/r1", "data": "/runs/r1/grid.json"} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				req := httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, nil)
				req.Header.Set("Accept-Encoding", "gzip")
				req.AddCookie(cookie.Result().Cookies()[0])
				w := httptest.NewRecorder()
				from := time.Now()
				p.ServeHTTP(w, req)
				took = append(took, time.Since(from))
				if w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		})
	}
}

// The page shows how many hosts the grid leaves out, also once its script has counted the others.
func TestTheGridSaysWhatItLeavesOut(t *testing.T) {
	for left, want := range map[int]string{0: "", 1: " 1 host more is not in the grid.", 30_000: " 30000 hosts more are not in the grid."} {
		l := newLargeRun()
		g := largeGrid()
		g.LeftOut = left
		l.grid, _ = json.Marshal(g)
		web, browser := site(t, l)
		logIn(t, web, browser, "good", "/")
		_, text := get(t, browser, web.URL+"/runs/r1")
		has(t, "the page", text, `<p id="count" data-left="`+want+`">3000 hosts, the worst first.`+want+" C changed")
	}
}
