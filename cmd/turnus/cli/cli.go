// Package cli owns the command line: one file a verb, exit codes, what is printed
// and where, and the wiring of all rooms. Results go to stdout, progress and
// messages to stderr.
//
// It must not decide anything that a run, a queue or a plugin decides.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/help"
	"github.com/turnus/turnus/cmd/turnus/lab"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/exec"
	"github.com/turnus/turnus/windows"
	"github.com/turnus/turnus/windows/civil"
)

// app is the state that all verbs share.
type app struct {
	*console.Console
	quiet   bool
	color   string // auto, always or never
	helpAll bool   // help shows all flags
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{Console: console.New(stdin, stdout, stderr)}
}

// Main runs the command line and returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if filepath.Base(os.Args[0]) == exec.HelperName { // a script's helper is this program under another name
		return exec.Helper(args, stdin, stdout, stderr)
	}
	if len(args) == 2 && args[0] == node.ScriptVerb {
		return exec.Serve(args[1], stderr) //nolint:gosec // its length was checked
	}
	if len(args) >= 2 && args[0] == node.ServeVerb {
		return node.ServePlugin(args[1], args[2:], stderr)
	}
	settings.StartHeap()
	a := newApp(stdin, stdout, stderr)
	// Without this, the process would die in the middle of a run when the reader of its output ends.
	// A write fails instead, and the run drains. Ignored, the signal would stay so in the programs
	// that are started.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	root := a.root()
	args, a.helpAll = help.WantsAll(args)
	args, old, now := help.Present(args)
	if old != "" {
		a.Report(a.Paint(console.Yellow, "warning: ") + fmt.Sprintf("%q is now %q", "turnus "+old, "turnus "+now))
	}
	settings.AcceptRenamed(root, func(old, now string) {
		a.Report(a.Paint(console.Yellow, "warning: ") + old + " is now " + now)
	})
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	cmd, err := root, help.UnknownCommand(root, args)
	if err == nil {
		cmd, err = root.ExecuteContextC(context.Background())
	}
	code := exitCode(err)
	lost := a.Out.Problem()
	gone := errors.Is(lost, syscall.EPIPE) && errors.Is(err, syscall.EPIPE) // as with | head, who knows
	if rest := console.Unsaid(err); rest != nil && !gone {
		a.Report(a.Paint(console.Red, "error: ") + help.ErrorMessage(cmd, rest, exitCode(rest)))
	}
	if lost != nil && code == console.ExitOK {
		if !errors.Is(lost, syscall.EPIPE) { // the reader of the output has ended
			a.Report(a.Paint(console.Red, "error: ") + "the result could not be written: " + lost.Error())
		}
		return console.ExitInternal
	}
	return code
}

func exitCode(err error) int {
	var e *console.Exit
	var d playbooks.Diagnostics
	switch {
	case err == nil:
		return console.ExitOK
	case errors.As(err, &e):
		return e.Code
	case errors.As(err, &d), errors.Is(err, core.ErrInvalid), errors.Is(err, windows.ErrInvalid), errors.Is(err, civil.ErrInvalid):
		return console.ExitInvalid
	case errors.Is(err, context.Canceled):
		return console.ExitCancelled
	}
	return console.ExitInternal
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:               "turnus",
		Short:             "Run playbooks on thousands of managed hosts: now, on a schedule, or inside a maintenance window",
		Long:              "Turnus runs YAML playbooks on managed hosts over SSH: in waves, with a failure threshold, one job at a time on a host.",
		Version:           settings.Version(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if err := a.formats(c); err != nil {
				return err
			}
			if err := a.appearance(); err != nil {
				return err
			}
			if err := errors.Join(narrows(c.Flags()), help.Negatives(c)); err != nil {
				return err
			}
			return localrun.UseProject(c)
		},
	}
	a.globalFlags(root.PersistentFlags())
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json", "yaml", "wide", "name"}, cobra.ShellCompDirectiveNoFileComp))
	_ = root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { help.Print(c, a.helpAll) })
	root.SetVersionTemplate(versionLine() + "\n")
	root.SetFlagErrorFunc(help.FlagError)
	a.addCommands(root)
	help.Strict(root)
	return root
}

// addCommands gives root its commands. Help lists them in these groups, and names the others in one
// line.
func (a *app) addCommands(root *cobra.Command) {
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Daily work", []*cobra.Command{a.runCmd(), a.execCmd(), a.planCmd(), a.submitCmd(), a.validateCmd(), a.logsCmd(), a.watchCmd()}},
		{"Look up and change", []*cobra.Command{a.runsCmd(), a.schedulesCmd(), a.hostsCmd(), a.inventoryCmd(), a.windowsCmd(), a.hostKeysCmd(), a.projectCmd(), a.secretsCmd(), a.pluginsCmd()}},
		{"Begin", []*cobra.Command{a.demoCmd(), lab.Command(a.Console), a.initCmd(), a.importCmd(), a.loginCmd()}},
		{"Run a service", []*cobra.Command{a.upCmd(), a.serverCmd(), a.workerCmd(), a.adminCmd()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, c := range g.commands {
			c.GroupID = g.title
		}
		root.AddCommand(g.commands...)
	}
	root.AddCommand(a.contextCmd(), a.cronCmd(), a.logoutCmd(), a.versionCmd())
}

// needs makes a command refuse to be run without these flags, as wrong usage.
func needs(c *cobra.Command, names ...string) {
	for _, name := range names {
		_ = c.MarkFlagRequired(name) // completion offers it first
	}
	c.PreRunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range names {
			if !cmd.Flags().Changed(name) {
				return console.Invalid("%s: --%s is not given\nusage: %s", cmd.CommandPath(), name, cmd.UseLine())
			}
		}
		return nil
	}
}

// narrows refuses flags that restrict what a command does if they are given without a value. The
// unset variable of a shell means neither all, nor now, nor without an end.
func narrows(flags *pflag.FlagSet) error {
	for name := range strings.FieldsSeq("limit select tags skip-tags host handler at from to until since rule hash change targets outcome expires tenant run stop-after start-within key") {
		if f := flags.Lookup(name); f != nil && f.Changed && strings.Trim(f.Value.String(), "[] ") == "" {
			return console.Invalid("--%s is empty\nhint: give a value, or leave out --%[1]s", name)
		}
	}
	return nil
}
