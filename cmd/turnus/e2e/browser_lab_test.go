//go:build linux && labs

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/turnus/turnus/core/testparts"
)

// axePath is where .ci/deps puts the accessibility checker.
const axePath = "../../../.tools/axe/node_modules/axe-core/axe.min.js"

// browser is a tab of a headless Chromium, with cookies of its own. A message of the browser that
// something was blocked or failed is a failure of the test.
type browser struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // it is the tab, for chromedp
	server string
	axe    string

	mu   sync.Mutex // guards the messages
	said []string   // errors on the console, since the last page
}

// newBrowser starts Chromium at the pages of a server. It asks no other machine.
func newBrowser(t *testing.T, server string) *browser {
	t.Helper()
	program := testparts.Need(t, "chromium", "chromium")
	axe, err := os.ReadFile(axePath)
	testparts.Able(t, "axe-core (make deps installs it with npm)", err)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), chromedp.ExecPath(program), chromedp.Headless, chromedp.DisableGPU, chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	t.Cleanup(cancel)
	b := &browser{t: t, server: server, axe: string(axe)}
	b.ctx, cancel = chromedp.NewContext(ctx, chromedp.WithListener(b.listen))
	t.Cleanup(cancel)
	called(b, log.Enable, cdp.Empty{})
	called(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}) // a window in the background has no focus events
	t.Cleanup(func() {
		if t.Failed() {
			text, err := evaluated[string](b, "location.href + '\\n' + document.body.innerText")
			t.Logf("the page: %s %v\nthe browser logged: %s", text, err, b.errors())
		}
	})
	return b
}

func (b *browser) listen(event any) {
	text := ""
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			text = e.Entry.Text + " " + e.Entry.URL
		}
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Text
	}
	if text != "" {
		b.mu.Lock()
		b.said = append(b.said, text)
		b.mu.Unlock()
	}
}

// errors returns what the browser complained of since the last call.
func (b *browser) errors() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := strings.Join(b.said, "\n")
	b.said = nil
	return text
}

// called does what the protocol of the browser's tools names.
func called[P, R any](b *browser, command cdp.Command[P, R], params P) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.server + path))
}

// logIn pastes a token, as a person does.
func (b *browser) logIn(token string) {
	b.t.Helper()
	b.open("/login")
	b.fill("#token", token)
	b.click("main form button")
	b.wait("document.querySelector('nav.pages') !== null")
}

// evaluated is the value of an expression in the page.
func evaluated[T any](b *browser, expression string) (T, error) {
	return chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
}

// js runs statements in the page.
func (b *browser) js(statements string) {
	b.t.Helper()
	if _, err := evaluated[bool](b, "(() => {"+statements+"; return true})()"); err != nil {
		b.t.Fatalf("%s: %v", statements, err)
	}
}

// wait returns when an expression is true in the page, which may be another page by then.
func (b *browser) wait(expression string) {
	b.t.Helper()
	until(b.t, expression, func() bool {
		ok, err := evaluated[bool](b, expression)
		return err == nil && ok
	})
}

// press clicks the button whose text begins so.
func (b *browser) press(text string) {
	b.t.Helper()
	find := fmt.Sprintf("[...document.querySelectorAll('main button, main summary')].find(e => e.textContent.trim().startsWith(%q))", text)
	b.wait("(e => e !== undefined && e.click() === undefined)(" + find + ")")
}

// click clicks an element as soon as the page has it. The page asks itself for the element: a
// handle to one is void when an update replaces it.
func (b *browser) click(selector string) {
	b.t.Helper()
	b.wait(fmt.Sprintf(`(e => e !== null && e.click() === undefined)(document.querySelector(%q))`, selector))
}

// fill types a text into a field, again where the field lost the focus meanwhile: a browser that
// comes to the fragment of its address late takes the focus away.
func (b *browser) fill(selector, text string) {
	b.t.Helper()
	blank := fmt.Sprintf(`(e => e !== null && (e.blur(), e.value = "", e.focus(), document.activeElement === e))(document.querySelector(%q))`, selector)
	ends := fmt.Sprintf(`(e => e?.value === %q ? "filled" : document.activeElement === e ? "" : "lost")(document.querySelector(%q))`, text, selector)
	for end := "lost"; end == "lost"; {
		b.wait(blank)
		b.do(chromedp.KeyEvent(text))
		until(b.t, selector+" to have "+text, func() bool { // keys arrive later
			var err error
			end, err = evaluated[string](b, ends)
			return err == nil && end != ""
		})
	}
}

// sees waits until the page shows a text.
func (b *browser) sees(text string) {
	b.t.Helper()
	b.wait(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

// screen sets the size in CSS pixels, and the theme.
func (b *browser) screen(width int64, theme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, 900))
	called(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
}

// Rules that axe checks: those of WCAG 2.2 AA, or the ones of these that depend on the theme.
const (
	allRules   = `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]`
	themeRules = `{type: "rule", values: ["color-contrast", "link-in-text-block"]}`
)

// accessible fails for each of these rules that the page breaks.
func (b *browser) accessible(what, rules string) {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](b.axe+`
axe.run(document, {runOnly: `+rules+`, resultTypes: ["violations"]})
  .then(r => JSON.stringify(r.violations.map(v => ({Rule: v.id, Help: v.help, Nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 300) + " " + n.failureSummary)}))))`, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: axe: %v", what, err)
	}
	var found []struct {
		Rule, Help string
		Nodes      []string
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		b.t.Fatal(err)
	}
	for _, f := range found {
		b.t.Errorf("%s: %s: %s:\n%s", what, f.Rule, f.Help, strings.Join(f.Nodes, "\n"))
	}
}

// fits fails if the page is wider than its window, so that a phone scrolls sideways.
func (b *browser) fits(what string) {
	b.t.Helper()
	wide, err := evaluated[[]string](b, `
document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 120)).slice(0, 3)`)
	if err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
	if len(wide) > 0 {
		b.t.Errorf("%s: wider than the window:\n%s", what, strings.Join(wide, "\n"))
	}
}

// keep writes pictures of the whole page and of its top to the folder SHOTS, if there is one: a
// person checks them.
func (b *browser) keep(name string) {
	b.t.Helper()
	folder := os.Getenv("SHOTS")
	if folder == "" {
		return
	}
	name = strings.NewReplacer("/", "_", "?", "_").Replace(name)
	whole, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	b.write(folder, name, whole, err)
	top, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	b.write(folder, name+"-top", top, err)
}

func (b *browser) write(folder, name string, picture []byte, err error) {
	b.t.Helper()
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o600)
	}
	if err != nil {
		b.t.Fatalf("%s: picture: %v", name, err)
	}
}
