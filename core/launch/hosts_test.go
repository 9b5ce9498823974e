package launch

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

const roleWeb = `host.labels.role == "web"`

// listing is a playbook whose only step reads an expression over hosts.
func listing(t *testing.T, head, expression string) *playbooks.Playbook {
	t.Helper()
	return parse(t, head+"steps:\n  - name: a\n    uses: file\n    with:\n      content: |-\n        ${{ "+expression+" }}\n")
}

// rendered returns the step of a launch for a host, read back from the snapshot as a worker does.
func rendered(t *testing.T, l *Launch, h core.Host) string {
	t.Helper()
	s, err := snapshot.Decode(l.Run.Payload)
	if err != nil {
		t.Fatal(err)
	}
	with, err := l.Playbook.Steps[0].With.JSON(playbooks.Env{Host: h, Vars: l.Playbook.Vars, Hosts: s.Hosts[h.Customer]})
	if err != nil {
		t.Fatal(err)
	}
	return string(with)
}

func TestHostListsTakeTheWholeInventory(t *testing.T) {
	all := fleet(5)
	all[1].Labels = map[string]string{"role": "db"}
	all[3].Address, all[3].Vars = "192.0.2.3", map[string]any{"port": 8080, "weight": 0.5, "token": "s3cret"}
	p := listing(t, "targets: host.name == \"h0001\"\nvars: {role: web}\n", `map(hosts('host.labels.role == vars.role'), [#.address, #.vars.port, #.vars.weight])`)
	prepare := func(all []core.Host) *Launch {
		l, err := Prepare(p, all[1:2], Options{Inventory: all})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := prepare(all)
	if got, want := rendered(t, l, all[1]), `{"content":[["h0000",null,null],["h0002",null,null],["192.0.2.3",8080,0.5],["h0004",null,null]]}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if text := string(l.Run.Payload); strings.Contains(text, "s3cret") || strings.Contains(text, "fra") || !strings.Contains(text, `"version":9`) {
		t.Errorf("more travels than is read: %s", text)
	}
	if want := []string{"h0000", "h0002", "h0003", "h0004"}; !reflect.DeepEqual(l.Listed, want) {
		t.Errorf("listed %v", l.Listed)
	}
	if data := string(l.Run.Targets[0].Data); strings.Contains(data, "192.0.2.3") {
		t.Errorf("a job has other hosts: %s", data)
	}
	if got := rendered(t, prepare(all[:3]), all[1]); strings.Contains(got, "192.0.2.3") {
		t.Errorf("a removed host: %s", got)
	}
	again, err := l.Again("r2", "bob", "", "", time.Now(), nil)
	if err != nil || rendered(t, again, all[1]) != rendered(t, l, all[1]) {
		t.Errorf("again: %v", err)
	}
}

// A misspelt group would empty a load balancer: a launch warns of a list that is empty.
func TestEmptyHostListsGiveAWarning(t *testing.T) {
	all := fleet(3)
	all[0].Groups = []string{"web"}
	for group, want := range map[string]string{
		"web": "",
		"wbe": `test: hosts('"wbe" in host.groups') gives no host` + "\nhint: turnus hosts ls --select '\"wbe\" in host.groups' shows which hosts it selects",
	} {
		l, err := Prepare(listing(t, "targets: 'true'\n", `map(hosts('"`+group+`" in host.groups'), #.name)`), all[1:], Options{Inventory: all})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(l.Warnings(), "\n"); got != want {
			t.Errorf("%s: got %q, want %q", group, got, want)
		}
	}
}

func TestHostListsKeepCustomersApart(t *testing.T) {
	all := fleet(4)
	all[1].Customer, all[2].Customer = "globex", ""
	names := func(head string, h core.Host) string {
		l, err := Prepare(listing(t, head, `join(map(hosts('true'), #.name), " ")`), all, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return rendered(t, l, h)
	}
	for _, tt := range []struct {
		head string
		host int
		want string
	}{
		{"targets: true\n", 0, "h0000 h0003"},
		{"targets: true\n", 1, "h0001"},
		{"targets: true\n", 2, "h0002"},
		{"targets: true\ntenant: acme\n", 0, "h0000 h0003"},
		{"targets: true\ntenant: acme\n", 1, ""}, // users of acme see the output of this host
		{"targets: true\ntenant: acme\n", 2, "h0002"},
	} {
		if got := names(tt.head, all[tt.host]); got != fmt.Sprintf(`{"content":%q}`, tt.want) {
			t.Errorf("%s on %s of %q: %s, want %s", tt.head, all[tt.host].Name, all[tt.host].Customer, got, tt.want)
		}
	}
	all[1].Customer = "acme" // the control: only the customer keeps the host out
	if got := names("targets: true\n", all[0]); !strings.Contains(got, "h0001") {
		t.Errorf("control: %s", got)
	}
}

func TestHostListsReadFactsOnRecord(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	facts := map[string]*core.Facts{
		"h0000": core.Gathered(map[string]any{"os": map[string]any{"family": "debian"}}, noon.Add(-time.Minute)),
		"h0001": core.Gathered(map[string]any{"os": map[string]any{"family": "debian"}}, noon.Add(-2*time.Hour)),
		"h0002": core.Gathered(map[string]any{"os": map[string]any{"family": "alpine"}}, noon),
	}
	o := Options{Now: noon, Facts: func(h core.Host) (core.Facts, bool) {
		f := facts[h.Name]
		if f == nil {
			return core.Facts{}, false
		}
		return *f, true
	}}
	for expression, want := range map[string]string{
		`map(hosts('host.facts.os.family == "debian"'), #.name)`:        `["h0000"]`,
		`map(hosts('true'), [#.name, #.facts.os?.family, #.facts.age])`: `[["h0000","debian",60],["h0001",null,null],["h0002","alpine",0],["h0003",null,null]]`,
	} {
		l, err := Prepare(listing(t, "targets: true\nfacts: {max_age: 1h}\n", expression), fleet(4), o)
		if err != nil {
			t.Fatal(err)
		}
		if got := rendered(t, l, l.Hosts[0]); got != `{"content":`+want+`}` {
			t.Errorf("%s: %s", expression, got)
		}
		if l.Repeatable() {
			t.Errorf("%s: another run would have the facts of this one", expression)
		}
	}
}

// A playbook may take the hosts whose facts are older than a time, and those whose are younger.
func TestTargetsReadTheAgeOfFacts(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	ages := map[string]time.Duration{"h0000": time.Minute, "h0001": 2 * time.Hour, "h0002": -time.Second, "h0004": 3 * time.Hour}
	o := Options{Now: noon, Facts: func(h core.Host) (core.Facts, bool) {
		age, known := ages[h.Name]
		return *core.Gathered(map[string]any{"cpus": 4}, noon.Add(-age)), known
	}}
	for targets, want := range map[string]string{
		`host.facts.age > 3600`:  "[h0001] without [h0003 h0004]",
		`host.facts.age <= 3600`: "[h0000 h0002] without [h0003 h0004]",
		`host.facts.age >= 0`:    "[h0000 h0001 h0002] without [h0003 h0004]",
	} {
		p, err := playbooks.Parse("test.yaml", []byte("playbook: test\ntargets: "+targets+"\nfacts: {max_age: 150m}\nsteps: [{uses: command, with: {run: date}}]\n"), playbooks.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := Prepare(p, fleet(5), o)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, h := range l.Hosts {
			names = append(names, h.Name)
		}
		if got := fmt.Sprint(names, " without ", l.WithoutFacts); got != want {
			t.Errorf("%s: %s, expected %s", targets, got, want)
		}
	}
}

func TestHostListsAreBounded(t *testing.T) {
	all := fleet(100)
	for i := range all {
		all[i].Vars = map[string]any{"big": strings.Repeat("x", 60<<10)}
	}
	_, err := Prepare(listing(t, "targets: true\n", `len(map(hosts('true'), #.vars))`), all, Options{})
	if !errors.Is(err, core.ErrInvalid) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"test.yaml:8:", "more than 4 MiB to the run, with 69 hosts", "fields that the playbook reads of these: vars"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	if _, err := Prepare(listing(t, "targets: true\n", `len(hosts('true'))`), all, Options{}); err != nil {
		t.Errorf("without the vars: %v", err)
	}
	slow := listing(t, "targets: true\n", `len(hosts('host.vars.big.deep == nil'))`)
	if _, err := Prepare(slow, all, Options{}); err == nil || !strings.Contains(err.Error(), "test.yaml:8:") || !strings.Contains(err.Error(), "host h0000") {
		t.Errorf("an error of the expression: %v", err)
	}
	made := &Launch{Playbook: listing(t, "targets: true\n", `len(hosts('true'))`), Hosts: all}
	if _, err := made.newHostLists(all, Options{within: time.Nanosecond}); err == nil || !strings.Contains(err.Error(), "take longer than 1ns") {
		t.Errorf("got %v", err)
	}
}

// Ten thousand hosts read a list of all: it is in the snapshot once, and in no job.
func TestHostListsOfManyHostsAreSmall(t *testing.T) {
	all := fleet(10_000)
	for i := range all {
		all[i].Address, all[i].Vars = fmt.Sprintf("10.0.%d.%d", i/250, i%250), map[string]any{"unread": strings.Repeat("x", 1000)}
	}
	p := listing(t, "targets: true\n", `join(map(hosts('`+roleWeb+`'), #.address + " " + #.name), "\n")`)
	began := time.Now()
	l, err := Prepare(p, all, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes of snapshot, made in %v", len(l.Run.Payload), time.Since(began))
	if n := len(l.Run.Payload); n > 64*len(all) {
		t.Errorf("the snapshot has %d bytes", n)
	}
	for _, target := range l.Run.Targets {
		if len(target.Data) > 1500 {
			t.Fatalf("job of %s has %d bytes", target.Host, len(target.Data))
		}
	}
	if got := rendered(t, l, all[0]); strings.Count(got, `\n`) != len(all)-1 {
		t.Errorf("%d lines", strings.Count(got, `\n`))
	}
}

func BenchmarkHostLists(b *testing.B) {
	all := fleet(10_000)
	p, err := playbooks.Parse("test.yaml", []byte("playbook: test\ntargets: host.name == \"h0000\"\nsteps:\n  - {uses: file, with: {content: \"${{ map(hosts('"+`host.labels.role == \"web\"`+"'), #.name) }}\"}}\n"), playbooks.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		l, err := Prepare(p, all[:1], Options{Inventory: all})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(l.Run.Payload)), "snapshot-B")
	}
}
