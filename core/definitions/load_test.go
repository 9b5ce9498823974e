package definitions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/playbooks"
)

func TestLoadReadsAWholeTree(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, good())
	s, err := Load(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Playbooks) != 2 || s.Playbooks[0].Name != "patch" || s.Playbooks[1].Name != "report" {
		t.Errorf("playbooks %+v", s.Playbooks)
	}
	if len(s.Inventory.Hosts) != 3 || s.Windows.Sets["sat"] == nil || len(s.Schedules) != 1 || s.Schedules[0].Playbook != "patch" {
		t.Errorf("set %+v", s)
	}
	if got := fmt.Sprint(s.Selected("patch"), s.Selected("report")); got != "[a b] [a b c]" {
		t.Errorf("selected %s", got)
	}
	if p, ok := s.Playbook("report"); !ok || p.File != "playbooks/deep/report.yml" {
		t.Errorf("report: %+v", p)
	}
	if len(s.Warnings) > 0 {
		t.Errorf("warnings %v", s.Warnings)
	}
}

// Each mistake is reported with its place and what to do; several together.
func TestLoadReportsMistakes(t *testing.T) {
	const hosts, playbook, sets = "inventory/hosts.yaml", "playbooks/patch.yaml", "windows/sets.yaml"
	for name, tc := range map[string]struct {
		tree map[string]string
		want []string
	}{
		"host's window set": {edited(good(), hosts, "groups: [web], window_set: sat}", "groups: [web], window_set: sta}"),
			[]string{"inventory/hosts.yaml:4:53: window set \"sta\" is not defined, but host a has it", `did you mean "sat"?`}},
		"playbook's window set": {edited(good(), playbook, "window: service", "window: sattt"),
			[]string{`playbooks/patch.yaml:3:9: window set "sattt" is not defined`, "3 | window: sattt"}},
		"step's window set": {edited(good(), playbook, "needs: 40m", "needs: 40m, window: nobody"),
			[]string{`playbooks/patch.yaml:9:72: window set "nobody" is not defined`, "there are: sat"}},
		"unknown freeze":     {edited(good(), sets, "freeze/xmas", "freeze/xmsa"), []string{"windows/sets.yaml:6:18: unknown freeze \"xmsa\"", "did you mean"}},
		"misspelt key":       {edited(good(), playbook, "targets:", "tragets:"), []string{"playbooks/patch.yaml:2:1", "targets"}},
		"inventory":          {edited(good(), hosts, "address: 10.0.0.3", "adress: 10.0.0.3"), []string{"inventory/hosts.yaml:6:7", "address"}},
		"all at once":        {edited(edited(good(), playbook, "targets:", "tragets:"), hosts, "address: 10.0.0.3", "adress: 1"), []string{"patch.yaml:2:1", "hosts.yaml:6:7"}},
		"same name":          {with(good(), "playbooks/other.yaml", good()[playbook]), []string{`playbooks/patch.yaml:1:11: a second playbook is named "patch"`, "the first is in playbooks/other.yaml"}},
		"no playbooks":       {with(good(), playbook, "", "playbooks/deep/report.yml", ""), []string{"the tree has no playbooks", "playbooks: []"}},
		"no inventory":       {with(good(), hosts, ""), []string{"the tree has no inventory", "inventory, or inventory.yaml"}},
		"both":               {with(good(), "inventory.yaml", "hosts: {}\n"), []string{"inventory and inventory.yaml are there both"}},
		"layout key":         {with(good(), "turnus.yaml", "playbook: x\n"), []string{`turnus.yaml:1:1: unknown key "playbook"`, `did you mean "playbooks"?`, "1 | playbook: x"}},
		"four eyes typo":     {with(good(), "turnus.yaml", "four_eyes: [nobody]\n"), []string{`turnus.yaml:1:13: four_eyes: no host and no playbook is of tenant "nobody"`}},
		"four eyes no list":  {with(good(), "turnus.yaml", "four_eyes: acme\n"), []string{`turnus.yaml:1:12: four_eyes is the text "acme": expected a list of tenants`}},
		"weight of nobody":   {with(good(), "turnus.yaml", "tenant_weights: {nobody: 2}\n"), []string{`turnus.yaml:1:18: tenant_weights: no host and no playbook is of tenant "nobody"`}},
		"weight 0":           {with(good(), "turnus.yaml", "tenant_weights: {acme: 0}\n"), []string{`turnus.yaml:1:24: acme "0": expected a whole number from 1 to 1000`}},
		"weights no mapping": {with(good(), "turnus.yaml", "tenant_weights: 3\n"), []string{"turnus.yaml:1:17: tenant_weights is the number 3: expected a mapping"}},
		"four eyes twice":    {with(good(), "turnus.yaml", "four_eyes: []\nfour_eyes: []\n"), []string{`turnus.yaml:2:1: key "four_eyes" is given twice`}},
		"layout place":       {with(good(), "turnus.yaml", "playbooks: playboks\n"), []string{`turnus.yaml:1:12: playbooks: there is no "playboks"`, `did you mean "playbooks"?`}},
		"layout leaves":      {with(good(), "turnus.yaml", "inventory: [../etc]\n"), []string{`turnus.yaml:1:13: inventory: "../etc" is not in the tree`}},
		"layout absolute":    {with(good(), "turnus.yaml", "windows: /etc\n"), []string{`"/etc" is not in the tree`}},
		"layout twice":       {with(good(), "turnus.yaml", "windows: windows\nwindows: windows\n"), []string{`turnus.yaml:2:1: key "windows" is given twice`}},
		"layout no mapping":  {with(good(), "turnus.yaml", "- a\n"), []string{"expected a mapping with the keys"}},
		"layout not YAML":    {with(good(), "turnus.yaml", "a: [\n"), []string{"turnus.yaml: not YAML"}},
		"program":            {with(good(), "inventory/dyn.py", "#!/usr/bin/python3\n"), []string{"a program is not run from a repository"}},
		"password":           {with(good(), "inventory/more", "z ansible_password=hunter2\n"), []string{"inventory/more:1:1: ansible_password: an inventory that others write", "credential: NAME", "Change the password"}},
		"targets cannot say": {edited(good(), playbook, `'"web" in host.groups'`, `int(host.name) > 3`), []string{"playbooks/patch.yaml:2:", "host a:"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := FromDocuments(t.Context(), docsOf(tc.tree), Options{})
			var d playbooks.Diagnostics
			if !errors.Is(err, core.ErrInvalid) || !errors.As(err, &d) {
				t.Fatalf("got %v", err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("does not contain %q:\n%v", want, err)
				}
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("shows a password: %v", err)
			}
		})
	}
}

func TestLoadWarns(t *testing.T) {
	tree := edited(good(), "inventory/hosts.yaml", "groups: [web], window_set: sat}", "groups: [web]}")
	tree = with(tree, "playbooks/none.yaml", "playbook: none\ntargets: host.name == \"nobody\"\nsteps: [{uses: command, with: {run: x}}]\n")
	s := mustSet(t, tree)
	text := playbooks.Diagnostics(s.Warnings).Error()
	for _, want := range []string{"playbooks/patch.yaml:3:9: 1 of 2 hosts have no window set, so nothing disruptive will ever run on them: a", "playbooks/none.yaml:2:10: targets: selects none of 3 hosts"} {
		if !strings.Contains(text, want) {
			t.Errorf("does not contain %q:\n%s", want, text)
		}
	}
}

// A tenant whose hosts only a source has is accepted where sources are known, and a misspelt one is
// refused where that can be known.
func TestTenantsOfSources(t *testing.T) {
	const refused, warned, taken = "refused", "warned", "taken"
	acme, any := KnownSource{"cmdb", "acme"}, KnownSource{"nb", ""}
	for _, c := range []struct {
		name    string
		file    string
		sources []KnownSource
		want    string
	}{
		{"no source", "four_eyes: [ghost]\n", nil, refused},
		{"of the source", "four_eyes: [zeta]\n", []KnownSource{acme, {"z", "zeta"}}, taken},
		{"of no source", "four_eyes: [zeat]\n", []KnownSource{acme, {"z", "zeta"}}, refused},
		{"of any tenant", "four_eyes: [zeat]\n", []KnownSource{any}, warned},
		{"a weight of any tenant", "tenant_weights: {zeat: 2}\n", []KnownSource{acme, any}, warned},
		{"a weight of the source", "tenant_weights: {zeta: 2}\n", []KnownSource{{"z", "zeta"}}, taken},
		{"a source of another process", "four_eyes: [zeat]\n", []KnownSource{{}}, warned},
		{"no name", "four_eyes: ['']\n", []KnownSource{any}, refused},
		{"all hosts are of sources", "inventory: []\nfour_eyes: [ghost]\n", nil, warned},
		{"all hosts are of one tenant's source", "inventory: []\nfour_eyes: [ghost]\n", []KnownSource{acme}, refused},
	} {
		tree := with(good(), "turnus.yaml", c.file)
		set, err := FromDocuments(t.Context(), docsOf(tree), Options{Sources: c.sources})
		got, text := refused, fmt.Sprint(err)
		if err == nil {
			got, text = taken, playbooks.Diagnostics(set.Warnings).Error()
		}
		if got == taken && strings.Contains(text, "is of tenant") {
			got = warned
		}
		if got != c.want || got == warned && !strings.Contains(text, "so only hosts of a source can be") {
			t.Errorf("%s: %s, expected %s: %s", c.name, got, c.want, text)
		}
	}
}

// In a project whose hosts come from sources only, no playbook has a warning before there are
// hosts.
func TestAProjectWithoutHostsOfItsOwn(t *testing.T) {
	tree := with(good(), "turnus.yaml", "inventory: []\n")
	for _, c := range []struct {
		sources []KnownSource
		want    string
	}{
		{nil, "turnus.yaml:1:12: the project has no hosts of its own, and what targets: selects of other hosts is known to a server with sources only"},
		{[]KnownSource{{"nb", ""}, {}}, "turnus.yaml:1:12: the project has no hosts of its own, and no generation of hosts is here yet of source nb"},
	} {
		set, err := FromDocuments(t.Context(), docsOf(tree), Options{Sources: c.sources})
		if err != nil {
			t.Fatal(err)
		}
		text := playbooks.Diagnostics(set.Warnings).Error()
		if len(set.Warnings) != 1 || !strings.HasPrefix(text, c.want) || !strings.Contains(text, "turnus inventory ls") {
			t.Errorf("%s, expected %s", text, c.want)
		}
		for hosts, want := range map[string]string{
			`{"hosts": {"n1": {"groups": ["web"]}}}`:         "",
			`{"hosts": {"n1": {}, "n2": {"customer": "x"}}}`: "playbooks/patch.yaml:2:10: targets: selects none of 2 hosts: 0 of the project, 2 of source nb",
		} {
			full, _, err := set.WithHosts(t.Context(), []inventory.Document{{Name: "source nb", Data: []byte(hosts)}})
			if err != nil {
				t.Fatal(err)
			}
			text := playbooks.Diagnostics(full.Warnings).Error()
			if strings.Contains(text, "no hosts of its own") || (want == "") == strings.Contains(text, "selects none") || !strings.Contains(text, want) {
				t.Errorf("with %s: %s, expected %q", hosts, text, want)
			}
		}
	}
}

// A schedule whose limit leaves no host of the playbook's is refused at its place. If a source may
// have the host, or only facts decide, it is not refused.
func TestLimitsOfSchedules(t *testing.T) {
	const facts = `playbook: patch
targets: host.facts.os.family == "debian"
window: none
schedule: {cron: "0 3 * * 1", LIMIT}
steps: [{name: look, uses: command, with: {run: uptime}}]
`
	for _, c := range []struct {
		name, limit, targets string
		sources              []KnownSource
		want                 string // of an error, of a warning behind "warning: "; "": nothing is reported
	}{
		{"a host", "limit: a", "", nil, ""},
		{"a list", "limit: [a, '!b']", "", nil, ""},
		{"a group", "limit: web", "", nil, ""},
		{"an unknown group", "limit: wbe", "", nil, `playbooks/patch.yaml:5:63: schedule: limit "wbe": "wbe" matches no host and no group`},
		{"an unknown group in a list", "limit: [web, eu]", "", nil, `playbooks/patch.yaml:5:63: schedule: limit "web,eu"`},
		{"none of targets", "limit: c", "", nil, "playbooks/patch.yaml:5:63: schedule: limit selects none of the 2 hosts that targets: selects"},
		{"nothing is left", "limit: [web, '!web']", "", nil, "selects none of the 2 hosts"},
		{"a host of a source", "limit: nb1", "", []KnownSource{{"nb", ""}}, `warning: playbooks/patch.yaml:5:63: schedule: limit "nb1"`},
		{"facts", "limit: c", facts, nil, ""},
		{"an unknown host and facts", "limit: ghost", facts, nil, `playbooks/patch.yaml:4:38: schedule: limit "ghost"`},
	} {
		tree := edited(good(), "playbooks/patch.yaml", "timezone: Europe/Zurich}", "timezone: Europe/Zurich, "+c.limit+"}")
		if c.targets != "" {
			tree = with(tree, "playbooks/patch.yaml", strings.Replace(c.targets, "LIMIT", c.limit, 1))
		}
		set, err := FromDocuments(t.Context(), docsOf(tree), Options{Sources: c.sources})
		got := ""
		if err != nil {
			got = err.Error()
		} else if text := playbooks.Diagnostics(set.Warnings).Error(); strings.Contains(text, "schedule:") {
			got = "warning: " + text
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, expected %q", c.name, got, c.want)
		}
	}
}

// The tenant of a playbook sees its runs, with the output of all their hosts.
func TestLoadWarnsOfATenantThatSeesOthersHosts(t *testing.T) {
	hosts := "hosts: {a: {customer: acme}, b: {customer: birch}, c: {}}\n"
	for targets, want := range map[string]string{
		"true":                              "playbooks/x.yaml:2:9: 1 of 3 hosts are of other customers than acme, whose tokens see what runs on them, and its output: b",
		"host.customer == \"acme\"":         "",
		"host.customer in [\"acme\", \"\"]": "",
	} {
		s := mustSet(t, map[string]string{
			"inventory.yaml":   hosts,
			"playbooks/x.yaml": "playbook: x\ntenant: acme\ntargets: '" + targets + "'\nsteps: [{uses: command, with: {run: x}}]\n",
		})
		text := playbooks.Diagnostics(s.Warnings).Error()
		if want == "" && len(s.Warnings) > 0 || !strings.Contains(text, want) {
			t.Errorf("%s: does not contain %q:\n%s", targets, want, text)
		}
	}
}

func TestLayoutNamesOtherPlaces(t *testing.T) {
	tree := map[string]string{
		"turnus.yaml": "playbooks: [ops/books, one.yaml]\ninventory: ops/hosts.ini\nwindows: ops/windows.yaml\n",
		"one.yaml":    "playbook: one\ntargets: true\nsteps: [{uses: command, with: {run: x}}]\n", "ops/books/two.yaml": "playbook: two\ntargets: host.vars.color == \"red\"\nsteps: [{uses: command, with: {run: x}}]\n",
		"ops/hosts.ini": "[web]\na\n", "ops/group_vars/web.yaml": "color: red\n", "ops/windows.yaml": "freezes: {x: {timezone: UTC, from: '2026-01-01', to: '2026-01-02'}}\n",
		"playbooks/broken.yaml": "nonsense",
	}
	s := mustSet(t, tree)
	if len(s.Playbooks) != 2 || s.Windows.Freezes["x"] == nil || fmt.Sprint(s.Selected("two")) != "[a]" {
		t.Errorf("set %+v", s)
	}
	if len(s.Documents()) != 6 {
		t.Errorf("documents %v", s.Documents())
	}
	empty := mustSet(t, map[string]string{"turnus.yaml": "playbooks: []\ninventory: []\n"})
	if len(empty.Playbooks)+len(empty.Inventory.Hosts) != 0 {
		t.Errorf("set %+v", empty)
	}
}

// Hosts of an .ini file that a folder skips would be missing without a word: the tree is refused.
// Control: the file is read where turnus.yaml names it, and is no inventory with another ending.
func TestSkippedIniIsRefused(t *testing.T) {
	_, err := FromDocuments(t.Context(), docsOf(with(good(), "inventory/more.ini", "[web]\nc\n")), Options{})
	if err == nil || !strings.Contains(err.Error(), "inventory/more.ini: an .ini file in a folder of inventories is not read") || !strings.Contains(err.Error(), "hint: rename it: git mv inventory/more.ini inventory/more") {
		t.Errorf("an .ini file beside others: %v", err)
	}
	mustSet(t, with(good(), "inventory/more.cfg", "[web]\nc\n"))
}

func TestDocumentsMakeTheSameSetElsewhere(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, with(good(), "turnus.yaml", "inventory: inventory\n"))
	rev := Revision{Commit: strings.Repeat("a", 40), Author: "Ann", Subject: "first"}
	s, err := Load(t.Context(), dir, Options{Revision: rev})
	if err != nil {
		t.Fatal(err)
	}
	data, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	docs, got, err := Decode(data)
	if err != nil || got != rev {
		t.Fatalf("%+v, %v", got, err)
	}
	again, err := FromDocuments(t.Context(), docs, Options{Revision: got})
	if err != nil {
		t.Fatal(err)
	}
	twice, err := again.Encode()
	if err != nil || string(twice) != string(data) || again.Hash() != s.Hash() {
		t.Errorf("not the same: %v", err)
	}
	if !Diff(s, again, noon).Empty() {
		t.Error("they differ")
	}
	for i := range docs {
		docs[i].Data = append([]byte("#\n"), docs[i].Data...)
		if Hash(docs) == s.Hash() {
			t.Error("another content has the same hash")
		}
	}
	for name, text := range map[string]string{"not JSON": "x", "newer": strings.Replace(string(data), `"version":1`, `"version":2`, 1),
		"changed": strings.Replace(string(data), `"playbooks/patch.yaml"`, `"playbooks/match.yaml"`, 1), "more": string(data) + "{}"} {
		if _, _, err := Decode([]byte(text)); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFromDocumentsRefusesPaths(t *testing.T) {
	for _, p := range []string{"../x", "/etc/passwd", "a//b", ".", "", "a/.git/config", "a/.GIT/x", "a\x00b", "a\nb", strings.Repeat("a/", 40) + "b", strings.Repeat("a", 2000)} {
		if _, err := FromDocuments(t.Context(), append(docsOf(good()), Document{p, nil}), Options{}); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%q: %v", p, err)
		}
	}
	if _, err := FromDocuments(t.Context(), append(docsOf(good()), Document{"README.md", nil}), Options{}); err == nil {
		t.Error("a path that is there twice is taken")
	}
}

// A folder's links are refused where files are read, and are not followed.
func TestLoadFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, good())
	outside := filepath.Join(t.TempDir(), "secret.yaml")
	if err := os.WriteFile(outside, []byte("playbook: secret-text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{"playbooks/leak.yaml", "inventory/leak", "windows/leak.yaml"} {
		if err := os.Symlink(outside, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Load(t.Context(), dir, Options{})
	if err == nil || strings.Count(err.Error(), "is a symbolic link") != 3 || strings.Contains(err.Error(), "secret-text") {
		t.Errorf("got %v", err)
	}
	if _, err := Load(t.Context(), filepath.Join(dir, "nowhere"), Options{}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Load(ctx, dir, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestLoadIsBounded(t *testing.T) {
	big := strings.Repeat("#", MaxFileSize+1)
	if _, err := FromDocuments(t.Context(), docsOf(with(good(), "inventory/big", big)), Options{}); err == nil || !strings.Contains(err.Error(), "inventory/big: the file is larger than 10 MiB") {
		t.Errorf("got %v", err)
	}
	tree := good()
	for i := range MaxDocuments + 1 {
		tree[fmt.Sprintf("inventory/f%d", i)] = ""
	}
	if _, err := FromDocuments(t.Context(), docsOf(tree), Options{}); err == nil || !strings.Contains(err.Error(), "more than 20000 files") {
		t.Errorf("got %v", err)
	}
	tree = good()
	for i := range 400 {
		tree[fmt.Sprintf("playbooks/p%d.yaml", i)] = "nonsense: true\n"
	}
	_, err := FromDocuments(t.Context(), docsOf(tree), Options{})
	var d playbooks.Diagnostics
	if !errors.As(err, &d) || len(d) != maxProblems || !strings.Contains(d[len(d)-1].Message, "more problems") {
		t.Errorf("%d problems", len(d))
	}
}

func TestSetIsSafeForConcurrentUse(t *testing.T) {
	a, b := mustSet(t, good()), mustSet(t, edited(good(), "windows/sets.yaml", "BYDAY=SA", "BYDAY=SU"))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				_ = Diff(a, b, noon)
				_, _ = a.Playbook("patch")
				_ = a.Hash()
			}
		})
	}
	all.Wait()
}

// A server that follows a branch comes to the end of every commit, whatever the targets: in it do.
func TestTargetsTakeNotForEver(t *testing.T) {
	t.Parallel()
	const loops = `count(1..199999, {# > 0}) > 0`
	slow := edited(good(), "playbooks/patch.yaml", `targets: '"web" in host.groups'`, "targets: '"+loops+"'")
	dir := t.TempDir()
	writeTree(t, dir, slow)
	if _, err := Load(t.Context(), dir, Options{}); err != nil { // negative control
		t.Error(err)
	}
	_, err := Load(t.Context(), dir, Options{within: time.Millisecond})
	if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "playbooks/patch.yaml:2:10: targets: of all playbooks take longer than 1ms; these were evaluated for ") {
		t.Errorf("%v", err)
	}
	// Time that ends within the last host of a playbook ends it before the next playbook: no commit
	// stands whose targets nobody evaluated.
	for _, host := range []string{"  b: {address: 10.0.0.2, groups: [web], window_set: sat, vars: {secret: hush}}\n", "  c: {address: 10.0.0.3}\n"} {
		slow = edited(slow, "inventory/hosts.yaml", host, "")
	}
	_, err = FromDocuments(t.Context(), docsOf(slow), Options{within: time.Millisecond})
	if !errors.Is(err, core.ErrInvalid) || strings.Count(err.Error(), "evaluated for 0 of 1 hosts by then") != 1 {
		t.Errorf("%v", err)
	}
}

// A playbook includes files of its own tree, wherever turnus.yaml places it; a problem in one has
// its place, and a difference in one is a change of the playbook.
func TestIncludedFiles(t *testing.T) {
	const playbook = "playbook: web\ntargets: true\nsteps:\n  - {name: s, include: steps/x.yaml}\n"
	const steps = "steps:\n  - {name: a, uses: command, with: {run: x}, window: sat}\n"
	load := func(tree map[string]string) (*Set, error) {
		dir := t.TempDir()
		writeTree(t, dir, tree)
		return Load(t.Context(), dir, Options{})
	}
	before, err := load(with(good(), "playbooks/web.yaml", playbook, "playbooks/steps/x.yaml", steps))
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := before.Playbook("web"); !ok || len(before.Playbooks) != 3 || p.Steps[0].Name != "s/a" {
		t.Errorf("%d playbooks: %+v", len(before.Playbooks), p)
	}
	after, err := load(with(good(), "web.yaml", playbook, "steps/x.yaml", strings.Replace(steps, "run: x", "run: y", 1), "turnus.yaml", "playbooks: [web.yaml, playbooks]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := after.Playbook("web"); !ok || p.Steps[0].Name != "s/a" {
		t.Errorf("playbook at the root: %+v", p)
	}
	found := false
	for _, c := range diffPlaybooks(before, after) {
		found = found || c.Name == "web" && strings.Contains(fmt.Sprint(c.Details), "step s/a: with: ")
	}
	if !found {
		t.Errorf("the difference is not reported: %+v", diffPlaybooks(before, after))
	}
	_, err = load(with(good(), "playbooks/web.yaml", playbook, "playbooks/steps/x.yaml", strings.Replace(steps, "sat", "nobody", 1)))
	if err == nil || !strings.Contains(err.Error(), `playbooks/steps/x.yaml:2:54: window set "nobody" is not defined`) || !strings.Contains(err.Error(), "included at playbooks/web.yaml:4:24") {
		t.Errorf("window set of an included step: %v", err)
	}
	_, err = load(with(good(), "playbooks/web.yaml", playbook))
	if err == nil || !strings.Contains(err.Error(), "playbooks/web.yaml:4:24: steps/x.yaml cannot be included: there is no such file") {
		t.Errorf("missing file: %v", err)
	}
}
