//go:build linux && labs

package pages

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/testparts"
)

// tabs opens pages in tabs of one Chromium, as somebody who is logged in.
func tabs(t *testing.T, web string, token string, paths ...string) (all []context.Context) {
	t.Helper()
	program := testparts.Need(t, "chromium", "chromium")
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), chromedp.ExecPath(program), chromedp.Headless, chromedp.DisableGPU, chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()))
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.Navigate(web+"/login"), chromedp.SendKeys(chromedp.CSS("#token"), token), chromedp.Click(chromedp.CSS("main form button"))); err != nil {
		t.Fatal(err)
	}
	waitFor(ctx, t, `document.querySelector("nav.pages") !== null`)
	for _, path := range paths {
		tab, cancel := chromedp.NewContext(ctx)
		t.Cleanup(cancel)
		if err := chromedp.Do(tab, chromedp.Navigate(web+path)); err != nil {
			t.Fatal(err)
		}
		waitFor(tab, t, `document.getElementById("now") !== null`)
		all = append(all, tab)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	return all
}

// hide makes a tab hidden, or visible again.
func hide(ctx context.Context, t *testing.T, hidden string) {
	t.Helper()
	inPage[bool](ctx, t, `(() => { Object.defineProperty(document, "hidden", {configurable: true, value: `+hidden+`}); return document.dispatchEvent(new Event("visibilitychange")); })()`)
}

// Tabs of one browser share a stream, and each shows what changes. A hidden tab has no part in it,
// and with all of them hidden there is no stream. When a tab is shown again it catches up. A tab
// that is closed leaves.
func TestLabTabsShareAStream(t *testing.T) {
	c := newChangingAPI(goes("r1", 10))
	p, err := New(Config{API: c, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var streams atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/live" {
			streams.Add(1)
			defer streams.Add(-1)
		}
		p.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	all := tabs(t, web.URL, "ann", "/", "/", "/schedules")
	open := func(wantStreams, wantViews int) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for end := time.After(time.Minute); ; {
			p.views.mu.Lock()
			haveStreams, haveViews := int(streams.Load()), len(p.views.open)
			p.views.mu.Unlock()
			if haveStreams == wantStreams && haveViews == wantViews {
				return
			}
			select {
			case <-tick.C:
			case <-end:
				t.Fatalf("%d streams of %d pages, expected %d of %d", haveStreams, haveViews, wantStreams, wantViews)
			}
		}
	}
	open(1, 2)
	c.change(goes("r1", 41))
	for _, tab := range all[:2] {
		waitFor(tab, t, `document.getElementById("run-r1").innerText.includes("41")`)
	}
	hide(all[2], t, "true")
	open(1, 1)
	hide(all[1], t, "true")
	c.change(goes("r1", 42))
	waitFor(all[0], t, `document.getElementById("run-r1").innerText.includes("42")`)
	if inPage[bool](all[1], t, `document.getElementById("run-r1").innerText.includes("42")`) {
		t.Error("a hidden tab gets changes")
	}
	hide(all[0], t, "true")
	open(0, 0)
	hide(all[1], t, "false")
	waitFor(all[1], t, `document.getElementById("run-r1").innerText.includes("42")`)
	open(1, 1)
	if err := chromedp.Do(all[1], chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	open(0, 0)
}

// A page that is open when its browser logs in as another person reports that, shows nothing of
// that person, and its buttons are off. The page of that person continues.
func TestLabAPageStaysWithItsPerson(t *testing.T) {
	c := newChangingAPI(goes("r1", 10))
	p, err := New(Config{API: c, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	ann := tabs(t, web.URL, "ann", "/")[0]
	inPage[bool](ann, t, `(() => {
	const form = document.createElement("form");
	form.method = "post";
	form.append(document.createElement("button"));
	document.querySelector("main").append(form);
	return true;
})()`)
	eve, cancel := chromedp.NewContext(ann)
	t.Cleanup(cancel)
	if err := chromedp.Do(eve, chromedp.Navigate(web.URL+"/login"), chromedp.SendKeys(chromedp.CSS("#token"), "eve"), chromedp.Click(chromedp.CSS("main form button"))); err != nil {
		t.Fatal(err)
	}
	waitFor(eve, t, `document.getElementById("now") !== null`)
	waitFor(ann, t, `document.getElementById("live").textContent.includes("logged in as another person")`)
	if !inPage[bool](ann, t, `document.querySelector("main form[method=post] button").disabled && document.querySelector("#live a").getAttribute("href") === "/"`) {
		t.Error("a button is on, or no link loads the page")
	}
	c.change(goes("r1", 41))
	waitFor(eve, t, `document.getElementById("run-r1").innerText.includes("41")`)
	if inPage[bool](ann, t, `document.getElementById("run-r1").innerText.includes("41")`) {
		t.Error("the page shows what another person sees")
	}
}

// A button shows all times in the viewer's own zone, also those that an update brings and those of
// the next page, and back.
func TestLabTimesInYourOwnZone(t *testing.T) {
	run := func(total int) api.Run {
		one := goes("r1", total)
		one.Created = time.Unix(0, 0).UTC()
		return one
	}
	c := newChangingAPI(run(10))
	p, err := New(Config{API: c, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	tab := tabs(t, web.URL, "ann", "/")[0]
	if _, err := chromedp.Call(tab, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"}); err != nil {
		t.Fatal(err)
	}
	reload := func() {
		t.Helper()
		if err := chromedp.Do(tab, chromedp.Navigate(web.URL+"/")); err != nil {
			t.Fatal(err)
		}
		waitFor(tab, t, `document.getElementById("times") !== null`)
	}
	all := func(text, title string) {
		t.Helper()
		waitFor(tab, t, `document.querySelectorAll("#run-r1 time").length > 0 && [...document.querySelectorAll("time")].every((t) => t.textContent.endsWith("`+text+`") && t.title.endsWith("`+title+`"))`)
	}
	reload()
	all(" UTC", "GMT+5:30")
	inPage[bool](tab, t, `(document.getElementById("times").click(), true)`)
	all("GMT+5:30", " UTC")
	c.change(run(41))
	waitFor(tab, t, `document.getElementById("run-r1").innerText.includes("41")`)
	all("GMT+5:30", " UTC")
	reload()
	all("GMT+5:30", " UTC")
	if !inPage[bool](tab, t, `document.getElementById("times").getAttribute("aria-pressed") === "true"`) {
		t.Error("the button is not pressed")
	}
	inPage[bool](tab, t, `(document.getElementById("times").click(), true)`)
	all(" UTC", "GMT+5:30")
}

// An open form of a window keeps what somebody types while the page changes. When a colleague
// decides, the form is gone: what was typed for one decision is never that of another one.
func TestLabAFormOfWindowsIsOfOneDecision(t *testing.T) {
	opens := time.Now().UTC().AddDate(0, 0, 7)
	a := waitingFor(oldHash, opens)
	c := newChangingAPI()
	c.roles["ann"] = "approver"
	c.set("GET /v1/windows", map[string]any{"items": []api.WindowSet{}})
	show := func() {
		c.set("GET /v1/approvals", map[string]any{"items": []api.WindowApproval{a}})
		c.change()
	}
	show()
	p, err := New(Config{API: c, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	tab := tabs(t, web.URL, "ann", "/windows")[0]
	inPage[bool](tab, t, `(() => {
	const form = document.querySelector("form[action$=approve]");
	form.closest("details").open = true;
	form.elements.reason.value = "agreed";
	return true;
})()`)
	a.Reason = "another reason"
	show()
	waitFor(tab, t, `document.getElementById("now").innerText.includes("another reason")`)
	if !inPage[bool](tab, t, `document.querySelector("form[action$=approve]").closest("details").open && document.querySelector("form[action$=approve]").elements.reason.value === "agreed"`) {
		t.Error("an update took what somebody typed")
	}
	a.State, a.Waiting, a.Given = "approved", nil, append(a.Given, api.WindowWord{ID: "w2", By: "bob"})
	show()
	waitFor(tab, t, `document.getElementById("now").innerText.includes("bob approved")`)
	if !inPage[bool](tab, t, `document.querySelector("form[action$=approve]") === null && !document.querySelector("form[action$=revoke]").closest("details").open && document.querySelector("form[action$=revoke]").elements.reason.value === ""`) {
		t.Error("the form of another decision is open, or has what was typed for the first")
	}
}

// An update of the calendar keeps what somebody has chosen and not sent yet.
func TestLabAnUpdateKeepsAChoice(t *testing.T) {
	c := newChangingAPI()
	answers := calendarAPI(t).answers
	c.set("GET /v1/calendar", answers["GET /v1/calendar"])
	c.set("GET /v1/calendar-feeds", answers["GET /v1/calendar-feeds"])
	p, err := New(Config{API: c, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	tab := tabs(t, web.URL, "ann", "/calendar")[0]
	inPage[bool](tab, t, `(() => { document.querySelector("select[name=zone]").value = "UTC"; return true; })()`)
	next := answers["GET /v1/calendar"].(api.Calendar)
	next.LanesLeftOut = 77
	c.set("GET /v1/calendar", next)
	c.change()
	waitFor(tab, t, `document.getElementById("now").innerText.includes("77 more are left out")`)
	if zone := inPage[string](tab, t, `document.querySelector("select[name=zone]").value`); zone != "UTC" {
		t.Errorf("the choice is %q", zone)
	}
}

// partsPage opens the overview with a stream of its own, to which a test hands events.
func partsPage(t *testing.T) context.Context {
	t.Helper()
	p, err := New(Config{API: newChangingAPI(goes("r1", 10)), Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(p)
	t.Cleanup(web.Close)
	tab := tabs(t, web.URL, "ann", "/")[0]
	hide(tab, t, "false")
	inPage[bool](tab, t, `(async () => {
	delete window.SharedWorker;
	const real = window.EventSource;
	window.EventSource = class extends real { constructor(url) { super(url); window.source = this; } };
	window.parts = (...all) => source.dispatchEvent(new MessageEvent("0:parts", { data: all.map((part) => part + "`+partEnd+`").join(""), lastEventId: "s" }));
	window.summary = '<p id="summary" class="hidden" data-summary data-part>another</p>';
	const { Live } = await import("/assets/live.js");
	window.line = document.getElementById("live").cloneNode(true); // the page has a stream besides
	new Live(line, document.getElementById("now"), {});
	return true;
})()`)
	waitFor(tab, t, `window.source !== undefined`)
	return tab
}

// A row changes together with the summary in front of it. A template that begins with a p drops a
// tr.
func TestLabARowChangesWithTheSummary(t *testing.T) {
	tab := partsPage(t)
	inPage[bool](tab, t, `parts(summary, '<tr id="run-r1" data-part><td>1 failed</td></tr>')`)
	waitFor(tab, t, `document.getElementById("summary").textContent === "another"`)
	waitFor(tab, t, `document.getElementById("run-r1").innerText.includes("1 failed")`)
}

// The task of an event reads no part, however many it brings. A part has its place by its id, also
// by one that HTML writes in another way.
func TestLabAnEventDoesNotReadItsParts(t *testing.T) {
	tab := partsPage(t)
	if n := inPage[int](tab, t, `(() => {
	const row = document.createElement("p");
	row.id = "a&b";
	document.getElementById("now").append(row);
	let made = 0;
	const make = document.createElement;
	document.createElement = function (...of) { made++; return make.apply(this, of); };
	parts(summary, '<p id="a&amp;b" data-part>new</p>');
	delete document.createElement;
	return made;
})()`); n != 0 {
		t.Errorf("the event's task made %d elements", n)
	}
	waitFor(tab, t, `document.getElementById("a&b").textContent === "new"`)
	waitFor(tab, t, `document.getElementById("summary").textContent === "another"`)
}

// A part that waits to be put on a page does not take away that the page has no connection.
func TestLabALostStreamStaysOnThePage(t *testing.T) {
	got := inPage[string](partsPage(t), t, `new Promise((done) => {
	new MutationObserver(() => done(line.textContent)).observe(document.getElementById("now"), { subtree: true, childList: true, characterData: true });
	parts(summary);
	source.onerror();
})`)
	if !strings.HasPrefix(got, "Reconnecting.") {
		t.Errorf("the page shows %q", got)
	}
}

// Neither does a part that removes what had the focus.
func TestLabALostStreamStaysOnThePageWithoutTheFocus(t *testing.T) {
	got := inPage[string](partsPage(t), t, `new Promise((done) => {
	const now = document.getElementById("now");
	document.querySelector("#run-r1 a").focus();
	new MutationObserver(() => done((document.activeElement === now) + ": " + line.textContent)).observe(now, { subtree: true, childList: true, characterData: true });
	parts('<tr id="run-r1" data-part><td>1 failed</td></tr>');
	source.onerror();
})`)
	if !strings.HasPrefix(got, "true: Reconnecting.") {
		t.Errorf("the page has the focus and shows %q", got)
	}
}
