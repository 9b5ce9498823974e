package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// CreateRun asks for a run. With a key it is asked again when no answer comes, and the same key and
// request make one run, however often they are sent.
func (c *Client) CreateRun(ctx context.Context, key string, n api.NewRun) (api.Run, error) {
	var run api.Run
	q := call{what: "submit " + n.Playbook, method: http.MethodPost, path: "/v1/runs", body: n, header: keyed(key), again: key != ""}
	err := c.do(ctx, q, &run)
	return run, err
}

// PlanRun returns what a run would do, and makes none.
func (c *Client) PlanRun(ctx context.Context, n api.NewRun) (api.Plan, error) {
	var plan api.Plan
	err := c.do(ctx, call{what: "plan " + n.Playbook, method: http.MethodPost, path: "/v1/plan", body: n, again: true}, &plan)
	return plan, err
}

// Exec asks for a run of one command. A key does what it does for CreateRun.
func (c *Client) Exec(ctx context.Context, key string, n api.NewExec) (api.Run, error) {
	var run api.Run
	q := call{what: "exec", method: http.MethodPost, path: "/v1/exec", body: n, header: keyed(key), again: key != ""}
	err := c.do(ctx, q, &run)
	return run, err
}

// ScanHostKeys asks for a run that collects the keys of hosts. A key does what it does for
// CreateRun.
func (c *Client) ScanHostKeys(ctx context.Context, key string, n api.NewKeyScan) (api.Run, error) {
	var run api.Run
	q := call{what: "scan host keys", method: http.MethodPost, path: "/v1/hostkeys", body: n, header: keyed(key), again: key != ""}
	err := c.do(ctx, q, &run)
	return run, err
}

// Run shows a run.
func (c *Client) Run(ctx context.Context, id string) (api.Run, error) {
	return get[api.Run](ctx, c, "show run "+id, path("v1", "runs", id), nil)
}

// RunTag is Run, with the ETag of the run.
func (c *Client) RunTag(ctx context.Context, id string) (run api.Run, etag string, err error) {
	err = c.do(ctx, call{what: "show run " + id, method: http.MethodGet, path: path("v1", "runs", id), again: true, etag: &etag}, &run)
	return run, etag, err
}

// IfMatch returns a client that cancels, pauses, resumes and approves a run only while the run has
// this ETag. Otherwise the server does nothing, and the error has the status 412.
func (c *Client) IfMatch(etag string) *Client {
	same := *c
	same.match = etag
	return &same
}

// RunFilter chooses runs. Empty fields match all.
type RunFilter struct {
	Playbook string
	Phase    api.Phase
	Host     string       // with an outcome on this host
	Outcome  core.Outcome // with a job that ended so
	By       string       // who launched it: a token's name, or schedule:NAME
	// Since and Until bound when they were created; zero is no bound.
	Since, Until time.Time
	Live         bool // with the status in the queue of runs under way, and when they will end
}

// Runs lists runs, newest first.
func (c *Client) Runs(ctx context.Context, f RunFilter, p Page) (List[api.Run], error) {
	q := p.into(nil)
	set(q, "playbook", f.Playbook)
	set(q, "phase", string(f.Phase))
	set(q, "host", f.Host)
	set(q, "outcome", string(f.Outcome))
	set(q, "launched_by", f.By)
	for name, at := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !at.IsZero() {
			q.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	if f.Live {
		q.Set("live", "true")
	}
	return get[List[api.Run]](ctx, c, "list runs", "/v1/runs", q)
}

// ChangeRun changes a run that is not over.
func (c *Client) ChangeRun(ctx context.Context, id string, change api.ChangeRun) (api.Run, error) {
	var run api.Run
	err := c.do(ctx, call{what: "change run " + id, method: http.MethodPatch, path: path("v1", "runs", id), body: change, again: true}, &run)
	return run, err
}

// CancelRun ends a run: when it returns, no job of it starts any more, unless api.Run.QueueAway.
func (c *Client) CancelRun(ctx context.Context, id, reason string) (api.Run, error) {
	return c.change(ctx, id, "cancel", api.Why{Reason: reason})
}

// PauseRun keeps a run from starting jobs.
func (c *Client) PauseRun(ctx context.Context, id, reason string) (api.Run, error) {
	return c.change(ctx, id, "pause", api.Why{Reason: reason})
}

// ResumeRun lets a run continue.
func (c *Client) ResumeRun(ctx context.Context, id, reason string) (api.Run, error) {
	return c.change(ctx, id, "resume", api.Why{Reason: reason})
}

// SignalRun sends an event to jobs of a run that wait for it, and reports how many continued.
func (c *Client) SignalRun(ctx context.Context, id string, w api.Signal) (int, error) {
	signalled, err := post[api.Signalled](ctx, c, "signal run "+id, path("v1", "runs", id, "signal"), w)
	return signalled.Jobs, err
}

// ApproveRun decides on a run, or a wave, that waits for somebody.
func (c *Client) ApproveRun(ctx context.Context, id string, a api.Approve) (api.Run, error) {
	var run api.Run
	err := c.do(ctx, call{what: "approve run " + id, method: http.MethodPost, path: path("v1", "runs", id, "approve"), body: a, header: ifMatch(c.match)}, &run)
	return run, err
}

// RetryRun launches a new run on hosts of another. A key does what it does for CreateRun.
func (c *Client) RetryRun(ctx context.Context, id, key string, r api.Retry) (api.Run, error) {
	var run api.Run
	err := c.do(ctx, call{what: "retry run " + id, method: http.MethodPost, path: path("v1", "runs", id, "retry"), body: r, header: keyed(key), again: key != ""}, &run)
	return run, err
}

// PlanRetry returns what a retry would do, and makes none.
func (c *Client) PlanRetry(ctx context.Context, id string, r api.Retry) (api.Plan, error) {
	var plan api.Plan
	err := c.do(ctx, call{what: "plan a retry of run " + id, method: http.MethodPost, path: path("v1", "runs", id, "retry", "plan"), body: r, again: true}, &plan)
	return plan, err
}

// change does an operation that is safe to repeat: the second time it changes nothing. With an ETag
// it is not repeated: the first time changes the ETag.
func (c *Client) change(ctx context.Context, id, verb string, why api.Why) (api.Run, error) {
	var run api.Run
	err := c.do(ctx, call{what: verb + " run " + id, method: http.MethodPost, path: path("v1", "runs", id, verb), body: why, header: ifMatch(c.match), again: c.match == ""}, &run)
	return run, err
}

// JobFilter chooses jobs of a run. Empty fields match all.
type JobFilter struct {
	Outcome core.Outcome
	Host    string
	State   string // open: without an outcome; done: with one; uncertain: open, and may have begun in a queue that was lost; "" is all

	ReasonCode core.ReasonCode // of an outcome
}

// Jobs lists the jobs of a run, by index. A page may have fewer than were asked for, and more
// behind it.
func (c *Client) Jobs(ctx context.Context, run string, f JobFilter, p Page) (List[api.Job], error) {
	q := p.into(nil)
	set(q, "outcome", string(f.Outcome))
	set(q, "reason_code", string(f.ReasonCode))
	set(q, "host", f.Host)
	set(q, "state", f.State)
	return get[List[api.Job]](ctx, c, "list the jobs of run "+run, path("v1", "runs", run, "jobs"), q)
}

// Job shows a job with its steps.
func (c *Client) Job(ctx context.Context, id core.JobID) (api.Job, error) {
	return get[api.Job](ctx, c, "show job "+id.String(), path("v1", "runs", id.Run, "jobs", strconv.Itoa(id.Index)), nil)
}

// Explain returns why a job is where it is.
func (c *Client) Explain(ctx context.Context, id core.JobID) (api.Explanation, error) {
	return get[api.Explanation](ctx, c, "explain job "+id.String(), path("v1", "runs", id.Run, "jobs", strconv.Itoa(id.Index), "explain"), nil)
}

// Forecast estimates when a run ends, and what holds it up.
func (c *Client) Forecast(ctx context.Context, run string) (api.Forecast, error) {
	return get[api.Forecast](ctx, c, "forecast run "+run, path("v1", "runs", run, "forecast"), nil)
}

// Durations lists how long the steps of a playbook took in recent runs.
func (c *Client) Durations(ctx context.Context, playbook string) (List[api.LearnedStep], error) {
	return get[List[api.LearnedStep]](ctx, c, "list durations of playbook "+playbook, path("v1", "playbooks", playbook, "durations"), nil)
}

// HostHistory lists what was done on a host, newest first.
func (c *Client) HostHistory(ctx context.Context, host string, p Page) (List[api.Job], error) {
	return get[List[api.Job]](ctx, c, "show the history of host "+host, path("v1", "hosts", host, "history"), p.into(url.Values{}))
}

// HostJobs lists the jobs of a host that have no outcome, by the tenant and the age of their run.
func (c *Client) HostJobs(ctx context.Context, host string, p Page) (List[api.Job], error) {
	return get[List[api.Job]](ctx, c, "list open jobs of host "+host, path("v1", "hosts", host, "jobs"), p.into(url.Values{}))
}

// Playbooks lists the playbooks of the server's definitions, by name.
func (c *Client) Playbooks(ctx context.Context, p Page) (List[api.Playbook], error) {
	return get[List[api.Playbook]](ctx, c, "list playbooks", "/v1/playbooks", p.into(nil))
}

// Playbook shows one, with its source.
func (c *Client) Playbook(ctx context.Context, name string) (api.Playbook, error) {
	return get[api.Playbook](ctx, c, "show playbook "+name, path("v1", "playbooks", name), nil)
}

// Decisions lists what people decided on a run.
func (c *Client) Decisions(ctx context.Context, run string) (List[api.Decision], error) {
	return get[List[api.Decision]](ctx, c, "list the decisions on run "+run, path("v1", "runs", run, "decisions"), nil)
}

// Attempts lists the tries of a job.
func (c *Client) Attempts(ctx context.Context, id core.JobID) (List[api.Attempt], error) {
	return get[List[api.Attempt]](ctx, c, "list the attempts of job "+id.String(), path("v1", "runs", id.Run, "jobs", strconv.Itoa(id.Index), "attempts"), nil)
}

// Host shows a host of the inventory.
func (c *Client) Host(ctx context.Context, name string) (api.Host, error) {
	return get[api.Host](ctx, c, "show host "+name, path("v1", "hosts", name), nil)
}
