//go:build linux && labs

package pages

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// changesOfTheMap puts updates on the map, as each second brings one: other outcomes of all hosts
// of three blocks, which are a group. It returns the longest tasks.
const changesOfTheMap = `(async (updates) => {
  const long = [];
  new PerformanceObserver((l) => long.push(...l.getEntries().map((e) => Math.round(e.duration)))).observe({type: "longtask"});
  const blocks = [...document.querySelectorAll("[id^=block-]")].map((b) => b.outerHTML);
  const legend = document.getElementById("legend").outerHTML;
  const failed = () => document.querySelectorAll("[id^=block-] .m-failed").length;
  let before = failed();
  for (let i = 0; i < updates; i++) {
    const outcome = Math.floor(3 * i / blocks.length) % 2 ? "m-changed" : "m-failed";
    const some = [0, 1, 2].map((k) => blocks[(3 * i + k) % blocks.length].replace(/m-(changed|failed)/g, outcome));
    const now = legend.replace(/\d+ changed/, (2000 + i) + " changed");
    window.source.dispatchEvent(new MessageEvent("0:parts", {data: [...some, now].map((part) => part + "<!--part-->").join(""), lastEventId: "s"}));
    while (!document.getElementById("legend").textContent.includes((2000 + i) + " changed")) await new Promise((done) => setTimeout(done));
    if (Math.abs(failed() - before) !== 500) throw new Error("update " + i + " changed " + (failed() - before) + " squares");
    before = failed();
  }
  return long;
})(UPDATES)`

// openFleet opens the map of 3000 hosts in a Chromium, whose scripts are watched.
func openFleet(t *testing.T) context.Context {
	t.Helper()
	hosts := make([]api.FleetHost, 3000)
	for i := range hosts {
		hosts[i] = api.FleetHost{Name: fmt.Sprintf("fw-%04d", i), Customer: "acme", Groups: []string{"all", fmt.Sprint("group", i%6)}, Outcome: core.Changed, Ended: time.Now(), Run: "r1", Playbook: "patch"}
	}
	c := newChangingAPI()
	c.set("GET /v1/fleet", map[string]any{"items": hosts})
	p, err := New(Config{API: c, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	ctx := tabs(t, web.URL, "ann", "/fleet")[0]
	watchFrom(ctx, t, web.URL+"/fleet")
	waitFor(ctx, t, `window.source !== undefined && document.querySelectorAll("[id^=block-]").length > 10`)
	return ctx
}

// addedToTheMap sends a block, and returns how many nodes came onto the page until it shows it.
const addedToTheMap = `(async (html) => {
	const block = () => document.querySelector("[id^=block-]");
	const as = document.createElement("template");
	as.innerHTML = html(block().outerHTML);
	let added = 0;
	const count = (node) => 1 + [...node.childNodes].reduce((sum, child) => sum + count(child), 0);
	const watcher = new MutationObserver((all) => all.forEach((one) => one.addedNodes.forEach((node) => { added += count(node); })));
	watcher.observe(document.querySelector("main"), { subtree: true, childList: true });
	window.source.dispatchEvent(new MessageEvent("0:parts", { data: as.innerHTML + "<!--part-->", lastEventId: "s" }));
	while (block().outerHTML !== as.innerHTML) await new Promise((done) => setTimeout(done));
	watcher.disconnect();
	return added;
})`

// An update of the map puts only squares that changed onto the page, and the label of the block.
// Control: a block with a square less is another picture.
func TestLabAnUpdateOfTheMapIsItsSquares(t *testing.T) {
	ctx := openFleet(t)
	if added := inPage[int](ctx, t, addedToTheMap+`((html) => html.replace("m-changed", "m-failed").replace(/aria-label="[^"]*"/, 'aria-label="1 failed"'))`); added == 0 || added > 10 {
		t.Errorf("one square is another one, and %d nodes came onto the page", added)
	}
	if added := inPage[int](ctx, t, addedToTheMap+`((html) => html.replace(/<a [^]*?<\/a>/, ""))`); added < 1000 {
		t.Errorf("a block with a square less: %d nodes came onto the page", added)
	}
}

// The map of 3000 hosts holds after 360 updates what it held after 60. Tasks above 50 ms are
// printed, because they depend on the machine. Control: see TestLabMemoryOfAPageIsFlat.
func TestLabMemoryOfTheFleetIsFlat(t *testing.T) {
	ctx := openFleet(t)
	inPage[[]float64](ctx, t, strings.Replace(changesOfTheMap, "UPDATES", "60", 1))
	before := holds(ctx, t)
	long := inPage[[]float64](ctx, t, strings.Replace(changesOfTheMap, "UPDATES", "300", 1))
	after := holds(ctx, t)
	if text := before.grown(after); text != "" {
		t.Errorf("after 360 updates: %s", text)
	}
	t.Logf("before %+v, after 360 updates %+v, tasks above 50 ms: %.0f", before, after, long)
}
