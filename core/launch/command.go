package launch

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

// MaxCommand bounds the command line of a Command, in bytes.
const MaxCommand = 32 << 10

// CommandName is the name of the playbook of a run of a Command.
const CommandName = "exec"

// ErrNeeds is of a Command without Needs on hosts with a window set.
var ErrNeeds = fmt.Errorf("and how long the command takes is not known: give it with --needs 5m (needs_seconds in the API): %w", core.ErrInvalid)

// Command is one command line for hosts, without a playbook of a project.
type Command struct {
	Line           string           // given to /bin/sh on each host as it stands
	Tenant         string           // of the run
	Timeout        time.Duration    // of the command on one host; 0 is the worker's limit
	Needs          time.Duration    // that must be left in the window of a host; 0 is not known
	StopAfter      string           // the failure threshold, as 5 or 10%; "" is none
	Disruptive     bool             // never on two hosts of an HA group at the same time
	OutsideWindows bool             // also on hosts whose window is closed
	Become         *core.BecomeRule // nil: as in the inventory
}

// commandPlaybook is the source of a Command's playbook. No field holds the command line.
type commandPlaybook struct {
	Playbook string            `yaml:"playbook"`
	Targets  string            `yaml:"targets"`
	Tenant   string            `yaml:"tenant,omitempty"`
	Strategy map[string]string `yaml:"strategy,omitempty"`
	Steps    []commandStep     `yaml:"steps"`
}

type commandStep struct {
	Name       string            `yaml:"name"`
	Uses       string            `yaml:"uses"`
	Disruptive bool              `yaml:"disruptive"`
	Window     string            `yaml:"window,omitempty"`
	Needs      string            `yaml:"needs,omitempty"`
	Timeout    string            `yaml:"timeout,omitempty"`
	With       map[string]string `yaml:"with,omitempty"`
}

// Playbook returns the command as a playbook of one step, and the vars to launch it with. The step
// keeps the windows of hosts that have a window set; it then needs Needs. Errors wrap
// core.ErrInvalid.
func (c Command) Playbook(hosts []core.Host, types func(string) (playbooks.Type, bool)) (*playbooks.Playbook, map[string]any, error) {
	if err := c.check(); err != nil {
		return nil, nil, err
	}
	step := commandStep{Name: CommandName, Uses: "command", Disruptive: c.Disruptive, With: map[string]string{"run": "${{ vars." + snapshot.CommandVar + " }}"}}
	windowed := slices.DeleteFunc(slices.Clone(hosts), func(h core.Host) bool { return h.WindowSet == "" })
	if len(windowed) > 0 && !c.OutsideWindows {
		if c.Needs <= 0 {
			return nil, nil, fmt.Errorf("exec: %d of %d hosts have a window set, such as %s of %s, %w", len(windowed), len(hosts), windowed[0].WindowSet, windowed[0].Name, ErrNeeds)
		}
		step.Window, step.Needs = admission.Own, c.Needs.String()
	}
	if c.Timeout > 0 {
		step.Timeout = c.Timeout.String()
	}
	book := commandPlaybook{Playbook: CommandName, Targets: "true", Tenant: c.Tenant, Steps: []commandStep{step}}
	if c.StopAfter != "" {
		book.Strategy = map[string]string{"stop_after": c.StopAfter}
	}
	source, err := yaml.Marshal(book)
	if err != nil {
		return nil, nil, fmt.Errorf("exec: write its playbook: %w", err)
	}
	vars := map[string]any{snapshot.CommandVar: c.Line}
	p, err := playbooks.Parse(snapshot.CommandFile, source, playbooks.Options{Types: types, Vars: vars})
	if err != nil {
		return nil, nil, fmt.Errorf("exec: %w: %w", core.ErrInvalid, err)
	}
	return p, vars, nil
}

// CommandOf returns the command of which the launch with a snapshot was made. ok is false for a
// launch of a project's playbook. A command that ran outside of windows has no Needs.
func CommandOf(s *snapshot.Snapshot) (c Command, ok bool, err error) {
	if c.Line, ok = s.CommandLine(); !ok {
		return Command{}, false, nil
	}
	var book commandPlaybook
	if err := yaml.Unmarshal([]byte(s.Source), &book); err != nil || len(book.Steps) != 1 {
		return Command{}, true, fmt.Errorf("read the command of run %s: %w", s.Run, core.ErrInvalid)
	}
	step := book.Steps[0]
	c.Tenant, c.StopAfter, c.Disruptive, c.Become = book.Tenant, book.Strategy["stop_after"], step.Disruptive, s.Become
	for _, d := range []struct {
		text string
		to   *time.Duration
	}{{step.Timeout, &c.Timeout}, {step.Needs, &c.Needs}} {
		if d.text == "" {
			continue
		}
		if *d.to, err = time.ParseDuration(d.text); err != nil {
			return Command{}, true, fmt.Errorf("read the command of run %s: %w: %w", s.Run, core.ErrInvalid, err)
		}
	}
	return c, true, nil
}

// check refuses a command line that no shell takes as it stands, and a threshold that means
// nothing.
func (c Command) check() error {
	switch {
	case strings.TrimSpace(c.Line) == "":
		return fmt.Errorf("exec: the command is empty: %w", core.ErrInvalid)
	case len(c.Line) > MaxCommand:
		return fmt.Errorf("exec: the command has %d bytes, at most %d are allowed: use a playbook with the job type script: %w", len(c.Line), MaxCommand, core.ErrInvalid)
	case !utf8.ValidString(c.Line) || strings.ContainsRune(c.Line, 0):
		return fmt.Errorf("exec: the command must be UTF-8 text without NUL bytes: %w", core.ErrInvalid)
	case c.StopAfter == "":
		return nil
	}
	if _, err := rollout.ParseSize(c.StopAfter); err != nil {
		return fmt.Errorf("exec: stop_after %q: expected a number of hosts or a share, as 5 or 10%%: %w", c.StopAfter, core.ErrInvalid)
	}
	return nil
}
