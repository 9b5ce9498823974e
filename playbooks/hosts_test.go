package playbooks_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

const web = `hosts('"web" in host.groups')`

// withText parses a playbook of one step with an expression, as YAML takes it in a block.
func withText(expression string) (*playbooks.Playbook, error) {
	src := "playbook: p\ntargets: true\nvars: {group: web}\nsteps:\n  - uses: file\n    with:\n      content: |-\n        ${{ " + expression + " }}\n"
	return playbooks.Parse("p.yaml", []byte(src), playbooks.Options{})
}

func TestHostsNotesWhatIsRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ expression, fields string }{
		{`len(` + web + `)`, ""},
		{`join(map(` + web + `, #.address), " ")`, "address"},
		{`map(` + web + `, .name)`, "name"},
		{web + ` | filter(#.labels.role == "x") | map(({n: #.name, p: #.vars.db.port}))`, "labels.role name vars.db.port"},
		{`map(` + web + `, #.vars)`, "vars"},
		{`map(` + web + `, ({a: #.vars, b: #.vars.port}))`, "vars"},
		{`map(sortBy(` + web + `, #.site, "desc"), #["address"])`, "address site"},
		{`first(` + web + `)?.facts?.os?.family ?? "none"`, "facts.os.family"},
		{web + `[0].facts.age`, "facts.age"},
		{`find(` + web + `, has_group(#, "db")) != nil`, "groups"},
		{`let webs = ` + web + `; len(webs) > 0 ? webs[0].name : ""`, "name"},
		{`map(true ? ` + web + ` : [], #.pool)`, "pool"},
		{`map(concat(` + web + `, []), #.ha_group)`, "ha_group"},
		{`map(` + web + `[1:3], #.customer)`, "customer"},
		{`reduce(` + web + `, #acc + len(#.groups), 0)`, "groups"},
		{`any(` + web + `, any(#.groups, # == "x"))`, "groups"},
		{`map(map(` + web + `, #), #.name)`, "name"},
		{`map(` + web + `, #.labels[vars.group])`, "labels"},
		{`default(` + web + `, [])[0].name`, "name"},
		{`count(` + web + `, #.vars.weight != nil)`, "vars.weight"},
		{`map(take(reverse(` + web + `), 2), #.name)`, "name"},
		{`get(` + web + `, 0)?.name`, "name"},
		{`any(` + web + `, "role" in #.labels)`, "labels"},
		{`len(` + web + `[0].facts)`, "facts"},
	} {
		p, err := withText(tt.expression)
		if err != nil {
			t.Errorf("%s:\n%v", tt.expression, err)
			continue
		}
		lists := p.HostLists()
		if len(lists) != 1 || lists[0].Text != `"web" in host.groups` || strings.Join(lists[0].Fields(), " ") != tt.fields {
			t.Errorf("%s: lists %+v, fields %q, want %q", tt.expression, lists, lists[0].Fields(), tt.fields)
		}
		if reads := strings.Contains(tt.fields, "facts"); (p.FactsAge > 0) != reads {
			t.Errorf("%s: facts age %v", tt.expression, p.FactsAge)
		}
	}
}

func TestHostsThatAreRefused(t *testing.T) {
	t.Parallel()
	whole := "only fields of them can be used"
	for _, tt := range []struct{ expression, want string }{
		{web, whole},
		{`toJSON(` + web + `)`, whole},
		{`first(` + web + `)`, whole},
		{`map(` + web + `, ({h: #}))`, whole},
		{`[` + web + `]`, whole},
		{`groupBy(` + web + `, #.site)`, whole},
		{`reduce(` + web + `, #acc.name + #.name)`, whole},
		{`sort(` + web + `)`, whole},
		{`host in ` + web, whole},
		{`map(` + web + `, #.adress)`, `a host of hosts() has no "adress"`},
		{`map(` + web + `, #.adress)`, `did you mean "address"`},
		{`map(` + web + `, #.facts.os.famly)`, `did you mean "family"`},
		{`map(` + web + `, #.ssh)`, `has no "ssh"`},
		{`map(` + web + `, #[vars.group])`, "the name of the field is computed"},
		{web + `.name`, `hosts() gives a list, which has no "name"`},
		{`hosts(vars.group)`, "needs one text that is written out"},
		{`hosts()`, "needs one text that is written out"},
		{`hosts('true', 'true')`, "needs one text that is written out"},
		{`len(hosts(''))`, "empty expression"},
		{`len(hosts('host.nme == "x"'))`, `p.yaml:8:29: host has no "nme"`},
		{`len(hosts('host.nme == \'x\''))`, `p.yaml:8:23: host has no "nme"`},
		{`len(hosts('host.name'))`, "true or false"},
		{`len(hosts('steps.x.changed'))`, "hosts() selects before any step runs"},
		{`len(hosts('len(hosts("true")) > 0'))`, "hosts() cannot be read here"},
		{`len(hosts('vars.groop in host.groups'))`, `did you mean "group"`},
		{`len(host('true'))`, `did you mean "hosts"`},
		{`len(groups["web"])`, web},
		{`hostvars["a"].x`, "#.vars.NAME"},
	} {
		_, err := withText(tt.expression)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v\nwant %s", tt.expression, err, tt.want)
		}
	}
}

// A list that is joined with itself forty times is followed once.
func TestHostsJoinedAgainAndAgain(t *testing.T) {
	t.Parallel()
	text := "let v0 = " + web + "; "
	for i := range 40 {
		text += fmt.Sprintf("let v%d = concat(v%d, v%d); ", i+1, i, i)
	}
	p, err := withText(text + "map(v40, #.name)")
	if err != nil || !slices.Equal(p.HostLists()[0].Fields(), []string{"name"}) {
		t.Errorf("%v", err)
	}
}

func TestHostsOnlyInSteps(t *testing.T) {
	t.Parallel()
	if _, err := playbooks.CompileSelector(`len(` + web + `) > 0`); err == nil || !strings.Contains(err.Error(), "hosts() cannot be read here") {
		t.Errorf("got %v", err)
	}
	_, err := playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: len(hosts('true')) > 0\nsteps: [{uses: file}]\n"), playbooks.Options{})
	if err == nil || !strings.Contains(err.Error(), "p.yaml:2:14: hosts() cannot be read here") {
		t.Errorf("got %v", err)
	}
	var many strings.Builder
	for i := range playbooks.MaxHostLists + 1 {
		fmt.Fprintf(&many, "  - {uses: file, when: len(hosts('host.name == \"h%d\"')) > 0}\n", i)
	}
	_, err = playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: true\nsteps:\n"+many.String()), playbooks.Options{})
	if err == nil || !strings.Contains(err.Error(), "too many different hosts()") {
		t.Errorf("got %v", err)
	}
}

func TestForeachOverHosts(t *testing.T) {
	t.Parallel()
	src := "playbook: p\ntargets: true\nsteps:\n  - uses: file\n    foreach: hosts('true')\n    when: item.name != host.name\n    with: {content: '${{ item.vars.key }}'}\n"
	p, err := playbooks.Parse("p.yaml", []byte(src), playbooks.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lists := p.HostLists()
	if got := lists[0].Fields(); !slices.Equal(got, []string{"name", "vars.key"}) {
		t.Errorf("fields %q", got)
	}
	env := playbooks.Env{Host: web1(), Hosts: map[string][]any{"true": {lists[0].Object(web1())}}}
	items, err := p.Steps[0].Foreach.List(env)
	if err != nil || !reflect.DeepEqual(items, []any{map[string]any{"name": "web-1", "vars": map[string]any{}}}) {
		t.Errorf("items %v, %v", items, err)
	}
	for _, tt := range []struct{ item, want string }{{"item", "only fields"}, {"item.nme", `did you mean "name"`}} {
		_, err := playbooks.Parse("p.yaml", []byte(strings.Replace(src, "item.vars.key", tt.item, 1)), playbooks.Options{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.item, err)
		}
	}
}

func TestHostsInAnIncludedFile(t *testing.T) {
	t.Parallel()
	parse := func(expression string) error {
		steps := "params: {group: {type: string}}\nsteps:\n  - {uses: file, with: {content: \"${{ " + expression + " }}\"}}\n"
		_, err := playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: true\nvars: {g: x}\nsteps:\n  - {uses: file, when: \"len(hosts('true')) + len(hosts('vars.g in host.groups')) > 0\"}\n  - {include: steps/a.yaml, with: {group: web}}\n"),
			playbooks.Options{Steps: func(string) ([]byte, error) { return []byte(steps), nil }})
		return err
	}
	if err := parse(`len(hosts('true'))`); err != nil {
		t.Error(err)
	}
	for _, e := range []string{`len(hosts('params.group in host.groups'))`, `len(hosts('vars.g in host.groups'))`} {
		if err := parse(e); err == nil || !strings.Contains(err.Error(), "steps/a.yaml:3:") || !strings.Contains(err.Error(), "in an included file hosts() reads host only") {
			t.Errorf("%s: %v", e, err)
		}
	}
}

func TestHostsGivesOnlyWhatIsRead(t *testing.T) {
	t.Parallel()
	p, err := withText(`map(` + web + `, ({a: #.address, r: #.labels.role, p: #.vars.port, f: #.facts.os?.family, s: #.facts.age}))`)
	if err != nil {
		t.Fatal(err)
	}
	h := web1()
	h.Vars["password"] = "hunter2"
	h.Facts = map[string]any{"os": map[string]any{"family": "debian", "id": "ubuntu"}, "cpus": 4}
	h.FactsAge = time.Minute
	object := p.HostLists()[0].Object(h)
	want := map[string]any{"address": "10.1.2.3", "labels": map[string]any{"role": "web"}, "vars": map[string]any{"port": 8080.0},
		"facts": map[string]any{"os": map[string]any{"family": "debian"}, "age": 60}}
	if !reflect.DeepEqual(object, want) {
		t.Errorf("got %v\nwant %v", object, want)
	}
	unknown := p.HostLists()[0].Object(core.Host{Name: "new"})
	got, err := p.Steps[0].With.JSON(playbooks.Env{Host: h, Hosts: map[string][]any{`"web" in host.groups`: {object, unknown}}})
	var with struct {
		Content []map[string]any `json:"content"`
	}
	if err == nil {
		err = json.Unmarshal(got, &with)
	}
	rows := []map[string]any{{"a": "10.1.2.3", "r": "web", "p": 8080.0, "f": "debian", "s": 60.0}, {"a": "new", "r": nil, "p": nil, "f": nil, "s": nil}}
	if err != nil || !reflect.DeepEqual(with.Content, rows) {
		t.Errorf("got %s, %v", got, err)
	}
	empty, err := p.Steps[0].With.JSON(playbooks.Env{Host: h})
	if err != nil || string(empty) != `{"content":[]}` {
		t.Errorf("without hosts: %s, %v", empty, err)
	}
}
