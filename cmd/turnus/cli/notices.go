package cli

import (
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/notify"
	"github.com/turnus/turnus/core/queue"
)

// notifyFlags say who is told what a person should see to.
type notifyFlags struct{ url, secret string }

func (f *notifyFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.url, "notify", os.Getenv("TURNUS_NOTIFY"), "webhook that is told what a person should see to, as a run that failed or definitions that are not taken (TURNUS_NOTIFY)")
	fl.Lookup("notify").DefValue = "" // --help would print a password
	fl.StringVar(&f.secret, "notify-secret-file", "", "file with the secret that notifications are signed with")
}

// open makes the webhook; nil where none is asked for.
func (f *notifyFlags) open(server string, log *slog.Logger) (*notify.Webhook, error) {
	if f.url == "" {
		if f.secret != "" {
			return nil, invalid("--notify-secret-file needs --notify: it signs what is told there")
		}
		return nil, nil //nolint:nilnil // nobody is told
	}
	cfg := notify.Config{URL: f.url, Server: server, Log: log}
	if f.secret != "" {
		var err error
		if cfg.Secret, err = readToken(f.secret); err != nil {
			return nil, fmt.Errorf("--notify-secret-file: %w", err)
		}
	}
	hook, err := notify.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("--notify: %w", err)
	}
	return hook, nil
}

// tell sends a notice where somebody is to be told.
func (s *service) tell(n notify.Notice, worth bool) {
	if s.notify != nil && worth {
		s.notify.Send(n)
	}
}

// runFailed is the kind of the notice of a run that ended otherwise than well.
const runFailed = "run_failed"

// noticeOf is what a person should see to of what a controller does; worth is false for what is only good to know.
func noticeOf(e controller.Event) (n notify.Notice, worth bool) {
	n = notify.Notice{Kind: string(e.Kind), Run: e.Run}
	switch e.Kind {
	case controller.RunHeld:
		n.Text = "run " + e.Run + " is paused: " + e.Reason
	case controller.RunRepeated:
		n.Text = "run " + e.Run + " was repeated in part: " + plural(e.Count, "job") + " ended a second time"
	case controller.QueueAway:
		n.Text = fmt.Sprintf("the queue does not answer: %v", e.Err)
	case controller.QueueBack:
		n.Text = "the queue answers again"
	case controller.QueueLost:
		n.Text = "the queue was emptied, and is filled again from the ledger"
	case controller.RunEnded:
		if e.Status == nil || !endedBadly(e.Status) {
			return n, false
		}
		n.Kind = runFailed
		n.Text = fmt.Sprintf("run %s is %s: %s", e.Run, e.Status.Phase, outcomeText(e.Status.Outcomes))
	default:
		return n, false
	}
	return n, true
}

// endedBadly tells whether some job ended neither well nor as somebody wanted.
func endedBadly(s *queue.Status) bool {
	for o, n := range s.Outcomes {
		if n > 0 && !o.Good() && (s.Phase != queue.Cancelled || o.SpendsBudget()) {
			return true
		}
	}
	return false
}

// catalogNoticeOf is the same of definitions and schedules.
func catalogNoticeOf(e catalog.Event) (n notify.Notice, worth bool) {
	n = notify.Notice{Kind: string(e.Kind), Run: e.Run}
	switch e.Kind {
	case catalog.DefinitionsRejected:
		n.Text = "definitions are not taken, the last good ones hold: " + strings.TrimSpace(e.Reason+" ") + fmt.Sprint(e.Err)
		if e.By != "" {
			n.Text = "by " + e.By + ": " + n.Text
		}
	case catalog.FireSkipped:
		n.Schedule, n.Text = e.Schedule.String(), fmt.Sprintf("schedule %s skips a fire: %s", e.Schedule, e.Reason)
	case catalog.SchedulesLost:
		n.Text = plural(e.Count, "schedule") + " had been forgotten by their store; they go on where they were"
	default:
		return n, false
	}
	return n, true
}
