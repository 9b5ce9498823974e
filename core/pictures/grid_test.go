package pictures

import (
	"fmt"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// The grid has the worst host first, a letter a step in its column, and texts escaped.
func TestGridDocument(t *testing.T) {
	t.Parallel()
	document := GridDocument(&api.Grid{
		Steps: []api.GridStep{{Name: "copy"}, {Name: hostile}, {Name: "restart"}},
		Items: []api.GridHost{
			{Host: "good" + hostile, Outcome: core.Changed, Cells: "C=C"}, {Host: "waits"}, {Host: "broken", Outcome: core.Failed, Cells: "=F"}, {Host: "odd", Outcome: core.Changed, Cells: "C?<CCC"},
		},
		LeftOut: 7,
	}, "patch <script>, active")
	n := elements(t, document)
	if n["script"] != 0 || n["svg"] != 1 || n["title"] != 1+4 {
		t.Errorf("%v", n)
	}
	at := 0
	for _, part := range []string{
		"4 hosts, 3 steps: 1 failed, 2 changed, 1 without an outcome; 7 hosts not shown", ">restart</text>",
		"<title>broken: failed</title>", `<text x="229 247 265 283" y="213" font-size="11" text-anchor="middle">F=F.</text>`,
		"<title>waits: without an outcome</title>", ">....</text>", "<title>good", ">CC=C</text>", "<title>odd: changed</title>", ">CC..</text>",
		">failed</text>", ">changed</text>", ">unchanged</text>", ">no result</text>",
	} {
		i := strings.Index(document[at:], part)
		if i < 0 {
			t.Fatalf("no %q in its place: %s", part, document)
		}
		at += i
	}
	if strings.Contains(document, ">lost</text>") {
		t.Error("the legend has an outcome that no cell has")
	}
}

// Equal cells share a shape, but not with the outcome of the host. A large run has its worst hosts,
// and shows how many are left out.
func TestGridOfALargeRun(t *testing.T) {
	t.Parallel()
	g := &api.Grid{Steps: make([]api.GridStep, 20), Items: make([]api.GridHost, MaxGridRows+1)}
	for i := range g.Items {
		g.Items[i] = api.GridHost{Host: fmt.Sprintf("h%05d", i), Outcome: core.Unchanged, Cells: strings.Repeat("=", 20)}
	}
	last := &g.Items[MaxGridRows]
	last.Outcome, last.Cells = core.Lost, "L"
	document := GridDocument(g, "patch, finished")
	if n := elements(t, document); n["rect"] != 1+3+2*MaxGridRows { // background, legend, cells
		t.Errorf("%v", n)
	}
	if !strings.Contains(document, "; 1 host not shown") || !strings.Contains(document, last.Host) || strings.Contains(document, g.Items[MaxGridRows-1].Host) {
		t.Error("it lacks the worst host, or has the last of the good ones")
	}
	if g.Items[MaxGridRows].Host != last.Host || g.Items[0].Host != "h00000" {
		t.Error("the order of the grid changed")
	}
	if most := 3 << 20; len(document) > most {
		t.Errorf("%d bytes, expected at most %d", len(document), most)
	}
}

// Without hosts there is a picture all the same.
func TestGridWithoutHosts(t *testing.T) {
	t.Parallel()
	if document := GridDocument(&api.Grid{}, "patch, queued"); elements(t, document)["svg"] != 1 || !strings.Contains(document, "0 hosts, 0 steps") {
		t.Error(document)
	}
}
