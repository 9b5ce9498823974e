package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/mail"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify"
	"github.com/turnus/turnus/core/notify/policy"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/windows"
)

// notifyFlags set how people are notified: the channel of the server itself, and what the channels
// of the definitions may use and reach.
type notifyFlags struct {
	url, secret                             string
	allow                                   []string
	ca                                      string
	smtp, smtpTLS, smtpUser, smtpPass, from string
}

func (f *notifyFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.url, "notify", os.Getenv("TURNUS_NOTIFY"), "webhook that gets events for people, as a failed run or a refused project (TURNUS_NOTIFY)")
	fl.Lookup("notify").DefValue = "" // --help would print a password
	fl.StringVar(&f.secret, "notify-secret-file", "", "file with the secret that notifications to --notify are signed with")
	fl.StringSliceVar(&f.allow, "notify-allow", nil, "network, as 10.1.2.0/24, that channels of the project may reach although it is a private one")
	fl.StringVar(&f.ca, "notify-ca-file", "", "certificates, in PEM, of certificate authorities for the receivers of notifications, in addition to the system's")
	fl.StringVar(&f.smtp, "notify-smtp", "", "mail server of channels that have none of their own: HOST:PORT")
	fl.StringVar(&f.smtpTLS, "notify-smtp-tls", policy.StartTLS, "how the mail server is talked to: starttls, tls (from the first byte) or none")
	fl.StringVar(&f.smtpUser, "notify-smtp-user", "", "user at the mail server")
	fl.StringVar(&f.smtpPass, "notify-smtp-password-file", "", "file with the user's password")
	fl.StringVar(&f.from, "notify-from", "", "sender of mails: NAME@DOMAIN")
	settings.ReadsEnvironment(fl, "notify")
	settings.NamesFiles(fl, "notify-ca-file")
	settings.NamesSecretFiles(fl, "notify-secret-file", "notify-smtp-password-file")
	_ = c.RegisterFlagCompletionFunc("notify-smtp-tls", cobra.FixedCompletions([]string{policy.StartTLS, policy.TLS, policy.None}, cobra.ShellCompDirectiveNoFileComp))
}

// open makes the notification service. It also runs without a channel of the flags: the definitions
// may have channels, whose secrets the store has.
func (f *notifyFlags) open(l *ledger.Ledger, server string, store *secrets.Store, view func() notify.View, log *slog.Logger) (*notify.Service, error) {
	cfg, err := f.config()
	if err != nil {
		return nil, err
	}
	cfg.Ledger, cfg.Server, cfg.View, cfg.Log, cfg.Credential = l, server, view, log, store.ForChannel
	return notify.New(*cfg)
}

// config reads the values of the flags.
func (f *notifyFlags) config() (*notify.Config, error) {
	cfg := &notify.Config{}
	if f.url == "" && f.secret != "" {
		return nil, console.Invalid("--notify-secret-file needs --notify: the secret signs the requests to that address")
	}
	if f.url != "" {
		if err := policy.CheckURL(f.url); err != nil {
			return nil, console.Invalid("--notify: %v", err)
		}
		cfg.Own = &notify.Hook{URL: f.url}
		if f.secret != "" {
			secret, err := settings.ReadTokenFile(f.secret)
			if err != nil {
				return nil, fmt.Errorf("--notify-secret-file: %w", err)
			}
			cfg.Own.Secret = []byte(secret)
		}
	}
	for _, text := range f.allow {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, console.Invalid("--notify-allow %s: expected a network, as 10.1.2.0/24 or 10.1.2.3/32", text)
		}
		cfg.Allow = append(cfg.Allow, network)
	}
	if f.ca != "" {
		var err error
		if cfg.Roots, err = securefile.SystemCAs(f.ca); err != nil {
			return nil, fmt.Errorf("--notify-ca-file: %w", err)
		}
	}
	var err error
	cfg.Relay, err = f.relay()
	return cfg, err
}

// relay is the mail server of the flags; nil where there is none.
func (f *notifyFlags) relay() (*notify.Relay, error) {
	if f.smtp == "" {
		if f.smtpUser != "" || f.smtpPass != "" || f.from != "" || cmp.Or(f.smtpTLS, policy.StartTLS) != policy.StartTLS {
			return nil, console.Invalid("--notify-smtp-tls, --notify-smtp-user, --notify-smtp-password-file and --notify-from need --notify-smtp: they are about that mail server")
		}
		return nil, nil //nolint:nilnil // there is none
	}
	host, port, err := net.SplitHostPort(f.smtp)
	if err != nil || host == "" || port == "" {
		return nil, console.Invalid("--notify-smtp %s: expected HOST:PORT, as smtp.example.net:587", f.smtp)
	}
	if !slices.Contains([]string{policy.StartTLS, policy.TLS, policy.None}, f.smtpTLS) {
		return nil, console.Invalid("--notify-smtp-tls %s: expected starttls, tls or none", f.smtpTLS)
	}
	if _, err := mail.ParseAddress(f.from); err != nil {
		return nil, console.Invalid("--notify-from %q: expected the sender of mails, NAME@DOMAIN", f.from)
	}
	r := &notify.Relay{Server: f.smtp, TLS: f.smtpTLS, Username: f.smtpUser, From: f.from}
	switch {
	case (f.smtpUser == "") != (f.smtpPass == ""):
		return nil, console.Invalid("--notify-smtp-user and --notify-smtp-password-file go together")
	case f.smtpUser != "" && f.smtpTLS == policy.None:
		return nil, console.Invalid("--notify-smtp-tls none: the password would cross the network in the clear: expected starttls or tls")
	case f.smtpPass != "":
		if r.Password, err = settings.ReadTokenFile(f.smtpPass); err != nil {
			return nil, fmt.Errorf("--notify-smtp-password-file: %w", err)
		}
	}
	return r, nil
}

// definitionsWithin is how long a server waits for its first definitions while the ledger has none.
const definitionsWithin = 10 * time.Second

// view is the notification settings of the definitions. A server that has not read them yet, or
// cannot, hands nothing on: it would go to nobody.
func (s *service) view() notify.View {
	set := s.catalog.Set()
	if set == nil {
		return notify.View{Wait: time.Since(s.began) < definitionsWithin || !s.catalog.None()}
	}
	return notify.View{Policy: set.Notify, Playbook: func(name string) []policy.Route {
		if p, ok := set.Playbook(name); ok {
			return p.Notify
		}
		return nil
	}}
}

// Spans within which the same event is reported at most once more.
const (
	foldSoon   = 10 * time.Minute
	foldHourly = time.Hour
	foldDaily  = 24 * time.Hour
)

// report hands news over where somebody should see to them.
func (s *service) report(n notify.News, span time.Duration) {
	if n.Kind != "" && s.notify != nil { // without a ledger no notification can be sent
		s.notify.Report(n, span)
	}
}

// keepNews writes down what must not be forgotten before what follows from it is.
func (s *service) keepNews(ctx context.Context, e controller.Event) error {
	n, span := newsOf(e)
	return s.ledger.Report(ctx, n.Happening(), span)
}

// newsOf returns the news of a controller's event that a person should act on. News without a kind
// need no person, or the ledger has them already.
func newsOf(e controller.Event) (notify.News, time.Duration) {
	n := notify.News{Run: e.Run, Subject: "run:" + e.Run, Fold: e.Run}
	span := foldSoon
	switch e.Kind {
	case controller.RunPaused:
		if e.Reason.Code() == core.QueueOlder { // the ledger writes the others down
			n.Kind, n.Text = policy.RunPaused, "it is paused: "+e.Reason.Text()
		}
	case controller.RunRepeated:
		n.Kind, n.Count, n.Text = policy.RunRepeated, e.Count, "a second end of\nWhat was recorded first counts; check the hosts."
	case controller.RunRefused:
		n.Kind, n.Text = policy.RunFailed, "it cannot be run: "+e.Reason.Text()
	case controller.WindowMissed:
		n.Kind, n.Count, n.Text = policy.WindowMissed, e.Count, "no window is left to\n"+e.Reason.Text()
	case controller.WaveAsks:
		n.Kind, n.Fold, span = policy.ApprovalNeeded, fmt.Sprintf("%s/%d", e.Run, e.Wave), ledger.Once
		n.Text = fmt.Sprintf("wave %d waits for an approval\nturnus runs approve %s --wave %[1]d lets it continue", e.Wave+1, e.Run)
	case controller.StepStalled:
		n.Kind, n.Fold, span = policy.StepStalled, e.Run+"/"+e.Reason.Text(), foldDaily
		n.Text = fmt.Sprintf("%s suspended until a person signals\nturnus runs show %s --jobs shows which. turnus runs signal %s %s lets them continue.",
			core.Plural(e.Count, "job"), e.Run, e.Run, e.Reason)
	case controller.QueueAway:
		n = ofQueue(policy.QueueAway, fmt.Sprintf("the queue does not answer; runs are accepted and wait\n%s", core.ErrorText(e.Err)))
	case controller.QueueBack:
		n = ofQueue(policy.QueueBack, "the queue answers again")
	case controller.QueueLost:
		n = ofQueue(policy.QueueLost, "the queue was emptied, and is filled again from the ledger")
	}
	return n, span
}

// ofQueue is reported once, though each server sees it.
func ofQueue(kind, text string) notify.News {
	return notify.News{Kind: kind, Subject: "queue", Fold: kind, Text: text}
}

// newsOfCatalog is the same of definitions and schedules. set is what the service runs by; nil
// before the first.
func newsOfCatalog(e catalog.Event, set *definitions.Set) (notify.News, time.Duration) {
	switch e.Kind {
	case catalog.ProjectRejected:
		text := "the project is invalid, the last valid one stays in use\n" + reasoned(e)
		if e.By != "" {
			text = "by " + e.By + ": " + text
		}
		sum := sha256.Sum256([]byte(text)) // each server that follows the branch has the same
		return notify.News{Kind: policy.ProjectRejected, Subject: "definitions", Fold: hex.EncodeToString(sum[:8]), Text: text}, foldHourly
	case catalog.TriggerSkipped:
		n := notify.News{
			Kind: policy.TriggerSkipped, Tenant: e.Schedule.Tenant, Schedule: e.Schedule.String(), Subject: "schedule:" + e.Schedule.String(), Fold: e.Schedule.String(),
			Text: fmt.Sprintf("schedule %s skips a fire time\n%s", e.Schedule, e.Reason), Count: max(e.Count, 1),
		}
		if e.Foreign {
			n.Own = fmt.Sprintf("schedule %s skips a fire time\n%s", e.Schedule, catalog.ForeignSkip)
		}
		if set != nil {
			if _, ok := set.Playbook(e.Schedule.Name); ok { // a playbook's own schedule has its name
				n.Playbook = e.Schedule.Name
			}
		}
		return n, foldHourly
	}
	return notify.News{}, 0
}

// reportUnapproved reports, once for each, the windows of the definitions that nobody approved.
func (s *service) reportUnapproved() {
	cal, _ := s.catalog.Windows()
	set := s.catalog.Set()
	if cal == nil || set == nil {
		return
	}
	for _, n := range unapprovedWindows(set, cal.Definitions(), time.Now()) {
		s.report(n, ledger.Once)
	}
}

// unapprovedWindows are those that nobody approved, as news; defs also has the approvals given at
// the server.
func unapprovedWindows(set *definitions.Set, defs *windows.Definitions, now time.Time) (all []notify.News) {
	for _, name := range slices.Sorted(maps.Keys(defs.Sets)) {
		standings, err := defs.Standings(name, now)
		if err != nil {
			continue // loading them has reported it
		}
		for _, at := range standings {
			if at.Holds {
				continue
			}
			place := "window set " + name
			if at.Rule != "" {
				place += ", rule " + at.Rule + ","
			}
			all = append(all, notify.News{
				Kind: policy.ApprovalNeeded, Tenant: tenantOfSet(set, name), Window: name, Subject: "window:" + name, Fold: name + "/" + at.Rule + "/" + at.Hash,
				Text: place + " waits for an approval\n" + at.Reason,
			})
		}
	}
	return all
}

// tenantOfSet is the tenant whose hosts alone have a window set; "" where there are several, or
// none.
func tenantOfSet(set *definitions.Set, window string) (tenant string) {
	found := false
	for i := range set.Inventory.Hosts {
		h := &set.Inventory.Hosts[i]
		switch {
		case h.WindowSet != window:
		case found && h.Customer != tenant:
			return ""
		default:
			tenant, found = h.Customer, true
		}
	}
	return tenant
}
