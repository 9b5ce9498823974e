//go:build linux && labs

package pages

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// reloading reads the grid again, and changes a cell while the answer is under way. It returns
// whether the change stayed, and whether a second load waited for the first.
const reloading = `(async () => {
	const { Grid } = await import("/assets/grid.js");
	const grid = new Grid(document.getElementById("cells"));
	await grid.load();
	const want = grid.cells[1][3] === "F" ? "C" : "F";
	const real = window.fetch;
	let open, asked = 0;
	const opened = new Promise((done) => open = done);
	window.fetch = async (...what) => { const got = await real(...what); asked++; await opened; return got; };
	const first = grid.load();
	const second = grid.load();
	while (asked === 0) await new Promise((done) => setTimeout(done, 5));
	grid.change([[1, 3, want]]);
	const one = asked === 1;
	open();
	await first;
	const stayed = grid.cells[1][3] === want;
	await second;
	window.fetch = real;
	return [stayed, one && asked === 2];
})()`

// A change that comes while the grid is read again stays. Red without the list of what came
// meanwhile.
func TestLabChangesDuringAReloadStay(t *testing.T) {
	ctx := openRun(t, &busyRun{newLargeRun(), make(chan api.Event)})
	if got := inPage[[]bool](ctx, t, reloading); len(got) != 2 || !got[0] || !got[1] {
		t.Errorf("the change stayed, and two loads were one after the other: %v", got)
	}
}

// failing has the first three reads of a grid fail, while a cell changes. Pauses are cut short.
const failing = `(async () => {
	const { Grid } = await import("/assets/grid.js");
	document.getElementById("count").dataset.left = " 7 hosts more are not in the grid.";
	const grid = window.grid = new Grid(document.getElementById("cells"));
	const later = window.setTimeout;
	window.real = window.fetch;
	window.pauses = [];
	window.pending = [];
	window.fetch = async (...what) => {
		pauses.push(grid.pause);
		if (pauses.length > 3) return real(...what);
		grid.change([[1, 3, "F"]]);
		pending.push(grid.pending.length);
		if (pauses.length === 2) return new Response("", { status: 503 });
		throw new TypeError("cut");
	};
	window.setTimeout = (f, after, ...rest) => later(f, Math.min(after ?? 0, 1), ...rest);
	await grid.load();
	return true;
})()`

// A grid that cannot be read is read again, with pauses that grow, and keeps no changes meanwhile.
// The count shows what the grid leaves out. A grid that the server refuses is not asked for again.
func TestLabAFailedReadOfTheGridIsRepeated(t *testing.T) {
	ctx := openRun(t, &busyRun{newLargeRun(), make(chan api.Event)})
	inPage[bool](ctx, t, failing)
	waitFor(ctx, t, `window.grid.before?.isConnected === true`)
	if got := inPage[[]int](ctx, t, "[...window.pauses, ...window.pending]"); !slices.Equal(got, []int{5000, 10000, 20000, 40000, 1, 1, 1}) {
		t.Errorf("pauses and pending changes: %v", got)
	}
	if got := inPage[string](ctx, t, `document.getElementById("count").textContent`); !strings.Contains(got, "3000 of 3000 hosts, the worst first. 7 hosts more are not in the grid. C changed") {
		t.Errorf("the count is %q", got)
	}
	if again := inPage[bool](ctx, t, `(async () => { window.fetch = async () => new Response("", { status: 404 }); await grid.load(); return grid.again !== undefined; })()`); again {
		t.Error("a grid that the server refuses is asked for again")
	}
}

// The rows that stand for those that are not in the page take no paper. Control: on a screen they
// have their height.
func TestLabAPrintedGridHasNoBlankPages(t *testing.T) {
	ctx := openRun(t, &busyRun{newLargeRun(), make(chan api.Event)})
	const height = `document.querySelector(".cells table").offsetHeight`
	if got := inPage[int](ctx, t, height); got < 3000*24 {
		t.Errorf("on a screen the table has %d px", got)
	}
	inPage[bool](ctx, t, `[...document.styleSheets].flatMap((s) => [...s.cssRules]).filter((r) => r.media?.mediaText === "print").map((r) => r.media.mediaText = "all").length > 0`)
	if got := inPage[int](ctx, t, height); got == 0 || got > 70*24 {
		t.Errorf("printed, the table has %d px", got)
	}
}

// The timeline in words is the newest when somebody opens it, and stays open.
func TestLabTheTimelineInWordsIsNew(t *testing.T) {
	ctx := openRun(t, &busyRun{newLargeRun(), make(chan api.Event)})
	inPage[bool](ctx, t, `(() => {
	const words = document.getElementById("words");
	words.lastElementChild.textContent = "old";
	words.open = true;
	return true;
})()`)
	waitFor(ctx, t, `document.getElementById("words").open && document.querySelector("#words p")?.textContent.includes("of 3000 hosts done") && document.querySelector("#words th[scope=row]").textContent.includes("<script>")`)
}

// Nothing of the page of a run moves while it loads, nor when its script takes over the grid and
// cells change. When the grid is painted is printed, because it depends on the machine. Control: a
// line above the page moves it.
func TestLabNothingMovesWhileTheGridLoads(t *testing.T) {
	b := &busyRun{newLargeRun(), make(chan api.Event)}
	ctx := openRun(t, b)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 6000)); err != nil { // only what can be seen moves
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.Reload()); err != nil {
		t.Fatal(err)
	}
	waitFor(ctx, t, `document.querySelector(".cells.pooled") !== null && window.html !== undefined`)
	b.events <- api.Event{Event: "step_done", Job: "r1/7", Detail: &api.StepResult{Name: largeGrid().Steps[0].Name, Outcome: core.Failed}}
	waitFor(ctx, t, `window.seen.get("7/0") === "F"`)
	const painted = `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(window.shifts)))))`
	if moved := inPage[[]string](ctx, t, painted); len(moved) > 0 {
		t.Errorf("it moved:\n%s", strings.Join(moved, "\n"))
	}
	at := inPage[[]float64](ctx, t, `[performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1, window.frames.rows, window.frames.pooled]`)
	t.Logf("first paint after %.0f ms, the rows of the server after %.0f ms, those of the script after %.0f ms", at[0], at[1], at[2])
	inPage[bool](ctx, t, `(() => {
	const line = document.createElement("p");
	line.style.height = "100px";
	document.querySelector("main").prepend(line);
	return true;
})()`)
	if moved := inPage[[]string](ctx, t, painted); len(moved) == 0 {
		t.Error("a line above the page is not noticed")
	}
}
