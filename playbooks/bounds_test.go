package playbooks_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/playbooks"
)

// Files made to cost much. Each must be refused with a place, in bounded time and memory.
func TestHostileFilesAreRefused(t *testing.T) {
	head := "playbook: a\ntargets: true\nsteps: [{uses: reboot}]\n"
	laughs := "x-a0: &a0 [" + strings.Repeat("lol,", 10) + "]\n"
	for i := range 9 {
		laughs += fmt.Sprintf("x-a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 10))
	}
	merges := "x-m0: &m0 {k0: 1}\n"
	for i := range 30 {
		merges += fmt.Sprintf("x-m%d: &m%d {<<: [%s], k%d: 1}\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*m%d,", i), 10), i+1)
	}
	big := "x-s: &s " + strings.Repeat("x", 100_000) + "\n"
	for name, text := range map[string]string{
		"ten megabytes":      head + "vars: {a: " + strings.Repeat("x", 10<<20) + "}\n",
		"billion laughs":     laughs + "vars: {bomb: *a9}\n" + head,
		"merge bomb":         merges + "vars: *m30\n" + head,
		"quadratic text":     big + "vars: {l: [" + strings.Repeat("*s,", 5000) + "]}\n" + head,
		"deep flow":          head + "vars: {a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}\n",
		"deeper flow":        head + "vars: {a: " + strings.Repeat("[", 400_000),
		"deep mappings":      head + "vars: " + strings.Repeat("{a: ", 9000) + "1" + strings.Repeat("}", 9000),
		"deep block":         head + "vars:\n" + deepBlock(1000),
		"many values":        head + "vars: {a: [" + strings.Repeat("1,", 400_000) + "]}\n",
		"many keys":          head + manyLines("k%d: 1\n", 80_000),
		"same keys":          head + strings.Repeat("k: 1\n", 200_000),
		"many steps":         "playbook: a\ntargets: true\nsteps:\n" + strings.Repeat("  - uses: reboot\n", 50_000),
		"many documents":     strings.Repeat("---\n", 250_000),
		"many anchors":       head + manyLines("x-%d: &a%d [*a%[1]d]\n", 30_000) + "y: 1\n",
		"question marks":     strings.Repeat("? ", 500_000),
		"dashes":             strings.Repeat("- ", 500_000),
		"colons":             strings.Repeat("a: ", 300_000),
		"open quotes":        head + "vars: {a: \"" + strings.Repeat("\\", 900_000),
		"tags":               strings.Repeat("!a ", 300_000),
		"comments":           head + strings.Repeat("# x\n", 250_000) + "y: 1",
		"blank lines":        head + strings.Repeat("\n", 900_000) + "y: 1",
		"broken at the end":  head + manyLines("x-%d: {a: [1, 2, 3]}\n", 9_000) + "   y: 1\n  z: ]",
		"broken at the head": "a: b\n  c: d\n" + strings.Repeat("x: [a, b]\n", 90_000),
		"long expression":    strings.Replace(head, "true", strings.Repeat("1+", 300_000)+"1 == 1", 1),
		"many expressions":   head + "vars: {a: \"" + strings.Repeat("${{ x }}", 100_000) + "\"}\n",
		"bad expressions":    "playbook: a\ntargets: true\nsteps: [{uses: command, with: {run: \"" + strings.Repeat("${{ x }}", 100_000) + "\"}}]\n",
		"wide characters":    strings.Replace(head, "true", `"`+strings.Repeat("é", 400_000)+`"`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			_, err := playbooks.Parse("hostile.yaml", []byte(text), options(t))
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			var diags playbooks.Diagnostics
			if !errors.As(err, &diags) || len(diags) > playbooks.MaxProblems {
				t.Fatalf("got %d problems, %.200v", len(diags), err)
			}
			if len(err.Error()) > 100_000 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
			if took > 2*time.Minute { // under the race detector on a busy machine it is half a minute
				t.Errorf("took %s", took)
			}
			if grown := (after.TotalAlloc - before.TotalAlloc) >> 20; grown > 2000 {
				t.Errorf("allocated %d MiB", grown)
			}
			t.Logf("%s, %d MiB allocated: %.120s", took, (after.TotalAlloc-before.TotalAlloc)>>20, err)
		})
	}
}

func deepBlock(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i+1) + "a:\n")
	}
	return b.String()
}

func manyLines(format string, n int) string {
	var b strings.Builder
	for i := range n {
		if strings.Count(format, "%") > 1 {
			fmt.Fprintf(&b, format, i, i)
		} else {
			fmt.Fprintf(&b, format, i)
		}
	}
	return b.String()
}

// A large file within the bounds loads.
func TestLargeFilesLoad(t *testing.T) {
	t.Parallel()
	text := "playbook: a\ntargets: true\nsteps:\n" + manyLines("  - {name: s%d, uses: command, when: \"host.name != 'x%d'\", with: {run: \"echo ${{ host.name }}\"}}\n", 500)
	p, err := playbooks.Parse("large.yaml", []byte(text), options(t))
	if err != nil {
		t.Fatalf("%.500v", err)
	}
	if len(p.Steps) != 500 {
		t.Errorf("%d steps", len(p.Steps))
	}
}
