package notify

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify/policy"
)

// hook is a policy of one channel of the service, which gets everything.
func hook(url string) string {
	return "channels: {noc: {webhook: {url: " + url + ", sign: {secret: hook}}}}\nroutes: [{to: [noc]}]\n"
}

func TestARunThatFailedIsReported(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	b := newBed(t, newLedger(t), hook(r.URL))
	b.start()
	outcomes := []ledger.Outcome{{Outcome: core.Changed}}
	for i := range 5 {
		outcomes = append(outcomes, ledger.Outcome{Outcome: core.Unreachable, Reason: core.Reason(fmt.Sprintf("dial fw-%d:22: timeout\nsecond line", i+2))})
	}
	outcomes = append(outcomes, ledger.Outcome{Outcome: core.Failed, Reason: "disk full on fw-7"})
	b.run("r1", outcomes...)
	until(t, "the notification", func() bool { return len(b.all(ledger.NotificationSent)) == 1 })
	got := r.notices()
	if len(got) != 1 || len(r.bad) > 0 {
		t.Fatalf("%+v, bad requests %q", got, r.bad)
	}
	n := got[0]
	want := "patch: 1 failed, 5 unreachable of 7 hosts; run r1 is finished\n" +
		"5 hosts unreachable: dial HOST:22: timeout (fw-2, fw-3, fw-4, …)\n" +
		"1 host failed: disk full on fw-7 (fw-7)\n" +
		"Next: turnus runs show r1"
	if n.Kind != policy.RunFailed || n.Text != want || n.Run != "r1" || n.Playbook != "patch" || n.Tenant != "acme" || n.Severity != policy.Error ||
		n.Server != "s1" || n.Outcomes["unreachable"] != 5 || time.Since(n.At) > time.Minute {
		t.Errorf("%+v\n%s", n, n.Text)
	}
	if len(n.Groups) != 2 || n.Groups[0].Count != 5 || n.Groups[0].Outcome != "unreachable" || len(n.Groups[0].Hosts) != 3 {
		t.Errorf("%+v", n.Groups)
	}
	if c := b.Counts()[policy.MediumWebhook]; c != (Count{Sent: 1}) {
		t.Errorf("%+v", c)
	}
	if waiting, err := b.Waiting(t.Context()); err != nil || waiting[policy.MediumWebhook] != 0 || len(waiting) != 3 {
		t.Errorf("%v, %v", waiting, err)
	}
}

// Which runs are reported as what, to receivers of everything that got nothing before.
func TestWhatARunIsReportedAs(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	asked := "channels: {all: {webhook: {url: " + r.URL + "}}, noc: {webhook: {url: " + r.URL + "}}}\n" +
		"routes: [{to: [all]}, {kinds: [run_succeeded, run_recovered], to: [noc]}]\n"
	b := newBed(t, newLedger(t), asked)
	b.start()
	reported := 0
	for _, c := range []struct {
		name     string
		outcomes []ledger.Outcome
		want     []string // CHANNEL KIND
	}{
		{"well", []ledger.Outcome{{Outcome: core.Changed}, {Outcome: core.Skipped}}, []string{"noc run_succeeded"}},
		{"failed", []ledger.Outcome{{Outcome: core.Failed}}, []string{"all run_failed"}},
		{"recovered", []ledger.Outcome{{Outcome: core.Unchanged}}, []string{"noc run_recovered"}},
		{"lost", []ledger.Outcome{{Outcome: core.Lost}, {Outcome: core.Failed}}, []string{"all run_lost"}},
		{"unreachable", []ledger.Outcome{{Outcome: core.Unreachable}}, []string{"all run_failed"}},
	} {
		b.run("r-"+c.name, c.outcomes...)
		reported += len(c.want)
		until(t, c.name, func() bool { return len(b.all("")) == reported })
		var got []string
		for _, n := range b.all("")[reported-len(c.want):] {
			got = append(got, n.Channel+" "+n.Kind)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s is sent as %q, expected %q", c.name, got, c.want)
		}
	}
	// A run that a person cancelled is that person's doing.
	_, _, err := b.ledger.Accept(t.Context(), ledger.NewRun{ID: "cancelled", Tenant: "acme", Playbook: "patch", LaunchedBy: "alice", Jobs: []ledger.JobHost{{Host: "x"}}})
	must(t, err)
	_, err = b.ledger.Cancel(t.Context(), ledger.AllTenants(), "alice", "cancelled", "never mind")
	must(t, err)
	// The service reports what it does.
	n := ledger.NewRun{ID: "waits", Tenant: "acme", Playbook: "patch", LaunchedBy: "alice", Approvals: 1, Jobs: []ledger.JobHost{{Host: "x"}}}
	_, _, err = b.ledger.Accept(t.Context(), n)
	must(t, err)
	b.Notify()
	until(t, "the approval to be asked for", func() bool { return len(b.all("")) == reported+1 })
	last := b.all("")[reported]
	if last.Kind != policy.ApprovalNeeded || !strings.Contains(string(last.Data), "turnus runs approve waits") {
		t.Errorf("%+v %s", last, last.Data)
	}
	// Changed while it waits: the approver has to look again, and may not be the person who changed
	// it.
	run, err := b.ledger.Run(t.Context(), ledger.AllTenants(), "waits")
	must(t, err)
	_, err = b.ledger.Amend(t.Context(), ledger.AllTenants(), "carol", "waits", ledger.Amendment{Version: run.Version, New: n})
	must(t, err)
	b.Notify()
	until(t, "the approval to be asked for again", func() bool { return len(b.all("")) == reported+2 })
	if again := string(b.all("")[reported+1].Data); !strings.Contains(again, "carol changed it: approvals from before count no more") || !strings.Contains(again, "somebody else than alice and carol") {
		t.Error(again)
	}
	// Decided before anybody was notified: nobody is.
	hold := newBed(t, newLedger(t), asked)
	_, _, err = hold.ledger.Accept(t.Context(), n)
	must(t, err)
	_, err = hold.ledger.Decide(t.Context(), ledger.AllTenants(), "waits", ledger.Decision{Wave: ledger.WholeRun, By: "bob", Approved: true})
	must(t, err)
	hold.routeAll(t.Context())
	if all := hold.all(""); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// Hosts that missed their windows are reported by window_missed alone. The controls:
// a host that was cancelled for another reason, and one that failed beside them.
func TestFaultW15MissedWindowsAreNotAFailedRun(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	b := newBed(t, newLedger(t), hook(r.URL))
	b.start()
	missed := ledger.Outcome{Outcome: core.Cancelled, Reason: core.Because(core.NeedsReapproval, "needs_reapproval: no window is left")}
	b.run("r-missed", missed, ledger.Outcome{Outcome: core.Changed}, missed)
	b.run("r-stopped", missed, ledger.Outcome{Outcome: core.Cancelled, Reason: "the run was stopped"})
	b.run("r-failed", missed, ledger.Outcome{Outcome: core.Failed})
	until(t, "the controls", func() bool { return len(b.all("")) >= 2 })
	b.routeAll(t.Context())
	var got []string
	for _, n := range b.all("") {
		got = append(got, n.Run+" "+n.Kind)
	}
	slices.Sort(got)
	if want := []string{"r-failed run_failed", "r-stopped run_failed"}; !slices.Equal(got, want) {
		t.Errorf("notifications %q, expected %q", got, want)
	}
}

// A receiver that fails gets a notification until it takes it, always under the same id, and those
// of one subject in order.
func TestAReceiverThatFails(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter){
		"refuses for now": code(http.StatusServiceUnavailable),
		"is busy": func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		"breaks off": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, answer)
			b := newBed(t, newLedger(t), hook(r.URL))
			b.Report(News{Kind: policy.QueueAway, Subject: "queue", Text: "the queue is away"}, 0)
			b.Report(News{Kind: policy.QueueBack, Subject: "queue", Text: "the queue is back"}, 0)
			b.start()
			for range 2 {
				<-r.begun
			}
			r.answers(nil)
			until(t, "both to be sent", func() bool { return len(b.all(ledger.NotificationSent)) == 2 })
			sent := b.all(ledger.NotificationSent)
			ids := r.ids()
			if len(ids) < 4 || ids[0] != sent[0].ID || ids[len(ids)-1] != sent[1].ID || len(slices.Compact(slices.Clone(ids))) != 2 || len(r.bad) > 0 {
				t.Errorf("%q came, sent are %q and %q", ids, sent[0].ID, sent[1].ID)
			}
			if sent[0].Tries < 3 || sent[0].Kind != policy.QueueAway {
				t.Errorf("%+v", sent[0])
			}
		})
	}
}

// An answer that is cut off in its body was an answer.
func TestAnAnswerWithoutItsEnd(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	b := newBed(t, newLedger(t), hook(r.URL))
	b.start()
	b.run("r1", ledger.Outcome{Outcome: core.Failed})
	until(t, "the notification", func() bool { return len(b.all(ledger.NotificationSent)) == 1 })
	if n := len(r.ids()); n != 1 {
		t.Errorf("it came %d times", n)
	}
}

// A notification that a receiver refuses for good is dead-lettered immediately, and listed; the
// next one continues. A redirect carries nothing elsewhere.
func TestARefusedNotificationIsDeadLettered(t *testing.T) {
	t.Parallel()
	elsewhere := newReceiver(t, nil)
	for name, answer := range map[string]func(http.ResponseWriter){
		"410 Gone": code(http.StatusGone),
		"302 Found": func(w http.ResponseWriter) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t, answer)
			b := newBed(t, newLedger(t), hook(r.URL))
			b.start()
			b.run("r1", ledger.Outcome{Outcome: core.Failed})
			until(t, "it to be given up", func() bool { return len(b.all(ledger.NotificationDeadLettered)) == 1 })
			deadLettered := b.all(ledger.NotificationDeadLettered)[0]
			if deadLettered.Tries != 1 || !strings.Contains(deadLettered.Reason, name) {
				t.Errorf("%+v", deadLettered)
			}
			if c := b.Counts()[policy.MediumWebhook]; c != (Count{Failed: 1, DeadLettered: 1}) {
				t.Errorf("%+v", c)
			}
			r.answers(nil)
			b.run("r2", ledger.Outcome{Outcome: core.Failed})
			until(t, "the next one", func() bool { return len(b.all(ledger.NotificationSent)) == 1 })
			_, err := b.ledger.RetryNotification(t.Context(), ledger.AllTenants(), "alice", deadLettered.ID)
			must(t, err)
			b.Notify()
			until(t, "the one that was sent again", func() bool { return len(b.all(ledger.NotificationSent)) == 2 })
			if ids := r.ids(); len(ids) != 3 || ids[0] != ids[2] {
				t.Errorf("%q", ids)
			}
		})
	}
	t.Cleanup(func() {
		if got := elsewhere.ids(); len(got) > 0 {
			t.Errorf("a redirect was followed: %q", got)
		}
	})
}

// A receiver that fails until the retries are exhausted gets no more tries.
func TestTriesEnd(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, code(http.StatusInternalServerError))
	b := newBed(t, newLedger(t), hook(r.URL), func(c *Config) { c.DeadLetterAfter = 50 * time.Millisecond })
	b.start()
	b.run("r1", ledger.Outcome{Outcome: core.Failed})
	until(t, "it to be given up", func() bool { return len(b.all(ledger.NotificationDeadLettered)) == 1 })
	if deadLettered := b.all(ledger.NotificationDeadLettered)[0]; !strings.Contains(deadLettered.Reason, "500") {
		t.Errorf("%+v", deadLettered)
	}
}

// One receiver hangs; another channel continues, and so does everybody who writes down what to
// report.
func TestAReceiverThatHangs(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hangs := newReceiver(t, func(http.ResponseWriter) { <-release })
	fine := newReceiver(t, nil)
	b := newBed(t, newLedger(t), "channels: {hangs: {webhook: {url: "+hangs.URL+"}}, fine: {webhook: {url: "+fine.URL+"}}}\nroutes: [{to: [hangs, fine]}]\n",
		func(c *Config) { c.Patience = 5 * time.Second }) // what is fine must not be slower: it would be sent twice
	stop := b.start()
	const runs = 20
	for i := range runs {
		b.run(fmt.Sprint("r", i), ledger.Outcome{Outcome: core.Failed})
	}
	until(t, "all of them at the channel that is fine", func() bool { return len(b.all(ledger.NotificationSent)) == runs })
	waits := b.all(ledger.NotificationWaiting)
	if len(waits) != runs || len(fine.ids()) != runs {
		t.Errorf("%d wait, %d came", len(waits), len(fine.ids()))
	}
	until(t, "a try to have ended", func() bool {
		return slices.ContainsFunc(b.all(ledger.NotificationWaiting), func(n ledger.Notification) bool { return strings.Contains(n.Reason, "does not answer in time") })
	})
	close(release)
	until(t, "the rest, once it answers", func() bool { return len(b.all(ledger.NotificationSent)) == 2*runs })
	stop()
	if seen := hangs.ids(); len(slices.Compact(slices.Sorted(slices.Values(seen)))) != runs {
		t.Errorf("%d of %d came", len(seen), runs)
	}
}

// Two servers send each notification once as long as nothing goes wrong.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	l := newLedger(t)
	a := newBed(t, l, hook(r.URL))
	b := newBed(t, l, hook(r.URL), func(c *Config) { c.Server = "s2" })
	a.start()
	b.start()
	const runs = 30
	for i := range runs {
		a.run(fmt.Sprint("r", i), ledger.Outcome{Outcome: core.Failed})
		b.Notify()
	}
	until(t, "all of them", func() bool { return len(a.all(ledger.NotificationSent)) == runs })
	if ids := r.ids(); len(ids) != runs || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != runs {
		t.Errorf("%d came", len(ids))
	}
}

// A server that dies between sending and writing that down: another sends it again, under the same
// id.
func TestAServerThatDiesAfterSending(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	l := newLedger(t)
	a := newBed(t, l, hook(r.URL))
	a.run("r1", ledger.Outcome{Outcome: core.Failed})
	a.routeAll(t.Context())
	q := ledger.Queue{Owner: ledger.Owner{Service: true}, Channel: "noc"}
	n, ok, err := l.ClaimNotification(t.Context(), "s1", q, -time.Second) // a claim that has ended
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	must(t, a.send(t.Context(), n)) // and here it dies
	b := newBed(t, l, hook(r.URL), func(c *Config) { c.Server = "s2" })
	b.start()
	until(t, "the second server to send it", func() bool { return len(b.all(ledger.NotificationSent)) == 1 })
	if ids := r.ids(); len(ids) != 2 || ids[0] != ids[1] {
		t.Errorf("%q", ids)
	}
	a.out.close()
}

// A server that is asked to stop while it sends gives the notification back.
func TestAServerThatStopsGivesBack(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	r := newReceiver(t, func(http.ResponseWriter) { <-release })
	b := newBed(t, newLedger(t), hook(r.URL), func(c *Config) { c.Patience = time.Hour })
	stop := b.start()
	b.run("r1", ledger.Outcome{Outcome: core.Failed})
	<-r.begun
	stop()
	r.answers(nil)
	close(release)
	c := newBed(t, b.ledger, hook(r.URL), func(c *Config) { c.Server = "s2" })
	c.start()
	until(t, "the next server to send it", func() bool { return len(c.all(ledger.NotificationSent)) == 1 })
}

// Nothing is handed on, and nothing is dead-lettered, before the definitions are known.
func TestDefinitionsThatAreNotKnownYet(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	known := make(chan struct{})
	p := parse(t, hook(r.URL))
	b := newBed(t, newLedger(t), "", func(c *Config) {
		c.View = func() View {
			select {
			case <-known:
				return View{Policy: p}
			default:
				return View{Wait: true}
			}
		}
	})
	b.run("r1", ledger.Outcome{Outcome: core.Failed})
	b.routeAll(t.Context())
	if left, err := b.ledger.Happenings(t.Context(), 10); err != nil || len(left) != 1 {
		t.Fatalf("%+v, %v", left, err)
	}
	close(known)
	b.start()
	until(t, "the notification", func() bool { return len(b.all(ledger.NotificationSent)) == 1 })
}

// A channel that has gone from the definitions, a secret that is not there.
func TestChannelsThatDoNotWork(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	b := newBed(t, newLedger(t), "channels:\n  gone: {webhook: {url: "+r.URL+"}}\n  secret: {slack: {url: {secret: nobody}}}\n  odd: {webhook: {url: {secret: hook}}}\nroutes: [{to: [gone, secret, odd]}]\n")
	b.run("r1", ledger.Outcome{Outcome: core.Failed})
	b.routeAll(t.Context())
	left := parse(t, "channels:\n  secret: {slack: {url: {secret: nobody}}}\n  odd: {webhook: {url: {secret: hook}}}\n")
	c := newBed(t, b.ledger, "", func(c *Config) { c.View = func() View { return View{Policy: left} } })
	c.start()
	reasons := map[string]string{}
	until(t, "three reasons", func() bool {
		for _, n := range c.all("") {
			if n.Reason != "" {
				reasons[n.Channel] = string(n.State) + " " + n.Reason
			}
		}
		return len(reasons) == 3
	})
	for channel, want := range map[string]string{"gone": "dead the project has no such channel", "secret": "waiting secret nobody: not found", "odd": "waiting secret hook is no address"} {
		if !strings.HasPrefix(reasons[channel], want) || strings.Contains(reasons[channel], secret+" ") {
			t.Errorf("%s: %q, expected %q", channel, reasons[channel], want)
		}
	}
}

// The server's own webhook goes where its operator sets it, past the guard; it gets what nobody has
// to ask for.
func TestTheOwnChannel(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	b := newBed(t, newLedger(t), "", func(c *Config) { c.Own, c.Allow = &Hook{URL: r.URL, Secret: []byte(secret)}, nil })
	b.start()
	b.run("well", ledger.Outcome{Outcome: core.Changed})
	b.run("bad", ledger.Outcome{Outcome: core.Failed})
	until(t, "the notification", func() bool { return len(b.all(ledger.NotificationSent)) == 1 })
	if got := r.notices(); len(got) != 1 || got[0].Run != "bad" || len(r.bad) > 0 {
		t.Errorf("%+v", got)
	}
	if _, err := b.Test(t.Context(), "alice", policy.Place{Service: true, Channel: policy.Own}); err != nil {
		t.Error(err)
	}
	until(t, "the test", func() bool { return len(b.all(ledger.NotificationSent)) == 2 })
	if _, err := b.Test(t.Context(), "alice", policy.Place{Service: true, Channel: "none"}); !errors.Is(err, core.ErrNotFound) {
		t.Error(err)
	}
	if all, err := b.Channels(t.Context(), ledger.AllTenants()); err != nil || len(all) != 1 || all[0].Sent != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err := b.Channels(t.Context(), ledger.Tenants("acme")); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// Report never blocks, whatever the ledger does; news that do not fit are dropped.
func TestReportDoesNotBlock(t *testing.T) {
	t.Parallel()
	b := newBed(t, newLedger(t), "")
	for range 2 * maxReported { // nobody writes them down
		b.Report(News{Kind: policy.QueueAway, Subject: "queue"}, 0)
	}
	if len(b.reported) != maxReported {
		t.Errorf("%d wait", len(b.reported))
	}
}

// News from just before the end are written down.
func TestTheLastWord(t *testing.T) {
	t.Parallel()
	b := newBed(t, newLedger(t), hook("http://127.0.0.1:1"))
	b.Report(News{Kind: policy.QueueLost, Subject: "queue", Text: "lost"}, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.Run(ctx)
	if left, err := b.ledger.Happenings(t.Context(), 10); err != nil || len(left) != 1 {
		t.Errorf("%+v, %v", left, err)
	}
}

// The first news are written down first, also those that were being written when the service was
// stopped: else a queue that came back would be reported as away.
func TestTheLastWordsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	b := newBed(t, newLedger(t), "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	const rounds = 30 // what the service is at when it is stopped is a toss of the coin
	for range rounds {
		b.Report(News{Kind: policy.QueueAway, Subject: "queue"}, 0)
		b.Report(News{Kind: policy.QueueBack, Subject: "queue"}, 0)
		b.keep(ctx)
	}
	all, err := b.ledger.Happenings(t.Context(), 3*rounds)
	must(t, err)
	for i, h := range all {
		if want := []string{policy.QueueAway, policy.QueueBack}[i%2]; h.What != want {
			t.Fatalf("%d of %d: %s, expected %s", i, len(all), h.What, want)
		}
	}
	if len(all) != 2*rounds {
		t.Errorf("%d are written down", len(all))
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "hook", "ftp://x/y", "http://", "https:///path", "http://user:hunter2@\x7f"} {
		_, err := New(Config{Ledger: &ledger.Ledger{}, Server: "s", View: func() View { return View{} }, Own: &Hook{URL: bad}})
		if !errors.Is(err, core.ErrInvalid) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// News that the ledger can never take are dropped, and do not delay those behind them.
func TestNewsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	b := newBed(t, newLedger(t), hook(r.URL))
	b.Report(News{Kind: policy.QueueAway, Subject: strings.Repeat("x", 1<<20), Text: "too much"}, 0)
	b.Report(News{Kind: policy.QueueAway, Subject: "queue", Text: "the queue is away"}, 0)
	b.start()
	until(t, "the second", func() bool { return len(r.notices()) > 0 })
}

// Each poll removes old notifications until none is left: a channel may make more than 500 in ten
// minutes.
func TestOldNotificationsAreForgottenWithoutAPause(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger.db")
	l, err := ledger.Open(t.Context(), "sqlite:"+file, ledger.Options{})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	db, err := sql.Open("sqlite", file)
	must(t, err)
	_, err = db.ExecContext(t.Context(), `INSERT INTO notifications (id, service, tenant, channel, medium, kind, subject, run, state, made, begun, due, settled)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1) SELECT 'n' || i, 0, 'acme', 'ops', 'webhook', 'k', 's', '', 'sent', 1, 1, 1, 1 FROM n`, 2*pruneMax+1)
	must(t, errors.Join(err, db.Close()))
	b := newBed(t, l, hook("http://127.0.0.1:1"))
	if len(b.all(ledger.NotificationSent)) == 0 {
		t.Fatal("there is nothing to forget")
	}
	b.start()
	until(t, "all to be forgotten", func() bool { b.Notify(); return len(b.all("")) == 0 })
}
