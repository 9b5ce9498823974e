// Package group owns the job type group: a group of the host's own files. It imports only the sdk.
package group

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// Params is the with: of a group.
type Params struct {
	Name   string `json:"name" turnus:"required,max=32,pattern=^[A-Za-z_][A-Za-z0-9_.-]*[$]?$" jsonschema:"name of the group"`
	State  string `json:"state,omitempty" turnus:"default=present,enum=present|absent" jsonschema:"whether the group exists"`
	GID    *int   `json:"gid,omitempty" turnus:"min=0" jsonschema:"number of the group; by default the next free one"`
	System bool   `json:"system,omitempty" jsonschema:"create a system group: a low number"`
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	if p.State == "absent" && (p.GID != nil || p.System) {
		return &sdk.ParamError{Pointer: "/state", Err: errors.New("gid and system go with state present")}
	}
	return nil
}

// Outputs of a group.
type Outputs struct {
	GID string `json:"gid,omitempty" jsonschema:"number of the group, after the step"`
}

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("group", run,
		sdk.Summary("A group of users"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Outputs[Outputs](),
		sdk.Example("A group with a number", sdk.With{"name": "deploy", "gid": 2000}),
		sdk.Example("A system group for a service", sdk.With{"name": "app", "system": true}),
		sdk.Example("Gone", sdk.With{"name": "old", "state": "absent"}),
	)
}

const description = `
Creates, changes or removes a group of /etc/group, by groupadd, groupmod and groupdel, or by
addgroup and delgroup of busybox. It needs root: see ` + "`become`" + `. The members of a group are set by the
job type ` + "`user`" + `.

A new number does not change the files that the group owns. busybox cannot change the number of a
group, and the step fails there. A group of a directory service such as LDAP is refused.
`

// entry is the group as the host has it.
type entry struct {
	gid       string // "" where /etc/group does not have it
	elsewhere bool   // known to the host, but not in /etc/group
	taken     string // another group with the wanted number
	tool      string // shadow, busybox, or "" for none
}

// lookScript prints what is known of the group $n and the number $want. busybox has no getent.
const lookScript = `if command -v groupadd >/dev/null && command -v groupmod >/dev/null; then echo "tool shadow"
elif command -v addgroup >/dev/null; then echo "tool busybox"; fi
` + showScript + `[ "$gid" ] || { command -v getent >/dev/null && getent group "$n" >/dev/null && echo elsewhere; }
[ -z "$want" ] || while IFS=: read -r g _ i _ || [ "$g" ]; do
  [ "$i" = "$want" ] && [ "$g" != "$n" ] && echo "taken $g"
done </etc/group
exit 0
`

const showScript = `gid=
while IFS=: read -r g _ i _ || [ "$g" ]; do
  [ "$g" = "$n" ] || continue
  gid=$i
  echo "gid $i"
  break
done </etc/group
`

func read(text string) entry {
	a := sdk.ReadAnswer(text)
	return entry{gid: a.Value("gid"), elsewhere: a.Has("elsewhere"), taken: a.Value("taken"), tool: a.Value("tool")}
}

func run(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) error {
	p := r.Params
	name := shell.Prelude + sdk.Vars("n", p.Name)
	result := r.Host().Query(ctx, name+sdk.Vars("want", p.number())+lookScript)
	if err := result.Err(); err != nil {
		return fmt.Errorf("reading group %s: %w", p.Name, err)
	}
	now := read(result.Stdout)
	r.Output("gid", now.gid)
	line, err := decide(p, now)
	if err != nil || line == "" {
		return err
	}
	r.Changed()
	r.ShowDiff("group "+p.Name, []byte(now.text()), []byte(p.after(now).text()))
	if r.Check {
		return nil
	}
	result = r.Host().Short(ctx, sdk.Command{Run: name + shell.OnlyRoot + line + " >&2 || refused\n" + showScript + "exit 0\n"})
	if err := result.Err(); err != nil {
		return fmt.Errorf("group %s: %w", p.Name, err)
	}
	r.Output("gid", read(result.Stdout).gid)
	return nil
}

// decide returns the command line that makes the group what it should be; "" where it is.
func decide(p Params, now entry) (string, error) {
	tool := func(shadow, busybox string) string {
		return map[string]string{"shadow": shadow, "busybox": busybox}[now.tool] + " "
	}
	want, name := p.number(), sdk.Quote(p.Name)
	switch {
	case now.elsewhere:
		return "", sdk.Refuse("group %s is not in /etc/group: a directory service has it, so change it there", p.Name)
	case p.State == "absent" && now.gid == "", p.State != "absent" && now.gid != "" && (want == "" || want == now.gid):
		return "", nil
	case now.tool == "":
		return "", sdk.Refuse("group %s: the host has neither groupadd nor addgroup: install the package passwd or shadow", p.Name)
	case p.State == "absent":
		return tool("groupdel", "delgroup") + name, nil
	case now.gid != "" && now.tool == "busybox":
		return "", sdk.Refuse("group %s: busybox cannot change the number of a group: install the package shadow, which has groupmod", p.Name)
	case now.taken != "":
		return "", sdk.Refuse("group %s: the group %s has the number %s: choose another gid", p.Name, now.taken, want)
	case now.gid != "":
		return "groupmod -g " + want + " " + name, nil
	}
	line := tool("groupadd", "addgroup")
	if want != "" {
		line += "-g " + want + " "
	}
	if p.System {
		line += tool("-r", "-S")
	}
	return line + name, nil
}

// number is the wanted number; "" for any.
func (p *Params) number() string {
	if p.GID == nil {
		return ""
	}
	return strconv.Itoa(*p.GID)
}

// after is the group as it will be.
func (p *Params) after(now entry) entry {
	switch {
	case p.State == "absent":
		now.gid = ""
	case p.GID != nil:
		now.gid = p.number()
	case now.gid == "":
		now.gid = "the next free one"
	}
	return now
}

func (e entry) text() string {
	if e.gid == "" {
		return ""
	}
	return "gid " + e.gid + "\n"
}
