//go:build linux && labs

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/turnus/turnus/core/transport/fleet"
)

// calm fails if a browser complained.
func (b *browser) calm() {
	b.t.Helper()
	if said := b.errors(); said != "" {
		b.t.Errorf("the browser logged: %s", said)
	}
}

// An operator of a tenant launches and cancels, an approver of it approves runs and windows: each
// sees what the other did without a reload, with name and reason, and the buttons that it ends are
// gone. An admin revokes a token, and its browser has to log in again.
func TestLabBrowserSeesOthersAct(t *testing.T) {
	t.Parallel()
	s := newFleetSite(t, 12)
	operator, approver := newBrowser(t, s.client.Server()), newBrowser(t, s.client.Server())
	revoked := s.made("olga", "operator", "customer-0")
	operator.logIn(revoked.Secret)
	approver.logIn(s.role("anton", "approver", "customer-0"))
	launch := func() {
		operator.open("/playbooks/branch")
		operator.press("Preview")
		operator.sees("6 hosts in 2 waves")
		operator.press("Launch on 6 hosts")
		operator.sees("wave 2 for an approval")
		path, err := evaluated[string](operator, "location.pathname")
		if err != nil {
			t.Fatal(err)
		}
		approver.open(path)
		approver.sees("Approve or refuse wave 2")
	}
	launch()
	approver.press("Approve or refuse wave 2")
	approver.sees("Approve: 4 hosts may start. Refuse: the run is cancelled. 0 hosts run now")
	approver.fill("#approve-2-reason", "the canary is fine")
	approver.press("Approve wave 2")
	operator.sees("anton approved wave 2: the canary is fine")
	operator.sees("finished")
	operator.wait(`[...document.getElementById("waves").closest("section").querySelectorAll("tbody tr")].map(r => r.innerText.replace(/\s+/g, " ")).join("; ") === "1 2 of 2 2 changed; 2 4 of 4 4 changed"`)

	launch()
	operator.press("Cancel this run")
	operator.sees("4 hosts have not begun and never start. 2 hosts keep their outcomes.")
	operator.fill("#cancel-reason", "the wrong branch")
	operator.press("Cancel the run")
	approver.sees("cancelled")
	approver.sees("olga cancelled the run: the wrong branch")
	approver.wait(`document.querySelector('form[action$="/approve"]') === null`)

	approver.open("/windows/branch")
	approver.press("Approve")
	approver.fill(`form[action$="/approve"] input[name="reason"]`, "as agreed")
	approver.press("Approve these windows")
	approver.sees("customer-0/anton approved")
	operator.calm()
	approver.calm()

	approver.leave()
	approver.logIn(s.token)
	approver.open("/tokens")
	approver.press("Revoke")
	approver.press("Revoke olga")
	approver.wait(`document.body.innerText.includes("Revoked") || document.body.innerText.includes("revoked")`)
	until(t, "the revoked token's browser to be asked to log in", func() bool {
		operator.open("/playbooks")
		asked, err := evaluated[bool](operator, `document.querySelector("#token") !== null`)
		return err == nil && asked
	})
}

// A commit that is wrong changes nothing: the page of the project has its author, each mistake with
// file, line and column, and its diff, until the next commit mends them.
func TestLabBrowserShowsARejectedCommit(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 2})
	o := newOrigin(l)
	const inventory, right = "hosts: {one: {address: 127.0.0.1}}\n", "playbook: all\ntargets: true\nsteps: [{uses: command, with: {run: uptime}}]\n"
	o.push("inventory.yaml", inventory, "playbooks/all.yaml", right)
	s := l.site("--project", "", "--repo", o.bare, "--branch", "live", "--repo-every", "1s")
	b := newBrowser(t, s.client.Server())
	b.logIn(s.token)
	b.open("/project")
	b.wait(`document.body.innerText.includes("1 playbook")`)
	bad := o.push("playbooks/all.yaml", "playbook: all\ntargets: true\nstepz: [\"<img src=x onerror=alert(1)>\"]\n", "inventory.yaml", inventory+"# <script>alert(2)</script>\n")
	shows := func(expression string) { // the page of the project, which is loaded again and again
		t.Helper()
		until(t, expression, func() bool {
			b.open("/project")
			ok, err := evaluated[bool](b, expression)
			return err == nil && ok
		})
	}
	shows(`document.body.innerText.includes("A newer version is wrong")`)
	for _, text := range []string{bad, "Ann Op", "playbooks/all.yaml:3:1", "stepz"} {
		b.sees(text)
	}
	for _, text := range []string{"changed inventory.yaml: 1 line added, 0 removed", "+# <script>alert(2)</script>", "-steps: [{uses: command", "+stepz: [\"<img src=x", "Only text that changes no behaviour"} {
		b.sees(text)
	}
	b.accessible("a rejected commit", allRules)
	b.leave()
	b.logIn(s.role("vera", "viewer", "*"))
	b.open("/project")
	b.sees("+stepz:") // of a playbook, whose source viewers read
	b.sees("an admin of all tenants sees the text")
	if shown, err := evaluated[bool](b, `document.body.innerText.includes("alert(2)")`); err != nil || shown {
		t.Errorf("a viewer reads the inventory: %v", err)
	}
	b.leave()
	b.logIn(s.token)
	b.open("/")
	b.sees("of the project, by Ann Op")
	good := o.push("playbooks/all.yaml", right+"# mended\n")
	shows(fmt.Sprintf(`document.body.innerText.includes(%q) && document.getElementById("rejected") === null`, good))
	b.calm()
}

// While the queue is away, the page of a run shows that running jobs are unknown, and still shows
// what people do. When it is back, the page continues without a gap or a reload.
func TestLabBrowserWithoutTheQueue(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 12}).withRedis()
	l.project()
	s := l.site("--redis", l.redis.url())
	run := s.launched("thirds")
	s.waiting(run)
	b := newBrowser(t, s.client.Server())
	b.logIn(s.token)
	b.open("/runs/" + run)
	b.sees("wave 2 for an approval")
	b.js(`window.loaded = "once"`)
	s.redis.kill()
	b.sees("The queue does not answer")
	b.sees("10 unknown")
	b.sees("2 changed")
	b.accessible("a run without the queue", allRules)
	if text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](`fetch("/queue").then(r => r.text())`, chromedp.EvalAwaitPromise)); err != nil || !strings.Contains(text, "queue does not answer") {
		t.Errorf("the page of the queue: %v, %s", err, text)
	}
	if _, err := s.client.PauseRun(t.Context(), run, "the queue is away"); err != nil {
		t.Fatal(err)
	}
	b.sees("paused")
	s.redis.launch()
	b.wait(`!document.body.innerText.includes("The queue does not answer")`)
	b.sees("10 waiting")
	if _, err := s.client.ResumeRun(t.Context(), run, ""); err != nil {
		t.Fatal(err)
	}
	for wave := 2; wave <= 4; wave++ {
		s.waiting(run)
		s.approved(run, wave)
	}
	b.sees("finished")
	b.sees("12 changed")
	b.wait(`[...document.querySelectorAll(".cells tbody tr")].filter(r => r.innerText.replace(/\s+/g, "").endsWith("CC")).length === 12`)
	if kept, err := evaluated[string](b, "window.loaded"); err != nil || kept != "once" {
		t.Errorf("the page was loaded again: %q, %v", kept, err)
	}
}
