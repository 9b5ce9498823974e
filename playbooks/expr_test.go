package playbooks_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

func web1() core.Host {
	return core.Host{
		Name: "web-1", Address: "10.1.2.3", Customer: "acme", Site: "fra", HAGroup: "pair-1",
		Groups: []string{"linux", "web"}, Labels: map[string]string{"role": "web", "my-label": "x"},
		Vars: map[string]any{"port": 8080.0, "dirs": []any{"/a", "/b"}},
	}
}

func TestSelector(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want bool
	}{
		{`true`, true},
		{`host.name == "web-1"`, true},
		{`host.labels.role == "web" && host.site != "zrh"`, true},
		{`host.labels["my-label"] == "x"`, true},
		{`host.labels.missing == nil`, true},
		{`host.labels.missing == "web"`, false},
		{`host.vars.missing == nil`, true},
		{`default(host.labels.missing, "web") == "web"`, true},
		{`"web" in host.groups`, true},
		{`"db" in host.groups`, false},
		{`has_group(host, "linux") and not has_group(host, "db")`, true},
		{`cidr_contains("10.0.0.0/8", host.address)`, true},
		{`cidr_contains("10.2.0.0/16", host.address)`, false},
		{`cidr_contains("2001:db8::/32", host.address)`, false},
		{`host.name matches "^web-[0-9]+$"`, true},
		{`host.name startsWith "web"`, true},
		{`any(host.groups, # == "web")`, true},
		{`host.vars.port > 1024`, true},
		{`host.vars?.deep?.deeper == nil`, true},
		{`host.site in ["fra", "zrh"]`, true},
		{`let s = host.site; s == "fra"`, true},
		{`join(host.groups, ",") == "linux,web"`, true},
		{`replace(host.name, "web", "db") == "db-1"`, true},
		{`len(toJSON(host)) > 10`, true},
	} {
		e, err := playbooks.CompileSelector(tt.text)
		if err != nil {
			t.Errorf("%s:\n%v", tt.text, err)
			continue
		}
		if got, err := e.Bool(playbooks.Env{Host: web1()}); err != nil || got != tt.want {
			t.Errorf("%s = %v, %v, want %v", tt.text, got, err, tt.want)
		}
	}
}

func TestSelectorWithoutAddressReadsTheName(t *testing.T) {
	t.Parallel()
	e, err := playbooks.CompileSelector(`host.address == "10.9.9.9"`)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := e.Bool(playbooks.Env{Host: core.Host{Name: "10.9.9.9"}}); err != nil || !ok {
		t.Errorf("got %v, %v", ok, err)
	}
}

func TestSelectorReadsNothingButTheHost(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`vars.x == 1`, `steps.a.changed`, `item == 1`, `run.id == ""`, `$env != nil`, `__allowance == nil`,
		`__keep(host, 1) == 1`, `env("HOME") == ""`, `now() != nil`, `date("2026-01-01").Year() == 2026`, `host.name.Foo()`, `host.labels.x()`, ``, `   `,
		`host.name; host.nme`, `host.name +`, strings.Repeat("(", 9000), strings.Repeat("!", 4000) + "true", strings.Repeat("(", 4000) + "true" + strings.Repeat(")", 4000) + " && x"} {
		_, err := playbooks.CompileSelector(text)
		var diags playbooks.Diagnostics
		if !errors.As(err, &diags) || len(diags) == 0 {
			t.Errorf("%.40s: got %v, want Diagnostics", text, err)
		}
	}
}

// step builds a playbook of one step before and the given step.
func step(t *testing.T, vars, yaml string) *playbooks.Playbook {
	t.Helper()
	p, err := playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: true\nvars: "+vars+"\nsteps:\n  - {name: one, uses: script, with: {source: a}}\n"+yaml), options(t))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return p
}

func TestParams(t *testing.T) {
	t.Parallel()
	env := playbooks.Env{
		Host: web1(), Vars: map[string]any{"n": 7, "list": []any{1, "a"}, "text": "<&>", "f": 1.5}, Item: "it",
		Steps: map[string]map[string]any{"one": {"outcome": "changed", "changed": true, "stdout": " 42\n", "exit_code": 0, "outputs": map[string]any{"exit_code": true}}},
		Run:   map[string]any{"id": "r1", "playbook": "p", "check": false, "attempt": 1},
	}
	for _, tt := range []struct{ name, with, want string }{
		{"plain", `{run: uptime}`, `{"run":"uptime"}`},
		{"whole keeps its type", `{run: a, env: "${{ {a: \"b\"} }}"}`, `{"env":{"a":"b"},"run":"a"}`},
		{"mixed text", `{run: "n=${{ vars.n }} f=${{ vars.f }} b=${{ true }} s=${{ vars.text }}"}`, `{"run":"n=7 f=1.5 b=true s=<&>"}`},
		{"list as JSON in text", `{run: "l=${{ vars.list }} m=${{ {k: 1} }}"}`, `{"run":"l=[1,\"a\"] m={\"k\":1}"}`},
		{"escape", `{run: "$${{ literal }} ${{ vars.n }}"}`, `{"run":"${{ literal }} 7"}`},
		{"escape alone", `{run: "$${{ literal }}"}`, `{"run":"${{ literal }}"}`},
		{"braces in strings", `{run: "${{ \"}}\" + '{{' }}!"}`, `{"run":"}}{{!"}`},
		{"json of floats", `{run: "p=${{ host.vars.port }}"}`, `{"run":"p=8080"}`},
		{"step outputs", `{run: "${{ trim(steps.one.stdout) }} ${{ steps.one.outputs.exit_code }}"}`, `{"run":"42 true"}`},
		{"run", `{run: "${{ run.id }}/${{ run.attempt }}"}`, `{"run":"r1/1"}`},
		{"nested", `{run: a, env: {A: "${{ host.name }}", B: b}}`, `{"env":{"A":"web-1","B":"b"},"run":"a"}`},
		{"dates stay text", `{run: 2026-01-02}`, `{"run":"2026-01-02"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := step(t, "{n: 1, list: [], text: a, f: 0}", "  - {uses: command, with: "+tt.with+"}\n")
			got, err := p.Steps[1].With.JSON(env)
			if err != nil || string(got) != tt.want {
				t.Errorf("got %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

// split gives texts and a range gives whole numbers: lists of one Go type are lists of YAML.
func TestListsThatFunctionsGive(t *testing.T) {
	t.Parallel()
	env := playbooks.Env{Host: web1(), Vars: map[string]any{"text": "a,b"}}
	o := options(t)
	o.Types = func(string) (playbooks.Type, bool) {
		return playbooks.Type{Name: "lab", Params: json.RawMessage(`{"type": "object", "properties": {
			"names": {"type": "array", "items": {"type": "string"}},
			"codes": {"type": "array", "items": {"type": "integer"}},
			"pairs": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}}}`)}, true
	}
	for with, want := range map[string]string{
		`{names: "${{ split(vars.text, ',') }}"}`:   `{"names":["a","b"]}`,
		`{codes: "${{ 0..2 }}"}`:                    `{"codes":[0,1,2]}`,
		`{pairs: "${{ [split(vars.text, ',')] }}"}`: `{"pairs":[["a","b"]]}`,
	} {
		p, err := playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: true\nvars: {text: \"a,b\"}\nsteps:\n  - {uses: lab, with: "+with+"}\n"), o)
		if err != nil {
			t.Errorf("%s: %v", with, err)
			continue
		}
		if got, err := p.Steps[0].With.JSON(env); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, expected %s", with, got, err, want)
		}
	}
	p, err := playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: true\nvars: {text: \"a,b\"}\nsteps:\n  - {include: steps/s.yaml, with: {zones: \"${{ split(vars.text, ',') }}\"}}\n"),
		included(t, map[string]string{"steps/s.yaml": "params: {zones: {type: list}}\nsteps: [{uses: command, foreach: params.zones, with: {run: a}}]\n"}))
	if err != nil {
		t.Fatal(err)
	}
	if given, err := p.Blocks[0].Given(env); err != nil || !reflect.DeepEqual(given["zones"], []any{"a", "b"}) {
		t.Errorf("%v, %v", given, err)
	}
}

func TestRunTimeErrorsHaveAPlace(t *testing.T) {
	t.Parallel()
	env := playbooks.Env{Host: web1(), Vars: map[string]any{"x": nil, "list": "no"}, Steps: map[string]map[string]any{"one": {"outcome": "skipped"}}}
	for _, tt := range []struct{ name, step, want string }{
		{"skipped in text", `{uses: command, with: {run: "a ${{ steps.one.outputs.stdout }}"}}`, "a value is missing in the middle of a text: step \"one\" was skipped, so it has no outputs\n"},
		{"next of skipped", `{uses: command, with: {run: "a ${{ steps.one.outputs.stdout }}"}}`, `hint: give this step when: steps.one.outcome != "skipped", or the value with default(value, "…")`},
		{"field of skipped", `{uses: command, when: trim(steps.one.outputs.stdout) == "a", with: {run: a}}`, `step "one" was skipped, so it has no outputs`},
		{"missing in text", `{uses: command, with: {run: "a ${{ host.labels.nope }}"}}`, `p.yaml:6:40: with of step "command".run on host web-1: a value is missing`},
		{"missing whole", `{uses: command, with: {run: "${{ host.labels.nope }}"}}`, `p.yaml:6:33: step "command" on host web-1: param "run" is empty`},
		{"wrong type", `{uses: wait, with: {port: "${{ host.name }}"}}`, `p.yaml:6:31: step "wait" on host web-1: param "port" is the text "web-1"`},
		{"unknown key", `{uses: command, with: {run: a, env: "${{ [1] }}"}}`, `param "env" is a list`},
		{"nil field", `{uses: command, with: {run: "${{ vars.x.y.z }}"}}`, `cannot read "y" of a value that is missing`},
		{"when", `{uses: command, when: host.labels.role, with: {run: a}}`, `p.yaml:6:27: when of step "command" on host web-1: gives text`},
		{"foreach", `{uses: command, foreach: vars.list, with: {run: a}}`, `foreach of step "command" on host web-1: gives the text "no"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := step(t, "{x: 1, list: []}", "  - "+tt.step+"\n").Steps[1]
			_, err1 := s.With.JSON(env)
			_, err2 := s.When.Bool(env)
			_, err3 := s.Foreach.List(env)
			err := errors.Join(err1, err2, err3)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, core.ErrInvalid) {
				t.Errorf("got:\n%v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestStepsWithoutResultAreEmptyNotMissing(t *testing.T) {
	t.Parallel()
	s := step(t, "{}", "  - {uses: command, when: steps.one.outputs.exit_code != true && steps.one.changed == nil, with: {run: a}}\n").Steps[1]
	for _, env := range []playbooks.Env{{}, {Steps: map[string]map[string]any{"one": {"outcome": "skipped"}}}} {
		if ok, err := s.When.Bool(env); err != nil || !ok {
			t.Errorf("got %v, %v", ok, err)
		}
	}
}

func TestForeach(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ foreach, want string }{
		{`[a, 2, "${{ host.name }}"]`, `["a",2,"web-1"]`},
		{`vars.list`, `["x","y"]`},
		{`host.vars.dirs`, `["/a","/b"]`},
		{`host.groups`, `["linux","web"]`},
		{`1..3`, `[1,2,3]`},
		{`'filter(vars.list, # != "x")'`, `["y"]`},
		{`default(host.vars.nope, [])`, `[]`},
		{`[]`, `[]`},
	} {
		s := step(t, "{list: [x, y]}", "  - uses: command\n    foreach: "+tt.foreach+"\n    with: {run: \"${{ item }}\"}\n").Steps[1]
		got, err := s.Foreach.List(playbooks.Env{Host: web1(), Vars: map[string]any{"list": []any{"x", "y"}}})
		data, _ := json.Marshal(got)
		if err != nil || string(data) != tt.want {
			t.Errorf("%s = %s, %v, want %s", tt.foreach, data, err, tt.want)
		}
	}
}

// A step with foreach has the outputs of its items, as the worker gives them, not the job type's
// own.
func TestOutputsOfForeach(t *testing.T) {
	t.Parallel()
	load := func(read string) error {
		_, err := playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: true\nsteps:\n"+
			"  - {name: each, uses: script, foreach: [1, 2], with: {source: a}}\n"+
			"  - {uses: command, with: {run: \"${{ "+read+" }}\"}}\n"), options(t))
		return err
	}
	if err := load("steps.each.outputs.items[1].outputs.stdout"); err != nil {
		t.Error(err)
	}
	if err := load("steps.each.outputs.stdout"); err == nil {
		t.Error("an output of the job type can be read of a step with foreach, where it is not")
	}
}

func TestAbsentExpressions(t *testing.T) {
	t.Parallel()
	var e playbooks.Expr
	ok, err := e.Bool(playbooks.Env{})
	list, err2 := e.List(playbooks.Env{})
	if !e.Absent() || !ok || list != nil || errors.Join(err, err2) != nil {
		t.Error("an absent when is true, an absent foreach is no list")
	}
	var p playbooks.Params
	if data, err := p.JSON(playbooks.Env{}); err != nil || string(data) != "{}" {
		t.Errorf("got %s, %v", data, err)
	}
}

// Each of these would take minutes or gigabytes if it were not stopped.
func TestEvaluationIsBounded(t *testing.T) {
	t.Parallel()
	long := make([]any, 3000)
	for i := range long {
		long[i] = fmt.Sprint("element ", i)
	}
	doubling := "let a0 = host.name;"
	for i := range 40 {
		doubling += fmt.Sprintf(" let a%d = a%d + a%d;", i+1, i, i)
	}
	nested := strings.ReplaceAll(strings.Replace(doubling, "host.name", "[1]", 1), " + ", ", ")
	for i := range 40 {
		nested = strings.Replace(nested, fmt.Sprintf("= a%d, a%d;", i, i), fmt.Sprintf("= [a%d, a%d];", i, i), 1)
	}
	for name, text := range map[string]string{
		"loops":     `all(host.vars.long, let x = 1; all(host.vars.long, all(host.vars.long, # != nil)))`,
		"range":     `len(1..100000000) > 0`,
		"constants": "len([" + strings.Repeat("1..999999,", 100) + "1]) > 0", // folded at compile time they would be 1.6 GB
		"repeat":    `len(repeat("a", 1000000000)) > 0`,
		"replace":   `len(replace(repeat("a", 100000), "a", repeat("b", 100000))) > 0`,
		"reduce":    `len(reduce(1..60, #acc + #acc, "x")) > 0`,
		"doubling":  doubling + ` a40 == ""`,
		"nesting":   nested + ` len(toJSON(a40)) > 0`,
		"map":       `len(map(1..900000, host.vars.long)) > 0`,
		"unique":    `len(uniq(1..900000)) > 0`,
		"uniques":   `all(1..1000, len(uniq(1..5000)) > 0)`,
		"pattern":   `host.name matches repeat("(?:a?){1000}", 10)`,
		"match":     `repeat("a", 1000000) matches "(?:a?){1000}b"`,
		"matches":   `all(1..100000, not (repeat("a", 30000) matches "(?:a?){900}b"))`,
		"fill list": `len(flatten(map(1..1000, map(1..1000, #)))) > 0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := playbooks.CompileSelector(text)
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			host := web1()
			host.Vars = map[string]any{"long": long}
			if ok, err := e.Bool(playbooks.Env{Host: host}); err == nil {
				t.Errorf("it gives %v, but must be stopped", ok)
			}
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
	// The same shapes within bounds go through.
	e, err := playbooks.CompileSelector(`all(host.vars.long, any(host.groups, # != nil)) && len(repeat("a", 1000)) == 1000 && len(uniq(1..5000)) == 5000
		&& all(host.vars.long, # matches "^element [0-9]+$") && uniq([1, 1.0, "a", nil, "a"]) == [1, "a", nil] && uniq(split("a,b,a", ",")) == ["a", "b"]
		&& host.name matches "^" + host.name + "$" && not (host.vars.none matches "a") && not ("a" matches host.vars.none)`)
	if err != nil {
		t.Fatal(err)
	}
	host := web1()
	host.Vars = map[string]any{"long": long}
	if ok, err := e.Bool(playbooks.Env{Host: host}); err != nil || !ok {
		t.Errorf("got %v, %v", ok, err)
	}
}

// Refusals of bounded operations have a place. Constants are checked before anything runs.
func TestHeavyOperationsNameTheirPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`host.name matches "["`: "error parsing regexp",
		`host.name matches "(?:a?){1000}(?:a?){1000}(?:a?){1000}(?:a?){1000}(?:a?){1000}(?:a?){1000}"`: "selector:1:19: the pattern needs more than 10000 instructions",
		`1 matches "a"`:         "invalid operation: matches",
		`len(uniq("abc")) == 1`: "cannot uniq string",
	} {
		if _, err := playbooks.CompileSelector(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`true && len(host.vars) matches "a"`:           "invalid operation: matches",
		`true && host.vars.n matches "a"`:              "selector:1:21: selector on host web-1: needs text, got a number",
		`true && host.name matches host.vars.bad`:      "selector:1:19: selector on host web-1: error parsing regexp",
		`true && len(uniq(1..900000)) > 0`:             "selector:1:13: selector on host web-1: uniq() compares more than 20000000 times",
		`repeat("a", 1000000) matches "(?:a?){1000}b"`: "takes too long on a text of 1000000 bytes",
		`len(uniq(host.vars.n)) > 0`:                   "uniq needs a list",
	} {
		e, err := playbooks.CompileSelector(text)
		if err == nil {
			host := web1()
			host.Vars = map[string]any{"n": 5, "bad": "["}
			_, err = e.Bool(playbooks.Env{Host: host})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", text, err, want)
		}
	}
}

func TestExpressionsAreSharedByGoroutines(t *testing.T) {
	t.Parallel()
	p := step(t, "{n: 1}", "  - uses: command\n    when: 'any(host.groups, # == \"web\")'\n    with: {run: '${{ host.name }} ${{ join(host.groups, vars.n == 1 ? \",\" : \";\") }}'}\n")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			host := web1()
			host.Name = fmt.Sprint("h", i)
			env := playbooks.Env{Host: host, Vars: p.Vars}
			for range 200 {
				ok, err := p.Steps[1].When.Bool(env)
				data, err2 := p.Steps[1].With.JSON(env)
				if !ok || err != nil || err2 != nil || string(data) != fmt.Sprintf(`{"run":"h%d linux,web"}`, i) {
					t.Errorf("got %v, %s, %v, %v", ok, data, err, err2)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkTargets10000Hosts(b *testing.B) {
	e, err := playbooks.CompileSelector(`host.labels.role == "web" && host.site == "fra" && "linux" in host.groups`)
	if err != nil {
		b.Fatal(err)
	}
	hosts := make([]core.Host, 10_000)
	for i := range hosts {
		hosts[i] = web1()
		hosts[i].Name = fmt.Sprint("web-", i)
		hosts[i].Labels = map[string]string{"role": "web", "model": "x", "rack": fmt.Sprint(i % 40), "os": "debian"}
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range hosts {
			if ok, err := e.Bool(playbooks.Env{Host: hosts[i]}); err != nil || !ok {
				b.Fatal(ok, err)
			}
		}
	}
}

// Values that a round makes and drops again are not counted: the clock ends such a loop.
func TestLoopsEndByTheClock(t *testing.T) {
	t.Parallel()
	e, err := playbooks.CompileSelector(`count(1..199999, len(split(host.name, "")) > 0) > 0`)
	if err != nil {
		t.Fatal(err)
	}
	h := web1()
	if ok, err := e.Bool(playbooks.Env{Host: h}); !ok || err != nil { // negative control: as many rounds, but light ones
		t.Errorf("%v, %v", ok, err)
	}
	h.Name = strings.Repeat("x", 100_000)
	began := time.Now()
	if _, err := e.Bool(playbooks.Env{Host: h}); err == nil || !strings.Contains(err.Error(), "the expression loops for more than 5s") || time.Since(began) > time.Minute {
		t.Errorf("after %v: %.200v", time.Since(began), err)
	}
}
