package notify

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify/policy"
)

// ChannelState is a channel, and what became of its notifications.
type ChannelState struct {
	policy.Place
	Medium                      string
	Waiting, Sent, DeadLettered int
}

// Channels lists those in scope, by owner and name: the service's first.
func (s *Service) Channels(ctx context.Context, scope ledger.Scope) ([]ChannelState, error) {
	counts, err := s.cfg.Ledger.NotificationCounts(ctx, scope)
	if err != nil {
		return nil, err
	}
	var all []ChannelState
	add := func(at policy.Place, medium string) {
		c := ChannelState{Place: at, Medium: medium}
		for _, n := range counts {
			if n.Service != at.Service || n.Tenant != at.Tenant || n.Channel != at.Channel {
				continue
			}
			switch n.State {
			case ledger.NotificationWaiting:
				c.Waiting += n.Count
			case ledger.NotificationSent:
				c.Sent += n.Count
			case ledger.NotificationDeadLettered:
				c.DeadLettered += n.Count
			}
		}
		all = append(all, c)
	}
	if s.cfg.Own != nil && scope.All() {
		add(policy.Place{Service: true, Channel: policy.Own}, policy.MediumWebhook)
	}
	if p := s.cfg.View().Policy; p != nil {
		for name, c := range p.Service.Channels {
			if scope.All() {
				add(policy.Place{Service: true, Channel: name}, c.Medium())
			}
		}
		for tenant, section := range p.Tenants {
			for name, c := range section.Channels {
				if scope.Allows(tenant) {
					add(policy.Place{Tenant: tenant, Channel: name}, c.Medium())
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b ChannelState) int { return cmp.Compare(a.sortKey(), b.sortKey()) })
	return all, nil
}

// sortKey is the name as the API writes it.
func (c ChannelState) sortKey() string {
	if c.Service {
		return c.Channel
	}
	return c.Tenant + ":" + c.Channel
}

// Test sends a test to a channel: it goes the way of all notifications. A channel that is not there
// is core.ErrNotFound.
func (s *Service) Test(ctx context.Context, who string, at policy.Place) (ledger.Notification, error) {
	view := s.cfg.View()
	own := at.Service && at.Channel == policy.Own && s.cfg.Own != nil
	if !own && view.Policy.Channel(at) == nil {
		return ledger.Notification{}, fmt.Errorf("there is no channel %s: %w", at.Channel, core.ErrNotFound)
	}
	id := strings.ToLower(rand.Text())
	n := s.notice(policy.Test, ledger.Happening{At: time.Now().UTC(), Tenant: at.Tenant})
	n.ID, n.Title = id, fmt.Sprintf("a test of channel %s, asked for by %s", at.Channel, who)
	n.compose("Nothing happened. Notifications come this way.")
	data, err := json.Marshal(n)
	if err != nil {
		return ledger.Notification{}, fmt.Errorf("write a test: %w", err)
	}
	made, err := s.cfg.Ledger.NewNotification(ctx, who, ledger.Notification{
		ID: id, Owner: ledger.Owner{Service: at.Service, Tenant: at.Tenant}, Channel: at.Channel, Medium: s.medium(view, at), Kind: policy.Test,
		Subject: "test:" + id, Data: data,
	})
	if err == nil {
		s.mu.Lock()
		delete(s.rests, ledger.Queue{Owner: ledger.Owner{Service: at.Service, Tenant: at.Tenant}, Channel: at.Channel}) // somebody waits for it
		s.mu.Unlock()
		s.Notify()
	}
	return made, err
}
