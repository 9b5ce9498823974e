//go:build linux && labs

package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/turnus/turnus/core/api"
)

// approved lets a wave of a run begin, by the API.
func (s *fleetSite) approved(run string, wave int) {
	s.t.Helper()
	if _, err := s.client.ApproveRun(s.t.Context(), run, api.Approve{Wave: wave, Approve: true}); err != nil {
		s.t.Fatal(err)
	}
}

// hands returns what a person did on the page of a run: the field and its text, marked characters,
// the open part with what was typed there, how far a table is scrolled, and the very elements.
const hands = `(() => {
  const at = document.activeElement, cancel = document.getElementById("cancel"), results = document.getElementById("results").closest("section");
  return JSON.stringify([at.id, at.value, at.selectionStart, at.selectionEnd, cancel.open, document.getElementById("cancel-reason").value, results.scrollLeft > 0, at === window.hadField, results === window.hadResults]);
})()`

// atAThird is a site whose run waits for the approval of its second wave, and a browser at its
// page.
func atAThird(t *testing.T) (*fleetSite, string, *browser) {
	t.Helper()
	s := newFleetSite(t, 12)
	run := s.launched("thirds")
	s.waiting(run)
	b := newBrowser(t, s.client.Server())
	b.logIn(s.token)
	b.open("/runs/" + run)
	return s, run, b
}

// A page changes around what a person does on it: a field keeps its focus, text and marked
// characters, an open part stays open, a table stays scrolled. Negative: replaced, it loses them.
func TestLabBrowserKeepsWhatOneDoes(t *testing.T) {
	t.Parallel()
	s, run, b := atAThird(t)
	b.screen(390, "light")
	b.open("/runs/" + run)
	b.sees("wave 2 for an approval")
	b.press("Cancel this run")
	b.fill("#cancel-reason", "the storm")
	b.fill("#pause-reason", "wait for ")
	b.js(`const f = document.getElementById("pause-reason"), r = document.getElementById("results").closest("section");
f.setSelectionRange(2, 4); r.scrollLeft = 40; window.hadField = f; window.hadResults = r`)
	before, err := evaluated[string](b, hands)
	if want := `["pause-reason","wait for ",2,4,true,"the storm",true,true,true]`; err != nil || before != want {
		t.Fatalf("before: %s, %v; expected %s", before, err, want)
	}
	s.approved(run, 2)
	b.sees("wave 3 for an approval")
	if after, err := evaluated[string](b, hands); err != nil || after != before {
		t.Errorf("after an update: %s, %v; expected %s", after, err, before)
	}
	b.do(chromedp.KeyEvent("s")) // in the place of the marked characters
	if text, err := evaluated[string](b, `document.getElementById("pause-reason").value`); err != nil || text != "was for " {
		t.Errorf("typed on: %q, %v", text, err)
	}

	b.js(`const run = document.getElementById("run"); run.innerHTML = run.innerHTML`)
	if replaced, err := evaluated[string](b, hands); err != nil || replaced == before {
		t.Errorf("replaced, the page keeps what was done: %s, %v", replaced, err)
	}
}

// A form whose action is no longer there goes, with what was typed into it. The focus stays at the
// run, and the page shows why.
func TestLabBrowserLosesAForm(t *testing.T) {
	t.Parallel()
	s, run, b := atAThird(t)
	b.sees("wave 2 for an approval")
	b.press("Approve or refuse wave 2")
	b.fill("#approve-2-reason", "as agreed")
	s.approved(run, 2)
	b.sees("The form that you were in is gone")
	b.wait(`document.activeElement.id === "run"`)
	b.sees("Approve or refuse wave 3")
	if text, err := evaluated[string](b, `document.getElementById("approve-3-reason").value`); err != nil || text != "" {
		t.Errorf("the next wave has the reason of the one before: %q, %v", text, err)
	}
}

// While a host of the grid has the focus or selected text, no other host comes into its place.
// Control: once it has not, others do.
func TestLabBrowserKeepsThePlaceInTheGrid(t *testing.T) {
	t.Parallel()
	s, run, b := atAThird(t)
	b.wait(`document.querySelector(".cells.pooled") !== null`)
	const first = `document.querySelector(".cells tbody tr:not([aria-hidden]) a")`
	host, err := evaluated[string](b, first+`.textContent`)
	if err != nil || host == "" {
		t.Fatalf("no host: %v", err)
	}
	ended := func(what string) { // the first row is the host's still, and has its outcome
		t.Helper()
		b.wait(`[...document.querySelectorAll(".cells tbody tr")].filter(r => r.querySelector("td")?.textContent === "C").length >= 5`)
		if now, err := evaluated[string](b, first+`.textContent`); err != nil || now != host {
			t.Errorf("%s: the first host is %q, %v; expected %q", what, now, err, host)
		}
	}
	b.js(first + `.focus()`)
	s.approved(run, 2)
	ended("with the focus")
	b.js(`document.activeElement.blur()`)
	b.wait(first + `.textContent !== "` + host + `"`)

	host, err = evaluated[string](b, first+`.textContent`)
	if err != nil {
		t.Fatal(err)
	}
	s.waiting(run)
	b.sees("wave 3 for an approval")
	b.js(`getSelection().selectAllChildren(` + first + `)`)
	s.approved(run, 3)
	b.wait(`[...document.querySelectorAll(".cells tbody tr")].filter(r => r.querySelector("td")?.textContent === "C").length >= 8`)
	ended("with selected text")
	if text, err := evaluated[string](b, `getSelection().toString()`); err != nil || text != host {
		t.Errorf("selected %q, %v; expected %q", text, err, host)
	}
	b.js(`getSelection().removeAllRanges()`)
	b.wait(first + `.textContent !== "` + host + `"`)
}
