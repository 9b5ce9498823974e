package ledger

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// NotificationState is the state of a notification.
type NotificationState string

// The states of a notification.
const (
	NotificationWaiting      NotificationState = "waiting" // for its first try, or the next
	NotificationSent         NotificationState = "sent"
	NotificationDeadLettered NotificationState = "dead" // its retries are exhausted; a person may have it sent again
)

// Owner is the owner of a channel: a tenant, or the service, whose channels get the notifications
// of all tenants.
type Owner struct {
	Service bool
	Tenant  string // "" of the service's
}

// flag is how Owner.Service is stored.
func (o Owner) flag() int {
	if o.Service {
		return 1
	}
	return 0
}

// owns reports whether an owner's channels may be seen: those of the service by a scope of all
// tenants.
func (s Scope) owns(o Owner) bool { return s.all || !o.Service && s.Allows(o.Tenant) }

// Notification is one message to one channel.
type Notification struct {
	ID       string `json:"id"` // the same however often it is sent
	Owner    `json:"-"`
	Channel  string            `json:"channel"`
	Medium   string            `json:"medium"`
	Kind     string            `json:"kind"`
	Subject  string            `json:"subject"` // of one subject a channel gets them in order
	Run      string            `json:"run,omitempty"`
	State    NotificationState `json:"state"`
	Made     time.Time         `json:"made"`
	Begun    time.Time         `json:"begun"` // its tries, or those since somebody had it sent again
	Due      time.Time         `json:"due"`   // of the next try
	Tries    int               `json:"tries"`
	Reason   string            `json:"reason,omitempty"` // why the last try failed
	Finished time.Time         `json:"settled,omitzero"`
	Data     []byte            `json:"-"` // the content; opaque
	// Unreadable is why Data could not be opened; nil mostly. It wraps core.ErrUnavailable where
	// only the key is missing here.
	Unreadable error `json:"-"`

	seq   int64
	by    string
	until int64
}

// MaxWaiting is how many notifications may wait for one channel; more are dead-lettered
// immediately.
const MaxWaiting = 10_000

const notificationColumns = `seq, id, service, tenant, channel, medium, kind, subject, run, state, made, begun, due, tries, reason, settled, data`

func (l *Ledger) scanNotification(row scanner) (Notification, error) {
	var n Notification
	var service, made, begun, due, finished int64
	err := row.Scan(&n.seq, &n.ID, &service, &n.Tenant, &n.Channel, &n.Medium, &n.Kind, &n.Subject, &n.Run, &n.State, &made, &begun, &due, &n.Tries, &n.Reason, &finished, &n.Data)
	if err == nil {
		n.Data, n.Unreadable = l.open(n.Data, noticeOf, n.ID)
	}
	n.Service = service == 1
	n.Made, n.Begun, n.Due, n.Finished = fromMicros(made), fromMicros(begun), fromMicros(due), fromMicros(finished)
	return n, err
}

// notify adds a notification that waits.
func (l *Ledger) notify(ctx context.Context, t *tx, n *Notification) error {
	for _, f := range []struct {
		what, text string
		needed     bool
		max        int
	}{
		{"id", n.ID, true, maxID}, {"tenant", n.Tenant, false, maxID}, {"channel", n.Channel, true, maxID}, {"medium", n.Medium, true, maxID},
		{"kind", n.Kind, true, maxID}, {"subject", n.Subject, true, maxText}, {"run", n.Run, false, maxID},
	} {
		if err := checkText("notification: "+f.what, f.text, f.needed, f.max); err != nil {
			return err
		}
	}
	var waiting int
	if err := t.row(ctx, `SELECT count(*) FROM (SELECT 1 FROM notifications WHERE service = $1 AND tenant = $2 AND channel = $3 AND state = 'waiting' LIMIT $4) w`,
		n.flag(), n.Tenant, n.Channel, MaxWaiting).Scan(&waiting); err != nil {
		return err
	}
	now := fromMicros(micros(l.now()))
	n.State, n.Made, n.Begun, n.Tries, n.Reason, n.Finished = NotificationWaiting, now, now, 0, "", time.Time{}
	if waiting >= MaxWaiting {
		n.State, n.Finished, n.Reason = NotificationDeadLettered, now, fmt.Sprintf("%d notifications waited for this channel already", waiting)
	}
	_, err := t.exec(ctx, `INSERT INTO notifications (id, service, tenant, channel, medium, kind, subject, run, state, made, begun, due, reason, settled, data)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, `+t.now+`, $11, $12, $13)`,
		n.ID, n.flag(), n.Tenant, n.Channel, n.Medium, n.Kind, n.Subject, n.Run, string(n.State), micros(now), n.Reason, micros(n.Finished), l.encrypt(n.Data, noticeOf, n.ID))
	return err
}

// NewNotification adds a notification that no happening is behind: a test that somebody asked for.
func (l *Ledger) NewNotification(ctx context.Context, who string, n Notification) (Notification, error) {
	err := l.db.transact(ctx, "add a notification", func(t *tx) error {
		if err := l.notify(ctx, t, &n); err != nil {
			return err
		}
		if err := within(ctx, t, core.QuotaTests, n.Tenant, `SELECT 1 FROM notifications WHERE service = 0 AND tenant = $1 AND state = 'waiting' AND kind = 'test'`); err != nil {
			return err
		}
		_, err := l.audit(ctx, t, Entry{Who: who, Tenant: n.Tenant, Action: "channel.test", Kind: "channel", Subject: n.Channel, After: asJSON(n)})
		return err
	})
	if err != nil {
		return Notification{}, err
	}
	return l.Notification(ctx, AllTenants(), n.ID)
}

// Queue is a channel that notifications are due for.
type Queue struct {
	Owner
	Channel string
}

// DueChannels lists the channels that something is due for and nobody is sending to.
func (l *Ledger) DueChannels(ctx context.Context) ([]Queue, error) {
	rows, err := l.db.rows(ctx, `SELECT DISTINCT service, tenant, channel FROM notifications
		WHERE state = 'waiting' AND due <= `+l.db.now+` AND claimed_until < `+l.db.now+` ORDER BY service, tenant, channel LIMIT $1`, MaxPage)
	all, err := collect(rows, err, func(row scanner) (q Queue, err error) {
		var service int
		err = row.Scan(&service, &q.Tenant, &q.Channel)
		q.Service = service == 1
		return q, err
	})
	return all, translate("look for notifications that are due", err)
}

// ClaimNotification claims the notification of a channel that is due first, until ttl has passed by
// the database's clock, and counts a try. One is passed over while an earlier one of its subject
// waits. ok is false where there is none.
func (l *Ledger) ClaimNotification(ctx context.Context, by string, of Queue, ttl time.Duration) (n Notification, ok bool, err error) {
	err = l.db.transact(ctx, "claim a notification", func(t *tx) error {
		var until int64
		n, err = l.scanNotification(ahead{t.row(ctx, `UPDATE notifications SET claimed_by = $1, claimed_until = `+t.now+` + $2, tries = tries + 1 WHERE seq IN (
			SELECT d.seq FROM notifications d WHERE d.service = $3 AND d.tenant = $4 AND d.channel = $5 AND d.state = 'waiting'
			AND d.due <= `+t.now+` AND d.claimed_until < `+t.now+` AND NOT EXISTS (SELECT 1 FROM notifications e WHERE e.service = d.service AND e.tenant = d.tenant
			AND e.channel = d.channel AND e.state = 'waiting' AND e.subject = d.subject AND e.seq < d.seq)
			ORDER BY d.due, d.seq LIMIT 1`+t.skip+`) RETURNING claimed_until, `+notificationColumns,
			by, ttl.Microseconds(), of.flag(), of.Tenant, of.Channel), []any{&until}})
		if none(err) {
			return nil
		}
		n.by, n.until, ok = by, until, err == nil
		return err
	})
	return n, ok && err == nil, err
}

// Sent records that a claimed notification was taken. A claim that has ended and was taken over
// changes nothing: it is sent twice.
func (l *Ledger) Sent(ctx context.Context, n Notification) error {
	return l.finishNotification(ctx, n, NotificationSent, "", 0)
}

// Failed records why a claimed notification was not taken, and when to try again, or that it is
// dead-lettered.
func (l *Ledger) Failed(ctx context.Context, n Notification, reason string, again time.Duration, deadLettered bool) error {
	state := NotificationWaiting
	if deadLettered {
		state = NotificationDeadLettered
	}
	return l.finishNotification(ctx, n, state, reason, again)
}

func (l *Ledger) finishNotification(ctx context.Context, n Notification, state NotificationState, reason string, again time.Duration) error {
	finished := micros(l.now())
	if state == NotificationWaiting {
		finished = 0
	}
	return l.db.transact(ctx, "finish a notification", func(t *tx) error {
		_, err := t.exec(ctx, `UPDATE notifications SET state = $4, reason = $5, due = `+t.now+` + $6, settled = $7, claimed_by = '', claimed_until = 0
			WHERE seq = $1 AND claimed_by = $2 AND claimed_until = $3`, n.seq, n.by, n.until, string(state), clean(reason, maxText), again.Microseconds(), finished)
		return err
	})
}

// NotificationFilter narrows a list. Empty fields let everything through.
type NotificationFilter struct {
	State              NotificationState
	Channel, Kind, Run string
}

// Notifications lists those of channels in scope, newest first.
func (l *Ledger) Notifications(ctx context.Context, s Scope, f NotificationFilter, p Page) (all []Notification, next string, err error) {
	q := &query{d: l.db.dialect}
	tenant := s.sift
	switch {
	case f.Run != "":
		q.equals(q.where, "run", f.Run)
	case f.State == NotificationDeadLettered:
		q.where("state = 'dead'") // as its index has it
	case len(s.tenants) == 1:
		tenant = s.filter
	}
	q.equals(q.sift, "state", string(f.State))
	q.equals(q.sift, "channel", f.Channel)
	q.equals(q.sift, "kind", f.Kind)
	if tenant(q, "tenant"); !s.all {
		q.sift("service = 0")
	}
	return list(ctx, l, q, p, listing[Notification]{
		what: "list notifications", columns: notificationColumns, from: "notifications", order: "seq DESC", scan: l.scanNotification,
		at:    func(n Notification) cursor { return cursor{List: "notifications", Key: []int64{n.seq}} },
		after: func(q *query, at cursor) { q.where("seq < ?", at.Key[0]) },
	})
}

// Notification reads one of a channel in scope.
func (l *Ledger) Notification(ctx context.Context, s Scope, id string) (Notification, error) {
	n, err := l.scanNotification(l.db.row(ctx, `SELECT `+notificationColumns+` FROM notifications WHERE id = $1`, clean(id, maxText)))
	if none(err) || err == nil && !s.owns(n.Owner) {
		return Notification{}, noNotification(id)
	}
	return n, translate("read notification "+clean(id, maxID), err)
}

func noNotification(id string) error {
	return fmt.Errorf("notification %q is not in the ledger: %w", clean(id, maxID), core.ErrNotFound)
}

// RetryNotification has one sent now, for as long as a new one would be. One that was sent is
// core.ErrConflict.
func (l *Ledger) RetryNotification(ctx context.Context, s Scope, who, id string) (Notification, error) {
	var n Notification
	err := l.db.transact(ctx, "send notification "+clean(id, maxID)+" again", func(t *tx) (err error) {
		before, err := l.scanNotification(t.row(ctx, `SELECT `+notificationColumns+` FROM notifications WHERE id = $1`+t.forUpdate, clean(id, maxText)))
		switch {
		case none(err) || err == nil && !s.owns(before.Owner):
			return noNotification(id)
		case err != nil:
			return err
		case before.State == NotificationSent:
			return fmt.Errorf("it was sent: %w", core.ErrConflict)
		}
		n, err = l.scanNotification(t.row(ctx, `UPDATE notifications SET state = 'waiting', begun = $2, due = `+t.now+`, tries = 0, settled = 0 WHERE seq = $1 RETURNING `+notificationColumns,
			before.seq, micros(l.now())))
		if err != nil {
			return err
		}
		_, err = l.audit(ctx, t, Entry{Who: who, Tenant: n.Tenant, Action: "notification.retry", Kind: "notification", Subject: n.ID, Before: asJSON(before), After: asJSON(n)})
		return err
	})
	return n, err
}

// NotificationCount is how many notifications of a channel are in a state.
type NotificationCount struct {
	Queue
	Medium string
	State  NotificationState
	Count  int
}

// NotificationCounts counts those in scope that are kept.
func (l *Ledger) NotificationCounts(ctx context.Context, s Scope) ([]NotificationCount, error) {
	q := &query{d: l.db.dialect}
	if !s.all {
		q.where("service = 0")
	}
	s.filter(q, "tenant")
	where := ""
	if len(q.conds) > 0 {
		where = ` WHERE ` + strings.Join(q.conds, " AND ")
	}
	rows, err := l.db.rows(ctx, `SELECT service, tenant, channel, medium, state, count(*) FROM notifications`+where+` GROUP BY service, tenant, channel, medium, state`, q.args...)
	all, err := collect(rows, err, func(row scanner) (c NotificationCount, err error) {
		var service int
		err = row.Scan(&service, &c.Tenant, &c.Channel, &c.Medium, &c.State, &c.Count)
		c.Service = service == 1
		return c, err
	})
	return all, translate("count notifications", err)
}

// Retention of notifications.
const (
	KeepSent         = 30 * 24 * time.Hour
	KeepDeadLettered = 90 * 24 * time.Hour
)

// PruneNotifications removes up to max notifications that are older than their retention, and
// events whose Fold is no longer remembered. It returns the number of removed rows.
func (l *Ledger) PruneNotifications(ctx context.Context, max int) (removed int, err error) {
	now := l.now()
	for _, old := range []struct {
		query string
		span  time.Duration
	}{
		{`DELETE FROM notifications WHERE seq IN (SELECT seq FROM notifications WHERE state = 'sent' AND settled > 0 AND settled < $1 ORDER BY settled, seq LIMIT $2)`, KeepSent},
		{`DELETE FROM notifications WHERE seq IN (SELECT seq FROM notifications WHERE state = 'dead' AND settled > 0 AND settled < $1 ORDER BY settled, seq LIMIT $2)`, KeepDeadLettered},
		{`DELETE FROM happenings WHERE seq IN (SELECT seq FROM happenings WHERE routed = 1 AND due < $1 LIMIT $2)`, KeepFolds},
	} {
		err := l.db.transact(ctx, "forget notifications", func(t *tx) error {
			n, err := t.exec(ctx, old.query, micros(now.Add(-old.span)), cmp.Or(max, MaxPage))
			removed += int(n)
			return err
		})
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}
