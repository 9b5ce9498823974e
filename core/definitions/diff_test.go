package definitions

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/windows"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) // a Friday

func textOf(t *testing.T, c Changes) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDiffSaysWhatMatters(t *testing.T) {
	const hosts, playbook, sets = "inventory/hosts.yaml", "playbooks/patch.yaml", "windows/sets.yaml"
	for name, tc := range map[string]struct {
		old, now map[string]string
		want     string
	}{
		"nothing":  {good(), with(good(), "README.md", "other", "files/motd", "x"), "no changes\n"},
		"comment":  {good(), edited(good(), playbook, "steps:", "# here\nsteps:"), "~ playbook patch\n    only comments or layout\n0 added, 0 removed, 1 changed\n"},
		"strategy": {good(), edited(good(), playbook, "max_in_flight: 5", "max_in_flight: 9"), "~ playbook patch\n    strategy.max_in_flight: 5 -> 9\n"},
		"targets":  {good(), edited(good(), playbook, `'"web" in host.groups'`, `host.name != "a"`), "~ playbook patch\n    targets: \"web\" in host.groups -> host.name != \"a\"\n    1 host more: c\n    1 host less: a\n"},
		"steps": {good(), edited(good(), playbook, "{name: look, uses: command, with: {run: uptime}}", "{name: see, uses: command, with: {run: w}}\n  - {name: last, uses: command, with: {run: last}}"),
			"    adds step see, last\n    removes step look\n"},
		"step's params": {good(), edited(good(), playbook, "run: apt", "run: dnf, env: {A: hush}"), "    step patch: with: env, run\n"},
		"step's need":   {good(), edited(good(), playbook, "40m", "1h"), "    step patch: needs: 40m -> 1h\n"},
		"group": {edited(good(), playbook, "{name: look, uses: command, with: {run: uptime}}", "{name: g, steps: [{name: look, uses: command, with: {run: uptime}}]}"),
			edited(good(), playbook, "{name: look, uses: command, with: {run: uptime}}", "{name: g, recover: true, steps: [{name: first, uses: command, with: {run: w}}], rescue: [{name: look, uses: command, with: {run: uptime}}]}"),
			"    adds step first\n    group g: recover: none -> true\n    group g: rescue: none -> look\n    group g: steps: look -> first\n"},
		"vars":            {good(), edited(good(), playbook, "{token: hush}", "{token: hush2}"), "    vars: token\n"},
		"moved":           {good(), with(good(), "playbooks/deep/report.yml", "", "playbooks/report.yaml", good()["playbooks/deep/report.yml"]), "~ playbook report\n    file: playbooks/deep/report.yml -> playbooks/report.yaml\n"},
		"inventory moves": {good(), edited(good(), hosts, "c: {address: 10.0.0.3}", "c: {address: 10.0.0.3, groups: [web], window_set: sat}"), "~ playbook patch\n    1 host more: c\n~ host c\n    joins group web\n    window_set: none -> sat\n"},
		"host":            {good(), edited(good(), hosts, "10.0.0.3", "10.0.0.4"), "~ host c\n    address: 10.0.0.3 -> 10.0.0.4\n"},
		"host's secret":   {good(), edited(good(), hosts, "secret: hush", "secret: hush3"), "~ host b\n    vars: secret\n"},
		"new host":        {good(), edited(good(), hosts, "  c:", "  d: {customer: acme}\n  c:"), "+ host d\n    d, customer acme\n"},
		"schedule": {good(), edited(good(), playbook, "0 3 * * 1", "30 4 * * 2"),
			"~ playbook patch\n    its schedule\n~ schedule patch\n    cron: 0 3 * * 1 -> 30 4 * * 2\n    next fire time Tue 2026-11-24 04:30 CET, not Mon 2026-11-23 03:00 CET\n"},
		"schedule's vars": {edited(good(), playbook, "timezone: Europe/Zurich}", "timezone: Europe/Zurich, vars: {token: hush1}}"), edited(good(), playbook, "timezone: Europe/Zurich}", "timezone: Europe/Zurich, vars: {token: hush2}}"),
			"~ schedule patch\n    vars: token\n"},
		"schedule goes": {good(), edited(good(), playbook, "schedule: {cron: \"0 3 * * 1\", timezone: Europe/Zurich}\n", ""), "- schedule patch\n    0 3 * * 1 Europe/Zurich\n    next fire time was Mon 2026-11-23 03:00 CET\n"},
		"window later":  {good(), edited(good(), sets, `from: "22:00"`, `from: "23:00"`), "~ window set sat\n    rule night: from: 22h0m0s -> 23h0m0s\n    adds 7, removes 7 occurrences in the next 60 days\n"},
		"freeze": {good(), edited(good(), sets, "to: \"2027-01-07\"", "to: \"2027-01-12\""),
			"~ window set sat\n    removes 1 occurrence in the next 60 days\n~ freeze xmas\n    to: 2027-01-07T00:00:00Z -> 2027-01-12T00:00:00Z\n"},
		"new set":  {good(), edited(good(), sets, "freezes:", "  sun:\n    timezone: UTC\n    allow: [{cron: \"0 1 * * 0\", duration: 2h}]\nfreezes:"), "+ window set sun\n    opens 9 times in the next 60 days\n"},
		"holidays": {edited(good(), sets, "freezes:", "holidays: {h: {dates: [2026-01-01]}}\nfreezes:"), edited(good(), sets, "freezes:", "holidays: {h: {dates: [2026-01-02]}}\nfreezes:"), "~ holidays h\n    adds 2026-01-02\n    removes 2026-01-01\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got := textOf(t, Diff(mustSet(t, tc.old), mustSet(t, tc.now), noon))
			if !strings.Contains(got, tc.want) {
				t.Errorf("got\n%s\nexpected in it\n%s", got, tc.want)
			}
			if strings.Contains(got, "hush") {
				t.Errorf("shows values of vars or params:\n%s", got)
			}
		})
	}
}

// An approval that is bound to the contents of the set is void after an edit; one that was not
// bound, or is bound again, is not.
func TestDiffSaysWhichApprovalsAnEditVoids(t *testing.T) {
	const sets = "windows/sets.yaml"
	bare := mustSet(t, good())
	approve := func(tree map[string]string, hash string) map[string]string {
		return edited(tree, sets, "    deny:", "    approval: {id: CHG0041, by: acme-cab, state: approved, window: \""+hash+"\"}\n    deny:")
	}
	before := approve(good(), bare.Windows.Sets["sat"].Hash())
	after := edited(before, sets, `from: "22:00"`, `from: "23:00"`)
	before = approve(good(), bare.Windows.Sets["sat"].Hash())
	c := Diff(mustSet(t, before), mustSet(t, after), noon)
	if len(c.Changes) != 1 || !reflect.DeepEqual(c.Changes[0].Voids, []string{"CHG0041"}) || c.Changes[0].WindowsCome != 0 || c.Changes[0].WindowsGo != 7 {
		t.Fatalf("got %+v", c)
	}
	if text := textOf(t, c); !strings.Contains(text, "voids approval CHG0041") {
		t.Error(text)
	}
	late := edited(good(), sets, `from: "22:00"`, `from: "23:00"`)
	again := approve(late, mustSet(t, edited(good(), sets, `from: "22:00"`, `from: "23:00"`)).Windows.Sets["sat"].Hash())
	if c := Diff(mustSet(t, before), mustSet(t, again), noon); len(c.Changes) != 1 || len(c.Changes[0].Voids) != 0 {
		t.Errorf("approved again: %+v", c)
	}
}

// Approvals that were given at a server are also bound to the hash of their set.
func TestDiffSaysWhichGivenApprovalsAnEditVoids(t *testing.T) {
	t.Parallel()
	before := mustSet(t, edited(good(), "windows/sets.yaml", "    deny:", "    approval: {by: acme-cab, state: proposed}\n    deny:"))
	hash := before.Windows.HashOf(before.Windows.Sets["sat"])
	given := func(id, rule, bound string, state windows.State, at, until time.Time) windows.Given {
		return windows.Given{Set: "sat", Rule: rule, Approval: windows.Approval{ID: id, By: "acme/ann", State: state, At: at, Until: until, Window: bound}}
	}
	early, late, other := noon.AddDate(0, 0, -9), noon.AddDate(0, 0, -1), "sha256:"+strings.Repeat("0", 64)
	holds := given("CHG7", "", hash, windows.Approved, late, time.Time{})
	edit := func(path, from, to string) *Set { return mustSet(t, edited(treeOf(before), path, from, to)) }
	later := edit("windows/sets.yaml", `from: "22:00"`, `from: "23:00"`)
	for name, c := range map[string]struct {
		after *Set
		given []windows.Given
		want  []string
	}{
		"it holds":                   {later, []windows.Given{holds}, []string{"CHG7 by acme/ann"}},
		"without an id":              {later, []windows.Given{given("", "", hash, windows.Approved, late, time.Time{})}, []string{"of the set by acme/ann"}},
		"of a rule":                  {later, []windows.Given{given("", "night", hash, windows.Approved, late, time.Time{})}, []string{"of rule night by acme/ann"}},
		"of an earlier text":         {later, []windows.Given{given("CHG6", "", other, windows.Approved, late, time.Time{})}, nil},
		"it has ended":               {later, []windows.Given{given("CHG6", "", hash, windows.Approved, early, late)}, nil},
		"it was revoked":             {later, []windows.Given{given("CHG6", "", hash, windows.Approved, early, time.Time{}), given("", "", "", windows.Revoked, late, time.Time{})}, nil},
		"revoked and approved later": {later, []windows.Given{given("", "", "", windows.Revoked, early, time.Time{}), holds}, []string{"CHG7 by acme/ann"}},
		"given twice":                {later, []windows.Given{holds, holds}, []string{"CHG7 by acme/ann"}},
		"an edit of a playbook":      {edit("playbooks/patch.yaml", "max_in_flight: 5", "max_in_flight: 9"), []windows.Given{holds}, nil},
		"a comment in the set":       {edit("windows/sets.yaml", "    deny:", "    # the same\n    deny:"), []windows.Given{holds}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, one := range DiffGiven(before, c.after, c.given, noon).Changes {
				got = append(got, one.Voids...)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("voids %q, expected %q", got, c.want)
			}
		})
	}
	changes := DiffGiven(before, later, []windows.Given{holds}, noon)
	if c := changes.Changes[0]; c.WindowsGo == 0 || !strings.Contains(textOf(t, changes), "voids approval CHG7 by acme/ann") {
		t.Errorf("windows that were open by it: %+v", c)
	}
}

// treeOf returns the files of a set.
func treeOf(s *Set) map[string]string {
	tree := map[string]string{}
	for _, d := range s.Documents() {
		tree[d.Path] = string(d.Data)
	}
	return tree
}

// A set that inherits what it opens is void of its approval when the wider one is edited.
func TestDiffSaysThatAnInheritedEditVoids(t *testing.T) {
	tree := func(to, hash string) map[string]string {
		out := good()
		out["windows/wide.yaml"] = `window_sets:
  wide: {scope: {}, timezone: UTC, allow: [{id: n, rrule: FREQ=DAILY, from: "22:00", to: "` + to + `"}]}
  acme: {scope: {customer: acme}, timezone: UTC, approval: {id: C9, by: cab, window: "` + hash + `"}}
`
		return out
	}
	bare := mustSet(t, tree("23:00", "sha256:"+strings.Repeat("0", 64))).Windows
	hash := bare.HashOf(bare.Sets["acme"])
	c := Diff(mustSet(t, tree("23:00", hash)), mustSet(t, tree("24:00", hash)), noon)
	i := slices.IndexFunc(c.Changes, func(c Change) bool { return c.Name == "acme" })
	if i < 0 || !slices.Equal(c.Changes[i].Voids, []string{"C9"}) {
		t.Errorf("%+v", c.Changes)
	}
}

func TestDiffJSONIsStable(t *testing.T) {
	a, b := mustSet(t, good()), mustSet(t, edited(good(), "inventory/hosts.yaml", "10.0.0", "10.0.1"))
	one, err := json.Marshal(Diff(a, b, noon))
	if err != nil {
		t.Fatal(err)
	}
	two, _ := json.Marshal(Diff(mustSet(t, good()), b, noon))
	if !bytes.Equal(one, two) {
		t.Errorf("%s\n%s", one, two)
	}
	if empty, _ := json.Marshal(Diff(a, a, noon)); !strings.Contains(string(empty), `"changes":[]`) {
		t.Errorf("%s", empty)
	}
	if c := Diff(nil, a, noon); len(c.Changes) != 2+1+1+1+3 || !Diff(nil, nil, noon).Empty() {
		t.Errorf("from nothing: %+v", c)
	}
}

// A change by which a tenant's runs need no other person's approval is seen before it is merged.
func TestFaultS13DiffSaysWhoDemandsFourEyes(t *testing.T) {
	t.Parallel()
	files := good()
	files = edited(files, "inventory/hosts.yaml", "address: 10.0.0.3", "address: 10.0.0.3, customer: acme")
	free, demanding := mustSet(t, files), mustSet(t, with(files, "turnus.yaml", "four_eyes: [acme]\n"))
	weighty := mustSet(t, with(files, "turnus.yaml", "tenant_weights: {acme: 3}\n"))
	if weighty.TenantWeight("acme") != 3 || weighty.TenantWeight("other") != 1 {
		t.Errorf("weights %d, %d", weighty.TenantWeight("acme"), weighty.TenantWeight("other"))
	}
	for want, c := range map[string]Changes{
		"four_eyes: its runs need another person's approval":           Diff(free, demanding, noon),
		"four_eyes: its runs no longer need another person's approval": Diff(demanding, free, noon),
		"tenant_weights: 3, before: 1":                                 Diff(free, weighty, noon),
	} {
		if text := textOf(t, c); !strings.Contains(text, "~ tenant acme\n    "+want) {
			t.Errorf("%s", text)
		}
	}
}

// A commit may edit no more than a file that playbooks send: hosts get another one.
func TestDiffNamesTheFilesThatPlaybooksSend(t *testing.T) {
	t.Parallel()
	const file = "playbooks/files/install.sh"
	r := newRepo(t, with(good(), file, "one\n", "playbooks/files/gone", "x\n"))
	first := r.head()
	second := r.commit("second", with(good(), file, "two\n", "playbooks/deep/new", "x\n", "README.md", "other\n", "playbooks/.hidden", "x\n"))
	r.git("update-index", "--chmod=+x", file)
	r.git("commit", "--quiet", "--no-verify", "-m", "third")
	third := r.head()
	load := func(commit string) *Set {
		t.Helper()
		set, err := LoadRevision(t.Context(), r.dir, commit, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	want := "+ file playbooks/deep/new\n- file playbooks/files/gone\n~ file playbooks/files/install.sh\n    its content\n1 added, 1 removed, 1 changed\n"
	if got := textOf(t, Diff(load(first), load(second), noon)); got != want {
		t.Errorf("got\n%s\nexpected\n%s", got, want)
	}
	if got := textOf(t, Diff(load(second), load(third), noon)); !strings.Contains(got, "install.sh\n    its mode\n") {
		t.Error(got)
	}
	if c := Diff(load(first), mustSet(t, good()), noon); !c.Empty() {
		t.Errorf("with documents, of whose other files nothing is known: %+v", c.Changes)
	}
}

// An included file has its own defaults and outputs, beside its steps.
func TestDiffNamesWhatAnIncludedFileSays(t *testing.T) {
	t.Parallel()
	const file = "playbooks/steps/site.yaml"
	tree := func() map[string]string {
		return with(good(), file, "params: {color: {type: string, default: hush}}\nsteps: [{name: one, uses: command, with: {run: date}}]\noutputs: {kind: web}\n",
			"playbooks/site.yaml", "playbook: site\ntargets: true\nsteps: [{name: all, include: steps/site.yaml}]\n")
	}
	for what, c := range map[string]struct{ from, to, want string }{
		"default": {"default: hush", "default: hush2", "    steps/site.yaml: params: color\n"},
		"output":  {"kind: web", "kind: db", "    steps/site.yaml: outputs: kind\n"},
		"comment": {"params:", "# here\nparams:", "    only comments or layout\n"},
		"step":    {"run: date", "run: w", "    step all/one: with: run\n"},
	} {
		got := textOf(t, Diff(mustSet(t, tree()), mustSet(t, edited(tree(), file, c.from, c.to)), noon))
		if want := "~ playbook site\n" + c.want + "0 added, 0 removed, 1 changed\n"; got != want {
			t.Errorf("%s: got\n%s\nexpected\n%s", what, got, want)
		}
	}
}

// Approvals under approvals: are named whenever their windows are, and whatever work they are for.
func TestDiffNamesApprovalsThatStandApart(t *testing.T) {
	t.Parallel()
	const file = "windows/decisions.yaml"
	bound := ", targets: \"sha256:" + strings.Repeat("0", 64) + "\""
	const at = "2026-11-01T00:00:00Z"
	entry := "  - {set: sat, id: CHG7, by: acme/ann, at: \"" + at + "\", from: \"2027-06-01T00:00:00Z\"" + bound + "}\n"
	revoked := "  - {set: sat, rule: night, by: bob, at: \"" + at + "\", state: revoked}\n"
	tree := func(entries string) map[string]string { return with(good(), file, "approvals:\n"+entries) }
	none := with(good(), file, "approvals: []\n")
	for what, c := range map[string]struct {
		from, to map[string]string
		want     string
	}{
		"added":   {none, tree(entry), "adds approval CHG7 of the set by acme/ann at " + at + " (approved)"},
		"removed": {tree(entry), none, "removes approval CHG7 of the set by acme/ann at " + at + " (approved)"},
		"unbound": {tree(entry), edited(tree(entry), file, bound, ""), "approval CHG7 of the set by acme/ann at " + at + ": targets: sha256:" + strings.Repeat("0", 64) + " -> none"},
		"revoked": {tree(entry), tree(entry + revoked), "adds approval of rule night by bob at " + at + " (revoked)"},
	} {
		got := textOf(t, Diff(mustSet(t, c.from), mustSet(t, c.to), noon))
		if !strings.HasPrefix(got, "~ window set sat\n    "+c.want+"\n") {
			t.Errorf("%s: got\n%s\nexpected\n%s", what, got, c.want)
		}
	}
	// One id may be of several rules.
	two := edited(good(), "windows/sets.yaml", "    deny:", "      - {id: day, rrule: \"FREQ=WEEKLY;BYDAY=SU\", from: \"10:00\", to: \"12:00\", approval: {id: CHG1, by: cab}}\n    deny:")
	two = edited(two, "windows/sets.yaml", "to: \"+1d 04:00\"}", "to: \"+1d 04:00\", approval: {id: CHG1, by: cab}}")
	before := mustSet(t, two)
	one := edited(two, "windows/sets.yaml", "to: \"12:00\", approval: {id: CHG1, by: cab}}", "to: \"12:00\", approval: {id: CHG1, by: cab, state: proposed}}")
	if got := textOf(t, Diff(before, mustSet(t, one), noon)); !strings.Contains(got, "    approval CHG1 of rule day: state: ") {
		t.Error(got)
	}
}
