package api

import (
	"encoding/json"
	"time"
)

// The states of a Notification.
const (
	NotificationWaiting      = "waiting"
	NotificationSent         = "sent"
	NotificationDeadLettered = "dead_lettered"
)

// Notification is one message to one channel.
type Notification struct {
	ID       string          `json:"id" doc:"the same however often it is sent"`
	Channel  string          `json:"channel" doc:"NAME of the service's own, TENANT:NAME of others"`
	Medium   string          `json:"medium" enum:"webhook,email,slack"`
	Kind     string          `json:"kind" doc:"as run_failed"`
	Title    string          `json:"title"`
	Run      string          `json:"run,omitempty"`
	State    string          `json:"state" enum:"waiting,sent,dead_lettered"`
	Made     time.Time       `json:"made"`
	Due      time.Time       `json:"due,omitzero" doc:"of the next try, while it waits"`
	Tries    int             `json:"tries"`
	Reason   string          `json:"reason,omitempty" doc:"why the last try failed"`
	Finished time.Time       `json:"finished,omitzero" doc:"when it was sent or dead-lettered"`
	Notice   json.RawMessage `json:"notice,omitempty" doc:"the message, as webhooks get it; where one notification is shown"`
}

// Channel is a place where notifications go.
type Channel struct {
	Name         string `json:"name" doc:"NAME of the service's own, TENANT:NAME of others"`
	Tenant       string `json:"tenant,omitempty"`
	Medium       string `json:"medium" enum:"webhook,email,slack"`
	Waiting      int    `json:"waiting" doc:"notifications of the last months, by state"`
	Sent         int    `json:"sent"`
	DeadLettered int    `json:"dead_lettered"`
}
