//go:build linux && labs

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport/fleet"
)

// upWithSources is turnus up with sources beside a project that has one host.
func upWithSources(t *testing.T, hosts int, sources string) *upSite {
	t.Helper()
	l := newLab(t, fleet.Config{Hosts: hosts})
	u := &upSite{lab: l, data: filepath.Join(l.dir, "data")}
	if err := os.MkdirAll(filepath.Join(l.dir, "ops", "playbooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	l.file("ops/inventory.yaml", "hosts: {own: {address: 127.0.0.1, customer: birch}}\n")
	l.file("ops/playbooks/all.yaml", "playbook: all\ntargets: host.customer == \"acme\"\nsteps: [{uses: command, with: {run: \"true\"}}]\n")
	u.more = []string{"--sources", l.file("sources.yaml", sources)}
	return u
}

// fetched waits until a source has so many hosts in use.
func fetched(t *testing.T, c *client.Client, hosts int) api.Source {
	t.Helper()
	var s api.Source
	until(t, fmt.Sprintf("%d hosts to be fetched", hosts), func() bool {
		all, err := c.Sources(context.Background(), client.Page{})
		if err != nil || len(all.Items) != 1 {
			return false
		}
		s = all.Items[0]
		return s.Hosts == hosts
	})
	return s
}

// scraper reads the metrics of turnus up.
func (u *upSite) scraper(p *process) func() samples {
	u.t.Helper()
	token, err := os.ReadFile(filepath.Join(u.data, "admin.token"))
	if err != nil {
		u.t.Fatal(err)
	}
	web := &http.Client{Transport: &http.Transport{}}
	u.t.Cleanup(web.CloseIdleConnections)
	return func() samples { return scraped(u.t, web, address(p), strings.TrimSpace(string(token)), "server") }
}

// A run goes over the hosts of another system, and logs in to them as to the project's.
func TestLabUpRunsOnHostsOfAnotherSystem(t *testing.T) {
	t.Parallel()
	var l *lab
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts := map[string]any{}
		for _, h := range l.fleet.Hosts() {
			hosts[h.Name] = map[string]any{"address": h.Address, "port": h.SSH.Port, "user": h.SSH.User, "credential": "default", "host_key": h.SSH.HostKeys}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"hosts": hosts})
	}))
	defer web.Close()
	u := upWithSources(t, 3, "sources: {cmdb: {type: http, tenant: acme, url: "+web.URL+"}}\n")
	l = u.lab
	p, c := u.up()
	fetched(t, c, 3)
	run := submitted(t, c)
	finished(t, c, run.ID)
	if got, err := c.Run(context.Background(), run.ID); err != nil || got.Total != 3 || got.Outcomes["failed"]+got.Outcomes["unreachable"] != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	p.kill()
}

// 3000 hosts of NetBox come in at most eight requests. A generation with six percent fewer waits,
// also over a restart, until a person approves it.
func TestLabUpHoldsWhatNetBoxLacks(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "promtool", "prometheus")
	box := &servers.NetBox{Devices: servers.NetBoxDevices(3000), Cursor: true}
	web := httptest.NewServer(box)
	defer web.Close()
	u := upWithSources(t, 1, "sources: {nb: {type: netbox, tenant: acme, every: 10s, token: netbox, url: "+web.URL+", filter: {site: fra}}}\n")
	u.file("logins.yaml", login(u.fleet.IdentityFile())+"secrets: {netbox: {file: token}}\n")
	u.file("token", "0123456789")
	p, c := u.up()
	s := fetched(t, c, 3000)
	if n := len(box.Requests()); n > 8 || s.Generation == "" || s.State != "good" {
		t.Errorf("%d requests: %+v", n, s)
	}
	planned := func(hosts int) {
		t.Helper()
		until(t, fmt.Sprintf("a plan of %d hosts", hosts), func() bool {
			plan, err := c.PlanRun(context.Background(), api.NewRun{Playbook: "all"})
			return err == nil && plan.Hosts == hosts
		})
	}
	planned(3000)
	scrape := u.scraper(p)
	good := scrape()
	box.Has(servers.NetBoxDevices(2820))
	until(t, "it waits", func() bool { return fetched(t, c, 3000).Waiting != nil })
	planned(3000)
	text, lasts := alertRules(t)
	judge(t, u.file("rules.yml", text), good, scrape(), map[string]time.Duration{"TurnusSourceWaiting": lasts["TurnusSourceWaiting"]})
	p.kill()
	p, c = u.up()
	s = fetched(t, c, 3000)
	planned(3000)
	args := []string{"--server", address(p), "--token-file", filepath.Join(u.data, "admin.token")}
	diff := u.start(append([]string{"inventory", "diff", "nb"}, args...)...)
	diff.wants(0)
	if !diff.out.has("waiting for approval, with 2820 hosts: it lacks 180 of 3000 hosts", "- sw2999", "turnus inventory approve nb "+strings.Join(args, " ")+" --generation "+s.Waiting.Generation) {
		t.Errorf("it shows\n%s", tail(diff.out.String()))
	}
	u.start(append([]string{"inventory", "approve", "nb", "--generation", s.Waiting.Generation + "0"}, args...)...).wants(5)
	planned(3000)
	u.start(append([]string{"inventory", "approve", "nb", "--generation", s.Waiting.Generation}, args...)...).wants(0)
	planned(2820)
	show := u.start(append([]string{"inventory", "show", "sw0001"}, args...)...)
	show.wants(0)
	if !show.out.has("source nb: devices/2 primary_ip.address") {
		t.Errorf("it shows\n%s", show.out)
	}
	if strings.Contains(p.err.String(), "0123456789") {
		t.Error("the token is in the log")
	}
}

// A source that fails from the first fetch on has no last good hosts, so launches are also refused.
func TestLabAlertsOfASourceThatFails(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "promtool", "prometheus")
	status := http.StatusOK
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, `{"hosts": {"a": {}}}`)
	}))
	defer web.Close()
	u := upWithSources(t, 1, "sources: {cmdb: {type: http, tenant: acme, url: "+web.URL+"}}\n")
	p, c := u.up()
	fetched(t, c, 1)
	good := u.scraper(p)()
	p.kill()
	status, u.data = http.StatusForbidden, filepath.Join(u.dir, "other")
	p, c = u.up()
	until(t, "the fetch to fail", func() bool {
		all, err := c.Sources(context.Background(), client.Page{})
		return err == nil && len(all.Items) == 1 && all.Items[0].State == "refused" && strings.Contains(all.Items[0].Reason, "403")
	})
	text, lasts := alertRules(t)
	want := map[string]time.Duration{"TurnusSourceFailed": lasts["TurnusSourceFailed"], "TurnusSourceRefused": lasts["TurnusSourceRefused"]}
	judge(t, u.file("rules.yml", text), good, u.scraper(p)(), want)
	p.kill()
}
