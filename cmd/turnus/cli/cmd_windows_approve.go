package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/planview"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/windows/civil"
)

// setNames completes the names of a server's window sets.
func setNames(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.Windows(ctx, client.Page{Limit: 500})
	return core.Map(list.Items, func(w api.WindowSet) string { return w.Name + "\t" + w.Reason }), err
}

func (a *app) windowsApprovalsCmd() *cobra.Command {
	var r remote.Flags
	var waiting bool
	c := &cobra.Command{
		Use: "approvals", Short: "List the windows of a server that need an approval, and its state", Args: cobra.NoArgs,
		Example: "  turnus windows approvals --waiting\n  turnus windows approvals -o json",
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, _ []string) error {
			all, err := client.All(ctx, 0, func(ctx context.Context, p client.Page) (client.List[api.WindowApproval], error) {
				return c.Approvals(ctx, waiting, p)
			})
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, console.ListOf(all))
			}
			cells := [][]string{{"WINDOW SET", "RULE", "HOSTS", "STATE", "BY", "NEXT WITHOUT", "WHY"}}
			for i := range all {
				one := &all[i]
				next, why := "", one.Reason
				if len(one.Waiting) > 0 {
					next = one.Waiting[0].OpenLocal
					if notes := one.Waiting[0].Notes; why == "" && len(notes) > 0 {
						why = strings.TrimPrefix(notes[len(notes)-1], "unapproved: ")
					}
				}
				cells = append(cells, []string{one.Set, one.Rule, fmt.Sprint(one.Hosts), one.State, lastWord(one), next, why})
			}
			console.Table(a.Out, cells)
			return nil
		}),
	}
	r.Add(c)
	c.Flags().BoolVar(&waiting, "waiting", false, "only what waits for somebody: no approval holds, or a window of the next 60 days is not covered")
	return c
}

// lastWord returns the person who spoke last on a place.
func lastWord(w *api.WindowApproval) string {
	if n := len(w.Given); n > 0 {
		return w.Given[n-1].By
	}
	if w.File != nil {
		return w.File.By
	}
	return ""
}

func (a *app) windowsApproveCmd() *cobra.Command {
	var r remote.Flags
	var q api.ApproveWindow
	var from, until string
	c := &cobra.Command{
		Use: "approve SET", Short: "Approve a window set of a server, or a rule of it, as it is", Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&r, setNames),
		Long: `Approve a window set of a server, or a rule of it, as it is: any later edit of its times
voids the approval. It is added to those in the project. It needs a token of
an approver; turnus runs approve is for runs.`,
		Example: `  turnus windows approve acme-fra --until 2026-12-31 --ticket CHG0042
  turnus windows approve acme-fra --rule sat --from 2026-12-19T22:00 --until 2026-12-20T05:00
  turnus windows approve acme-fra --freeze xmas --reason "the board agreed"`,
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
			zone := time.UTC
			if from != "" || until != "" {
				var err error
				if zone, err = zoneOf(ctx, c, args[0]); err != nil {
					return err
				}
			}
			for _, t := range []struct {
				flag, text string
				into       *time.Time
			}{{"--from", from, &q.From}, {"--until", until, &q.Until}} {
				if t.text == "" {
					continue
				}
				at, err := instantFlag(t.flag, t.text, zone)
				if err != nil {
					return err
				}
				if t.flag == "--until" {
					at = wholeDay(t.text, at, zone)
				}
				*t.into = at.UTC()
			}
			w, err := c.ApproveWindow(ctx, args[0], onceKey(), q)
			if err != nil {
				return err
			}
			return a.showApproval(w)
		}),
	}
	r.Add(c)
	fl := c.Flags()
	fl.StringVar(&q.Rule, "rule", "", "approve this rule only; without it all that has no approval of its own")
	fl.StringVar(&from, "from", "", "cover nothing before: RFC 3339, or local time of the set (default: now)")
	fl.StringVar(&until, "until", "", "cover nothing after: a last day, RFC 3339, or local time of the set")
	fl.StringVar(&q.Window, "hash", "", "the hash that you reviewed, as approvals -o json prints it; refused if the set was edited since")
	fl.StringVar(&q.Change, "change", "", "only for this change: the hash that turnus plan prints")
	fl.StringVar(&q.Targets, "targets", "", "only for just these hosts: the hash that turnus plan prints")
	fl.StringArrayVar(&q.Freezes, "freeze", nil, "lift this freeze, of which you are the owner (repeatable)")
	fl.StringVar(&q.Ticket, "ticket", "", "where it was decided, as CHG0042")
	reasonFlag(c, &q.Reason)
	return c
}

// wholeDay returns the end of the day that text names, as in files. It resolves the midnight after
// that day: the one before may not exist. If text has a time, it returns at.
func wholeDay(text string, at time.Time, zone *time.Location) time.Time {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		at, _ = civil.Resolve(day.AddDate(0, 0, 1), zone)
	}
	return at
}

func (a *app) windowsRevokeCmd() *cobra.Command {
	var r remote.Flags
	var q api.RevokeWindow
	c := &cobra.Command{
		Use: "revoke SET", Short: "Revoke the approvals of a window set of a server, or of a rule of it", Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&r, setNames),
		Long: `Revoke the approvals of a window set of a server, or of a rule of it, also those in the
project. No more work starts by them, and running work follows overrun. Only a later
approval ends it. A set that needed no approval needs one from then on.`,
		Example: `  turnus windows revoke acme-fra --reason "the migration slipped"
  turnus windows revoke acme-fra --rule sat`,
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
			w, err := c.RevokeWindow(ctx, args[0], onceKey(), q)
			if err != nil {
				return err
			}
			return a.showApproval(w)
		}),
	}
	r.Add(c)
	c.Flags().StringVar(&q.Rule, "rule", "", "this rule only")
	c.Flags().StringVar(&q.Ticket, "ticket", "", "where it was decided, as CHG0042")
	reasonFlag(c, &q.Reason)
	return c
}

// zoneOf is the time zone of a server's window set.
func zoneOf(ctx context.Context, c *client.Client, set string) (*time.Location, error) {
	w, err := c.Window(ctx, set)
	if err != nil {
		return nil, err
	}
	return civil.LoadZone(w.Timezone)
}

// showApproval prints the state of a place after an approval or its revocation.
func (a *app) showApproval(w api.WindowApproval) error {
	if a.Output == "json" {
		return console.PrintJSON(a.Out, w)
	}
	name := w.Set
	if w.Rule != "" {
		name += ", rule " + w.Rule
	}
	line := fmt.Sprintf("%s: %s", name, w.State)
	if w.Reason != "" {
		line += ": " + w.Reason
	}
	fmt.Fprintln(a.Out, line)
	for _, o := range w.Waiting {
		fmt.Fprintf(a.Out, "  not covered: %s to %s\n", o.OpenLocal, o.CloseLocal)
	}
	return nil
}

// explainRemote asks a server for the output of windows explain.
func (a *app) explainRemote(ctx context.Context, c *client.Client, set, at string, need time.Duration) error {
	if need == 0 {
		return errNoNeed()
	}
	zone, err := zoneOf(ctx, c, set)
	if err != nil {
		return err
	}
	when, err := instantFlag("--at", at, zone)
	if err != nil {
		return err
	}
	w, err := c.ExplainWindow(ctx, set, when, need)
	if err != nil {
		return err
	}
	return planview.ExplainedWindow(a.Console, w, need, zone)
}
