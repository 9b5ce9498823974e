package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/redisconn"
)

// longRunners are the commands that settings are for.
func (a *app) longRunners() []longRunning {
	return []longRunning{a.upService(), a.serverService(), a.workerService()}
}

func commandsOf(all []longRunning) (list []*cobra.Command) {
	return core.Map(all, func(l longRunning) *cobra.Command { return l.cmd })
}

func (a *app) settingsCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "settings",
		Short: "Show the settings of a service, where each came from, and which contradict each other",
		Long: `Settings of turnus up, server and worker: each flag may also be given by an environment
variable (--repo-every is TURNUS_REPO_EVERY) or in the YAML file of --config. A flag wins over the
environment, the environment over the file, the file over the default.`,
		Example: `  turnus admin settings show up
  turnus admin settings check server --config /etc/turnus/server.yaml`,
	}
	show := &cobra.Command{Use: "show", Short: "Show every setting, its value, its default, and where the value came from", Example: "  turnus admin settings show up", RunE: whichService}
	check := &cobra.Command{Use: "check", Short: "Check the settings without starting anything", Example: "  turnus admin settings check up", RunE: whichService}
	for _, l := range a.longRunners() {
		show.AddCommand(a.configShowCmd(l))
		check.AddCommand(a.configCheckCmd(l))
	}
	c.AddCommand(show, check)
	return c
}

// whichService refuses a command without the name of a service: a pipeline that forgot it must not
// take help for a yes.
func whichService(c *cobra.Command, _ []string) error {
	return console.Invalid("%s: whose settings?\nhint: %s up, %s server or %s worker", c.CommandPath(), c.CommandPath(), c.CommandPath(), c.CommandPath())
}

// takes gives c the flags of a long-running command: what is shown and checked is what that command
// would start with.
func takes(c *cobra.Command, l longRunning) *cobra.Command {
	l.cmd.Flags().VisitAll(func(f *pflag.Flag) {
		f.Hidden = true // its own page has it
		c.Flags().AddFlag(f)
	})
	return c
}

func (a *app) configShowCmd(l longRunning) *cobra.Command {
	name := l.cmd.Name()
	return takes(&cobra.Command{
		Use:   name + " [FLAGS of turnus " + name + "]",
		Short: "Show the settings of turnus " + name,
		Example: "  turnus admin settings show " + name + `
  turnus admin settings show ` + name + ` --config /etc/turnus/` + name + `.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.configShow(c) },
	}, l)
}

type configShowDoc struct {
	Command  string        `json:"command"`
	Settings []api.Setting `json:"settings"`
}

func (a *app) configShow(c *cobra.Command) error {
	from, err := settings.Fill(c)
	if err != nil {
		return err
	}
	doc := configShowDoc{Command: c.Name(), Settings: shownSettings(c, from)}
	if a.Output == "json" {
		return console.PrintJSON(a.Out, doc)
	}
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SETTING\tVALUE\tDEFAULT\tFROM")
	for _, s := range doc.Settings {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, orDash(s.Value), orDash(s.Default), settings.Origin{Kind: s.From, Where: s.Where})
	}
	return w.Flush()
}

// shownSettings returns the settings of a command by name, without secrets.
func shownSettings(c *cobra.Command, from map[string]settings.Origin) []api.Setting {
	all := []api.Setting{}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if o, ok := from[f.Name]; ok {
			all = append(all, api.Setting{
				Name: f.Name, Value: settings.ShownValue(f), Default: settings.DefaultOf(f, o), From: o.Kind, Where: o.Where, Variable: settings.VariableOf(f.Name),
			})
		}
	})
	return all
}

type configCheckDoc struct {
	Command  string             `json:"command"`
	OK       bool               `json:"ok"`
	Problems []settings.Problem `json:"problems"`
}

func (a *app) configCheckCmd(l longRunning) *cobra.Command {
	name := l.cmd.Name()
	var connect bool
	c := takes(&cobra.Command{
		Use:   name + " [FLAGS of turnus " + name + "]",
		Short: "Check the settings of turnus " + name,
		Long: `Check what turnus ` + name + ` would start with: values, contradictions, files that are named and who may
read them, misspelt TURNUS_ variables. Nothing is started or changed; with --connect
Redis and the ledger are asked whether they answer. The exit code is 5 where it would not start.`,
		Example: "  turnus admin settings check " + name + " --config /etc/turnus/" + name + ".yaml",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.configCheck(c, l, connect) },
	}, l)
	c.Flags().BoolVar(&connect, "connect", false, "also check that Redis and the ledger answer")
	return c
}

func (a *app) configCheck(c *cobra.Command, l longRunning, connect bool) error {
	doc := configCheckDoc{Command: l.cmd.Name(), Problems: []settings.Problem{}}
	add := func(level string, err error) {
		for _, one := range settings.EachError(err) {
			doc.Problems = append(doc.Problems, settings.Problem{Level: level, What: one.Error()})
		}
	}
	_, err := settings.Fill(c)
	add("error", err)
	if err == nil {
		add("error", l.check())
		doc.Problems = append(doc.Problems, settings.CheckFiles(c)...)
		if !connect {
			add("error", l.wellFormed())
		}
	}
	add("warning", settings.UnknownVariables(commandsOf(a.longRunners()), os.Environ()))
	if connect && err == nil {
		add("error", l.reachable(c.Context(), a))
	}
	doc.OK = !slices.ContainsFunc(doc.Problems, func(p settings.Problem) bool { return p.Level == "error" })
	if a.Output == "json" {
		if err := console.PrintJSON(a.Out, doc); err != nil {
			return err
		}
	} else {
		for _, p := range doc.Problems {
			fmt.Fprintf(a.Out, "%s: %s\n", p.Level, p.What)
		}
		if doc.OK {
			fmt.Fprintf(a.Out, "turnus %s would start with these settings\n", doc.Command)
		}
	}
	if !doc.OK {
		return &console.Exit{Code: console.ExitInvalid}
	}
	return nil
}

// wellFormed reports whether the addresses of Redis and of the ledger are some. Nothing is
// contacted.
func (l longRunning) wellFormed() error {
	var errs []error
	if l.queue.URL != "" {
		client, err := redisconn.Dial(l.queue.URL) // connects at the first use, which never comes
		if err == nil {
			err = client.Close()
		}
		errs = append(errs, err)
	}
	if l.keeps != nil && l.keeps.Ledger != "" {
		errs = append(errs, ledger.CheckURL(l.keeps.Ledger))
	}
	return errors.Join(errs...)
}

// reachable asks what the command would use whether it answers. A ledger file that is not there yet
// is no fault.
func (l longRunning) reachable(ctx context.Context, a *app) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var errs []error
	add := func(what string, err error) {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%s: %w: no answer within 10s", what, core.ErrUnavailable)
		}
		errs = append(errs, err)
	}
	if l.queue.URL != "" {
		_, closeQueue, err := l.queue.Open(ctx, a.Console)
		if err == nil {
			err = closeQueue()
		}
		what := "Redis"
		if u, err := url.Parse(l.queue.URL); err == nil { // not its user and password
			what += " at " + u.Host
		}
		add(what, err)
	}
	if l.keeps != nil && l.keeps.Ledger != "" {
		add("the ledger", ledger.Reachable(ctx, l.keeps.Ledger))
	}
	return errors.Join(errs...)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// longRunning is a command whose flags may also come from the environment and from a file: a
// service that somebody starts by hand once, and a supervisor ever after.
type longRunning struct {
	cmd   *cobra.Command
	check func() error // refuses what contradicts itself; it opens and contacts nothing
	queue *service.QueueFlags
	keeps *service.Flags // nil: it keeps no record
}

// settable gives the command --config, and has it fill its flags and check them before it starts.
func (l longRunning) settable() longRunning {
	l.cmd.Flags().String("config", "", "file with settings, in YAML: each key is a flag of this command without its dashes")
	l.cmd.PreRunE = func(c *cobra.Command, _ []string) error {
		from, err := settings.Fill(c)
		if err != nil {
			return err
		}
		if l.keeps != nil {
			l.keeps.Settings = shownSettings(c, from)
		}
		return l.check()
	}
	return l
}
