//go:build linux && labs

package pages

import (
	"testing"

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
