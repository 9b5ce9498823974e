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
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnus/turnus/cmd/turnus/bench"
	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/exec"
	"github.com/turnus/turnus/windows"
	"github.com/turnus/turnus/windows/civil"
)

// app is what every verb shares.
type app struct{ *console.Console }

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{console.New(stdin, stdout, stderr)}
}

// Main runs the command line and returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if filepath.Base(os.Args[0]) == exec.HelperName { // a script's helper is this program under another name
		return exec.Helper(args, stdin, stdout, stderr)
	}
	if len(args) == 2 && args[0] == node.ScriptVerb {
		return exec.Serve(args[1], stderr) //nolint:gosec // its length was looked at
	}
	if len(args) >= 2 && args[0] == node.ServeVerb {
		return node.ServePlugin(args[1], args[2:], stderr)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50) // thousands of connections: a smaller heap for a little CPU, see docs/benchmarks.md
	}
	a := newApp(stdin, stdout, stderr)
	// Without this, the end of whoever reads the output would kill the process in the middle of a run. A write
	// fails instead, and the run drains. Ignored, the signal would stay so in the programs that are started.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(context.Background())
	code := exitCode(err)
	var e *console.Exit
	lost := a.Out.Problem()
	gone := errors.Is(lost, syscall.EPIPE) && errors.Is(err, syscall.EPIPE) // as with | head, who knows
	if silent := errors.As(err, &e) && e.Err == nil; err != nil && !silent && !gone {
		a.Message(a.Paint(console.Red, "error: ") + errorText(err))
	}
	if lost != nil && code == console.ExitOK {
		if !errors.Is(lost, syscall.EPIPE) { // whoever went away knows
			a.Message(a.Paint(console.Red, "error: ") + "the result could not be written: " + lost.Error())
		}
		return console.ExitInternal
	}
	return code
}

// errorText returns the text of an error without the word of core.ErrInvalid: it chooses the exit code, and says nothing to people.
func errorText(err error) string {
	kind := core.ErrInvalid.Error()
	text := strings.TrimSuffix(strings.TrimPrefix(err.Error(), kind+": "), ": "+kind)
	return strings.Replace(strings.Replace(text, ": "+kind+": ", ": ", 1), ": "+kind+"\n", "\n", 1)
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
		Use:   "turnus",
		Short: "Run playbooks on thousands of managed hosts: now, on a schedule, or inside a service window",
		Long: `Turnus runs YAML playbooks on managed hosts over SSH, fairly and carefully:
in waves, with a failure budget, one job at a time on a host.

Start with:
  turnus demo                          a simulated fleet, nothing to install
  turnus run PLAYBOOK -i INVENTORY     run a playbook now
  turnus validate PATH...              every mistake, with file:line:col
  turnus up --definitions DIR          a service that accepts, remembers and schedules runs
  turnus submit PLAYBOOK --follow      run a playbook there`,
		Version:           settings.Version(),
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: false},
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			return a.formats(c)
		},
	}
	root.PersistentFlags().StringVarP(&a.Output, "output", "o", "text", "text or json; results go to stdout, progress to stderr")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	root.SetVersionTemplate(versionLine() + "\n")
	root.SetFlagErrorFunc(flagError)
	a.addCommands(root)
	for _, c := range root.Commands() {
		usageErrors(c)
		groups(c)
	}
	onlyCommands(root)
	return root
}

// addCommands gives root its commands, by who calls them: help lists them so.
func (a *app) addCommands(root *cobra.Command) {
	for id, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Run playbooks from here:", []*cobra.Command{a.demoCmd(), a.runCmd(), a.validateCmd(), a.schemaCmd(), a.planCmd(), a.hostsCmd(), a.windowsCmd(), a.scheduleCmd(), a.diffCmd(), a.configsCmd(), a.secretsCmd()}},
		{"Ask a server:", []*cobra.Command{
			a.contextCmd(), a.loginCmd(), a.logoutCmd(), a.applyCmd(), a.submitCmd(), a.runsCmd(), a.explainCmd(), a.logsCmd(), a.watchCmd(), a.cancelCmd(), a.pauseCmd(), a.resumeCmd(), a.signalCmd(), a.approveCmd(), a.retryCmd(),
			a.playbooksCmd(), a.schedulesCmd(), a.handlersCmd(), a.workersCmd(), a.queueCmd(), a.auditCmd(), a.notificationsCmd(), a.tokensCmd(), a.exportCmd(),
		}},
		{"Run a service:", []*cobra.Command{a.upCmd(), a.serverCmd(), a.workerCmd(), a.configCmd(), a.healthCmd(), a.doctorCmd(), a.backupCmd(), a.restoreCmd(), a.pruneCmd(), a.keysCmd()}},
		{"Besides:", []*cobra.Command{a.pluginsCmd(), bench.Command(a.Console), a.manCmd(), a.versionCmd()}},
	} {
		name := strconv.Itoa(id)
		root.AddGroup(&cobra.Group{ID: name, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = name
		}
		root.AddCommand(g.commands...)
		root.SetHelpCommandGroupID(name) // the last one keeps them
		root.SetCompletionCommandGroupID(name)
	}
}

// formats refuses a form of output that a command has not.
func (a *app) formats(c *cobra.Command) error {
	known := []string{"text", "json"}
	for _, more := range []struct{ annotation, format string }{{"svg", "svg"}, {"export", "ndjson"}, {"export", "csv"}} {
		if c.Annotations[more.annotation] != "" {
			known = append(known, more.format)
		}
	}
	if slices.Contains(known, a.Output) {
		return nil
	}
	last := len(known) - 1
	return console.Invalid("-o %s: expected %s or %s", a.Output, strings.Join(known[:last], ", "), known[last])
}

// groups has every command that only holds others say so.
func groups(c *cobra.Command) {
	if c.HasSubCommands() && c.Annotations[alone] == "" {
		onlyCommands(c)
	}
	for _, sub := range c.Commands() {
		groups(sub)
	}
}

// alone marks a command that does something also without one of its subcommands.
const alone = "alone"

// flagError says which flag a misspelt one most likely meant.
func flagError(cmd *cobra.Command, err error) error {
	hint := cmd.CommandPath() + " --help shows what there is"
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := yamlread.Nearest(unknown.GetSpecifiedName(), names); near != "" {
			hint = "did you mean --" + near + "? " + hint
		}
	}
	return console.Invalid("%w\nhint: %s", err, hint)
}

// onlyCommands makes a command that only groups others refuse what it does not have,
// as wrong usage, and show its help when nothing is asked, unless it says something else itself.
func onlyCommands(c *cobra.Command) {
	c.SuggestionsMinimumDistance = 2
	c.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		hint := cmd.CommandPath() + " --help lists what there is"
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "did you mean " + cmd.CommandPath() + " " + near[0] + "?"
		}
		return console.Invalid("unknown command %q\nhint: %s", cmd.CommandPath()+" "+args[0], hint)
	}
	if c.RunE == nil {
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
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

// argumentProblem names the argument that is missing or too much, by the words of the command's usage.
func argumentProblem(cmd *cobra.Command, args []string) string {
	var wanted []string
	words := strings.Fields(cmd.Use)[1:]
	for i, word := range words {
		if flag := strings.HasPrefix(word, "-") || i > 0 && strings.HasPrefix(words[i-1], "-"); !flag {
			wanted = append(wanted, strings.Trim(word, "[]."))
		}
	}
	if len(args) < len(wanted) {
		return cmd.CommandPath() + ": no " + wanted[len(args)] + " is given"
	}
	return fmt.Sprintf("%s: unexpected argument %q", cmd.CommandPath(), args[len(wanted)])
}

// usageErrors makes wrong arguments exit 5, like every invalid input.
func usageErrors(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return console.Invalid("%s\nusage: %s", argumentProblem(cmd, args), cmd.UseLine())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		usageErrors(sub)
	}
}
