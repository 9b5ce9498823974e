package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

func (a *app) schedulesCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "schedules", Short: "List and change the schedules of a server",
		Long: `List and change the schedules of a server. Change the schedules of playbooks in the
playbooks; set and rm are for those that people made. A schedule is named NAME, or
TENANT:NAME where several tenants have one of that name.

turnus cron shows the fire times of a cron expression, and what it means.`,
		Example: `  turnus schedules ls
  turnus schedules set nightly-ntp --playbook ntp --cron "15 2 * * *" --timezone Europe/Zurich
  turnus schedules pause nightly-ntp --reason "until the new image is tested"`,
	}
	c.AddCommand(a.schedulesListCmd(), a.schedulesShowCmd(), a.schedulesSetCmd(), a.schedulesRemoveCmd(),
		a.schedulesTriggerCmd(), a.schedulesPauseCmd("pause"), a.schedulesPauseCmd("resume"), a.schedulesBackfillCmd())
	return c
}

func scheduleNames(ctx context.Context, c *client.Client) ([]string, error) {
	list, err := c.Schedules(ctx, client.Page{Limit: 500})
	return core.Map(list.Items, func(s api.Schedule) string { return s.Name + "\t" + s.Sentence }), err
}

func (a *app) schedulesListCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "ls", Short: "List schedules, with their next fire time", Args: cobra.NoArgs, Example: "  turnus schedules ls",
	}
	list := func(ctx context.Context, c *client.Client, _ []string) ([]api.Schedule, error) {
		return client.All(ctx, 0, c.Schedules)
	}
	return remote.Table(a.Console, c, &r, list, []string{"SCHEDULE", "TENANT", "PLAYBOOK", "WHEN", "NEXT", "TRIGGERS", "STATE"}, func(s *api.Schedule) []string {
		when := ""
		if s.Sentence != "" {
			when = strings.TrimSuffix(s.Sentence, ".") + ", " + s.Timezone
		}
		return []string{s.Name, s.Tenant, s.Playbook, when, console.LocalTime(s.Next), strconv.FormatInt(s.Triggers, 10), scheduleState(s)}
	})
}

// scheduleState returns the origin of a schedule, and the state of one that triggers once.
func scheduleState(s *api.Schedule) string {
	state := "made by hand"
	switch {
	case s.Damaged != "":
		return "damaged: " + console.FirstLine(s.Damaged)
	case s.Managed:
		state = "from the playbook"
	case !s.At.IsZero() && s.LastRun != "":
		state = "launched " + s.LastRun
	case !s.At.IsZero() && s.LastSkip != "":
		state = "skipped: " + s.LastSkip
	}
	if s.Paused {
		state += ", paused"
	}
	return state
}

// scheduleVerb is a command that does something with one schedule and shows what it is then.
func (a *app) scheduleVerb(use, short, example string, r *remote.Flags, do func(context.Context, *client.Client, string) (api.Schedule, error)) *cobra.Command {
	c := &cobra.Command{
		Use: use + " SCHEDULE", Short: short, Example: example, Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(r, scheduleNames),
	}
	ask := func(ctx context.Context, c *client.Client, args []string) (api.Schedule, error) {
		return do(ctx, c, args[0])
	}
	return remote.Shown(a.Console, c, r, ask, a.writeSchedule)
}

func (a *app) writeSchedule(s api.Schedule) {
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(a.Out, "%-13s %s\n", name, strings.ReplaceAll(console.PrintableLines(value), "\n", "\n              "))
		}
	}
	row("schedule", s.Name)
	row("tenant", s.Tenant)
	row("damaged", s.Damaged)
	row("playbook", s.Playbook)
	when := strings.TrimSuffix(s.Sentence, ".")
	if s.Cron != "" {
		when += " (" + s.Cron + ")"
	}
	if when != "" {
		row("when", when+", "+s.Timezone)
	}
	if s.Pinned {
		row("project", strings.TrimSpace("as it was when it was made "+s.Revision))
	}
	row("reason", s.Reason)
	row("limit", strings.Join(s.Limit, ","))
	if len(s.Vars) > 0 {
		vars, _ := json.Marshal(s.Vars) // they came as JSON
		row("vars", string(vars))
	}
	row("not shown", strings.Join(s.LeftOut, ","))
	row("tags", strings.Join(s.Tags, ","))
	row("skip tags", strings.Join(s.SkipTags, ","))
	if s.Check {
		row("check", "yes: it changes nothing")
	}
	row("catch up", s.CatchUp)
	row("overlap", s.Overlap)
	row("jitter", s.Jitter)
	row("start within", s.StartWithin)
	if s.Managed {
		row("managed", "in the project: it is changed there")
	}
	if s.Paused {
		row("paused", "yes "+s.PauseReason)
	}
	row("next", s.NextLocal)
	row("last run", s.LastRun)
	row("last skip", s.LastSkip)
}

func (a *app) schedulesShowCmd() *cobra.Command {
	var r remote.Flags
	return a.scheduleVerb("show", "Show a schedule", "  turnus schedules show nightly-ntp", &r, func(ctx context.Context, c *client.Client, name string) (api.Schedule, error) {
		return c.Schedule(ctx, name)
	})
}

func (a *app) schedulesPauseCmd(verb string) *cobra.Command {
	var r remote.Flags
	var reason string
	short := "Stop triggering a schedule until it is resumed"
	if verb == "resume" {
		short = "Let a schedule trigger again; what it missed is not caught up"
	}
	c := a.scheduleVerb(verb, short, "  turnus schedules "+verb+" nightly-ntp", &r, func(ctx context.Context, c *client.Client, name string) (api.Schedule, error) {
		if verb == "resume" {
			return c.ResumeSchedule(ctx, name, reason)
		}
		return c.PauseSchedule(ctx, name, reason)
	})
	reasonFlag(c, &reason)
	return c
}

func (a *app) schedulesSetCmd() *cobra.Command {
	var r remote.Flags
	var n api.NewSchedule
	var f launchFlags
	c := a.scheduleVerb("set", "Make a schedule of a playbook, or replace it; turnus submit --at makes one with a single fire time",
		`  turnus schedules set nightly-ntp --playbook ntp --cron "15 2 * * *" --timezone Europe/Zurich --overlap skip
  turnus schedules set ntp-drift --playbook ntp --cron "0 6 * * 1" --check --limit 'web*'`, &r,
		func(ctx context.Context, c *client.Client, name string) (api.Schedule, error) {
			if err := f.read(&n.LaunchOptions); err != nil {
				return api.Schedule{}, err
			}
			before, err := c.Schedule(ctx, name)
			if err != nil && !errors.Is(err, core.ErrNotFound) {
				return before, err
			}
			return c.PutSchedule(ctx, name, before.ETag, n)
		})
	f.add(c, &n.LaunchOptions)
	fl := c.Flags()
	fl.StringVar(&n.Playbook, "playbook", "", "playbook that it launches")
	fl.StringVar(&n.Cron, "cron", "", "when: five fields, as in a playbook's schedule")
	fl.StringVar(&n.Timezone, "timezone", "", "zone of --cron, as Europe/Zurich (default: UTC)")
	fl.StringVar(&n.CatchUp, "catch-up", "", "what to do with missed fire times: skip, once, all")
	fl.StringVar(&n.Overlap, "overlap", "", "while its last run is unfinished: skip, queue, cancel_running")
	fl.StringVar(&n.Jitter, "jitter", "", "launch up to so much later, always by the same")
	fl.StringVar(&n.StartWithin, "start-within", "", "a trigger that is later than this is missed")
	fl.BoolVar(&n.Paused, "paused", false, "make it, but let it not trigger before it is resumed")
	remote.CompleteFlag(c, "playbook", &r, playbookNames)
	remote.CompleteLaunch(c, &r, func([]string) string { return n.Playbook })
	for flag, words := range map[string][]string{"catch-up": {"skip", "once", "all"}, "overlap": {"skip", "queue", "cancel_running"}} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	needs(c, "playbook", "cron")
	return c
}

func (a *app) schedulesRemoveCmd() *cobra.Command {
	var r remote.Flags
	return a.scheduleVerb("rm", "Remove a schedule; what it launched continues", "  turnus schedules rm nightly-ntp", &r,
		func(ctx context.Context, c *client.Client, name string) (api.Schedule, error) {
			before, err := c.Schedule(ctx, name)
			if err != nil {
				return before, err
			}
			if err := c.DeleteSchedule(ctx, name, before.ETag); err != nil {
				return before, err
			}
			a.Message("removed:")
			return before, nil
		})
}

func (a *app) schedulesTriggerCmd() *cobra.Command {
	var r remote.Flags
	var reason string
	var follow bool
	c := &cobra.Command{
		Use: "trigger SCHEDULE", Short: "Launch a schedule now, paused or not", Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&r, scheduleNames),
		Example: "  turnus schedules trigger nightly-ntp --follow --reason 'new servers'",
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
			launched, err := c.TriggerSchedule(ctx, args[0], onceKey(), reason)
			if err != nil {
				return err
			}
			switch {
			case follow:
				a.Message(launched.Run + " is launched")
				return runview.WatchSoon(ctx, a.Console, c, launched.Run)
			case a.Output == "json":
				return console.PrintJSON(a.Out, launched)
			}
			fmt.Fprintln(a.Out, launched.Run)
			return nil
		}),
	}
	r.Add(c)
	reasonFlag(c, &reason)
	c.Flags().BoolVarP(&follow, "follow", "F", false, "watch the run to its end, and exit as turnus run does")
	return c
}

func (a *app) schedulesBackfillCmd() *cobra.Command {
	var r remote.Flags
	var from, to string
	c := &cobra.Command{
		Use: "backfill SCHEDULE --from TIME --to TIME", Short: "Launch the fire times of a past range, one after the other", Args: cobra.ExactArgs(1), ValidArgsFunction: remote.Complete(&r, scheduleNames),
		Long:    "Launch the fire times of a past range, one after the other. Those that were launched before are not repeated.",
		Example: "  turnus schedules backfill nightly-ntp --from 2026-11-01T00:00:00Z --to 2026-11-03T00:00:00Z",
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
			var b api.Backfill
			var err error
			if b.From, err = instantFlag("--from", from, time.Local); err != nil {
				return err
			}
			if b.To, err = instantFlag("--to", to, time.Local); err != nil {
				return err
			}
			if !b.To.After(b.From) {
				return console.Invalid("--to %s: expected a time after --from", to)
			}
			done, err := c.BackfillSchedule(ctx, args[0], b)
			if err != nil {
				return err
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, done)
			}
			fmt.Fprintln(a.Out, core.Plural(done.Triggers, "fire time")+" to be launched")
			return nil
		}),
	}
	r.Add(c)
	c.Flags().StringVar(&from, "from", "", "begin of the range, RFC 3339")
	c.Flags().StringVar(&to, "to", "", "end of the range, RFC 3339")
	needs(c, "from", "to")
	return c
}
