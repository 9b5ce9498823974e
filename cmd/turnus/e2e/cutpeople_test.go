//go:build linux && labs

package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// receiver is the webhook of a cutting's notifications: the bodies that came under each id.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	came    map[string][]string
	refuses bool // tests of the channel, until one is retried
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{came: map[string][]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the service was killed in the middle of it
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.refuses && strings.Contains(string(body), `"kind":"test"`) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		id := req.Header.Get("X-Turnus-Notification")
		r.came[id] = append(r.came[id], string(body))
	}))
	t.Cleanup(r.Close)
	return r
}

// refuse has it refuse tests of the channel from now on, or take them.
func (r *receiver) refuse(refuses bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = refuses
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

// people does what people do, one thing after the other, each only if it is not yet so: the next
// life may die in any of them.
func (c *cutting) people(ctx context.Context, ask *client.Client, notices []api.Notification) (done bool, err error) {
	deeds := []func(context.Context, *client.Client, []api.Notification) (bool, error){c.test, c.change}
	if c.series != nil {
		deeds = append(deeds, c.waves, c.visitor, c.crowded, c.backfill)
	}
	for _, deed := range deeds {
		if done, err := deed(ctx, ask, notices); err != nil || !done {
			return false, err
		}
	}
	return true, nil
}

// test tests the channel, and retries a test that its receiver refused.
func (c *cutting) test(ctx context.Context, ask *client.Client, notices []api.Notification) (done bool, err error) {
	i := slices.IndexFunc(notices, func(n api.Notification) bool { return n.Kind == "test" })
	switch {
	case i < 0:
		_, err = ask.TestChannel(ctx, "server")
	case notices[i].State == api.NotificationWaiting && notices[i].Tries > 0:
		c.receiver.refuse(false)
		_, err = ask.RetryNotification(ctx, notices[i].ID)
	}
	return i >= 0 && notices[i].State == api.NotificationSent, err
}

// change changes and resumes a paused run, and cancels one that waits for an
// approval once people were notified of it.
func (c *cutting) change(ctx context.Context, ask *client.Client, notices []api.Notification) (done bool, err error) {
	paused, err := c.create(ctx, ask, "paused", api.NewRun{Playbook: "short", Paused: true, LaunchOptions: api.LaunchOptions{Limit: []string{"h0"}}})
	if err != nil {
		return false, err
	}
	awaits, err := c.create(ctx, ask, "awaits", api.NewRun{Playbook: "short", FourEyes: true})
	if err != nil {
		return false, err
	}
	weight := 7
	switch {
	case paused.Phase == api.Paused && !c.weighed:
		_, err = ask.ChangeRun(ctx, paused.ID, api.ChangeRun{Weight: &weight})
		c.weighed = err == nil
	case paused.Phase == api.Paused && paused.Weight == 0: // the queue does not have it yet
	case paused.Phase == api.Paused:
		if paused.Weight != weight {
			c.t.Errorf("%s: the run has weight %d, and it was set to %d", c.point, paused.Weight, weight)
		}
		if c.series != nil && c.in == unqueue {
			_, err = c.redis.queue().Drop(ctx, paused.ID, 1)
			break
		}
		_, err = ask.ResumeRun(ctx, paused.ID, "it has its weight")
	case awaits.Phase != api.Cancelled && slices.ContainsFunc(notices, of("approval_needed", awaits.ID)):
		_, err = ask.CancelRun(ctx, awaits.ID, "nobody wants it")
	}
	return over(paused) && over(awaits), err
}

// of are notifications of a kind about a run that were sent.
func of(kind, run string) func(api.Notification) bool {
	return func(n api.Notification) bool {
		return n.Kind == kind && n.Run == run && n.State == api.NotificationSent
	}
}

// peopleProblems judges what became of what people did, and of all notifications.
func (c *cutting) peopleProblems(ctx context.Context, ask *client.Client) (problems []string, err error) {
	bad := func(problem string) {
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	for key, once := range map[string][]string{"paused": {"run.active", "run.queued"}, "awaits": {"run.cancel"}} {
		bad(c.audited(ctx, ask, "run", c.runs[key], once...))
	}
	bad(c.ended(ctx, ask, "paused", map[string]core.Outcome{"h0": core.Changed}))
	if c.series != nil {
		problems = append(problems, c.serialProblems(ctx, ask)...)
	}
	for _, e := range executions(c.t, c.dir+"/short") {
		if strings.HasPrefix(e.job, c.runs["awaits"]+"/") {
			bad(e.host + " saw the run that nobody approved")
		}
	}
	asked := []string{c.runs["awaits"]}
	if c.series != nil {
		asked = append(asked, c.runs["waves"])
	}
	before := c.receiver.all()
	listed, err := ask.Notifications(ctx, client.NotificationFilter{}, client.Page{})
	if err != nil {
		return nil, err
	}
	return append(problems, noticeProblems(before, listed.Items, c.receiver.all(), asked...)...), nil
}

// audited returns a problem unless the audit log has one entry of an object that is one of these.
func (c *cutting) audited(ctx context.Context, ask *client.Client, kind, object string, what ...string) string {
	entries, err := ask.Audit(ctx, client.AuditFilter{Kind: kind, Object: object}, client.Page{})
	if err != nil {
		return err.Error()
	}
	if of := slices.DeleteFunc(entries.Items, func(e api.Entry) bool { return !slices.Contains(what, e.What) }); len(of) != 1 {
		return fmt.Sprintf("the audit log has %d entries of %v, expected one: %v", len(of), what, of)
	}
	return ""
}

// ended returns a problem unless the jobs of a run have these outcomes, by host.
func (c *cutting) ended(ctx context.Context, ask *client.Client, key string, want map[string]core.Outcome) string {
	jobs, err := ask.Jobs(ctx, c.runs[key], client.JobFilter{}, client.Page{})
	if err != nil {
		return err.Error()
	}
	got := map[string]core.Outcome{}
	for _, j := range jobs.Items {
		got[j.Host] = j.Outcome
	}
	if !maps.Equal(got, want) {
		return fmt.Sprintf("the outcomes of run %s are %v, expected %v", key, got, want)
	}
	return ""
}

// noticeProblems compares the notifications that are listed with those that came before and until
// after: what was sent came, as often as it came with one body, and that of each approval is one.
// Those of a run that has just ended may wait.
func noticeProblems(before map[string][]string, listed []api.Notification, came map[string][]string, awaits ...string) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	asked := map[string]int{}
	for _, n := range listed {
		if n.State == "dead_lettered" || n.State == api.NotificationSent && len(came[n.ID]) == 0 {
			bad("the notification of %s is %s, and came %d times", n.Kind, n.State, len(came[n.ID]))
		}
		if n.Kind == "approval_needed" {
			asked[n.Run]++
		}
	}
	for _, run := range awaits {
		if asked[run] != 1 {
			bad("%d notifications of one approval", asked[run])
		}
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
