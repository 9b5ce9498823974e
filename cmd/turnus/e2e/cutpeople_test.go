//go:build linux && labs

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/ledger"
)

// receiver is the webhook of a cutting's notifications: the bodies that came under each id.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	came map[string][]string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{came: map[string][]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the service was killed in the middle of it
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		id := req.Header.Get("X-Turnus-Notification")
		r.came[id] = append(r.came[id], string(body))
	}))
	t.Cleanup(r.Close)
	return r
}

// all returns a copy of what came.
func (r *receiver) all() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string][]string{}
	for id, bodies := range r.came {
		all[id] = slices.Clone(bodies)
	}
	return all
}

// people does what people do, each only if it is not yet so: they test the channel, change and
// resume a paused run, and cancel one that waits for an approval once they were notified of it.
func (c *cutting) people(ctx context.Context, ask *client.Client, notices []api.Notification) (done bool, err error) {
	paused, err := c.create(ctx, ask, "paused", api.NewRun{Playbook: "short", Paused: true, LaunchOptions: api.LaunchOptions{Limit: []string{"h0"}}})
	if err != nil {
		return false, err
	}
	awaits, err := c.create(ctx, ask, "awaits", api.NewRun{Playbook: "short", FourEyes: true})
	if err != nil {
		return false, err
	}
	of := func(kind, run string) func(api.Notification) bool {
		return func(n api.Notification) bool {
			return n.Kind == kind && n.Run == run && n.State == string(ledger.NotificationSent)
		}
	}
	weight := 7
	switch {
	case !slices.ContainsFunc(notices, func(n api.Notification) bool { return n.Kind == "test" }):
		_, err = ask.TestChannel(ctx, "server")
	case paused.Phase == api.Paused && !c.weighed:
		_, err = ask.ChangeRun(ctx, paused.ID, api.ChangeRun{Weight: &weight})
		c.weighed = err == nil
	case paused.Phase == api.Paused && paused.Weight == 0: // the queue does not have it yet
	case paused.Phase == api.Paused:
		if paused.Weight != weight {
			c.t.Errorf("%s: the run has weight %d, and it was set to %d", c.point, paused.Weight, weight)
		}
		_, err = ask.ResumeRun(ctx, paused.ID, "it has its weight")
	case awaits.Phase != api.Cancelled && slices.ContainsFunc(notices, of("approval_needed", awaits.ID)):
		_, err = ask.CancelRun(ctx, awaits.ID, "nobody wants it")
	}
	return over(paused) && over(awaits), err
}

// peopleProblems judges what became of what people did, and of all notifications.
func (c *cutting) peopleProblems(ctx context.Context, ask *client.Client) (problems []string, err error) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for key, once := range map[string][]string{"paused": {"run.active", "run.queued"}, "awaits": {"run.cancel"}} {
		entries, err := ask.Audit(ctx, client.AuditFilter{Kind: "run", Object: c.runs[key]}, client.Page{})
		if err != nil {
			return nil, err
		}
		n := 0
		for _, e := range entries.Items {
			if slices.Contains(once, e.What) {
				n++
			}
		}
		if n != 1 {
			bad("the audit log has %d entries of %v, expected one: %v", n, once, entries.Items)
		}
		run, err := ask.Run(ctx, c.runs[key])
		if err != nil {
			return nil, err
		}
		if key == "paused" && (run.Phase != api.Finished || run.Outcomes["changed"] != 1) {
			bad("the run that was resumed is %s: %v", run.Phase, run.Outcomes)
		}
	}
	for _, e := range executions(c.t, c.dir+"/short") {
		if strings.HasPrefix(e.job, c.runs["awaits"]+"/") {
			bad("%s saw the run that nobody approved", e.host)
		}
	}
	before := c.receiver.all()
	listed, err := ask.Notifications(ctx, client.NotificationFilter{}, client.Page{})
	if err != nil {
		return nil, err
	}
	return append(problems, noticeProblems(before, listed.Items, c.receiver.all(), c.runs["awaits"])...), nil
}

// noticeProblems compares the notifications that are listed with those that came before and until
// after: what was sent came, as often as it came with one body, and that of the approval is one.
// Those of a run that has just ended may wait.
func noticeProblems(before map[string][]string, listed []api.Notification, came map[string][]string, awaits string) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	asked := 0
	for _, n := range listed {
		if n.State == "dead_lettered" || n.State == string(ledger.NotificationSent) && len(came[n.ID]) == 0 {
			bad("the notification of %s is %s, and came %d times", n.Kind, n.State, len(came[n.ID]))
		}
		if n.Kind == "approval_needed" && n.Run == awaits {
			asked++
		}
	}
	if asked != 1 {
		bad("%d notifications of one approval", asked)
	}
	for _, bodies := range came {
		if len(slices.Compact(slices.Clone(bodies))) > 1 {
			bad("a notification came with several bodies: %q", bodies)
		}
	}
	for id, bodies := range before {
		if !slices.ContainsFunc(listed, func(n api.Notification) bool { return n.ID == id }) {
			bad("a notification came that is not listed: %q", bodies)
		}
	}
	return problems
}

func TestLabNoticeProblemsAreNoticed(t *testing.T) {
	one := api.Notification{ID: "a", Kind: "approval_needed", Run: "r", State: "sent"}
	dead := one
	dead.State = "dead_lettered"
	for _, tc := range []struct {
		why    string
		listed []api.Notification
		came   map[string][]string
		bad    bool
	}{
		{"well", []api.Notification{one}, map[string][]string{"a": {"x"}}, false},
		{"it came twice", []api.Notification{one}, map[string][]string{"a": {"x", "x"}}, false},
		{"it came twice, not the same", []api.Notification{one}, map[string][]string{"a": {"x", "y"}}, true},
		{"it never came", []api.Notification{one}, nil, true},
		{"it is given up", []api.Notification{dead}, map[string][]string{"a": {"x"}}, true},
		{"made twice", []api.Notification{one, one}, map[string][]string{"a": {"x"}}, true},
		{"forgotten", nil, nil, true},
		{"it came, and is forgotten", []api.Notification{one}, map[string][]string{"a": {"x"}, "b": {"x"}}, true},
	} {
		if got := noticeProblems(tc.came, tc.listed, tc.came, "r"); len(got) > 0 != tc.bad {
			t.Errorf("%s: %q", tc.why, got)
		}
	}
}
