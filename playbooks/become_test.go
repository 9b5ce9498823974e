package playbooks_test

import (
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
)

func TestBecome(t *testing.T) {
	t.Parallel()
	p, err := playbooks.Parse("p.yaml", []byte(`
playbook: demo
targets: "true"
become: true
steps:
  - {name: a, uses: command, with: {run: id}}
  - {name: b, uses: command, become: false, with: {run: id}}
  - {name: c, uses: command, become: {user: www-data}, with: {run: id}, notify: [d]}
handlers:
  - {name: d, uses: command, become: {user: "1000"}, with: {run: id}}
`), options(t))
	if err != nil {
		t.Fatal(err)
	}
	if p.Become == nil || *p.Become != (core.BecomeRule{On: true}) {
		t.Errorf("the playbook: %+v", p.Become)
	}
	for i, want := range []*core.BecomeRule{nil, {}, {On: true, User: "www-data"}, {On: true, User: "1000"}} {
		got := p.Calls()[i].Become
		if (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("call %d: %+v, expected %+v", i, got, want)
		}
	}
}
