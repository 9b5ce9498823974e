package playbooks_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/turnus/turnus/playbooks"
)

// The values that a job reads that continues at a step: outputs and stdout, not how steps ended.
func TestOutputsRead(t *testing.T) {
	t.Parallel()
	const file = "params: {v: {type: string}}\nsteps:\n  - {name: in, uses: x, with: {}}\n  - {name: next, uses: x, with: {a: \"${{ steps.in.stdout }}\"}}\noutputs: {v: \"${{ steps.next.outputs.v }}\"}\n"
	for name, c := range map[string]struct {
		last string
		read string
	}{
		"nothing":              {"with: {}", "site/next"},
		"outputs in with":      {`with: {v: ["${{ steps.a.outputs.v }}"]}`, "a site/next"},
		"stdout in when":       {`when: steps.a.stdout == ""`, "a site/next"},
		"outcome and changed":  {`when: steps.a.changed and steps.b.outcome == "changed" and steps.a.exit_code == 0`, "site/next"},
		"items of a foreach":   {`foreach: "map(steps.b.outputs.items, #.item)"`, "b site/next"},
		"list of a foreach":    {`foreach: ["${{ steps.b.stdout }}"]`, "b site/next"},
		"a step as a whole":    {`when: len(toJSON(steps.a)) > 2`, "a site/next"},
		"all steps as a whole": {`when: len(keys(steps)) > 2`, "a b site/in site/next"},
		"by a computed name":   {`when: "steps[host.name].outputs.x == 1"`, "a b site/in site/next"},
		"of an include":        {`when: steps.site.outputs.v == 1`, "site/next"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: true\nsteps:\n  - {name: a, uses: x}\n  - {name: b, uses: x, with: {v: \"${{ steps.a.stdout }}\"}}\n"+
				"  - {name: site, include: steps/s.yaml}\n  - {name: last, uses: x, "+c.last+"}\n"), playbooks.Options{Steps: playbooks.ReadFrom(map[string]string{"steps/s.yaml": file})})
			if err != nil {
				t.Fatal(err)
			}
			read := p.OutputsRead(len(p.Steps) - 1)
			got := slices.DeleteFunc([]string{"a", "b", "site/in", "site/next"}, func(s string) bool { return !read(s) })
			if strings.Join(got, " ") != c.read {
				t.Errorf("reads %v, expected %s", got, c.read)
			}
			if !p.OutputsRead(1)("a") {
				t.Error("step b reads a")
			}
		})
	}
}

func TestWork(t *testing.T) {
	t.Parallel()
	work := func(text string) []byte {
		p, err := playbooks.Parse("p.yaml", []byte(text), playbooks.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Work()
	}
	const text = "playbook: p\ntargets: true\nstrategy: {waves: [1, 100%]}\nparams: {v: {type: string, default: a}}\nvars: {w: 1}\nsteps:\n  - {name: a, uses: x, with: {k: 1}}\n"
	for _, same := range []string{"strategy: {waves: [2, 100%]}", "# a comment"} {
		if changed := strings.Replace(text, "strategy: {waves: [1, 100%]}", same, 1); !bytes.Equal(work(text), work(changed)) {
			t.Errorf("%s is other work", same)
		}
	}
	for from, to := range map[string]string{"default: a": "default: b", "w: 1": "w: 2", "k: 1": "k: 2", "name: a": "name: b", "strategy: {waves: [1, 100%]}": "become: true"} {
		if bytes.Equal(work(text), work(strings.Replace(text, from, to, 1))) {
			t.Errorf("%s is the same work as %s", to, from)
		}
	}
}
