// Package service owns the job type service: whether a service of the host runs,
// and whether it starts with the host. It imports only the sdk.
package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a service.
type Params struct {
	Name    string       `json:"name" turnus:"required,pattern=^[A-Za-z0-9_][A-Za-z0-9_.@:\\\\-]*$" jsonschema:"name of the service, such as nginx or getty@tty1"`
	State   string       `json:"state,omitempty" turnus:"enum=started|stopped|restarted|reloaded" jsonschema:"what the service does; restarted and reloaded act each time"`
	Enabled *bool        `json:"enabled,omitempty" jsonschema:"whether the service starts with the host"`
	Settle  sdk.Duration `json:"settle,omitempty" turnus:"default=1s" jsonschema:"a service that was started must still run after this time"`
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	if p.State == "" && p.Enabled == nil {
		return &sdk.ParamError{Err: errors.New("expected state, enabled, or both")}
	}
	return nil
}

// Outputs of a service.
type Outputs struct {
	Init    string `json:"init" jsonschema:"what manages the service: systemd, openrc, procd or sysv"`
	Active  bool   `json:"active" jsonschema:"whether the service ran when it was checked"`
	Enabled bool   `json:"enabled" jsonschema:"whether it started with the host then"`
}

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("service", run,
		sdk.Summary("A service that runs, or does not, now and after a restart of the host"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Outputs[Outputs](),
		sdk.Example("Run it, now and after each restart of the host", sdk.With{"name": "nginx", "state": "started", "enabled": true}),
		sdk.Example("Restart it, as a handler does", sdk.With{"name": "nginx", "state": "restarted"}),
		sdk.Example("Off for good", sdk.With{"name": "telnetd", "state": "stopped", "enabled": false}),
	)
}

const description = `
Starts, stops, restarts or reloads a service, and sets whether it starts with the host, by systemd,
OpenRC, procd (OpenWrt) or scripts in /etc/init.d.

A service that was started or restarted must still run after ` + "`settle`" + `: one that dies before fails
the step, with the last lines of its log where systemd has one. One that died, and that systemd
starts again later, does not run. systemd reads its unit files again first where they have changed.
A unit that systemd can neither enable nor disable is as wanted, and one that is enabled until the
next start of the host is not enabled.

` + "`restarted`" + ` and ` + "`reloaded`" + ` act each time: let a handler do it. A service that is not there fails the
step. In check mode it counts as a change if an earlier step would change the host, because that
step may install it.

On OpenWrt a script that does not use procd cannot report a running service. The step refuses
` + "`started`" + ` and ` + "`stopped`" + ` for it: use ` + "`restarted`" + `, or ` + "`enabled`" + ` alone.
`

// status is the host's report of the service.
type status struct {
	init                   string
	known, active, enabled bool
	static, undo           bool // static: it can be neither enabled nor disabled; undo: it can be disabled
	waits                  bool // it died, and is started again later
	unseen                 bool // it cannot report whether it runs
}

// starts reports whether the service starts, or does not, with the host as far as that can be set.
func (s status) starts(wanted bool) bool {
	if wanted {
		return s.enabled || s.static
	}
	return !s.undo
}

func run(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) error {
	p := r.Params
	result := r.Host().Query(ctx, sdk.Vars("n", p.Name)+lookScript)
	if err := result.Err(); err != nil {
		return fmt.Errorf("asking for service %s: %w", p.Name, err)
	}
	now, err := read(result.Stdout)
	if err != nil {
		return err
	}
	r.Output("init", now.init)
	r.Output("active", now.active)
	r.Output("enabled", now.enabled)
	if !now.known {
		if p.State == "stopped" && (p.Enabled == nil || !*p.Enabled) {
			return nil // nothing runs, and nothing will
		}
		return r.Lacks("the host has no service %s (%s): install it first, or correct the name", p.Name, now.init)
	}
	if now.unseen && (p.State == "started" || p.State == "stopped") {
		return sdk.Refuse("service %s: its script does not use procd, and cannot report a running service: expected state restarted, or enabled alone", p.Name)
	}
	actions := decide(p, now)
	if len(actions) == 0 {
		return nil
	}
	r.Changed()
	r.Explain(strings.Join(actions, ", "))
	r.ShowDiff("service "+p.Name, []byte(now.text()), []byte(now.after(actions)))
	if r.Check {
		return nil
	}
	return act(ctx, r, now, actions)
}

// decide returns what has to be done, in order: a service is enabled before it is started, and
// disabled before it is stopped.
func decide(p Params, now status) []string {
	var actions []string
	if p.Enabled != nil && !now.starts(*p.Enabled) {
		actions = append(actions, map[bool]string{true: "enable", false: "disable"}[*p.Enabled])
	}
	switch {
	case now.waits && (p.State == "started" || p.State == "reloaded"): // a start would wait as well
		actions = append(actions, "restart")
	case p.State == "started" && !now.active, p.State == "reloaded" && !now.active:
		actions = append(actions, "start")
	case p.State == "stopped" && (now.active || now.waits):
		actions = append(actions, "stop")
	case p.State == "restarted":
		actions = append(actions, "restart")
	case p.State == "reloaded":
		actions = append(actions, "reload")
	}
	return actions
}

// text is the status as a person compares it.
func (s status) text() string {
	active, start := "does not run\n", "does not start with the host\n"
	switch {
	case s.active:
		active = "runs\n"
	case s.waits:
		active = "died, and is started again later\n"
	}
	switch {
	case s.enabled:
		start = "starts with the host\n"
	case s.undo:
		start = "is enabled until the next start of the host\n"
	}
	return active + start
}

// after is the text once the actions are done.
func (s status) after(actions []string) string {
	how := ""
	for _, a := range actions {
		switch a {
		case "enable", "disable":
			s.enabled, s.undo = a == "enable", false
		case "start", "stop":
			s.active, s.waits = a == "start", false
		default: // restart and reload
			s.active, how = true, a+"ed\n"
		}
	}
	return s.text() + how
}

// act does it in one command, and checks whether the started service still runs.
func act(ctx context.Context, r *sdk.Run[Params, sdk.NoState], now status, actions []string) error {
	p := r.Params
	settle := "0"
	if p.State == "started" || p.State == "restarted" || p.State == "reloaded" {
		settle = fmt.Sprint(int((time.Duration(p.Settle) + time.Second - 1) / time.Second))
	}
	line := sdk.Vars("n", p.Name, "i", now.init, "t", settle) + "set -- " + strings.Join(actions, " ") + "\n" + actScript
	result := r.Host().Short(ctx, sdk.Command{Run: line})
	if err := result.Err(); err != nil {
		return fmt.Errorf("service %s: %s: %w", p.Name, strings.Join(actions, ", "), err)
	}
	if answer := sdk.ReadAnswer(result.Stdout); answer.Has("died") {
		r.Print([]byte(answer.Text("log")))
		return sdk.Failf("service %s does not run %s after it was started\nhint: `%s` on the host shows why", p.Name, time.Duration(p.Settle), reports(now.init, p.Name))
	}
	return nil
}

// reports returns the command that shows what a service reported.
func reports(init, name string) string {
	switch init {
	case "systemd":
		return "journalctl -u " + name + " -n 50"
	case "openrc":
		return "rc-service " + name + " status"
	case "procd":
		return "logread -e " + name
	}
	return "/etc/init.d/" + name + " status"
}

func read(text string) (status, error) {
	a := sdk.ReadAnswer(text)
	s := status{init: a.Value("init"), known: a.Has("known"), active: a.Has("active"), enabled: a.Has("enabled"), static: a.Has("static"), undo: a.Has("undo"), waits: a.Has("waits"), unseen: a.Has("unseen")}
	if s.init == "" {
		return s, sdk.Refuse("the host has no systemd, OpenRC, procd or /etc/init.d")
	}
	return s, nil
}
