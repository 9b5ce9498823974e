package pictures

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
)

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// hostile is a name that would do something if it were taken for markup.
const hostile = `</svg><script>alert(1)</script>" onload="alert(1)' &amp;` + "\x00"

// elements reads a picture as XML, and counts its elements.
func elements(t *testing.T, markup string) map[string]int {
	t.Helper()
	n := map[string]int{}
	for d := xml.NewDecoder(strings.NewReader(markup)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatalf("%v: %s", err, markup)
		}
		if e, ok := token.(xml.StartElement); ok {
			n[e.Name.Local]++
			for _, a := range e.Attr {
				if a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on") {
					t.Errorf("<%s %s>: a page's policy blocks it", e.Name.Local, a.Name.Local)
				}
			}
		}
	}
}

func TestFleetIsSorted(t *testing.T) {
	t.Parallel()
	fleet := Fleet([]Host{
		{Name: "b", Customer: "acme", Group: "web"},
		{Name: "z", Customer: "", Group: ""},
		{Name: "a", Customer: "acme", Group: "web", Outcome: core.Failed},
		{Name: "c", Customer: "acme", Group: "db"},
		{Name: "d", Customer: "globex", Group: "web"},
	})
	got := ""
	for _, c := range fleet {
		got += fmt.Sprintf("%s(%d)", c.Name, c.Hosts)
		for _, g := range c.Groups {
			got += " " + g.Name + ":"
			for _, h := range g.Hosts {
				got += h.Name
			}
		}
		got += "; "
	}
	if want := "(1) :z; acme(3) db:c web:ab; globex(1) web:d; "; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	got := fmt.Sprint(Counts([]Host{{Outcome: core.Changed}, {}, {Outcome: core.Failed}, {Outcome: core.Lost}, {Outcome: core.Changed}}))
	if want := "[{lost 1} {failed 1} {changed 2} { 1}]"; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
}

// Each outcome has a letter of its own, a place among all, and a colour.
func TestEveryOutcomeIsTold(t *testing.T) {
	t.Parallel()
	letters := map[string]core.Outcome{}
	for _, o := range append(core.Outcomes(), "") {
		letter := Letter(string(o))
		if other, taken := letters[letter]; taken {
			t.Errorf("%q and %q both are %s", o, other, letter)
		}
		letters[letter] = o
		if Rank(o) < 0 {
			t.Errorf("%q has no place", o)
		}
		if class := "." + strings.Fields(classOf(o))[0]; strings.Count(mapStyle, class) < 2 {
			t.Errorf("%q has no colour in one of the schemes", o)
		}
	}
	for o, want := range map[core.Outcome]bool{core.Lost: true, core.Failed: true, core.Unreachable: true, core.RolledBack: true, core.Cancelled: false, core.Changed: false, "": false} {
		if Bad(o) != want {
			t.Errorf("%q is bad: %v", o, !want)
		}
	}
}

func TestFade(t *testing.T) {
	t.Parallel()
	for age, want := range map[time.Duration]float64{
		0: 1, -time.Hour: 1, 24 * time.Hour: 1, 25 * time.Hour: 0.75, 7 * 24 * time.Hour: 0.75, 8 * 24 * time.Hour: 0.5, 31 * 24 * time.Hour: 0.3,
	} {
		if got := Fade(age); got != want {
			t.Errorf("%v: %v, expected %v", age, got, want)
		}
	}
}

// A group has a square a host, in blocks; a name is text, no markup.
func TestBlocks(t *testing.T) {
	t.Parallel()
	g := Group{Customer: hostile, Name: hostile}
	for i := range blockHosts + 5 {
		h := Host{Name: fmt.Sprintf("h%d%s", i, hostile), Link: "/hosts/" + hostile, Playbook: hostile, Outcome: core.Changed, Ended: noon.Add(-100 * time.Hour)}
		g.Hosts = append(g.Hosts, h)
	}
	g.Hosts[0].Outcome, g.Hosts[0].Link = "", ""
	blocks := g.Blocks(noon)
	if len(blocks) != 2 || blocks[0].Width != columns*pitch || blocks[0].Height != blockRows*pitch || blocks[1].Width != 5*pitch || blocks[1].Height != pitch {
		t.Fatalf("%d blocks", len(blocks))
	}
	n := elements(t, blocks[0].Markup)
	if n["rect"] != blockHosts || n["text"] != blockHosts || n["title"] != blockHosts || n["a"] != blockHosts-1 || n["script"] != 0 {
		t.Errorf("%v", n)
	}
	if !strings.Contains(blocks[0].Markup, `fill-opacity="0.75"`) || !strings.Contains(blocks[0].Markup, "2026-11-22 08:00 UTC") {
		t.Errorf("%.600s", blocks[0].Markup)
	}
	c := Customer{Name: hostile, Groups: []Group{g, g}}
	if n := elements(t, c.Block().Markup); n["title"] != 2 || n["rect"] != 4 || n["script"] != 0 {
		t.Errorf("%v", n)
	}
}

// A tile has the name of its host as text, cut to its width, and is reached by keyboard. A block is
// no wider than one of squares.
func TestTiles(t *testing.T) {
	t.Parallel()
	g := Group{Customer: hostile, Name: hostile}
	for i := range tileHosts + 2 {
		g.Hosts = append(g.Hosts, Host{Name: fmt.Sprintf("fw-%d%s", i, hostile), Link: "/hosts/" + hostile, Outcome: core.Failed, Ended: noon})
	}
	g.Hosts[0] = Host{Name: "fw-berlin-01"}
	blocks := g.Tiles(noon)
	if len(blocks) != 2 || blocks[0].Width != columns*pitch || blocks[0].Height != 12*tileHeight || blocks[1].Width != 2*tileWidth || blocks[1].Height != tileHeight {
		t.Fatalf("%d blocks: %+v", len(blocks), blocks[0])
	}
	n := elements(t, blocks[0].Markup)
	if n["rect"] != tileHosts || n["text"] != 2*tileHosts || n["title"] != tileHosts || n["a"] != tileHosts-1 || n["script"] != 0 || strings.Contains(blocks[0].Markup, "tabindex") {
		t.Errorf("%v", n)
	}
	for _, part := range []string{">fw-berlin-01</text>", ">fw-1&lt;/svg&gt;&lt;s…</text>"} {
		if !strings.Contains(blocks[0].Markup, part) {
			t.Errorf("no %s: %.900s", part, blocks[0].Markup)
		}
	}
}

// The document has a square a host, and a square a group where hosts are many.
func TestFleetDocument(t *testing.T) {
	t.Parallel()
	hosts := make([]Host, MaxSquares+1)
	for i := range hosts {
		hosts[i] = Host{Name: fmt.Sprintf("h%04d", i), Customer: []string{"acme", "globex", hostile}[i%3], Group: fmt.Sprint("group ", i%14), Outcome: core.Outcomes()[i%8]}
	}
	few := elements(t, FleetDocument(Fleet(hosts[:100]), noon))
	if few["rect"] != 1+100+8 || few["script"] != 0 || few["svg"] != 1+42 {
		t.Errorf("%v", few)
	}
	many := FleetDocument(Fleet(hosts), noon)
	if n := elements(t, many); n["svg"] != 1+3 || n["rect"] > 42*8+9 || !strings.Contains(many, "5001 hosts") {
		t.Errorf("%v", n)
	}
}
