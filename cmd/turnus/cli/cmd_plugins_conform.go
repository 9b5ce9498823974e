package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/plugins/conformance"
	"github.com/turnus/turnus/plugins/host/sandbox"
)

type pluginsTestFlags struct {
	lab      string
	cases    []string
	network  bool
	read     []string
	patience time.Duration
}

func (a *app) pluginsTestCmd() *cobra.Command {
	var f pluginsTestFlags
	c := &cobra.Command{
		Use: "test PROGRAM|FOLDER|BUILTIN", Short: "Hold a plugin, in any language, to what workers expect of it", Args: cobra.ExactArgs(1),
		Example: "  turnus plugins test ./motd\n  turnus plugins test plugins/motd/0.1.0 --lab lab.yaml\n  turnus plugins test ./motd --case cancel,drain -o json",
		RunE:    func(c *cobra.Command, args []string) error { return a.testPlugin(c.Context(), args[0], f) },
	}
	c.Flags().StringVar(&f.lab, "lab", "", "file with what the simulated hosts answer, more examples, and old states")
	c.Flags().StringSliceVar(&f.cases, "case", nil, "only these cases: "+strings.Join(conformance.Cases(), ", "))
	c.Flags().BoolVar(&f.network, "allow-network", false, "the plugin's own process opens network connections, as its manual states")
	c.Flags().StringArrayVar(&f.read, "allow-read", nil, "what the plugin's process reads beside its own folder, as its manual states: /PATH (repeatable)")
	c.Flags().DurationVar(&f.patience, "patience", 5*time.Second, "what a call of an example may take before its deadline")
	return c
}

func (a *app) testPlugin(ctx context.Context, what string, f pluginsTestFlags) error {
	cfg := conformance.Config{Only: f.cases, Patience: f.patience}
	if f.patience <= 0 {
		return console.Invalid("--patience %v: expected more than 0", f.patience)
	}
	if f.lab != "" {
		lab, err := conformance.ReadLab(f.lab)
		if err != nil {
			return err
		}
		cfg.Lab = lab
	}
	cfg.Lab.AllowNetwork = cfg.Lab.AllowNetwork || f.network || slices.Contains(node.NetworkBuiltins, what)
	var err error
	if cfg.Argv, cfg.Manifest, err = node.ProgramOf(what); err != nil {
		return err
	}
	if cfg.Read, err = node.ReadsOf(what, f.read); err != nil {
		return err
	}
	if cfg.Sandbox, err = sandbox.New(sandbox.Config{Mode: sandbox.Auto, Memory: node.DefaultPluginMemory}); err != nil {
		return err
	}
	ctx, _, release := a.Signals(ctx, "the suite is cut short", a.Message, func() {})
	defer release()
	said := "" // the same reason of many cases is printed once
	seen := func(r conformance.Result) {
		switch {
		case r.Status != conformance.NotApplicable:
		case r.Note == said:
			r.Note = ""
		default:
			said = r.Note
		}
		a.showCase(r)
	}
	if a.Output == "json" {
		seen = nil
	}
	report, err := conformance.Run(ctx, cfg, seen)
	if err != nil {
		return err
	}
	if a.Output == "json" {
		if err := console.PrintJSON(a.Out, report); err != nil {
			return err
		}
	} else {
		a.sumUp(report)
	}
	if report.Failed() > 0 {
		return &console.Exit{Code: console.ExitFailed}
	}
	return nil
}

// showCase prints one result as it comes.
func (a *app) showCase(r conformance.Result) {
	mark, color := "pass", console.Green
	switch r.Status {
	case conformance.Failed:
		mark, color = "FAIL", console.Red
	case conformance.NotApplicable:
		mark, color = "n/a ", console.Faint
	}
	fmt.Fprintf(a.Out, "%s  %-14s %8s  %s\n", a.Paint(color, mark), r.Case, shortTime(r.Took.Duration()), r.Title)
	for _, line := range []struct{ head, text string }{{"fault", r.Fault}, {"what to do", r.Hint}, {"why", notes(r)}} {
		if line.text != "" {
			fmt.Fprintf(a.Out, "      %s: %s\n", line.head, strings.ReplaceAll(line.text, "\n", "\n        "))
		}
	}
}

// notes are shown where a case does not apply; of one that passed they are in -o json.
func notes(r conformance.Result) string {
	if r.Status == conformance.NotApplicable {
		return r.Note
	}
	return ""
}

func shortTime(d time.Duration) string {
	if d < time.Millisecond {
		return "-"
	}
	return d.Round(time.Millisecond).String()
}

func (a *app) sumUp(r conformance.Report) {
	count := map[conformance.Status]int{}
	for _, one := range r.Results {
		count[one.Status]++
	}
	if len(r.Examples) > 0 {
		fmt.Fprintln(a.Out, "\nexamples:")
	}
	for _, e := range r.Examples {
		line := fmt.Sprintf("  %s %q: %s", e.Type, e.Title, e.Outcome)
		if e.Reason != "" {
			line += " (" + console.FirstLine(e.Reason) + ")"
		}
		fmt.Fprintln(a.Out, console.Printable(line))
	}
	name := cmp.Or(strings.TrimSpace(r.Plugin+" "+r.Version), "the program")
	fmt.Fprintf(a.Out, "\n%s: %d passed, %d failed, %d not applicable\n", name,
		count[conformance.Passed], count[conformance.Failed], count[conformance.NotApplicable])
}
