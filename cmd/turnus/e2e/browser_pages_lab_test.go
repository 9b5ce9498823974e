//go:build linux && labs

package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/transport/fleet"
)

// fleetSite is a service over simulated hosts of two customers. The playbooks branch and
// branch-nights, and the window set branch, are those of customer-0.
type fleetSite struct {
	*lab
	client *client.Client
	token  string
}

func newFleetSite(t *testing.T, hosts int) *fleetSite {
	t.Helper()
	l := newLab(t, fleet.Config{Hosts: hosts})
	l.project()
	return l.site()
}

// site starts the service.
func (l *lab) site(more ...string) *fleetSite {
	l.t.Helper()
	data := filepath.Join(l.dir, "data")
	_, c := l.startUp(data, slices.Concat([]string{"-f", "8"}, l.pluginFlags(), more)...)
	token, err := os.ReadFile(filepath.Join(data, "admin.token"))
	if err != nil {
		l.t.Fatal(err)
	}
	return &fleetSite{lab: l, client: c, token: strings.TrimSpace(string(token))}
}

// project writes the playbooks, hosts and windows of the site to the folder ops.
func (l *lab) project() {
	l.t.Helper()
	for _, folder := range []string{"ops/playbooks", "ops/windows"} {
		if err := os.MkdirAll(filepath.Join(l.dir, folder), 0o700); err != nil {
			l.t.Fatal(err)
		}
	}
	var inventory strings.Builder
	inventory.WriteString("hosts:\n")
	for i, h := range l.fleet.Hosts() {
		inventory.WriteString(l.entry(h, fmt.Sprintf(", customer: customer-%d, site: site-%d, window_set: maintenance", i%2, i%3)))
	}
	l.file("ops/inventory.yaml", inventory.String())
	l.file("ops/windows/maintenance.yaml", `window_sets:
  maintenance:
    timezone: Europe/Berlin
    approval: {state: proposed, by: customer, at: 2026-11-01}
    allow:
      - {id: night, rrule: "FREQ=WEEKLY;BYDAY=TU,TH", from: "22:00", to: "+1d 05:00"}
`)
	for name, text := range map[string]string{
		"check":  "steps: [{name: look, uses: command, with: {run: uptime}}]\n",
		"change": "params: {release: {type: string, default: \"1.4\", description: Version to install}, fast: {type: boolean, default: false}}\nsteps: [{name: write, uses: file, with: {path: /etc/motd, content: \"${{ params.release }}\\n\"}}, {name: look, uses: command, with: {run: cat /etc/motd}}]\n",
		"waves":  "strategy: {waves: [2, 100%], pause_between: approve}\nsteps: [{name: look, uses: command, with: {run: uptime}}]\n",
		"thirds": "strategy: {waves: [2, 5, 9, 100%], pause_between: approve}\nsteps: [{name: look, uses: command, with: {run: uptime}}]\n",
		"fails":  "steps: [{name: fail, uses: command, with: {run: \"echo '<b>no</b>'; exit 3\"}}]\n",
		"nights": "schedule: {cron: \"0 3 * * *\"}\nsteps: [{name: look, uses: command, with: {run: uptime}}]\n",
	} {
		l.file("ops/playbooks/"+name+".yaml", "playbook: "+name+"\ntargets: true\n"+text)
	}
	for name, steps := range map[string]string{
		"branch":        "schedule: {cron: \"0 4 * * *\"}\nstrategy: {waves: [2, 100%], pause_between: approve}\nsteps: [{name: look, uses: command, with: {run: uptime}}]\n",
		"branch-nights": "steps: [{name: look, uses: command, window: branch, needs: 5m, with: {run: uptime}}]\n",
	} {
		l.file("ops/playbooks/"+name+".yaml", "playbook: "+name+"\ntenant: customer-0\ntargets: 'host.customer == \"customer-0\"'\n"+steps)
	}
	l.file("ops/windows/branch.yaml", `window_sets:
  branch:
    timezone: Europe/Berlin
    approval: {state: proposed, by: customer, at: 2026-11-01}
    allow:
      - {id: night, rrule: "FREQ=WEEKLY;BYDAY=WE", from: "22:00", to: "+1d 05:00"}
`)
}

// launched starts a playbook when the definitions are there.
func (s *fleetSite) launched(playbook string) string {
	s.t.Helper()
	var run api.Run
	until(s.t, "the run of "+playbook, func() bool {
		var err error
		run, err = s.client.CreateRun(s.t.Context(), playbook, api.NewRun{Playbook: playbook})
		return err == nil
	})
	return run.ID
}

// over waits for the end of a run.
func (s *fleetSite) over(run string) {
	s.t.Helper()
	until(s.t, "the end of run "+run, func() bool {
		now, err := s.client.Run(s.t.Context(), run)
		return err == nil && now.Complete()
	})
}

// waiting waits until a run asks for an approval.
func (s *fleetSite) waiting(run string) {
	s.t.Helper()
	until(s.t, "run "+run+" to ask", func() bool {
		now, err := s.client.Run(s.t.Context(), run)
		return err == nil && now.Waits != nil
	})
}

// role makes the token of another person, and returns its secret.
func (s *fleetSite) role(name, role, tenant string) string {
	s.t.Helper()
	return s.made(name, role, tenant).Secret
}

func (s *fleetSite) made(name, role, tenant string) api.Token {
	s.t.Helper()
	made, err := s.client.CreateToken(s.t.Context(), api.NewToken{Name: name, Role: role, Tenant: tenant})
	if err != nil {
		s.t.Fatal(err)
	}
	return made
}

// Each page in a real Chromium: on a phone, at 200 % zoom, on a screen and on a wall, light and
// dark. Nothing is blocked or fails, nothing is wider than the window, and no rule of WCAG 2.2 AA
// is broken.
func TestLabBrowserShowsEveryPage(t *testing.T) {
	t.Parallel()
	s := newFleetSite(t, 24)
	failed, changed, waits := s.launched("fails"), s.launched("change"), s.launched("waves")
	s.over(failed)
	s.over(changed)
	s.waiting(waits)
	host := s.fleet.Hosts()[0].Name
	b := newBrowser(t, s.client.Server())
	paths := []string{"/login", "/", "/runs/" + failed, "/runs/" + changed, "/runs/" + waits, "/runs/" + failed + "/hosts/0", "/runs/" + failed + "/retry", "/runs/nosuch", "/hosts/" + host,
		"/runs", "/runs?phase=finished", "/fleet", "/fleet?by=site&in=site-1", "/calendar", "/calendar?days=1", "/playbooks", "/playbooks/change", "/playbooks/change?plan=1&check=1", "/schedules", "/schedules/nights", "/windows", "/windows/maintenance", "/windows/branch",
		"/project", "/queue", "/audit", "/notifications", "/tokens", "/settings"}
	for _, path := range paths {
		if path == "/" {
			b.logIn(s.token)
		}
		name := strings.NewReplacer(failed, "failed", changed, "changed", waits, "waits", host, "host").Replace(path)
		var loaded int64 // at this width: a theme needs no load
		for _, v := range []struct {
			width int64
			theme string
			rules string
		}{{390, "light", allRules}, {390, "dark", ""}, {640, "dark", ""}, {1280, "light", allRules}, {1280, "dark", themeRules}, {2560, "light", ""}, {2560, "dark", ""}} {
			what := fmt.Sprintf("%s-%d-%s", name, v.width, v.theme)
			b.screen(v.width, v.theme)
			if v.width != loaded {
				b.open(path)
				loaded = v.width
			}
			b.fits(what)
			if v.rules != "" {
				b.accessible(what, v.rules)
			}
			b.keep(what)
			if said := b.errors(); said != "" && path != "/runs/nosuch" { // a status of 404 is also an error on the console
				t.Errorf("%s: the browser logged: %s", what, said)
			}
		}
	}
}

// A person sees without a reload what another one does; a person without the right has no button.
func TestLabBrowserActs(t *testing.T) {
	t.Parallel()
	s := newFleetSite(t, 12)
	run := s.launched("waves")
	s.waiting(run)
	acts, looks := newBrowser(t, s.client.Server()), newBrowser(t, s.client.Server())
	acts.logIn(s.token)
	looks.logIn(s.role("vera", "viewer", "*"))
	looks.open("/runs/" + run)
	looks.sees("wave 2")
	if n, err := evaluated[int](looks, "document.querySelectorAll('#run form').length"); err != nil || n != 0 {
		t.Errorf("a viewer has %d forms, %v", n, err)
	}
	acts.open("/runs/" + run)
	acts.press("Pause")
	looks.sees("paused")
	acts.press("Resume")
	acts.press("Approve or refuse wave 2")
	acts.fill("#approve-2-reason", "fine")
	acts.press("Approve wave 2")
	looks.sees("finished")
	looks.sees("approved")
	acts.open("/playbooks/fails")
	acts.press("Preview")
	acts.press("Launch")
	acts.sees("12 failed")
	for _, b := range []*browser{acts, looks} {
		if said := b.errors(); said != "" {
			t.Errorf("the browser logged: %s", said)
		}
	}
}

// A page that lost its connection shows that, and catches up without a reload.
func TestLabBrowserCatchesUp(t *testing.T) {
	t.Parallel()
	s := newFleetSite(t, 4)
	run := s.launched("waves")
	s.waiting(run)
	b, line := newBrowser(t, s.client.Server()), &line{}
	line.to(t, s.client.Server())
	b.server = "http://" + line.address
	b.logIn(s.token)
	b.open("/runs/" + run)
	b.sees("wave 2")
	line.cut(true)
	b.sees("Reconnecting. This page is as of ")
	if _, err := s.client.ApproveRun(t.Context(), run, api.Approve{Wave: 2}); err != nil {
		t.Fatal(err)
	}
	s.over(run)
	b.sees("Reconnecting. This page is as of ")
	line.cut(false)
	b.sees("cancelled")
	b.wait(`document.getElementById("live").textContent === ""`)
}

// line is a connection between a browser and a server that can be cut.
type line struct {
	address string

	mu    sync.Mutex // guards the rest
	isCut bool
	open  map[net.Conn]bool
}

// to listens, and hands on what it gets to a server.
func (l *line) to(t *testing.T, server string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.address, l.open = listener.Addr().String(), map[net.Conn]bool{}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { l.serve(from, strings.TrimPrefix(server, "http://")) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.cut(true)
		serving.Wait()
	})
}

func (l *line) serve(from net.Conn, server string) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	if !l.holds(from, to) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(from, to); _ = from.Close() })
	_, _ = io.Copy(to, from)
	_ = to.Close()
	back.Wait()
}

// holds remembers connections, for cut; ok is false while the line is cut.
func (l *line) holds(conns ...net.Conn) (ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		l.open[c] = true
	}
	return !l.isCut
}

// cut ends all connections and lets none begin, or lets them begin again.
func (l *line) cut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = cut
	if cut {
		for c := range l.open {
			_ = c.Close()
		}
		clear(l.open)
	}
}
