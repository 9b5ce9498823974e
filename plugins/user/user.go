// Package user owns the job type user: an account of the host's own files. It imports only the sdk.
package user

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a user.
type Params struct {
	Name       string   `json:"name" turnus:"required,max=32,pattern=^[A-Za-z_][A-Za-z0-9_.-]*[$]?$" jsonschema:"login name"`
	State      string   `json:"state,omitempty" turnus:"default=present,enum=present|absent" jsonschema:"whether the user exists"`
	UID        *int     `json:"uid,omitempty" turnus:"min=0" jsonschema:"number of the user; by default the next free one"`
	Group      string   `json:"group,omitempty" turnus:"pattern=^[A-Za-z_][A-Za-z0-9_.-]*[$]?$" jsonschema:"primary group, which must exist; by default a group with the name of the user"`
	Groups     []string `json:"groups,omitempty" jsonschema:"further groups that the user is added to; they must exist"`
	Exact      bool     `json:"exact,omitempty" jsonschema:"remove the user from all groups that groups does not list"`
	Shell      string   `json:"shell,omitempty" turnus:"pattern=^/[^:]*$" jsonschema:"login shell, an absolute path"`
	Home       string   `json:"home,omitempty" turnus:"pattern=^/[^:]*$" jsonschema:"home directory; a new value does not move the files"`
	Comment    *string  `json:"comment,omitempty" turnus:"pattern=^[^:\\x00-\\x1f\\x7f]*$" jsonschema:"comment field, usually the full name"`
	System     bool     `json:"system,omitempty" jsonschema:"create a system user: a low number, and no home directory"`
	Password   string   `json:"password,omitempty" turnus:"secret" jsonschema:"hash of the password, as in /etc/shadow; ! locks the password"`
	RemoveHome bool     `json:"remove_home,omitempty" jsonschema:"with state absent: remove the home directory and the mail of the user"`
}

var (
	hash      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\*|!+|!*\$[A-Za-z0-9-]+\$[!-9;-~]+)$`) })
	groupName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*\$?$`) })
)

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	var bad sdk.Problems
	if p.Password != "" && !hash().MatchString(p.Password) && !strings.Contains(p.Password, "${{ secrets.") { // the value is not shown: it may be a password in the clear
		bad.Add("/password", "expected a hash such as $6$SALT$HASH, or ! or *: make one with openssl passwd -6")
	}
	for i, g := range p.Groups {
		if !groupName().MatchString(g) {
			bad.Add(fmt.Sprintf("/groups/%d", i), "expected the name of a group, found %q", g)
		}
	}
	if p.Home != "" && path.Clean(p.Home) != p.Home {
		bad.Add("/home", "expected a path without . and .. and a slash at its end; found %q", p.Home)
	}
	if p.State != "absent" && p.RemoveHome {
		bad.Add("/remove_home", "remove_home goes with state absent")
	}
	if p.State == "absent" && p.Name == "root" {
		bad.Add("/name", "root cannot be removed")
	}
	return bad.Err()
}

// Outputs of a user.
type Outputs struct {
	UID  string `json:"uid,omitempty" jsonschema:"number of the user, after the step"`
	Home string `json:"home,omitempty" jsonschema:"home directory of the user, after the step"`
}

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("user", run,
		sdk.Summary("A user account with its groups, shell and password"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Outputs[Outputs](),
		sdk.Example("A person", sdk.With{"name": "anna", "comment": "Anna Example", "shell": "/bin/bash", "groups": []string{"adm"}}),
		sdk.Example("A system user for a service", sdk.With{"name": "app", "system": true, "home": "/srv/app", "shell": "/usr/sbin/nologin"}),
		sdk.SecretExample("A password, as a hash", sdk.With{"name": "anna", "password": "${{ secrets.ANNA_HASH }}"}, "ANNA_HASH"), //nolint:gosec // a name
		sdk.Example("In these groups and no others", sdk.With{"name": "anna", "groups": []string{"adm"}, "exact": true}),
		sdk.Example("Gone, with the home directory", sdk.With{"name": "anna", "state": "absent", "remove_home": true}),
	)
}

const description = `
Creates, changes or removes a user of /etc/passwd, by useradd, usermod and userdel, or by adduser
and deluser of busybox. It needs root: see ` + "`become`" + `. A parameter that is not given stays as it is.

` + "`groups`" + ` adds the user to groups. Only ` + "`exact: true`" + ` removes the user from others. A group that does
not exist fails the step. In check mode it counts as a change if an earlier step would change the
host, because that step may create the group.

` + "`password`" + ` is a hash, and is compared with /etc/shadow on the host: an equal hash is no change, and
the old hash does not leave the host. The new hash goes to the host over standard input and appears
in no process list.

busybox has no usermod: there uid, primary group, shell, home and comment of a user who exists
cannot be changed, and the step fails. A user of a directory service such as LDAP is refused.
`

func run(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) error {
	p := r.Params
	vars := sdk.Vars("n", p.Name, "want", strings.Join(p.asked(), " "), "uid", p.number())
	result := r.Host().Short(ctx, sdk.Command{Run: vars + lookScript, Stdin: strings.NewReader(p.Password + "\n"), ReadOnly: true})
	if err := result.Err(); err != nil {
		return fmt.Errorf("reading user %s: %w", p.Name, err)
	}
	now := read(result.Stdout)
	r.Output("uid", now.uid)
	r.Output("home", now.home)
	if err := possible(p, now); err != nil {
		return err
	}
	if missing := now.missing(p); len(missing) > 0 {
		return r.Lacks("user %s: the host has no group %s: add a step of the type group before this one", p.Name, strings.Join(missing, ", "))
	}
	lines := commands(p, now)
	if len(lines) == 0 {
		return nil
	}
	r.Changed()
	r.ShowDiff("user "+p.Name, []byte(now.text()), []byte(p.after(now).text()))
	if r.Check {
		return nil
	}
	result = r.Host().Short(ctx, sdk.Command{Run: actScript(p.Name, lines), Stdin: strings.NewReader(p.Password + "\n")})
	if err := result.Err(); err != nil {
		return fmt.Errorf("user %s: %w", p.Name, err)
	}
	after := read(result.Stdout)
	r.Output("uid", after.uid)
	r.Output("home", after.home)
	return nil
}

// possible returns why the step cannot work on this host, before anything is changed.
func possible(p Params, now account) error {
	switch {
	case now.elsewhere:
		return sdk.Refuse("user %s is not in /etc/passwd: a directory service has it, so change it there", p.Name)
	case p.State == "absent" && !now.exists:
		return nil
	case now.tool == "":
		return sdk.Refuse("user %s: the host has neither useradd nor adduser: install the package passwd or shadow", p.Name)
	case p.State == "absent":
		return nil
	case p.Password != "" && !now.shadow:
		return sdk.Refuse("user %s: /etc/shadow cannot be read, which the password needs: permission denied", p.Name)
	case now.taken != "":
		return sdk.Refuse("user %s: the user %s has the number %s: choose another uid", p.Name, now.taken, p.number())
	case now.exists && now.tool == "busybox" && len(p.fields(now)) > 0:
		return sdk.Refuse("user %s: busybox cannot change a user who exists: install the package shadow, which has usermod", p.Name)
	}
	return nil
}
