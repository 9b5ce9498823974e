package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/yamlread"
)

// longRunners are the commands that settings are for.
func (a *app) longRunners() []longRunning {
	return []longRunning{a.upService(), a.serverService(), a.workerService()}
}

func (a *app) configCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Settings of a service: what each is and where it came from, and whether they hold together",
		Long: `Settings of turnus up, server and worker: each flag may also be given by an environment
variable (--repo-every is TURNUS_REPO_EVERY) or in the YAML file of --config. A flag wins over the
environment, the environment over the file, the file over the default.`,
	}
	show := &cobra.Command{Use: "show", Short: "Show every setting, its value, its default, and where the value came from", RunE: whichService}
	check := &cobra.Command{Use: "check", Short: "Check the settings without starting anything", RunE: whichService}
	for _, l := range a.longRunners() {
		show.AddCommand(a.configShowCmd(l))
	}
	for _, l := range a.longRunners() {
		check.AddCommand(a.configCheckCmd(l))
	}
	c.AddCommand(show, check)
	return c
}

// whichService refuses a command that does not say whose settings are meant: a pipeline that forgot it must not take help for a yes.
func whichService(c *cobra.Command, _ []string) error {
	return console.Invalid("%s: whose settings?\nhint: %s up, %s server or %s worker", c.CommandPath(), c.CommandPath(), c.CommandPath(), c.CommandPath())
}

// takes gives c the flags of a long-running command: what is shown and checked is what that command would start with.
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
		Example: "  turnus config show " + name + `
  turnus config show ` + name + ` --config /etc/turnus/` + name + `.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.configShow(c) },
	}, l)
}

// shownSetting is one setting of -o json.
type shownSetting struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Default  string `json:"default"`
	From     string `json:"from"`            // default, flag, environment or file
	Where    string `json:"where,omitempty"` // variable, or file:line
	Variable string `json:"variable"`
}

type configShowDoc struct {
	Command  string         `json:"command"`
	Settings []shownSetting `json:"settings"`
}

func (a *app) configShow(c *cobra.Command) error {
	from, err := fill(c)
	if err != nil {
		return err
	}
	doc := configShowDoc{Command: c.Name(), Settings: []shownSetting{}}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if o, ok := from[f.Name]; ok {
			doc.Settings = append(doc.Settings, shownSetting{
				Name: f.Name, Value: hideSecrets(shownValue(f)), Default: defaultOf(f, o), From: o.kind, Where: o.where, Variable: variableOf(f.Name),
			})
		}
	})
	if a.Output == "json" {
		return console.PrintJSON(a.Out, doc)
	}
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SETTING\tVALUE\tDEFAULT\tFROM")
	for _, s := range doc.Settings {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, orDash(s.Value), orDash(s.Default), origin{s.From, s.Where})
	}
	return w.Flush()
}

func shownValue(f *pflag.Flag) string {
	if many, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Join(many.GetSlice(), ", ")
	}
	return f.Value.String()
}

// defaultOf is a flag's default. Those that read the environment themselves have none.
func defaultOf(f *pflag.Flag, o origin) string {
	if o.kind == fromEnvironment && isNoted(f, noteEnvironment) || f.DefValue == "[]" {
		return ""
	}
	return f.DefValue
}

// wordSecret is what looks like a secret in a command, or in the words that PostgreSQL's programs take: password=…, Bearer ….
var wordSecret = regexp.MustCompile(`(?i)((?:[a-z_-]*(?:passw|secret|token|api_?key)[a-z_-]*(?:\s*[=:]\s*|\s+)|bearer\s+|basic\s+))('[^']*'|"[^"]*"|[^\s"']+)`)

// hideSecrets takes out of a value what may be a secret: the password of a URL, all that follows the host of a webhook's
// address, and parameters.
func hideSecrets(value string) string {
	scheme, _, isURL := strings.Cut(value, "://")
	if !isURL || strings.ContainsAny(scheme, " \t\"'") {
		return wordSecret.ReplaceAllString(value, "$1…")
	}
	u, err := url.Parse(value)
	if err != nil { // several hosts, say: what stands before the last @ is who, and with which password
		if at := strings.LastIndex(value, "@"); at >= 0 {
			return scheme + "://…@" + value[at+1:]
		}
		return value
	}
	if u.User != nil {
		if _, has := u.User.Password(); has {
			u.User = url.UserPassword(u.User.Username(), "…")
		}
	}
	if (u.Scheme == "http" || u.Scheme == "https") && len(u.Path) > 1 && !strings.HasSuffix(u.Path, ".git") {
		u.Path = "/…" // chat services put a secret there
	}
	query := u.Query()
	for key := range query {
		if word := strings.ToLower(key); strings.Contains(word, "pass") || strings.Contains(word, "secret") || strings.Contains(word, "token") || strings.Contains(word, "key") && !strings.Contains(value, "postgres") {
			query.Set(key, "…")
		}
	}
	u.RawQuery = query.Encode()
	return strings.ReplaceAll(u.String(), url.PathEscape("…"), "…")
}

// settingProblem is one finding of config check.
type settingProblem struct {
	Level string `json:"level"` // error or warning
	What  string `json:"what"`
}

type configCheckDoc struct {
	Command  string           `json:"command"`
	OK       bool             `json:"ok"`
	Problems []settingProblem `json:"problems"`
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
		Example: "  turnus config check " + name + " --config /etc/turnus/" + name + ".yaml",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.configCheck(c, l, connect) },
	}, l)
	c.Flags().BoolVar(&connect, "connect", false, "ask Redis and the ledger whether they answer, too")
	return c
}

func (a *app) configCheck(c *cobra.Command, l longRunning, connect bool) error {
	doc := configCheckDoc{Command: l.cmd.Name(), Problems: []settingProblem{}}
	add := func(level string, err error) {
		for _, one := range eachError(err) {
			doc.Problems = append(doc.Problems, settingProblem{level, one.Error()})
		}
	}
	_, err := fill(c)
	add("error", err)
	if err == nil {
		add("error", l.check())
		doc.Problems = append(doc.Problems, checkFiles(c)...)
		if !connect {
			add("error", l.wellFormed())
		}
	}
	add("warning", unknownVariables(a.longRunners(), os.Environ()))
	if connect && err == nil {
		add("error", l.reachable(c.Context(), a))
	}
	doc.OK = !slices.ContainsFunc(doc.Problems, func(p settingProblem) bool { return p.Level == "error" })
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

// eachError takes apart what errors.Join put together.
func eachError(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var texts []string
		var list []error
		for _, one := range joined.Unwrap() {
			texts = append(texts, one.Error())
			list = append(list, eachError(one)...)
		}
		if strings.Join(texts, "\n") == err.Error() {
			return list
		}
	}
	return []error{err}
}

// checkFiles looks at the files that settings name: there, readable, and where they hold a secret nobody else's to read.
func checkFiles(c *cobra.Command) []settingProblem {
	var found []settingProblem
	c.Flags().VisitAll(func(f *pflag.Flag) {
		words, named := f.Annotations[noteFile]
		if !named {
			return
		}
		paths := []string{f.Value.String()}
		if many, ok := f.Value.(pflag.SliceValue); ok {
			paths = many.GetSlice()
		}
		for _, path := range paths {
			if path == "" || path == "none" {
				continue
			}
			if p, bad := checkFile(f.Name, path, slices.Contains(words, fileSecret)); bad {
				found = append(found, p)
			}
		}
	})
	return found
}

func checkFile(flag, path string, secret bool) (settingProblem, bool) {
	file, err := os.Open(path)
	if err != nil {
		return settingProblem{"error", fmt.Sprintf("--%s: %v", flag, err)}, true
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return settingProblem{"error", fmt.Sprintf("--%s: %v", flag, err)}, true
	}
	if info.IsDir() {
		return settingProblem{"error", fmt.Sprintf("--%s: %s is a folder, expected a file", flag, path)}, true
	}
	if mode := info.Mode().Perm(); secret && mode&(fs.FileMode(0o077)) != 0 {
		return settingProblem{"warning", fmt.Sprintf("--%s: others may read %s (mode %04o)\nhint: chmod 600 %s", flag, path, mode, path)}, true
	}
	return settingProblem{}, false
}

// otherVariables are variables that are no settings.
var otherVariables = []string{"TURNUS_CONFIG", "TURNUS_STATE", "TURNUS_TOKEN", "TURNUS_SERVER", "TURNUS_SDK", "TURNUS_OPTIONS", "TURNUS_HEALTH"}

// unknownVariables says which variables of the environment begin with TURNUS_ and mean nothing.
func unknownVariables(all []longRunning, environ []string) error {
	known := slices.Clone(otherVariables)
	for _, l := range all {
		l.cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if isSetting(f) {
				known = append(known, variableOf(f.Name))
			}
		})
	}
	var errs []error
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "TURNUS_") || slices.Contains(known, name) {
			continue
		}
		text := fmt.Sprintf("the environment has %s, which is no setting", name)
		if hint := yamlread.DidYouMean(name, known); hint != "" {
			text += "\nhint: " + hint
		}
		errs = append(errs, errors.New(text))
	}
	return errors.Join(errs...)
}

// wellFormed tells whether the addresses of Redis and of the ledger are some. Nothing is contacted.
func (l longRunning) wellFormed() error {
	var errs []error
	if l.queue.url != "" {
		client, err := redisconn.Dial(l.queue.url) // connects at the first use, which never comes
		if err == nil {
			err = client.Close()
		}
		errs = append(errs, err)
	}
	if l.keeps != nil && l.keeps.ledger != "" {
		errs = append(errs, ledger.CheckURL(l.keeps.ledger))
	}
	return errors.Join(errs...)
}

// reachable asks what the command would use whether it answers. A ledger file that is not there yet is no fault.
func (l longRunning) reachable(ctx context.Context, a *app) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var errs []error
	if l.queue.url != "" {
		_, closeQueue, err := l.queue.open(ctx, a)
		if err == nil {
			err = closeQueue()
		}
		errs = append(errs, err)
	}
	if l.keeps != nil && l.keeps.ledger != "" {
		errs = append(errs, ledger.Reachable(ctx, l.keeps.ledger))
	}
	for i, err := range errs {
		if errors.Is(err, context.DeadlineExceeded) {
			errs[i] = fmt.Errorf("%w: no answer within 10s", core.ErrUnavailable)
		}
	}
	return errors.Join(errs...)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
