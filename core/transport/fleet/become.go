package fleet

import (
	"context"
	"strings"
)

// user is whose commands the shell runs, with the numeric id. Files have no owner who matters: only
// the output of commands distinguishes users.
func (sh *shell) user() (name string, id int) {
	switch sh.as {
	case "", User:
		return User, 1000
	case "root":
		return sh.as, 0
	}
	return sh.as, 1001
}

// become is sudo and doas, which let the login become everybody without a password.
func (c *call) become(ctx context.Context) int {
	sub := c.sh.child()
	sub.as = "root"
	for len(c.args) > 0 && strings.HasPrefix(c.args[0], "-") {
		option := c.args[0]
		c.args = c.args[1:]
		switch option {
		case "--":
		case "-u", "-p":
			if len(c.args) == 0 {
				return c.fail(1, "option %s needs an argument", option)
			}
			if option == "-u" {
				sub.as = c.args[0]
			}
			c.args = c.args[1:]
		case "-n", "-E", "-H", "-S", "-k":
		default:
			return c.fail(1, "invalid option %s", option)
		}
		if option == "--" {
			break
		}
	}
	if len(c.args) == 0 {
		return c.fail(1, "a command is required")
	}
	return sub.run(ctx, c.args)
}
