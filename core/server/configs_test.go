package server

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/configs"
)

// keepConfig keeps a version of a host's configuration, in a repository of this server.
func (b *bed) keepConfig(host, run, text string) string {
	b.t.Helper()
	if b.server.cfg.Configs == nil {
		r, err := configs.New(filepath.Join(b.t.TempDir(), "configs.git"))
		must(b.t, err)
		b.t.Cleanup(func() { _ = r.Close() })
		b.server.cfg.Configs = r
	}
	kept, err := b.server.cfg.Configs.Keep(b.t.Context(), configs.Change{Host: host, Files: []configs.File{{Name: "running.conf", Content: []byte(text)}}, Author: "ann", At: time.Now(), Playbook: "backup", Run: run, Step: "keep"})
	must(b.t, err)
	return kept.Version
}

// Any two kept versions of a host are compared. A tenant sees what runs kept while the host was its
// own; the name may have been another tenant's host before. Control: the provider sees all.
func TestVersionsOfAConfiguration(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	const path = "/v1/hosts/acme-1/configs"
	operator := b.token("acme", Operator)
	if a := b.ask(operator, "GET", path, nil); a.status != http.StatusNotFound || !strings.Contains(a.body, "turnus hosts config ls acme-1") {
		t.Errorf("without a repository: %d %s", a.status, a.body)
	}
	run := b.launch("acme", api.NewRun{})
	b.finish(run)
	foreign := b.keepConfig("acme-1", "of-globex", "psk globex\n")
	_, err := b.server.cfg.Configs.Keep(t.Context(), configs.Change{Host: "acme-1", Files: []configs.File{{Name: "secret.conf", Content: []byte("psk")}}, Author: "eve", At: time.Now(), Playbook: "backup", Run: "of-globex", Step: "keep"})
	must(t, err)
	first := b.keepConfig("acme-1", run.ID, "mtu 1500\n")
	b.keepConfig("acme-2", run.ID, "another host\n")
	second := b.keepConfig("acme-1", run.ID, "mtu 9000\n")
	third := b.keepConfig("acme-1", run.ID, "mtu 9000\nsnmp off\n")
	versions := func(token string) (all []string) {
		for _, v := range want[struct{ Items []api.ConfigVersion }](t, b.ask(token, "GET", path, nil), http.StatusOK).Items {
			all = append(all, v.Version)
		}
		return all
	}
	if got, want := strings.Join(versions(operator), " "), strings.Join([]string{third, second, first}, " "); got != want {
		t.Errorf("the tenant sees %s, expected %s", got, want)
	}
	ofHost := want[struct{ Items []api.ConfigVersion }](t, b.ask(operator, "GET", "/v1/hosts/acme-2/configs", nil), http.StatusOK).Items
	if len(ofHost) != 1 || ofHost[0].Index == nil || *ofHost[0].Index != 1 {
		t.Errorf("the version leads to no job of its run: %+v", ofHost)
	}
	if got := versions(b.token(everyTenant, Operator)); len(got) != 5 || got[4] != foreign {
		t.Errorf("control: the provider sees %v", got)
	}
	diff := func(query string) api.ConfigDiff {
		t.Helper()
		return want[api.ConfigDiff](t, b.ask(operator, "GET", path+"/diff?"+query, nil), http.StatusOK)
	}
	for query, has := range map[string]string{
		"":                                    "+snmp off\n",
		"from=" + first[:12] + "&to=" + third: "-mtu 1500\n+mtu 9000\n+snmp off\n",
		"to=" + second:                        "-mtu 1500\n+mtu 9000\n",
		"to=" + first:                         "--- /dev/null\n+++ acme-1/running.conf\n@@ -0,0 +1 @@\n+mtu 1500\n",
	} {
		if d := diff(query); len(d.Files) != 1 || !strings.Contains(d.Files[0].Diff, has) || strings.Contains(d.Files[0].Diff, "globex") {
			t.Errorf("%q: %+v, expected %q", query, d, has)
		}
	}
	for _, query := range []string{"to=" + foreign, "from=" + foreign, "from=--output=x", "to=HEAD"} {
		if a := b.ask(operator, "GET", path+"/diff?"+query, nil); a.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
	if a := b.ask(operator, "GET", path+"/diff?to="+first, nil); strings.Contains(a.body, "secret.conf") {
		t.Errorf("a file that another tenant's run kept: %s", a.body)
	}
	b.keepConfig("acme-1", run.ID, strings.Repeat("a long line of a configuration\n", 20_000))
	if d := diff(""); !d.Files[0].Cut || len(d.Files[0].Diff) > configDiff || d.Files[0].Added != 20_000 {
		t.Errorf("a long diff: %d bytes, %d lines added, cut: %t", len(d.Files[0].Diff), d.Files[0].Added, d.Files[0].Cut)
	}
	if a := b.ask(b.token("acme", Viewer), "GET", path, nil); a.status != http.StatusForbidden {
		t.Errorf("a viewer: %d", a.status)
	}
}
