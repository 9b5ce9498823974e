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

	"github.com/chromedp/chromedp"

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

// A part that waits to be put on a page does not take away that the page has no connection.
func TestLabALostStreamStaysOnThePage(t *testing.T) {
	got := inPage[string](partsPage(t), t, `new Promise((done) => {
	new MutationObserver(() => done(line.textContent)).observe(document.getElementById("now"), { subtree: true, childList: true, characterData: true });
	parts(summary);
	source.onerror();
})`)
	if !strings.HasPrefix(got, "Reconnecting.") {
		t.Errorf("the page says %q", got)
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
		t.Errorf("the page has the focus and says %q", got)
	}
}
