package localrun

import (
	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
)

// becomeFlags set the user of steps that do not name one.
type becomeFlags struct {
	on   bool
	user string
	used func(name string) bool
}

// AddBecome gives a command that runs steps its flags of becoming another user.
func (f *PlayFlags) AddBecome(c *cobra.Command) { f.become.add(c) }

func (f *becomeFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.BoolVarP(&f.on, "become", "b", false, "run as root, by sudo or as the inventory sets it; steps can override it")
	fl.StringVar(&f.user, "become-user", "", "run as this user instead; implies --become")
	f.used = fl.Changed
}

// BecomeRule returns the rule of the flags; nil if neither was given.
func (f *PlayFlags) BecomeRule() (*core.BecomeRule, error) { return f.become.rule() }

// rule is nil where no flag was given.
func (f *becomeFlags) rule() (*core.BecomeRule, error) {
	if f.used == nil || !f.used("become") && !f.used("become-user") {
		return nil, nil //nolint:nilnil // nothing was said
	}
	if f.used("become-user") && (f.user == "" || (core.Become{User: f.user}).Check() != nil) {
		return nil, console.Invalid("--become-user %q: expected a user name such as app\nhint: --become-user app", f.user)
	}
	return &core.BecomeRule{On: f.on || f.user != "", User: f.user}, nil
}
