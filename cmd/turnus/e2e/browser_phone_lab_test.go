//go:build linux && labs

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/turnus/turnus/core/transport/fleet"
)

// A phone shows a run of 3000 hosts and 20 steps: the grid scrolls to both ends in a bounded number
// of rows, keeps the names in view, filters, and leads to a host. Nothing is wider than the phone.
// The list of runs shows who launched each one. On a wide screen, the map of the fleet also fits.
func TestLabBrowserHas3000HostsOnAPhone(t *testing.T) {
	t.Parallel()
	const hosts, steps = 3000, 20
	l := newLab(t, fleet.Config{Hosts: hosts})
	l.project()
	var text strings.Builder
	text.WriteString("playbook: wide\ntargets: true\nsteps:\n  - {name: look, uses: command, with: {run: uptime}}\n")
	for i := range steps - 1 { // steps that need no connection
		fmt.Fprintf(&text, "  - {name: step %d, uses: command, when: \"false\", with: {run: uptime}}\n", i+2)
	}
	l.file("ops/playbooks/wide.yaml", text.String())
	s := l.site("-f", "128")
	run := s.launched("wide")
	s.over(run)
	for _, theme := range []string{"light", "dark"} {
		b := newBrowser(t, s.client.Server())
		b.screen(390, theme)
		b.logIn(s.token)
		b.open("/runs/" + run)
		b.wait(fmt.Sprintf(`document.querySelector(".cells.pooled table")?.getAttribute("aria-rowcount") === "%d"`, hosts+1))
		b.fits("the run of 3000 hosts")
		b.keep("phone-3000-" + theme)
		const rows = `[...document.querySelectorAll(".cells tbody tr")].filter(r => !r.hidden && r.querySelector("a")?.textContent)`
		const seen = rows + `.filter(r => { const a = r.getBoundingClientRect(), b = document.getElementById("cells").getBoundingClientRect(); return a.top >= b.top && a.bottom <= b.bottom })`
		last := fmt.Sprintf(`%s.some(r => r.getAttribute("aria-rowindex") === "%d")`, seen, hosts+1)
		b.js(`document.getElementById("cells").scrollTop = 1e9`)
		b.wait(last)
		if n, err := evaluated[int](b, rows+".length"); err != nil || n > 120 {
			t.Errorf("%d rows are on the page, %v", n, err)
		}
		b.js(`document.getElementById("cells").scrollLeft = 1e9`)
		b.wait(seen + `.every(r => Math.abs(r.querySelector("th").getBoundingClientRect().left - document.getElementById("cells").getBoundingClientRect().left) < 4)`)
		b.wait(seen + fmt.Sprintf(`.every(r => r.querySelectorAll("td").length === %d && r.lastElementChild.getBoundingClientRect().right <= innerWidth)`, steps+1))
		b.keep("phone-3000-end-" + theme)
		if small, err := evaluated[int](b, seen+`.filter(r => r.getBoundingClientRect().height < 24).length`); err != nil || small > 0 {
			t.Errorf("%d rows are too low to touch, %v", small, err)
		}
		host := s.fleet.Hosts()[hosts-1].Name
		b.fill("#find", host)
		b.wait(fmt.Sprintf(`document.getElementById("count").textContent.startsWith("1 of %d hosts")`, hosts))
		b.wait(seen + fmt.Sprintf(`.some(r => r.querySelector("a").textContent === %q)`, host))
		b.keep("phone-3000-found-" + theme)
		b.click(".cells tbody tr a")
		b.wait(`location.pathname.includes("/hosts/") && document.getElementById("steps") !== null`)
		b.sees(host)
		b.fits("a host of the run")
		b.open("/runs")
		const launcher = `[...document.querySelectorAll('.runs td[data-label="Launched by"]')]`
		b.wait(launcher + `.length > 0 && ` + launcher + `.every(td => { const r = document.createRange(); r.selectNodeContents(td); const a = r.getBoundingClientRect(); return a.width > 0 && a.left >= 0 && a.right <= innerWidth })`)
		b.fits("the list of runs")
		b.keep("phone-runs-" + theme)
		b.screen(1280, theme)
		b.open("/fleet")
		b.wait(fmt.Sprintf(`document.querySelectorAll(".blocks rect").length >= %d`, hosts))
		b.fits("the fleet of 3000 hosts")
		b.keep("fleet-3000-1280-" + theme)
		b.calm()
	}
}

// A keyboard is enough to approve windows, to trigger a schedule, to launch its past fire times and
// to preview a launch. Control: without the reason nothing is approved.
func TestLabBrowserByKeyboard(t *testing.T) {
	t.Parallel()
	s := newFleetSite(t, 12)
	b := newBrowser(t, s.client.Server())
	b.screen(640, "light") // 1280 pixels at 200 % zoom
	b.logIn(s.token)
	press := func(keys string) { t.Helper(); b.do(chromedp.KeyEvent(keys)) }
	// to presses Tab until an element has the focus: what a keyboard cannot reach is never found.
	to := func(expression string) {
		t.Helper()
		const at = "(e => e !== null && "
		for range 200 {
			if ok, err := evaluated[bool](b, at+expression+")(document.activeElement)"); err == nil && ok {
				return
			}
			press(kb.Tab)
		}
		t.Fatalf("200 tabs do not reach %s", expression)
	}
	text := func(begin string) string { return fmt.Sprintf("e.textContent.trim().startsWith(%q)", begin) }

	b.open("/windows/branch")
	to(text("Approve …"))
	press(kb.Enter)
	to(`e.name === "reason"`)
	to(text("Approve these windows"))
	press(kb.Enter)
	b.wait(`document.activeElement.name === "reason"`) // the browser asks for it
	b.sees("proposed")
	press("CHG7 is fine")
	press(kb.Enter)
	b.sees("CHG7 is fine")
	b.sees("branch: approved")

	b.open("/schedules/nights?from=2026-01-01T00:00&to=2026-01-03T00:00#backfill")
	b.sees("2 runs, one after the other, each on 12 hosts: 24 host tasks")
	b.accessible("a backfill", allRules)
	b.fits("a backfill")
	b.keep("backfill-640-light")
	to(`e.name === "reason" && e.form.action.endsWith("/backfill")`)
	press("the server was off")
	press(kb.Enter)
	b.sees("The runs of 2 fire times are launched")
	to(text("Trigger now"))
	press(kb.Enter)
	to(`e.name === "reason" && e.form.action.endsWith("/trigger")`)
	press("CHG8")
	press(kb.Enter)
	b.sees("Launched:")

	b.open("/calendar")
	to(`e.name === "days"`)
	b.js(`document.activeElement.select()`)
	press("3")
	press(kb.Enter)
	b.wait(`new URLSearchParams(location.search).get("days") === "3"`)
	to(`e.closest("section")?.querySelector("#agenda") !== undefined && e.tagName === "SECTION"`)

	b.open("/playbooks/check")
	to(text("Preview"))
	press(kb.Enter)
	b.sees("12 hosts in 1 wave")
	b.calm()
}
