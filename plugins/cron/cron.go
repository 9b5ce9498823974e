// Package cron owns the job type cron: a file of /etc/cron.d, or a timer of systemd. It imports
// only the sdk.
package cron

import (
	"cmp"
	"context"
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
	Name     string            `json:"name" turnus:"required,max=100,pattern=^[A-Za-z0-9_-]+$" jsonschema:"name of the job and of its file in /etc/cron.d, or of its timer; without dots, because cron skips such files"`
	State    string            `json:"state,omitempty" turnus:"default=present,enum=present|absent" jsonschema:"whether the job exists"`
	Schedule string            `json:"schedule,omitempty" jsonschema:"five fields: minute, hour, day of month, month, day of week"`
	Special  string            `json:"special,omitempty" turnus:"enum=@reboot|@hourly|@daily|@weekly|@monthly|@yearly" jsonschema:"in place of schedule"`
	Calendar string            `json:"calendar,omitempty" turnus:"pattern=^[A-Za-z0-9*][A-Za-z0-9*:,./~+_ -]*$" jsonschema:"in place of schedule, for a timer of systemd: its OnCalendar, such as Mon *-*-* 03:00"`
	User     string            `json:"user,omitempty" turnus:"default=root,pattern=^[A-Za-z_][A-Za-z0-9_.-]*[$]?$" jsonschema:"user who the command runs as"`
	Command  string            `json:"command,omitempty" jsonschema:"command line, for /bin/sh; cron makes a line end of each % without a backslash, a timer does not, and takes several lines"`
	Env      map[string]string `json:"env,omitempty" jsonschema:"variables of the job, such as MAILTO or PATH"`
}

var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	var bad sdk.Problems
	times := slices.DeleteFunc([]string{p.Schedule, p.Special, p.Calendar}, func(s string) bool { return s == "" })
	if p.State == "absent" {
		if len(times) > 0 || p.Command != "" || p.Env != nil {
			bad.Add("/state", "schedule, special, calendar, command and env go with state present")
		}
		return bad.Err()
	}
	if len(times) != 1 {
		bad.Add("", "expected schedule, special or calendar, and only one of them")
	}
	if p.Schedule != "" {
		if err := checkSchedule(p.Schedule); err != nil {
			bad.Add("/schedule", "%w", err)
		}
	}
	if oneLine := p.Calendar == "" && strings.ContainsAny(p.Command, "\r\n"); oneLine || strings.TrimSpace(p.Command) == "" || strings.Contains(p.Command, "\x00") {
		bad.Add("/command", "expected a command, on one line unless calendar is set")
	}
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if !variable().MatchString(name) || strings.ContainsAny(p.Env[name], "\r\n\"\x00") {
			bad.Add("/env/"+name, "expected the name of a variable, and a value on one line without double quotes")
		}
	}
	return bad.Err()
}

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("cron", run,
		sdk.Summary("A command that the host's cron, or a timer of systemd, runs by a schedule"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Example("Every night", sdk.With{"name": "backup", "schedule": "30 2 * * *", "command": "/usr/local/bin/backup"}),
		sdk.Example("As another user, with variables", sdk.With{"name": "report", "schedule": "*/15 8-18 * * mon-fri", "user": "app", "command": "/srv/app/report", "env": sdk.With{"MAILTO": "ops@example.org"}}),
		sdk.Example("After each start of the host", sdk.With{"name": "warm-up", "special": "@reboot", "command": "/srv/app/warm-up"}),
		sdk.Example("By a timer of systemd", sdk.With{"name": "backup", "calendar": "Mon *-*-* 03:00", "command": "/usr/local/bin/backup"}),
		sdk.Example("Gone", sdk.With{"name": "backup", "state": "absent"}),
	)
}

const description = `
Makes sure that /etc/cron.d has a file of this name with one job, or has none. The whole file
belongs to Turnus: what else it holds is replaced. cron itself reads the file within a minute.
The step fails if the host does not know ` + "`user`" + `, or has no /etc/cron.d, as with the cron of
busybox and on hosts with timers of systemd alone. In check mode it counts as a change if an earlier
step would change the host, because that step may add the user or install cron.

With ` + "`calendar`" + ` the job is NAME.timer and NAME.service in /etc/systemd/system, and the step enables
and starts the timer. ` + "`calendar`" + ` is an OnCalendar of systemd, as ` + "`man systemd.time`" + ` explains. The
host checks it before any change, with ` + "`systemd-analyze calendar`" + `. The step fails if systemd does
not run on the host, and if a unit of this name exists that Turnus did not write. systemd sends no
mail: ` + "`journalctl -u NAME`" + ` shows the output. systemd does not start a command again while it runs.

A job has one place: with ` + "`calendar`" + `, the step removes the file of cron that Turnus wrote under
this name, and without it the units. ` + "`state: absent`" + ` removes both. A running command finishes.

` + "`name`" + ` has no dot, because cron skips files with one. The file ends with a line end, without which
cron ignores its last line. The schedule is checked by ` + "`turnus validate`" + `: the five fields of cron,
with lists, ranges, steps, and names of months and days.

To run playbooks by a schedule of Turnus itself, see ` + "`schedule:`" + ` in the playbook.
`

const fileMode = 0o644

func run(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) error {
	p := r.Params
	now, err := look(ctx, r.Host(), p)
	if err == nil {
		err = p.owns(&now)
	}
	if err != nil {
		return err
	}
	idle := p.Calendar != "" && !now.words.Has("runs")
	changed := slices.DeleteFunc([]*file{&now.cron, &now.service, &now.timer}, func(f *file) bool { return !f.differs() })
	switch {
	case now.words.Has("nouser"):
		return r.Lacks("job %s: the host has no user %s: add a step of the type user before this one", p.Name, p.User)
	case len(changed) == 0 && !idle:
		return nil
	case now.cron.want != "" && now.cron.NoFolder:
		return r.Lacks("the host has no /etc/cron.d: install cron, such as the package cron or cronie, with an earlier step, or set calendar in place of schedule")
	}
	r.Changed()
	for _, f := range changed {
		r.ShowDiff(f.Path, []byte(f.Content), []byte(f.want))
	}
	if len(changed) == 0 {
		r.ShowDiff(p.Name+".timer", []byte("is not enabled, not started, or not loaded again since a change\n"), []byte("is enabled and started\n"))
	}
	if r.Check {
		return nil
	}
	return p.act(ctx, r.Host(), now)
}

// owns refuses the files that the job needs and that are not its own, and forgets the others. The
// file of cron is the job's, unless the job is a timer and Turnus did not write the file.
func (p *Params) owns(now *found) error {
	if p.Calendar == "" && now.cron.odd != "" {
		return sdk.Refuse("reading %s: it is %s: remove it, or use another name", now.cron.Path, now.cron.odd)
	}
	if p.Calendar != "" && !now.cron.ours() {
		now.cron.TextFile = sdk.TextFile{Path: now.cron.Path}
	}
	if p.Calendar != "" && !now.words.Has("systemd") {
		return sdk.Refuse("timer %s: systemd does not run on the host: set schedule in place of calendar", p.Name)
	}
	for _, f := range []*file{&now.service, &now.timer} {
		if f.odd == "" && (!f.Exists || f.ours()) {
			continue
		}
		if f.want != "" {
			return sdk.Refuse("timer %s: %s is there, and Turnus did not write it: remove it, or use another name", p.Name, f.Path)
		}
		now.service, now.timer = file{}, file{}
		break
	}
	if now.words.Has("taken") {
		return sdk.Refuse("timer %s: the host has %s: use another name", p.Name, now.words.Value("taken"))
	}
	if now.words.Has("bad") {
		return sdk.Refuse("timer %s: systemd rejects the calendar: %s: expected such as \"Mon *-*-* 03:00\"\nhint: `man systemd.time` lists the forms", p.Name, strings.TrimSpace(now.words.Value("bad")))
	}
	return nil
}

// act brings the units to where they are wanted, and then the file of cron.
func (p *Params) act(ctx context.Context, h *sdk.Host, now found) error {
	gone := ""
	if now.cron.Exists && now.cron.want == "" {
		gone = now.cron.Path
	}
	has := now.service.Exists || now.timer.Exists
	if p.Calendar != "" || has || gone != "" {
		vars := sdk.Vars("n", p.Name, "service", now.service.want, "timer", now.timer.want, "units", map[bool]string{true: "1"}[has], "gone", gone)
		if err := h.Short(ctx, sdk.Command{Run: vars + actScript}).Err(); err != nil {
			return fmt.Errorf("job %s: %w", p.Name, err)
		}
	}
	if !now.cron.differs() || gone != "" {
		return nil
	}
	return h.ReplaceText(ctx, now.cron.TextFile, now.cron.want, fileMode)
}

// text is the file of cron.
func (p *Params) text() string {
	var b strings.Builder
	b.WriteString(header)
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		fmt.Fprintf(&b, "%s=\"%s\"\n", name, p.Env[name])
	}
	when := cmp.Or(p.Special, strings.Join(strings.Fields(p.Schedule), " "))
	fmt.Fprintf(&b, "%s %s %s\n", when, p.User, p.Command)
	return b.String()
}
