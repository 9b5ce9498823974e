// Package notify owns notifications: their text, their channels, and sending them by webhook, mail
// or an incoming webhook as Slack has them, until a receiver accepts them or a day has passed. They
// are in the ledger, so a process that dies loses none, and any server sends them. Each
// notification is sent at least once, under an id that stays the same.
//
// It must not know HTTP's other side, how runs are driven, or who is behind a token.
package notify

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify/policy"
)

// View is the notification settings of the present definitions.
type View struct {
	Policy *policy.Policy // nil: no channels
	// Playbook returns the routes of a playbook's own notify:.
	Playbook func(name string) []policy.Route
	// Wait means that the definitions are not known yet: no event is routed.
	Wait bool
}

// Hook is the webhook of a server's own flags. It may reach any address that its operator wrote.
type Hook struct {
	URL    string
	Secret []byte // signs; none: nothing is signed
}

// Relay is the mail server of a server's own flags, for channels that have none.
type Relay struct {
	Server   string // HOST:PORT
	TLS      string // policy.StartTLS, TLS or None
	Username string
	Password string
	From     string
}

// Config holds what a Service works on. Ledger, Server and View must be set.
type Config struct {
	Ledger *ledger.Ledger
	Server string // name of this one; no two that run at the same time have the same
	View   func() View
	Own    *Hook  // nil: there is no channel policy.Own
	Relay  *Relay // nil: mail needs a server in its channel
	// Credential gives the value of a secret by its name, to the channels of a tenant, or of the
	// service where tenant is "".
	Credential func(ctx context.Context, tenant, name string) ([]byte, error)
	// Allow are networks that channels of the definitions may reach although they are this network's
	// own.
	Allow []netip.Prefix
	Roots *x509.CertPool // of receivers; the system's when nil
	Log   *slog.Logger   // discarded when nil

	// Retry is the pace of the tries of one notification; 2 s up to an hour when zero. DeadLetterAfter
	// the first try, a day when zero, the notification is dead-lettered.
	Retry           core.Backoff
	DeadLetterAfter time.Duration
	// Patience is how long one try may take; 10 s when zero.
	Patience time.Duration
}

// Bounds and times.
const (
	maxReported = 1000        // happenings that wait to be written down
	maxSending  = 64          // channels at the same time
	pollEvery   = time.Second // when nobody notifies
	pruneEvery  = 10 * time.Minute
	pruneMax    = 500
	leaseSlack  = 5 * time.Second // a claim outlasts a try by so long
	routeMax    = 500             // happenings of one look
)

// Service sends notifications. Its methods are safe for concurrent use; Run does the work.
type Service struct {
	cfg      Config
	out      *out
	reported chan reported
	notify   chan struct{} // has room for one

	mu     sync.Mutex
	busy   map[ledger.Queue]bool
	rests  map[ledger.Queue]rest
	counts map[string]Count
}

// New checks the configuration. Errors wrap core.ErrInvalid.
func New(cfg Config) (*Service, error) {
	if cfg.Ledger == nil || cfg.Server == "" || cfg.View == nil {
		return nil, fmt.Errorf("notifications: a ledger, a name and a project are needed: %w", core.ErrInvalid)
	}
	if cfg.Own != nil {
		if err := policy.CheckURL(cfg.Own.URL); err != nil {
			return nil, fmt.Errorf("webhook for notifications: %w: %w", err, core.ErrInvalid)
		}
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Retry.Interval == 0 {
		cfg.Retry = core.Backoff{Interval: 2 * time.Second, Max: time.Hour, Jitter: 0.2}
	}
	if cfg.DeadLetterAfter <= 0 {
		cfg.DeadLetterAfter = 24 * time.Hour
	}
	if cfg.Patience <= 0 {
		cfg.Patience = 10 * time.Second
	}
	return &Service{
		cfg: cfg, out: newOut(cfg), reported: make(chan reported, maxReported), notify: make(chan struct{}, 1),
		busy: map[ledger.Queue]bool{}, rests: map[ledger.Queue]rest{}, counts: map[string]Count{},
	}, nil
}

// News is an event, as the part that saw it reports it.
type News struct {
	Kind     string // of policy.Kinds
	Tenant   string // whose it is; "" is the provider
	Subject  string // what it is about, as queue or schedule:NAME: a channel gets those of one subject in order
	Fold     string // news of one kind and fold make one notification; "" makes one of each
	Count    int    // the number of events in Text; 1 when zero
	Text     string // what happened, without who and how often
	Own      string // Text for channels of the tenant, where Text may name hosts of others; "" is Text
	Run      string
	Playbook string
	Schedule string
	Window   string
}

// fact is the form in which the ledger keeps News.
type fact struct {
	Text     string `json:"text"`
	Own      string `json:"own,omitempty"`
	Run      string `json:"run,omitempty"`
	Playbook string `json:"playbook,omitempty"`
	Schedule string `json:"schedule,omitempty"`
	Window   string `json:"window,omitempty"`
}

type reported struct {
	h    ledger.Happening
	span time.Duration
}

// Report accepts news and does not block: it is recorded soon. If too many wait, as while the
// ledger is away, the news is dropped, and an error is logged.
func (s *Service) Report(n News, span time.Duration) {
	t := reported{n.Happening(), span}
	select {
	case s.reported <- t:
	default:
		s.cfg.Log.Error("news were dropped: too many wait for the ledger", "kind", n.Kind, "text", n.Text)
	}
}

// Happening is the news as the ledger keeps them.
func (n News) Happening() ledger.Happening {
	data, _ := json.Marshal(fact{block(n.Text, maxText), block(n.Own, maxText), n.Run, n.Playbook, n.Schedule, n.Window}) // texts always marshal
	return ledger.Happening{What: n.Kind, Tenant: n.Tenant, Subject: n.Subject, Fold: n.Fold, Count: n.Count, Data: data}
}

// Notify has the service check the ledger soon. It never blocks.
func (s *Service) Notify() { core.Notify(s.notify) }

// Run records, routes and sends until ctx ends. Other servers, or the next start, send the
// remaining notifications.
func (s *Service) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { s.keep(ctx) })
	var sending sync.WaitGroup
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	var pruned time.Time
	for ctx.Err() == nil {
		s.routeAll(ctx)
		s.sendAll(ctx, &sending)
		if time.Since(pruned) > pruneEvery {
			pruned = time.Now()
			switch n, err := s.cfg.Ledger.PruneNotifications(ctx, pruneMax); {
			case err != nil && ctx.Err() == nil:
				s.cfg.Log.Warn("old notifications could not be forgotten", "error", err)
			case n >= pruneMax: // there may be more: continue with the next poll
				pruned = time.Time{}
			}
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		case <-s.notify:
		}
	}
	sending.Wait()
	wg.Wait()
	s.out.close()
}

// keepAgain paces writing down while the ledger is away.
var keepAgain = core.Backoff{Interval: 100 * time.Millisecond, Max: 5 * time.Second}

// lastWord is how long events just before the end may take to be recorded.
const lastWord = 2 * time.Second

// keep writes news down, in order, until ctx ends; what waits then is tried once more.
func (s *Service) keep(ctx context.Context) {
	var left []reported // first what was being written down at the end: it is older than what waits
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case t := <-s.reported:
			if !s.keepOne(ctx, t) {
				left, ended = append(left, t), true
			}
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
	defer cancel()
	for waits := true; waits; {
		select {
		case t := <-s.reported:
			left = append(left, t)
		default:
			waits = false
		}
	}
	for _, t := range left {
		if err := s.cfg.Ledger.Report(last, t.h, t.span); err != nil {
			s.cfg.Log.Error("news were not written down", "kind", t.h.What, "error", err)
		}
	}
}

// keepOne writes one of the news down, or drops it if that can never be; done is false where ctx
// ended before.
func (s *Service) keepOne(ctx context.Context, t reported) (done bool) {
	for n := 0; ; n++ {
		err := s.cfg.Ledger.Report(ctx, t.h, t.span)
		if err == nil {
			s.Notify()
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if errors.Is(err, core.ErrInvalid) { // never will be: those behind it must not wait
			s.cfg.Log.Error("news are dropped: they cannot be written down", "kind", t.h.What, "error", err)
			return true
		}
		s.cfg.Log.Warn("cannot record a notification, trying again", "kind", t.h.What, "error", err)
		core.Pause(ctx, keepAgain.Delay(n, 0), nil)
	}
}
