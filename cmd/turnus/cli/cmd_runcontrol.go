package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/localrun"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// runVerb is a command that does something with one run and shows what the run is then.
func (a *app) runVerb(use, short, example string, r *remote.Flags, do func(context.Context, *client.Client, string) (api.Run, error)) *cobra.Command {
	c := &cobra.Command{
		Use: use + " RUN", Short: short, Example: example, Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(r, remote.RunIDs),
		RunE: remote.Run(a.Console, r, func(ctx context.Context, c *client.Client, args []string) error {
			run, err := do(ctx, c, args[0])
			if err != nil {
				return err
			}
			return a.showPhase(run)
		}),
	}
	r.Add(c)
	return c
}

// showPhase prints the phase of a run after a change.
func (a *app) showPhase(run api.Run) error {
	if a.Output == "json" {
		return console.PrintJSON(a.Out, run)
	}
	line := fmt.Sprintf("%s: %s: %s", run.ID, run.Playbook, run.Phase)
	if text := runview.OutcomeText(run.Outcomes); text != "" {
		line += ", " + text
	}
	if text := runview.SharesText(run); text != "" {
		line += "; " + text
	}
	if text := runview.WaitsText(run); text != "" {
		line += "; waits " + text
	}
	fmt.Fprintln(a.Out, line)
	if run.QueueAway {
		a.Message("recorded, but the queue does not answer: hosts may continue until it is back and has it; turnus watch " + run.ID)
	}
	return nil
}

func (a *app) cancelCmd() *cobra.Command {
	return a.runVerbFor("cancel", "End a run: no job of it starts any more, and running jobs are cancelled; pause lets them finish",
		`  turnus runs cancel 20261120-021500-ab3cd5ef --reason "wrong image"`, (*client.Client).CancelRun)
}

func (a *app) pauseCmd() *cobra.Command {
	return a.runVerbFor("pause", "Let a run start no more jobs until it is resumed; those that run continue",
		`  turnus runs pause 20261120-021500-ab3cd5ef --reason "line card looks odd"`, (*client.Client).PauseRun)
}

func (a *app) resumeCmd() *cobra.Command {
	return a.runVerbFor("resume", "Let a paused run continue", "  turnus runs resume 20261120-021500-ab3cd5ef", (*client.Client).ResumeRun)
}

// runVerbFor is a runVerb that takes a reason only.
func (a *app) runVerbFor(use, short, example string, do func(c *client.Client, ctx context.Context, id, reason string) (api.Run, error)) *cobra.Command {
	var r remote.Flags
	var reason string
	c := a.runVerb(use, short, example, &r, func(ctx context.Context, c *client.Client, id string) (api.Run, error) {
		return do(c, ctx, id, reason)
	})
	reasonFlag(c, &reason)
	return c
}

func reasonFlag(c *cobra.Command, reason *string) {
	c.Flags().StringVar(reason, "reason", "", "why, in one line of at most 1000 characters: shown to other people, and kept in the audit log")
}

func (a *app) approveCmd() *cobra.Command {
	var r remote.Flags
	var reason string
	var wave int
	var refuse bool
	c := a.runVerb("approve", "Approve a run, or its next wave, that waits for an approval",
		`  turnus runs approve 20261120-021500-ab3cd5ef
  turnus runs approve 20261120-021500-ab3cd5ef --wave 2 --reason "first hosts look well"
  turnus runs approve 20261120-021500-ab3cd5ef --refuse --reason "not in December"`, &r,
		func(ctx context.Context, c *client.Client, id string) (api.Run, error) {
			return c.ApproveRun(ctx, id, api.Approve{Wave: wave, Approve: !refuse, Reason: reason})
		})
	reasonFlag(c, &reason)
	c.Flags().IntVar(&wave, "wave", 0, "approve this wave, from 1; without it the run as a whole")
	c.Flags().BoolVar(&refuse, "refuse", false, "refuse: the run is cancelled")
	return c
}

func (a *app) retryCmd() *cobra.Command {
	var r remote.Flags
	var outcomes []string
	var follow bool
	var from localrun.FromFlags
	var q api.Retry
	c := &cobra.Command{
		Use: "retry RUN", Short: "Run a playbook again on the hosts of a run that did not succeed", Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&r, remote.RunIDs),
		Long: `Launch a new run of the same playbook on the hosts of a run that did not succeed. Its id goes to stdout.

The new run has the playbook, the hosts' addresses and settings, and the secret references of the project as it is now, and
the vars, tags and, without --reason, the reason of the run before. Hosts that left the inventory, or now belong to another tenant, are left out.

With --from failed-step each host continues at the step that failed. The steps before it are not called again, except those
with redo: always. A host that cannot continue refuses the retry, or begins with the first step: --else restart.`,
		Example: `  turnus runs retry 20261120-021500-ab3cd5ef --follow
  turnus runs retry 20261120-021500-ab3cd5ef --from failed-step
  turnus runs retry 20261120-021500-ab3cd5ef --outcome unreachable --reason "power is back"`,
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
			if err := from.Check(); err != nil {
				return err
			}
			q.From, q.Else = from.From, from.Else
			for _, text := range outcomes {
				o := core.Outcome(text)
				if !slices.Contains(core.Outcomes(), o) {
					return console.Invalid("--outcome %s: expected some of %v", text, core.Outcomes())
				}
				q.Outcomes = append(q.Outcomes, o)
			}
			run, err := c.RetryRun(ctx, args[0], onceKey(), q)
			if err != nil {
				return err
			}
			runview.WriteRetried(a.Console, run.Retried)
			a.reportWarnings(run)
			switch {
			case follow:
				a.Message(run.ID + " is accepted")
				return runview.Watch(ctx, a.Console, c, run.ID)
			case a.Output == "json":
				return console.PrintJSON(a.Out, run)
			}
			fmt.Fprintln(a.Out, run.ID)
			a.Message(fmt.Sprintf("%s: %s; turnus watch %s", run.Playbook, core.Plural(run.Total, "host"), run.ID))
			return nil
		}),
	}
	r.Add(c)
	c.Flags().StringSliceVar(&outcomes, "outcome", nil, "only hosts that ended so: failed, unreachable, cancelled, lost, rolled_back, … (default: all that are not good)")
	_ = c.RegisterFlagCompletionFunc("outcome", cobra.FixedCompletions([]string{"failed", "unreachable", "cancelled", "lost", "rolled_back"}, cobra.ShellCompDirectiveNoFileComp))
	from.Add(c, "")
	reasonFlag(c, &q.Reason)
	c.Flags().BoolVarP(&follow, "follow", "F", false, "watch the new run to its end, and exit as turnus run does")
	return c
}
