//go:build linux && labs

package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/testparts"
)

// busyRun is a large run whose events a test sends.
type busyRun struct {
	*largeRun
	events chan api.Event
}

func (b *busyRun) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/runs/r1/events" {
		b.largeRun.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case e := <-b.events:
			text, _ := json.Marshal(e)
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Event, text)
		}
	}
}

// watch keeps what the stream of a page brought, how long its tasks took, what moved, and when the
// grid was in a frame. The stream is the page's own, without a worker.
const watch = `delete window.SharedWorker; window.seen = new Map(); window.got = {cells: [], state: []}; window.long = [];
new PerformanceObserver(l => window.long.push(...l.getEntries().map(e => e.duration))).observe({type: "longtask", buffered: true});
window.shifts = [];
new PerformanceObserver(l => window.shifts.push(...l.getEntries().map(e => e.value.toFixed(5) + ": " + e.sources.map(s => (s.node?.tagName ?? s.node?.data) + "#" + s.node?.id + " from " + s.previousRect.y + " to " + s.currentRect.y).join(", ")))).observe({type: "layout-shift", buffered: true});
window.frames = {};
const look = () => {
  if (document.querySelector(".cells tbody tr")) window.frames.rows ??= performance.now();
  if (document.querySelector(".cells.pooled")) window.frames.pooled ??= performance.now();
  else requestAnimationFrame(look);
};
requestAnimationFrame(look);
window.EventSource = class extends EventSource {
  constructor(url) {
    super(url);
    window.source = this;
    this.addEventListener("0:cells", (e) => {
      window.got.cells.push(performance.now());
      for (const [host, step, letter] of JSON.parse(e.data)) window.seen.set(host + "/" + step, letter);
    });
    this.addEventListener("0:page", (e) => { window.got.state.push(performance.now()); window.html = e.data; });
  }
};`

// openRun opens the page of a run in a Chromium, whose scripts are watched.
func openRun(t *testing.T, b *busyRun) context.Context {
	t.Helper()
	program := testparts.Need(t, "chromium", "chromium")
	p, err := New(Config{API: b, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), chromedp.ExecPath(program), chromedp.Headless, chromedp.DisableGPU, chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.Navigate(web.URL+"/login"), chromedp.SendKeys(chromedp.CSS("#token"), "good"), chromedp.Click(chromedp.CSS("main form button"))); err != nil {
		t.Fatal(err)
	}
	waitFor(ctx, t, `document.querySelector("nav.pages") !== null`)
	watchFrom(ctx, t, web.URL+"/runs/r1")
	waitFor(ctx, t, `document.querySelector(".cells.pooled") !== null && window.html !== undefined`)
	return ctx
}

// watchFrom opens a page whose scripts are watched.
func watchFrom(ctx context.Context, t *testing.T, address string) {
	t.Helper()
	if _, err := chromedp.Call(ctx, cdpage.AddScriptToEvaluateOnNewDocument, cdpage.AddScriptToEvaluateOnNewDocumentParams{Source: watch}); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		t.Fatal(err)
	}
}

func inPage[T any](ctx context.Context, t *testing.T, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// waitFor returns when an expression is true in the page, which may be another page by then.
func waitFor(ctx context.Context, t *testing.T, expression string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(2 * time.Minute); ; {
		if ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression)); err == nil && ok {
			return
		}
		select {
		case <-end:
			t.Fatalf("waited 2 min for %s", expression)
		case <-tick.C:
		}
	}
}

// 1,000 changes a second reach the page as a few messages: not one is lost, and what the table
// shows is the newest. Long tasks are printed, because they depend on the machine.
func TestLabManyChangesAreFewMessages(t *testing.T) {
	const changes, perTick = 8000, 10
	b := &busyRun{newLargeRun(), make(chan api.Event)}
	ctx := openRun(t, b)
	loading := inPage[[]float64](ctx, t, "window.long.splice(0)")
	grid := largeGrid()
	want := map[string]string{}
	tick := time.NewTicker(perTick * time.Second / 1000)
	defer tick.Stop()
	for i := range changes {
		if i%perTick == 0 {
			<-tick.C
		}
		host, step, outcome := i*7%3000, i*3%20, core.Outcomes()[i%8]
		e := api.Event{Event: "step_done", Job: fmt.Sprint("r1/", host), Detail: &api.StepResult{Name: grid.Steps[step].Name, Outcome: outcome}}
		if i%10 == 9 {
			step, e = -1, api.Event{Event: api.JobDone, Job: e.Job, Result: &api.Result{Outcome: outcome}}
		}
		want[fmt.Sprint(host, "/", step)] = string(outcome.Letter())
		b.events <- e
	}
	b.events <- api.Event{Event: "job_suspended", Job: "r1/2999"}
	want["2999/-1"] = "W"
	waitFor(ctx, t, `window.seen.get("2999/-1") === "W"`)
	seen := inPage[map[string]string](ctx, t, "Object.fromEntries(window.seen)")
	for at, letter := range want {
		if seen[at] != letter {
			t.Errorf("%s is %q, expected %q", at, seen[at], letter)
		}
	}
	delete(want, "2999/-1")
	if len(seen) != len(want)+1 {
		t.Errorf("%d cells changed, expected %d", len(seen), len(want)+1)
	}
	got := inPage[struct{ Cells, State []float64 }](ctx, t, `({Cells: window.got.cells, State: window.got.state})`)
	took := time.Duration(got.Cells[len(got.Cells)-1]-got.Cells[0]) * time.Millisecond
	if cells, state := int(took/cellsEvery)+2, int(took/stateEvery)+3; len(got.Cells) > cells || len(got.State) > state {
		t.Errorf("%d messages of cells, %d of the state in %v: expected at most %d and %d", len(got.Cells), len(got.State), took, cells, state)
	}
	wrong := inPage[[]string](ctx, t, `[...document.querySelectorAll(".cells tbody tr:not([aria-hidden]):not([hidden])")].filter(r => {
  const host = r.querySelector("a").getAttribute("href").split("/").pop(), letters = [...r.querySelectorAll("td")].map(c => c.textContent);
  return letters.some((l, i) => window.seen.has(host + "/" + (i - 1)) && window.seen.get(host + "/" + (i - 1)) !== l);
}).map(r => r.innerText)`)
	if len(wrong) > 0 {
		t.Errorf("rows show other letters:\n%s", strings.Join(wrong, "\n"))
	}
	long := inPage[[]float64](ctx, t, "window.long")
	t.Logf("%d changes in %v: %d messages of cells, %d of the state; tasks above 50 ms: %.0f, while it loads: %.0f", changes, took, len(got.Cells), len(got.State), long, loading)
}

// held counts what a page keeps in memory after a forced collection of garbage.
type held struct {
	nodes, listeners int64
	heap             float64
}

func holds(ctx context.Context, t *testing.T) held {
	t.Helper()
	for range 3 { // what one collection frees, another one finds
		if _, err := chromedp.Call(ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	dom, err := chromedp.Call(ctx, memory.GetDOMCounters, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	heap, err := chromedp.Call(ctx, runtime.GetHeapUsage, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	return held{dom.Nodes, dom.JsEventListeners, heap.UsedSize}
}

// grown reports what a page holds more than before; "" for nothing of note.
func (h held) grown(after held) string {
	const nodes, listeners, heap = 200, 20, 1 << 20
	if after.nodes-h.nodes > nodes || after.listeners-h.listeners > listeners || after.heap-h.heap > heap {
		return fmt.Sprintf("%+v, before %+v", after, h)
	}
	return ""
}

// A page that stays open holds after 5,000 updates what it held after 500. Negative: 5,000 elements
// that somebody keeps are noticed.
func TestLabMemoryOfAPageIsFlat(t *testing.T) {
	b := &busyRun{newLargeRun(), make(chan api.Event)}
	ctx := openRun(t, b)
	update := func(from, to int) {
		t.Helper()
		inPage[bool](ctx, t, fmt.Sprintf(`(async () => {
  const html = window.first ??= window.html, send = (name, data) => window.source.dispatchEvent(new MessageEvent(name, {data, lastEventId: "s"}));
  for (let i = %d; i < %d; i++) {
    if (i %% 2) send("0:page", html.replaceAll("2000", String(2000 + i)));
    else send("0:cells", JSON.stringify(Array.from({length: 125}, (_, k) => [(i + 13 * k) %% 3000, k %% 21 - 1, "C=SF"[(i + k) %% 4]])));
    if (i %% 20 === 0) await new Promise(requestAnimationFrame);
    window.got.cells.length = window.got.state.length = window.long.length = 0; // what the test keeps
    window.seen.clear();
  }
  return document.getElementById("run").innerText.includes(String(2000 + %d - 1));
})()`, from, to, to))
	}
	update(0, 500)
	before := holds(ctx, t)
	update(500, 5500)
	after := holds(ctx, t)
	if text := before.grown(after); text != "" {
		t.Errorf("after 5,000 updates: %s", text)
	}
	t.Logf("before %+v, after 5,000 updates %+v", before, after)
	inPage[bool](ctx, t, `(window.kept = Array.from({length: 5000}, () => document.createElement("p"))).length > 0`)
	if after.grown(holds(ctx, t)) == "" {
		t.Error("5,000 elements that are kept are not noticed")
	}
}
