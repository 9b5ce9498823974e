package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify"
	"github.com/turnus/turnus/core/notify/policy"
)

// notifications registers who is notified of what, and what became of it.
func (s *Server) notifications() {
	const whose = "A tenant's token sees those of the tenant's own channels."
	handle(s, route{id: "list-notifications", method: http.MethodGet, path: "/v1/notifications", summary: "List notifications, newest first", role: Viewer, detail: whose + " " + shortPage}, s.listNotifications)
	handle(s, route{id: "get-notification", method: http.MethodGet, path: "/v1/notifications/{notification}", summary: "Show a notification with its text", role: Viewer}, s.getNotification)
	handle(s, route{
		id: "retry-notification", method: http.MethodPost, path: "/v1/notifications/{notification}/retry", summary: "Send a dead-lettered or waiting notification again", role: Operator, status: http.StatusOK,
		detail: "It is sent immediately, and tried for another day. One that was sent is refused.",
	}, s.retryNotification)
	handle(s, route{id: "list-channels", method: http.MethodGet, path: "/v1/channels", summary: "List the channels of notifications", role: Viewer, detail: whose}, s.listChannels)
	handle(s, route{
		id: "test-channel", method: http.MethodPost, path: "/v1/channels/{channel}/test", summary: "Send a test to a channel", role: Operator, status: http.StatusCreated,
		detail: "Its notification has the result a moment later.",
	}, s.testChannel)
}

func (s *Server) listNotifications(ctx context.Context, by caller, in *struct {
	Page
	State   string `query:"state" enum:"waiting,sent,dead_lettered,dead" doc:"dead: the former name of dead_lettered"`
	Channel string `query:"channel" maxLength:"200" doc:"its name, without a tenant"`
	Kind    string `query:"kind" maxLength:"100" doc:"as run_failed"`
	Run     string `query:"run" maxLength:"128" doc:"id"`
},
) (*list[api.Notification], error) {
	state := ledger.NotificationState(in.State)
	if in.State == api.NotificationDeadLettered {
		state = ledger.NotificationDeadLettered
	}
	f := ledger.NotificationFilter{State: state, Channel: in.Channel, Kind: in.Kind, Run: in.Run}
	all, next, err := s.cfg.Ledger.Notifications(ctx, by.scope, f, in.ledger())
	if err != nil {
		return nil, err
	}
	items := make([]api.Notification, len(all))
	for i := range all {
		items[i] = notificationOf(&all[i])
		items[i].Notice = nil
	}
	return listOf(items, next), nil
}

// NotificationPath names a notification.
type NotificationPath struct {
	Notification string `path:"notification" maxLength:"128" doc:"id"`
}

func (s *Server) getNotification(ctx context.Context, by caller, in *NotificationPath) (*body[api.Notification], error) {
	n, err := s.cfg.Ledger.Notification(ctx, by.scope, in.Notification)
	if err != nil {
		return nil, err
	}
	return &body[api.Notification]{notificationOf(&n)}, nil
}

func (s *Server) retryNotification(ctx context.Context, by caller, in *NotificationPath) (*body[api.Notification], error) {
	n, err := s.cfg.Ledger.RetryNotification(ctx, by.scope, by.name, in.Notification)
	if err != nil {
		return nil, err
	}
	if s.cfg.Notify != nil {
		s.cfg.Notify.Notify()
	}
	return &body[api.Notification]{notificationOf(&n)}, nil
}

func (s *Server) listChannels(ctx context.Context, by caller, in *struct{ Page }) (*list[api.Channel], error) {
	var all []api.Channel
	if s.cfg.Notify != nil {
		states, err := s.cfg.Notify.Channels(ctx, by.scope)
		if err != nil {
			return nil, err
		}
		for _, c := range states {
			all = append(all, api.Channel{Name: channelName(c.Place), Tenant: c.Tenant, Medium: c.Medium, Waiting: c.Waiting, Sent: c.Sent, DeadLettered: c.DeadLettered})
		}
	}
	items, next := pageOf(all, func(c api.Channel) string { return c.Name }, in.Page)
	return listOf(items, next), nil
}

func (s *Server) testChannel(ctx context.Context, by caller, in *struct {
	Channel string `path:"channel" maxLength:"200" doc:"NAME of a channel of the service, or of the token's tenant; TENANT:NAME"`
},
) (*body[api.Notification], error) {
	at := policy.Place{Service: true, Channel: in.Channel}
	if tenant, name, ok := strings.Cut(in.Channel, ":"); ok {
		at = policy.Place{Tenant: tenant, Channel: name}
	} else if !by.scope.All() {
		at = policy.Place{Tenant: by.token.Tenant, Channel: in.Channel}
	}
	unknown := fmt.Errorf("there is no channel %q: %w", clip(in.Channel, 100), core.ErrNotFound)
	if s.cfg.Notify == nil || at.Service && !by.scope.All() || !at.Service && !by.scope.Allows(at.Tenant) {
		return nil, unknown
	}
	n, err := s.cfg.Notify.Test(ctx, by.name, at)
	if errors.Is(err, core.ErrNotFound) {
		return nil, unknown
	}
	if err != nil {
		return nil, err
	}
	return &body[api.Notification]{notificationOf(&n)}, nil
}

func channelName(at policy.Place) string {
	if at.Service {
		return at.Channel
	}
	return at.Tenant + ":" + at.Channel
}

func notificationOf(n *ledger.Notification) api.Notification {
	out := api.Notification{
		ID: n.ID, Channel: channelName(policy.Place{Service: n.Service, Tenant: n.Tenant, Channel: n.Channel}), Medium: n.Medium, Kind: n.Kind, Run: n.Run,
		State: string(n.State), Made: n.Made, Tries: n.Tries, Reason: n.Reason, Finished: n.Finished,
	}
	switch n.State {
	case ledger.NotificationWaiting:
		out.Due = n.Due
	case ledger.NotificationDeadLettered:
		out.State = api.NotificationDeadLettered
	case ledger.NotificationSent:
	}
	var reported notify.Notice
	if json.Unmarshal(n.Data, &reported) == nil { // else it has no title, and is shown without
		out.Title, out.Notice = reported.Title, n.Data
	}
	return out
}
