package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/notify/policy"
)

func (a *app) notificationsCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "notifications", Short: "List notifications of a server, send them again, and test channels",
		Example: `  turnus admin notifications ls --state dead_lettered
  turnus admin notifications test acme:ops`,
	}
	c.AddCommand(a.notificationsListCmd(), a.notificationsShowCmd(), a.notificationsRetryCmd(), a.notificationsTestCmd(), a.notificationsChannelsCmd())
	return c
}

func (a *app) notificationsListCmd() *cobra.Command {
	var r remote.Flags
	var f client.NotificationFilter
	var m most
	c := &cobra.Command{
		Use: "ls", Short: "List notifications, newest first", Args: cobra.NoArgs,
		Example: "  turnus admin notifications ls --state dead_lettered\n  turnus admin notifications ls --run 20261120-021500-ab3cd5ef -o json",
	}
	list := func(ctx context.Context, c *client.Client, _ []string) ([]api.Notification, error) {
		return client.All(ctx, m.n, func(ctx context.Context, p client.Page) (client.List[api.Notification], error) {
			return c.Notifications(ctx, f, p)
		})
	}
	remote.Table(a.Console, c, &r, list, []string{"NOTIFICATION", "TIME", "CHANNEL", "KIND", "STATE", "TRIES", "WHAT"}, func(n *api.Notification) []string {
		return []string{n.ID, console.LocalTime(n.Made), console.Printable(n.Channel), n.Kind, n.State, strconv.Itoa(n.Tries), console.Printable(n.Title)}
	})
	m.add(c, "notifications")
	c.Flags().StringVar(&f.State, "state", "", "only these: waiting, sent or dead_lettered (retries exhausted)")
	c.Flags().StringVar(&f.Channel, "channel", "", "only to channels of this name")
	c.Flags().StringVar(&f.Kind, "kind", "", "only of this kind, as run_failed")
	c.Flags().StringVar(&f.Run, "run", "", "only about this run")
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions([]string{api.NotificationWaiting, api.NotificationSent, api.NotificationDeadLettered}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(policy.Names(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) notificationsShowCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "show NOTIFICATION", Short: "Show a notification: its content and its delivery", Args: cobra.ExactArgs(1),
		ValidArgsFunction: remote.Complete(&r, notificationIDs), Example: "  turnus admin notifications show 8b0c6e0f1a2b3c4d5e6f7081-1",
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
			n, err := c.Notification(ctx, args[0])
			if err != nil {
				return err
			}
			return a.showNotification(n)
		}),
	}
	r.Add(c)
	return c
}

func (a *app) showNotification(n api.Notification) error {
	if a.Output == "json" {
		return console.PrintJSON(a.Out, n)
	}
	fmt.Fprintf(a.Out, "%s to %s (%s), %s: %s\n", n.ID, console.Printable(n.Channel), n.Medium, n.Kind, stateText(n))
	var reported struct {
		Text string `json:"text"`
	}
	if len(n.Notice) > 0 {
		if err := json.Unmarshal(n.Notice, &reported); err != nil {
			return fmt.Errorf("cannot read the text of notification %s: %w", n.ID, err)
		}
		fmt.Fprintf(a.Out, "\n%s\n", console.PrintableLines(reported.Text))
	}
	return nil
}

// stateText returns the state of a notification in words.
func stateText(n api.Notification) string {
	switch n.State {
	case api.NotificationSent:
		return fmt.Sprintf("sent %s, at try %d", console.LocalTime(n.Finished), n.Tries)
	case api.NotificationDeadLettered:
		return fmt.Sprintf("dead-lettered %s, after %s: %s", console.LocalTime(n.Finished), tries(n.Tries), console.Printable(n.Reason))
	}
	text := "waits since " + console.LocalTime(n.Made)
	if n.Tries > 0 {
		text += fmt.Sprintf(", tried again %s, after %s", console.LocalTime(n.Due), tries(n.Tries))
	}
	if n.Reason != "" {
		text += ": " + console.Printable(n.Reason)
	}
	return text
}

func tries(n int) string {
	if n == 1 {
		return "1 try"
	}
	return strconv.Itoa(n) + " tries"
}

func (a *app) notificationsRetryCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "retry NOTIFICATION", Short: "Send a waiting or dead-lettered notification again", Args: cobra.ExactArgs(1),
		ValidArgsFunction: remote.Complete(&r, notificationIDs), Example: "  turnus admin notifications retry 8b0c6e0f1a2b3c4d5e6f7081-1",
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
			n, err := c.RetryNotification(ctx, args[0])
			if err != nil {
				return err
			}
			return a.showNotification(n)
		}),
	}
	r.Add(c)
	return c
}

// How long a test is waited for, and how often it is checked.
const (
	testPatience = 20 * time.Second
	testPoll     = 250 * time.Millisecond
)

func (a *app) notificationsTestCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "test CHANNEL", Short: "Send a test to a channel, and report whether it was taken", Args: cobra.ExactArgs(1),
		Long: `Send a test to a channel, and report whether it was taken. CHANNEL is NAME for a channel of
the service, and TENANT:NAME for one of a tenant. The exit code is 2 when it was not taken.`,
		ValidArgsFunction: remote.Complete(&r, channelNames), Example: "  turnus admin notifications test noc\n  turnus admin notifications test acme:ops",
		RunE: remote.Run(a.Console, &r, func(ctx context.Context, c *client.Client, args []string) error {
			n, err := c.TestChannel(ctx, args[0])
			if err != nil {
				return err
			}
			for end := time.Now().Add(testPatience); n.State == api.NotificationWaiting && n.Reason == "" && time.Now().Before(end); {
				if core.Sleep(ctx, testPoll) != nil {
					return ctx.Err()
				}
				if n, err = c.Notification(ctx, n.ID); err != nil {
					return err
				}
			}
			if err := a.showNotification(n); err != nil {
				return err
			}
			if n.State != api.NotificationSent {
				return &console.Exit{Code: console.ExitFailed, Err: fmt.Errorf("channel %s did not take the test", args[0])}
			}
			return nil
		}),
	}
	r.Add(c)
	return c
}

func (a *app) notificationsChannelsCmd() *cobra.Command {
	var r remote.Flags
	c := &cobra.Command{
		Use: "channels", Short: "List the channels, and how many notifications each got", Args: cobra.NoArgs, Example: "  turnus admin notifications channels",
	}
	list := func(ctx context.Context, c *client.Client, _ []string) ([]api.Channel, error) {
		return client.All(ctx, 0, c.Channels)
	}
	return remote.Table(a.Console, c, &r, list, []string{"CHANNEL", "MEDIUM", "WAITING", "SENT", "DEAD-LETTERED"}, func(ch *api.Channel) []string {
		return []string{console.Printable(ch.Name), ch.Medium, strconv.Itoa(ch.Waiting), strconv.Itoa(ch.Sent), strconv.Itoa(ch.DeadLettered)}
	})
}

func notificationIDs(ctx context.Context, c *client.Client) ([]string, error) {
	all, err := c.Notifications(ctx, client.NotificationFilter{}, client.Page{})
	return core.Map(all.Items, func(n api.Notification) string { return n.ID }), err
}

func channelNames(ctx context.Context, c *client.Client) ([]string, error) {
	all, err := c.Channels(ctx, client.Page{})
	return core.Map(all.Items, func(ch api.Channel) string { return ch.Name }), err
}
