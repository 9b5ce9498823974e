package playbooks_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/playbooks"
)

// FuzzParse: any bytes load, or are refused with places inside the file.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"../examples/*/*.yaml", "testdata/bad/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Add([]byte(designFirmware))
	f.Add([]byte(designRollover))
	f.Add([]byte("playbook: p\ntargets: true\nsteps:\n  - uses: command\n    foreach: sortBy(hosts('true'), #.name)\n    when: let a = hosts('\"web\" in host.groups'); a[0]?.vars.x?.y != item.labels.z\n    with: {run: \"${{ reduce(hosts('true'), #acc + len(#.groups), 0) }}\"}\n"))
	o := options(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := playbooks.Parse("fuzz.yaml", src, o)
		if err != nil {
			checkPlaces(t, err, lines(string(src)))
			return
		}
		env := playbooks.Env{Host: web1(), Vars: p.Vars}
		_, err = p.Targets.Bool(env)
		checkRunTime(t, err)
		for _, s := range p.Steps {
			_, err1 := s.When.Bool(env)
			_, err2 := s.Foreach.List(env)
			_, err3 := s.With.JSON(env)
			checkRunTime(t, err1)
			checkRunTime(t, err2)
			checkRunTime(t, err3)
		}
	})
}

// lines is the number of lines at most, as YAML counts them.
func lines(text string) int {
	n := 1
	for _, r := range text {
		if strings.ContainsRune("\n\r\u0085\u2028\u2029", r) {
			n++
		}
	}
	return n
}

func checkPlaces(t *testing.T, err error, lines int) {
	t.Helper()
	var diags playbooks.Diagnostics
	if !errors.As(err, &diags) || len(diags) == 0 || len(diags) > playbooks.MaxProblems {
		t.Fatalf("got %T %v", err, err)
	}
	for _, d := range diags {
		if d.Line < 0 || d.Line > lines || d.Line > 0 && d.Col < 1 || d.Message == "" {
			t.Fatalf("place %d:%d of %d lines: %s", d.Line, d.Col, lines, d.Message)
		}
		for _, r := range d.String() {
			if r < ' ' && r != '\n' {
				t.Fatalf("control character %U in %q", r, d.String())
			}
		}
	}
}

func checkRunTime(t *testing.T, err error) {
	t.Helper()
	var diags playbooks.Diagnostics
	if err != nil && !errors.As(err, &diags) {
		t.Fatalf("got %T %v", err, err)
	}
}

// FuzzExpr: any text compiles or is refused; what compiles ends, and gives the same twice.
func FuzzExpr(f *testing.F) {
	for _, seed := range []string{
		"true", `host.name == "a"`, `host.labels["x-y"] in ["a"]`, `any(host.groups, # == "web")`, `let x = 1; x > 0`, `host.labels.a-b`, `cidr_contains("10.0.0.0/8", host.address)`,
		`reduce(1..9, #acc + #, 0) > 1`, `"é" + host.name == "\u00e9"`, `host?.vars?.x ?? true`, `$env`, `{a: 1}.a == 1`, "`raw` != ''", `host.name matches "["`, `1..1e9`, `((((`, `b"x"`, `if true {true} else {false}`,
		`replace(host.name, "", "xx") != ""`, `host.groups | count(# == "web") > 0`, `fromJSON("[") == nil`, `-9223372036854775808 / -1 == 1`, `1 % 0 == 1`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := playbooks.CompileSelector(text)
		if err != nil {
			checkPlaces(t, err, lines(text))
			return
		}
		env := playbooks.Env{Host: web1()}
		a, err1 := e.Bool(env)
		b, err2 := e.Bool(env)
		checkRunTime(t, err1)
		if a != b || (err1 == nil) != (err2 == nil) {
			t.Fatalf("%v, %v and then %v, %v", a, err1, b, err2)
		}
	})
}
