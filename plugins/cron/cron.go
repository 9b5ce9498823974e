// Package cron owns the job type cron: a file of /etc/cron.d. It imports only the sdk.
package cron

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a cron job.
type Params struct {
	Name     string            `json:"name" turnus:"required,max=100,pattern=^[A-Za-z0-9_-]+$" jsonschema:"name of the job and of its file in /etc/cron.d; without dots, because cron skips such files"`
	State    string            `json:"state,omitempty" turnus:"default=present,enum=present|absent" jsonschema:"whether the job exists"`
	Schedule string            `json:"schedule,omitempty" jsonschema:"five fields: minute, hour, day of month, month, day of week"`
	Special  string            `json:"special,omitempty" turnus:"enum=@reboot|@hourly|@daily|@weekly|@monthly|@yearly" jsonschema:"instead of schedule"`
	User     string            `json:"user,omitempty" turnus:"default=root,pattern=^[A-Za-z_][A-Za-z0-9_.-]*[$]?$" jsonschema:"user who the command runs as"`
	Command  string            `json:"command,omitempty" jsonschema:"command line, for /bin/sh; cron makes a line end of each % without a backslash"`
	Env      map[string]string `json:"env,omitempty" jsonschema:"variables of the job, such as MAILTO or PATH"`
}

var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	var bad []error
	blame := func(pointer, format string, args ...any) {
		bad = append(bad, &sdk.ParamError{Pointer: pointer, Err: fmt.Errorf(format, args...)})
	}
	if p.State == "absent" {
		if p.Schedule != "" || p.Special != "" || p.Command != "" || p.Env != nil {
			blame("/state", "schedule, special, command and env go with state present")
		}
		return errors.Join(bad...)
	}
	if (p.Schedule == "") == (p.Special == "") {
		blame("", "expected schedule or special, and only one of them")
	}
	if p.Schedule != "" {
		if err := checkSchedule(p.Schedule); err != nil {
			blame("/schedule", "%w", err)
		}
	}
	if strings.TrimSpace(p.Command) == "" || strings.ContainsAny(p.Command, "\r\n") {
		blame("/command", "expected a command on one line")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if !variable().MatchString(name) || strings.ContainsAny(p.Env[name], "\r\n\"") {
			blame("/env/"+name, "expected the name of a variable, and a value on one line without double quotes")
		}
	}
	return errors.Join(bad...)
}

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("cron", run,
		sdk.Summary("A command that the host's cron runs by a schedule"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Example("Every night", sdk.With{"name": "backup", "schedule": "30 2 * * *", "command": "/usr/local/bin/backup"}),
		sdk.Example("As another user, with variables", sdk.With{"name": "report", "schedule": "*/15 8-18 * * mon-fri", "user": "app", "command": "/srv/app/report", "env": sdk.With{"MAILTO": "ops@example.org"}}),
		sdk.Example("After each start of the host", sdk.With{"name": "warm-up", "special": "@reboot", "command": "/srv/app/warm-up"}),
		sdk.Example("Gone", sdk.With{"name": "backup", "state": "absent"}),
	)
}

const description = `
Makes sure that /etc/cron.d has a file of this name with one job, or has none. The whole file
belongs to Turnus: what else it holds is replaced. cron itself reads the file within a minute.
The step fails if the host has no /etc/cron.d, as with the cron of busybox and on hosts with
timers of systemd alone. In check mode it counts as a change if an earlier step would change the
host, because that step may install cron.

A timer of systemd is two unit files, a service, and a handler that loads changed units. Without the
handler, systemd keeps the old schedule and the old command of a timer that runs:

` + "```" + `yaml
- uses: file
  with:
    path: /etc/systemd/system/backup.service
    content: "[Service]\nType=oneshot\nExecStart=/usr/local/bin/backup\n"
  notify: [timer]
- uses: file
  with:
    path: /etc/systemd/system/backup.timer
    content: "[Timer]\nOnCalendar=*-*-* 02:30\n[Install]\nWantedBy=timers.target\n"
  notify: [timer]
- uses: service
  with: {name: backup.timer, state: started, enabled: true}
handlers:
- name: timer
  uses: command
  with: {run: systemctl daemon-reload && systemctl restart backup.timer}
` + "```" + `

` + "`name`" + ` has no dot, because cron skips files with one. The file ends with a line end, without which
cron ignores its last line. The schedule is checked by ` + "`turnus validate`" + `: the five fields of cron,
with lists, ranges, steps, and names of months and days.

To run playbooks by a schedule of Turnus itself, see ` + "`schedule:`" + ` in the playbook.
`

const fileMode = 0o644

func run(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) error {
	p := r.Params
	h, path := r.Host(), "/etc/cron.d/"+p.Name
	was, err := h.ReadText(ctx, path)
	if err != nil {
		return err
	}
	want := ""
	if p.State != "absent" {
		want = p.text()
	}
	if was.Content == want && was.Exists == (want != "") {
		return nil
	}
	if was.NoFolder {
		return r.Lacks("the host has no /etc/cron.d: install cron, such as the package cron or cronie, with an earlier step")
	}
	r.Changed()
	r.ShowDiff(path, []byte(was.Content), []byte(want))
	switch {
	case r.Check:
		return nil
	case want != "":
		return h.ReplaceText(ctx, was, want, fileMode)
	}
	if err := h.Short(ctx, sdk.Command{Run: "rm -f " + path}).Err(); err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	return nil
}

// text is the file.
func (p *Params) text() string {
	var b strings.Builder
	b.WriteString("# Written by Turnus: changes made here are lost.\n")
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		fmt.Fprintf(&b, "%s=\"%s\"\n", name, p.Env[name])
	}
	when := p.Special
	if when == "" {
		when = strings.Join(strings.Fields(p.Schedule), " ")
	}
	fmt.Fprintf(&b, "%s %s %s\n", when, p.User, p.Command)
	return b.String()
}
