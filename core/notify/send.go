package notify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify/policy"
)

// rest keeps a channel that fails from taking all places: nothing is sent to it until then.
type rest struct {
	fails int
	until time.Time
}

// channelRest paces the tries of a channel, whatever notification it is.
var channelRest = core.Backoff{Interval: time.Second, Max: time.Minute}

// Count is the numbers of a server's notifications by one medium since its start.
type Count struct {
	Sent         int64 // accepted by a receiver
	Failed       int64 // tries that failed
	DeadLettered int64 // notifications whose retries were exhausted
}

// Counts returns the counts of this process, by medium.
func (s *Service) Counts() map[string]Count {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]Count{}
	for _, medium := range policy.Media() {
		out[medium] = s.counts[medium]
	}
	return out
}

// Waiting counts the notifications that wait, by medium. It reads the ledger, so all servers report
// the same.
func (s *Service) Waiting(ctx context.Context) (map[string]int, error) {
	all, err := s.cfg.Ledger.NotificationCounts(ctx, ledger.AllTenants())
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, medium := range policy.Media() {
		out[medium] = 0
	}
	for _, c := range all {
		if c.State == ledger.NotificationWaiting {
			out[c.Medium] += c.Count
		}
	}
	return out, nil
}

// sendAll has every channel that something is due for sent to, each by a goroutine of its own: one
// that hangs delays no other.
func (s *Service) sendAll(ctx context.Context, sending *sync.WaitGroup) {
	due, err := s.cfg.Ledger.DueChannels(ctx)
	if err != nil {
		s.trouble(ctx, "notifications that are due could not be read", err)
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range due {
		if s.busy[q] || now.Before(s.rests[q].until) {
			continue
		}
		if len(s.busy) >= maxSending {
			return
		}
		s.busy[q] = true
		sending.Go(func() {
			fine := s.drain(ctx, q)
			s.mu.Lock()
			delete(s.busy, q)
			if fine {
				delete(s.rests, q)
			} else {
				r := s.rests[q]
				r.until = time.Now().Add(channelRest.Delay(r.fails, 0))
				r.fails++
				s.rests[q] = r
			}
			s.mu.Unlock()
		})
	}
}

// drain sends what is due for a channel, until nothing is, or a try fails.
func (s *Service) drain(ctx context.Context, q ledger.Queue) (fine bool) {
	for ctx.Err() == nil {
		n, ok, err := s.cfg.Ledger.ClaimNotification(ctx, s.cfg.Server, q, s.cfg.Patience+leaseSlack)
		if err != nil {
			s.trouble(ctx, "a notification could not be claimed", err)
			return false
		}
		if !ok {
			return true
		}
		if !s.sendOne(ctx, n) {
			return false
		}
	}
	return true
}

// finishTime is how long the ledger may take to record the result of a try, also when the service
// stops meanwhile.
const finishTime = 5 * time.Second

func (s *Service) sendOne(ctx context.Context, n ledger.Notification) bool {
	err := s.send(ctx, n)
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTime)
	defer cancel()
	if err == nil {
		s.count(n.Medium, func(c *Count) { c.Sent++ })
		if err := s.cfg.Ledger.Sent(finish, n); err != nil { // it is sent again when the claim has ended
			s.trouble(ctx, "a notification was sent, and that could not be written down", err, "id", n.ID)
			return false
		}
		return true
	}
	if ctx.Err() != nil { // not the channel's fault: the next server tries immediately
		if err := s.cfg.Ledger.Failed(finish, n, n.Reason, 0, false); err != nil {
			s.cfg.Log.Warn("a notification stays claimed for a while", "id", n.ID, "error", err)
		}
		return false
	}
	again := s.cfg.Retry.Delay(n.Tries-1, rand.Float64()) //nolint:gosec // spreads tries, keeps no secret
	var refused *refusal
	if errors.As(err, &refused) {
		again = max(again, refused.after)
	}
	deadLettered := errors.Is(err, core.ErrInvalid) || time.Since(n.Begun)+again > s.cfg.DeadLetterAfter
	s.count(n.Medium, func(c *Count) {
		c.Failed++
		if deadLettered {
			c.DeadLettered++
		}
	})
	if errors.Is(err, errInner) {
		err = errInner // without the address that the dialer puts before it
	}
	reason := line(err.Error(), maxReason)
	if deadLettered {
		s.cfg.Log.Error("a notification is dead-lettered", "id", n.ID, "channel", n.Channel, "tenant", n.Tenant, "kind", n.Kind, "error", reason)
	} else {
		s.cfg.Log.Warn("a notification is sent again later", "id", n.ID, "channel", n.Channel, "tenant", n.Tenant, "kind", n.Kind, "after", again, "error", reason)
	}
	if err := s.cfg.Ledger.Failed(finish, n, reason, again, deadLettered); err != nil {
		s.trouble(ctx, "that a notification failed could not be written down", err, "id", n.ID)
	}
	return deadLettered && refused != nil // it was this notification that the channel refused: the next one may do
}

func (s *Service) count(medium string, do func(*Count)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts[medium]
	do(&c)
	s.counts[medium] = c
}

// refusal is an answer of a receiver that is no.
type refusal struct {
	text  string
	after time.Duration // asked for by the receiver
	final bool          // another try is no use
}

func (r *refusal) Error() string { return r.text }

// Is makes a final refusal core.ErrInvalid.
func (r *refusal) Is(target error) bool { return r.final && target == core.ErrInvalid }

// send is one try.
func (s *Service) send(ctx context.Context, n ledger.Notification) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	if n.Unreadable != nil {
		return fmt.Errorf("its text cannot be read from the ledger: %w", n.Unreadable)
	}
	at := policy.Place{Service: n.Service, Tenant: n.Tenant, Channel: n.Channel}
	if n.Service && n.Channel == policy.Own {
		if s.cfg.Own == nil {
			return errors.New("this server was started without --notify")
		}
		return s.out.own.post(ctx, s.cfg.Own.URL, n.Data, n.ID, s.cfg.Own.Secret)
	}
	definitions := s.cfg.View().Policy
	if definitions == nil {
		return errors.New("this server has no project, and so no channels, yet")
	}
	c := definitions.Channel(at)
	if c == nil {
		return fmt.Errorf("the project has no such channel any more: %w", core.ErrInvalid)
	}
	switch {
	case c.Webhook != nil:
		return s.webhook(ctx, n, c.Webhook)
	case c.Slack != nil:
		return s.slack(ctx, n, c.Slack)
	default:
		return s.email(ctx, n, c.Email)
	}
}

// secret asks for the value of a secret that a channel names.
func (s *Service) secret(ctx context.Context, tenant, name string) ([]byte, error) {
	if s.cfg.Credential == nil {
		return nil, fmt.Errorf("secret %s: this server has no secrets: start it with --secrets", name)
	}
	value, err := s.cfg.Credential(ctx, tenant, name)
	if err != nil {
		return nil, fmt.Errorf("secret %s: %v", name, err) //nolint:errorlint // whatever it is, the server's operator may set it right, so it is tried again
	}
	return value, nil
}

// address returns the address of a channel, as it is or from the secret that it names.
func (s *Service) address(ctx context.Context, tenant string, t policy.Text) (string, error) {
	if t.Secret == "" {
		return t.Plain, nil
	}
	value, err := s.secret(ctx, tenant, t.Secret)
	if err != nil {
		return "", err
	}
	if err := policy.CheckURL(string(value)); err != nil {
		return "", fmt.Errorf("secret %s is no address: %w", t.Secret, err)
	}
	return string(value), nil
}
