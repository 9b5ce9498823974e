package ledger_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// happened lists what may be reported, as WHAT SUBJECT xCOUNT DATA.
func happened(tb testing.TB, l *ledger.Ledger) []string {
	tb.Helper()
	var all []string
	for _, h := range must[[]ledger.Happening](tb)(l.Happenings(tb.Context(), 1000)) {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s x%d %s", h.What, h.Subject, h.Count, h.Data)))
	}
	return all
}

func wantHappened(tb testing.TB, l *ledger.Ledger, want ...string) {
	tb.Helper()
	if got := happened(tb, l); fmt.Sprint(got) != fmt.Sprint(want) {
		tb.Errorf("notifications to send are %q, expected %q", got, want)
	}
}

// An event of a run becomes a happening as soon as it is written down, and by the same transaction.
func testHappenings(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	accept(t, l, newRun("r1", "acme", 2))
	accept(t, l, newRun("r2", "acme", 1))
	n := newRun("r3", "acme", 1)
	n.Approvals = 1
	accept(t, l, n)
	wantHappened(t, l, "run_awaiting run:r3 x1")
	record(t, l, "r1", ledger.Outcome{Index: 0, Outcome: core.Changed})
	if _, err := l.SetPhase(ctx, ledger.AllTenants(), "", "r2", ledger.PhasePaused, "look"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.SetPhase(ctx, ledger.AllTenants(), "alice", "r1", ledger.PhasePaused, "I am looking"); err != nil { // a person knows
		t.Fatal(err)
	}
	record(t, l, "r1", ledger.Outcome{Index: 1, Outcome: core.Failed})
	record(t, l, "r1", ledger.Outcome{Index: 1, Outcome: core.Failed}) // delivered twice
	if _, err := l.SetPhase(ctx, ledger.AllTenants(), "", "r2", ledger.PhaseStopped, "2 of 1 failed"); err != nil {
		t.Fatal(err)
	}
	wantHappened(t, l, "run_awaiting run:r3 x1", "run_held run:r2 x1 look", "run_ended run:r1 x1", "run_stopped run:r2 x1 2 of 1 failed")
	all := must[[]ledger.Happening](t)(l.Happenings(ctx, 1))
	if len(all) != 1 || all[0].Tenant != "acme" || all[0].ID == "" || all[0].At.IsZero() {
		t.Errorf("%+v", all)
	}
	// A transaction that fails reports nothing.
	if _, err := l.SetPhase(ctx, ledger.AllTenants(), "", "r1", ledger.PhaseStopped, "too late"); err == nil {
		t.Error("a complete run was stopped")
	}
	if got := happened(t, l); len(got) != 4 {
		t.Errorf("a change that was refused has a notification: %q", got)
	}
}

func testFolds(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	report := func(h ledger.Happening, span time.Duration) {
		t.Helper()
		if err := l.Report(ctx, h, span); err != nil {
			t.Fatal(err)
		}
	}
	away := ledger.Happening{What: "queue_away", Subject: "queue", Fold: "queue", Data: []byte("refused")}
	report(away, time.Hour)
	report(away, time.Hour)
	report(ledger.Happening{What: "queue_back", Subject: "queue", Fold: "queue"}, time.Hour) // another what
	wantHappened(t, l, "queue_away queue x2 refused", "queue_back queue x1")

	// A happening that was handed on is reported again no earlier than a span later, however often it
	// happens.
	all := must[[]ledger.Happening](t)(l.Happenings(ctx, 10))
	report(away, time.Hour) // while one server hands it on
	if done := must[bool](t)(l.Route(ctx, all[0], []ledger.Notification{message("n1", "queue")})); done {
		t.Error("a happening was handed on without what was folded into it meanwhile")
	}
	all = must[[]ledger.Happening](t)(l.Happenings(ctx, 10))
	if done := must[bool](t)(l.Route(ctx, all[0], []ledger.Notification{message("n1", "queue")})); !done || all[0].Count != 3 {
		t.Errorf("%+v, %t", all[0], done)
	}
	report(away, time.Hour)
	report(away, time.Hour)
	wantHappened(t, l, "queue_back queue x1")
	// One that went to nobody folds nothing.
	report(ledger.Happening{What: "nobody", Subject: "s", Fold: "f"}, time.Hour)
	all = must[[]ledger.Happening](t)(l.Happenings(ctx, 10))
	report(ledger.Happening{What: "nobody", Subject: "s", Fold: "f"}, time.Hour) // meanwhile: that one is left
	if err := l.Dismiss(ctx, all...); err != nil {
		t.Fatal(err)
	}
	wantHappened(t, l, "nobody s x2")
	if err := l.Dismiss(ctx, must[[]ledger.Happening](t)(l.Happenings(ctx, 10))...); err != nil {
		t.Fatal(err)
	}
	report(ledger.Happening{What: "nobody", Subject: "s", Fold: "f"}, time.Hour)
	wantHappened(t, l, "nobody s x1")
	// After its span, immediately. Spans are of the database's clock: here one that has ended.
	report(ledger.Happening{What: "short", Subject: "s", Fold: "f"}, time.Microsecond)
	for _, h := range must[[]ledger.Happening](t)(l.Happenings(ctx, 10)) {
		must[bool](t)(l.Route(ctx, h, []ledger.Notification{message("of-"+h.ID, "s")}))
	}
	report(ledger.Happening{What: "short", Subject: "s", Fold: "f"}, time.Microsecond)
	wantHappened(t, l, "short s x1")

	once := ledger.Happening{What: "asks", Subject: "run:r", Fold: "r/1", Data: []byte("first")}
	report(once, ledger.Once)
	once.Data = []byte("second")
	report(once, ledger.Once)
	for _, h := range must[[]ledger.Happening](t)(l.Happenings(ctx, 10)) {
		if h.What == "asks" && (h.Count != 1 || string(h.Data) != "first") {
			t.Errorf("%+v", h)
		}
		must[bool](t)(l.Route(ctx, h, []ledger.Notification{message("of-"+h.ID, "s")}))
	}
	report(once, ledger.Once)
	wantHappened(t, l)
	for name, bad := range map[string]ledger.Happening{"what": {Subject: "s"}, "subject": {What: "w"}, "text": {What: "w", Subject: "\xff"}} {
		wantErr(t, l.Report(ctx, bad, 0), core.ErrInvalid, name)
	}
}

func message(id, subject string) ledger.Notification {
	return ledger.Notification{ID: id, Owner: ledger.Owner{Tenant: "acme"}, Channel: "ops", Medium: "webhook", Kind: "k", Subject: subject, Data: []byte("data of " + id)}
}

// Servers that hand on the same at the same time do it once.
func testRouteRace(t *testing.T, b *backend) {
	l := b.open(t)
	if err := l.Report(t.Context(), ledger.Happening{What: "w", Subject: "s"}, 0); err != nil {
		t.Fatal(err)
	}
	h := must[[]ledger.Happening](t)(l.Happenings(t.Context(), 1))[0]
	var wg sync.WaitGroup
	var mu sync.Mutex
	did := 0
	for i := range 8 {
		wg.Go(func() {
			done, err := l.Route(context.WithoutCancel(t.Context()), h, []ledger.Notification{message(fmt.Sprint("n", i), "s")})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if done {
				did++
			}
		})
	}
	wg.Wait()
	all, _, err := l.Notifications(t.Context(), ledger.AllTenants(), ledger.NotificationFilter{}, ledger.Page{})
	if did != 1 || len(all) != 1 || err != nil {
		t.Errorf("%d servers handed it on, %d notifications came of it: %v", did, len(all), err)
	}
}

// put routes notifications, in order.
func put(tb testing.TB, l *ledger.Ledger, all ...ledger.Notification) {
	tb.Helper()
	if err := l.Report(tb.Context(), ledger.Happening{What: "w", Subject: "s"}, 0); err != nil {
		tb.Fatal(err)
	}
	for _, h := range must[[]ledger.Happening](tb)(l.Happenings(tb.Context(), 1)) {
		must[bool](tb)(l.Route(tb.Context(), h, all))
	}
}

var ops = ledger.Queue{Owner: ledger.Owner{Tenant: "acme"}, Channel: "ops"}

func claim(tb testing.TB, l *ledger.Ledger, by string, ttl time.Duration) string {
	tb.Helper()
	n, ok, err := l.ClaimNotification(tb.Context(), by, ops, ttl)
	if err != nil {
		tb.Fatal(err)
	}
	if !ok {
		return ""
	}
	if string(n.Data) != "data of "+n.ID {
		tb.Errorf("%s has %q", n.ID, n.Data)
	}
	return n.ID
}

func testNotifications(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	put(t, l, message("a1", "run:a"), message("b1", "run:b"), message("a2", "run:a"))
	if due := must[[]ledger.Queue](t)(l.DueChannels(ctx)); len(due) != 1 || due[0] != ops {
		t.Errorf("%+v", due)
	}
	first, ok, err := l.ClaimNotification(ctx, "one", ops, time.Hour)
	if err != nil || !ok || first.ID != "a1" || first.Tries != 1 || first.State != ledger.NotificationWaiting {
		t.Fatalf("%+v, %t, %v", first, ok, err)
	}
	// Another subject overtakes; of the same one waits for the other.
	if id := claim(t, l, "two", time.Hour); id != "b1" {
		t.Errorf("%q is claimed next", id)
	}
	if id := claim(t, l, "two", time.Hour); id != "" {
		t.Errorf("%q is claimed while the one before it waits", id)
	}
	if err := l.Failed(ctx, first, "503", time.Hour, false); err != nil {
		t.Fatal(err)
	}
	if id := claim(t, l, "two", time.Hour); id != "" {
		t.Errorf("%q is claimed before its time", id)
	}
	again := must[ledger.Notification](t)(l.RetryNotification(ctx, ledger.Tenants("acme"), "alice", "a1"))
	if again.Tries != 0 || again.Reason != "503" {
		t.Errorf("%+v", again)
	}
	if first, _, err = l.ClaimNotification(ctx, "one", ops, time.Hour); err != nil || first.ID != "a1" {
		t.Fatalf("%+v, %v", first, err)
	}
	if err := l.Sent(ctx, first); err != nil {
		t.Fatal(err)
	}
	_, err = l.RetryNotification(ctx, ledger.AllTenants(), "alice", "a1")
	wantErr(t, err, core.ErrConflict, "sending again what was sent")
	second, _, err := l.ClaimNotification(ctx, "one", ops, time.Hour)
	if err != nil || second.ID != "a2" {
		t.Fatalf("%+v, %v", second, err)
	}
	if err := l.Failed(ctx, second, "410 Gone", 0, true); err != nil {
		t.Fatal(err)
	}
	counts := must[[]ledger.NotificationCount](t)(l.NotificationCounts(ctx, ledger.Tenants("acme")))
	if len(counts) != 3 || len(must[[]ledger.NotificationCount](t)(l.NotificationCounts(ctx, ledger.Tenants("other")))) != 0 {
		t.Errorf("%+v", counts)
	}
	deadLettered, _, err := l.Notifications(ctx, ledger.AllTenants(), ledger.NotificationFilter{State: ledger.NotificationDeadLettered, Channel: "ops", Kind: "k"}, ledger.Page{})
	if err != nil || len(deadLettered) != 1 || deadLettered[0].ID != "a2" || deadLettered[0].Reason != "410 Gone" || deadLettered[0].Finished.IsZero() {
		t.Errorf("%+v, %v", deadLettered, err)
	}
	if back := must[ledger.Notification](t)(l.RetryNotification(ctx, ledger.AllTenants(), "alice", "a2")); back.State != ledger.NotificationWaiting || !back.Finished.IsZero() {
		t.Errorf("%+v", back)
	}
	log, _, err := l.AuditLog(ctx, ledger.Tenants("acme"), ledger.AuditFilter{Action: "notification.retry"}, ledger.Page{})
	if err != nil || len(log) != 2 || log[0].Who != "alice" || log[0].Before == nil || log[0].After == nil {
		t.Errorf("%+v, %v", log, err)
	}
}

// A claim that ended is taken over; the late report of the first changes nothing.
func testNotificationLease(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	put(t, l, message("a1", "run:a"))
	slow, _, err := l.ClaimNotification(ctx, "slow", ops, -time.Second) // it is over by the database's clock
	if err != nil || slow.ID != "a1" {
		t.Fatalf("%+v, %v", slow, err)
	}
	fast, ok, err := l.ClaimNotification(ctx, "fast", ops, time.Hour)
	if err != nil || !ok || fast.Tries != 2 {
		t.Fatalf("%+v, %v", fast, err)
	}
	if err := l.Failed(ctx, slow, "too late", 0, true); err != nil {
		t.Fatal(err)
	}
	if n := must[ledger.Notification](t)(l.Notification(ctx, ledger.AllTenants(), "a1")); n.State != ledger.NotificationWaiting {
		t.Errorf("a sender that lost the claim ends it: %+v", n)
	}
	if id := claim(t, l, "third", time.Hour); id != "" {
		t.Errorf("%s is claimed twice", id)
	}
	if err := l.Sent(ctx, fast); err != nil {
		t.Fatal(err)
	}
	if n := must[ledger.Notification](t)(l.Notification(ctx, ledger.AllTenants(), "a1")); n.State != ledger.NotificationSent {
		t.Errorf("%+v", n)
	}
}

// Many servers claim each notification once, and those of a subject one after the other.
func testNotificationsRace(t *testing.T, b *backend) {
	l := b.open(t)
	const subjects, each, servers = 3, 5, 4
	var all []ledger.Notification
	for i := range subjects * each {
		all = append(all, message(fmt.Sprintf("s%d-%02d", i%subjects, i/subjects), fmt.Sprint("s", i%subjects)))
	}
	put(t, l, all...)
	var mu sync.Mutex
	var got []string
	var wg sync.WaitGroup
	for i := range servers {
		wg.Go(func() {
			ctx := context.WithoutCancel(t.Context())
			for {
				n, ok, err := l.ClaimNotification(ctx, fmt.Sprint("server", i), ops, time.Hour)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if ok {
					got = append(got, n.ID)
				}
				done := len(got) == subjects*each
				mu.Unlock()
				if done {
					return
				}
				if ok {
					if err := l.Sent(ctx, n); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	last := map[string]string{}
	for _, id := range got {
		subject, n, _ := strings.Cut(id, "-")
		if n <= last[subject] {
			t.Errorf("%s was claimed behind %s", id, last[subject])
		}
		last[subject] = n
	}
	if len(got) != subjects*each {
		t.Errorf("%d were claimed", len(got))
	}
}

func testNotificationScope(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	service := message("of-service", "run:a")
	service.Owner = ledger.Owner{Service: true}
	put(t, l, message("of-acme", "run:a"), service)
	for scope, want := range map[string]struct {
		s    ledger.Scope
		list string
	}{
		"all": {ledger.AllTenants(), "of-service of-acme"}, "acme": {ledger.Tenants("acme"), "of-acme"}, "another": {ledger.Tenants("globex"), ""},
		"the one without a name": {ledger.Tenants(""), ""}, "none": {ledger.Scope{}, ""},
	} {
		all, _, err := l.Notifications(ctx, want.s, ledger.NotificationFilter{}, ledger.Page{})
		var ids []string
		for _, n := range all {
			ids = append(ids, n.ID)
		}
		if err != nil || strings.Join(ids, " ") != want.list {
			t.Errorf("%s sees %q: %v", scope, ids, err)
		}
		for _, id := range []string{"of-acme", "of-service"} {
			_, err := l.Notification(ctx, want.s, id)
			if sees := strings.Contains(want.list, id); sees != (err == nil) {
				t.Errorf("%s reads %s: %v", scope, id, err)
			}
			if _, err := l.RetryNotification(ctx, want.s, "x", id); strings.Contains(want.list, id) != (err == nil) {
				t.Errorf("%s retries %s: %v", scope, id, err)
			}
		}
	}
	one, next, err := l.Notifications(ctx, ledger.AllTenants(), ledger.NotificationFilter{}, ledger.Page{Limit: 1})
	if err != nil || len(one) != 1 || next == "" {
		t.Fatalf("%+v, %q, %v", one, next, err)
	}
	two, next, err := l.Notifications(ctx, ledger.AllTenants(), ledger.NotificationFilter{}, ledger.Page{Limit: 1, Cursor: next})
	if err != nil || len(two) != 1 || two[0].ID != "of-acme" || next != "" {
		t.Errorf("%+v, %q, %v", two, next, err)
	}
}

// Notifications that finished long ago go; those that wait, and those that fold, stay.
func testPruneNotifications(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	long := time.Now().Add(-100 * 24 * time.Hour)
	l.SetClock(func() time.Time { return long })
	put(t, l, message("sent", "a"), message("dead", "b"), message("waits", "c"))
	for _, id := range []string{"sent", "dead"} {
		n, _, err := l.ClaimNotification(ctx, "s", ops, time.Hour)
		if err != nil || n.ID != id {
			t.Fatal(n.ID, err)
		}
		if id == "sent" {
			err = l.Sent(ctx, n)
		} else {
			err = l.Failed(ctx, n, "no", 0, true)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	l.SetClock(func() time.Time { return long.Add(40 * 24 * time.Hour) })
	if n := must[int](t)(l.PruneNotifications(ctx, 10)); n != 1 {
		t.Errorf("%d rows went, expected the one that was sent", n)
	}
	l.SetClock(time.Now)
	if n := must[int](t)(l.PruneNotifications(ctx, 10)); n != 1 {
		t.Errorf("%d rows went, expected the dead-lettered one", n)
	}
	all, _, err := l.Notifications(ctx, ledger.AllTenants(), ledger.NotificationFilter{}, ledger.Page{})
	if err != nil || len(all) != 1 || all[0].ID != "waits" {
		t.Errorf("%+v, %v", all, err)
	}
}
