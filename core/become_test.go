package core_test

import (
	"cmp"
	"testing"

	"github.com/turnus/turnus/core"
)

// The rule that is nearest to the step counts; the inventory sets how, and where no rule is given,
// whether.
func TestBecomeOfAStep(t *testing.T) {
	t.Parallel()
	on, off, app := &core.BecomeRule{On: true}, &core.BecomeRule{}, &core.BecomeRule{On: true, User: "app"}
	never := core.HostBecome{}
	always := core.HostBecome{Always: true}
	others := core.HostBecome{Become: core.Become{User: "web", Method: "doas"}}
	for name, c := range map[string]struct {
		host  core.HostBecome
		rules []*core.BecomeRule
		want  core.Become
	}{
		"nothing is said":               {never, nil, core.Become{}},
		"the inventory says it":         {always, []*core.BecomeRule{nil, nil}, core.Become{User: "root"}},
		"the playbook says it":          {never, []*core.BecomeRule{nil, on}, core.Become{User: "root"}},
		"a step of a playbook does not": {always, []*core.BecomeRule{off, on}, core.Become{}},
		"the step names a user":         {others, []*core.BecomeRule{app, on}, core.Become{User: "app", Method: "doas"}},
		"the inventory names the user":  {others, []*core.BecomeRule{on}, core.Become{User: "web", Method: "doas"}},
		"how, and not whether":          {others, nil, core.Become{}},
	} {
		if got := (core.Host{Become: c.host}).As(cmp.Or(c.rules...)); got != c.want {
			t.Errorf("%s: %+v, expected %+v", name, got, c.want)
		}
	}
}

func TestBecomeCheck(t *testing.T) {
	t.Parallel()
	for b, ok := range map[core.Become]bool{
		{}: true, {User: "root"}: true, {User: "www-data", Method: "doas"}: true, {User: "1000"}: true,
		{User: "-u"}: false, {User: "a b"}: false, {User: "a;id"}: false, {User: "$(id)"}: false, {Method: "su"}: false,
	} {
		if err := b.Check(); (err == nil) != ok {
			t.Errorf("%+v: %v", b, err)
		}
	}
}
