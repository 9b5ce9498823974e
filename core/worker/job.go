package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
)

// returnAfter is the pause of a job that was given back because something of the
// worker's was away.
const returnAfter = 2 * time.Second

// job is one lease being worked on.
type job struct {
	w       *Worker
	session *session
	lease   queue.Lease
	ctx     context.Context //nolint:containedctx // a job is a lifetime: this ends when it must end, and its cause says why
	cancel  context.CancelCauseFunc
	after   []<-chan struct{} // jobs on the same host that must have ended before
	done    chan struct{}     // closed when work has returned
	started time.Time
	stuck   bool // the poller no longer waits for it, and alone reads this
	saves   uint64
	ahead   bool // the queue keeps a checkpoint of the step under way

	guestMu sync.Mutex  // so that a job that leaves a host does not enter again
	guest   queue.Guest // as which the job entered a host last; zero is no guest

	handlers *core.Handlers // guarded by mu; nil: the playbook has none

	mu        sync.Mutex
	step      string
	cancelled bool      // its run was
	shielded  bool      // from a cancel
	fatal     bool      // it was asked to end for another reason than a cancel
	stopBy    time.Time // when the poller stops waiting for it; zero is never
	reported  bool      // it was asked to end: stopBy only comes nearer
	span      trace.Span
}

func newJob(w *Worker, s *session, l queue.Lease) *job {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &job{w: w, session: s, lease: l, ctx: ctx, cancel: cancel, done: make(chan struct{}), started: time.Now(), span: noop.Span{}}
}

// stop asks the job to end, and sets the time after which the node stops waiting for it.
func (j *job) stop(cause error, patience time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stopLocked(cause, patience)
}

func (j *job) stopLocked(cause error, patience time.Duration) {
	if by := time.Now().Add(patience); !j.reported && (j.stopBy.IsZero() || by.Before(j.stopBy)) {
		j.stopBy = by
	}
	j.reported = true
	j.fatal = j.fatal || !errors.Is(cause, errCancelled)
	j.cancel(cause)
}

// cancelRun passes the cancel of its run on to the job. Steps of always run to their end first.
func (j *job) cancelRun(patience time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cancelled = true
	if !j.shielded {
		j.stopLocked(errCancelled, patience)
	}
}

// shield keeps a cancel of the run from steps of always, also a cancel that came before. Without
// on, a cancel that came meanwhile takes effect.
func (j *job) shield(on bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if on && j.cancelled && !j.fatal && j.ctx.Err() != nil {
		j.ctx, j.cancel = context.WithCancelCause(context.WithoutCancel(j.ctx))
		j.reported, j.stopBy = false, time.Time{}
	}
	if j.cancelled && j.shielded && !on {
		j.stopLocked(errCancelled, j.w.patience())
	}
	j.shielded = on
}

// isShielded reports whether the job is at a step of always.
func (j *job) isShielded() bool { return core.Locked(&j.mu, &j.shielded) }

// runCancelled reports whether the job's run was cancelled: this lease is then its last.
func (j *job) runCancelled() bool { return core.Locked(&j.mu, &j.cancelled) }

// enter notes the step that runs, and until when its job type must have returned.
func (j *job) enter(step string, by time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.step = step
	if !j.reported {
		j.stopBy = by
	}
}

// live is the last question before the job begins something: nil, or why it must not. The job is
// then asked to end.
func (j *job) live() error {
	j.mu.Lock()
	ctx := j.ctx
	j.mu.Unlock()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	err := j.session.live()
	if err != nil {
		j.stop(err, j.w.patience())
	}
	return err
}

func (j *job) overdue(now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.stopBy.IsZero() && now.After(j.stopBy)
}

func (j *job) snapshot() Running {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Running{Job: j.lease.Job, Host: j.lease.Host, Step: j.step, Started: j.started}
}

func (j *job) report(e Event) {
	e.Job, e.Host = j.lease.Job, j.lease.Host
	if c := j.spanned().SpanContext(); c.IsValid() {
		e.Trace = c.TraceID().String()
	}
	j.w.report(e)
}

// work runs the job to its ack.
func (j *job) work() queue.Ack {
	defer func() { j.cancel(nil) }()
	for _, other := range j.after {
		select {
		case <-other:
		case <-j.ctx.Done():
		}
	}
	if j.ctx.Err() != nil {
		return j.giveBack("", "", 0)
	}
	m, err := j.prepare()
	if err != nil {
		return j.unprepared(err)
	}
	j.trace(m)
	if j.lease.Over != "" {
		j.cancelRun(j.w.patience()) // it does not cut steps of always
	}
	ack := j.conclude(m, m.run())
	j.traced(ack)
	return ack
}

// prepare reads what the job is about.
func (j *job) prepare() (*machine, error) {
	if j.lease.Err != nil {
		return nil, j.lease.Err
	}
	prog, err := j.w.programs.get(j.ctx, j.lease.Job.Run)
	if err != nil {
		return nil, err
	}
	h, err := snapshot.DecodeHost(j.lease.Data)
	if err != nil {
		return nil, err
	}
	if err := snapshot.CheckPool(prog.playbook, []core.Host{h}, j.w.cfg.Pool); err != nil {
		return nil, err
	}
	state, err := decodeState(j.lease.State)
	if err != nil {
		return nil, err
	}
	pending, err := snapshot.DecodePending(j.lease.Data)
	if err != nil {
		return nil, err
	}
	name, err := j.session.queueName(j.ctx)
	if err != nil {
		return nil, err
	}
	resume, err := snapshot.DecodeResume(j.lease.Data)
	if err != nil {
		return nil, err
	}
	if len(resume.Steps) > len(prog.playbook.Steps) {
		return nil, fmt.Errorf("the job continues behind step %d of %d: %w", len(resume.Steps), len(prog.playbook.Steps), core.ErrInvalid)
	}
	m := newMachine(j, prog, h, state, pending, resume)
	m.queue = name
	return m, nil
}

func (j *job) unprepared(err error) queue.Ack {
	if j.ctx.Err() != nil {
		return j.giveBack("", "", 0)
	}
	if core.NoAnswer(err) {
		return j.giveBack(core.QueueAway, "the queue did not answer what the job needs: "+core.ErrorText(err), returnAfter)
	}
	if over := j.lease.Over; over != "" {
		return j.finish(core.Result{
			Outcome: core.Cancelled, ReasonCode: over.Code(), Handlers: snapshot.HandlersOf(j.lease.State),
			Reason: over.Text() + "; always did not run, the job could not be prepared: " + core.ErrorText(err),
		})
	}
	return j.finish(core.Result{Outcome: core.Failed, Reason: "the job could not be prepared: " + core.ErrorText(err), Handlers: snapshot.HandlersOf(j.lease.State)})
}

// giveBack returns the job unstarted.
func (j *job) giveBack(code core.ReasonCode, why string, after time.Duration) queue.Ack {
	if why != "" {
		j.report(Event{Kind: JobSuspended, Text: why, ReasonCode: code, After: after})
	}
	return j.newAck(queue.AckReturn, after)
}

func (j *job) newAck(kind queue.AckKind, after time.Duration) queue.Ack {
	return queue.Ack{Job: j.lease.Job, Token: j.lease.Token, Kind: kind, After: after}
}

// finish makes the final ack, and reports the result as an event.
func (j *job) finish(r core.Result) queue.Ack {
	detail := j.record(&r)
	j.report(Event{Kind: JobDone, Result: &r})
	ack := j.newAck(queue.AckDone, 0)
	ack.Outcome, ack.Detail = r.Outcome, detail
	return ack
}

// record completes and encodes a result; it is cut until it fits.
func (j *job) record(r *core.Result) []byte {
	r.Job, r.Host, r.Worker, r.Attempt = j.lease.Job, j.lease.Host, j.w.cfg.Name, j.lease.Attempt
	if r.Started.IsZero() {
		r.Started = j.started
	}
	if r.Took == 0 {
		r.Took = time.Since(j.started)
	}
	return fit(r, queue.MaxDetail)
}

// conclude turns the end of the lease into the ack.
func (j *job) conclude(m *machine, v leaseEnd) queue.Ack {
	switch v.kind {
	case queue.AckDone:
		return j.finish(m.result(v))
	case queue.AckReturn:
		return j.giveBack(v.code, v.reason, v.after)
	}
	r := m.result(v)
	m.state.Took = r.Took
	state, err := m.state.encode()
	if err != nil {
		v.outcome, v.code, v.reason = core.Failed, "", fmt.Sprintf("the job's state could not be kept to continue later: %v", err)
		return j.finish(m.result(v))
	}
	ack := j.newAck(v.kind, v.after)
	ack.State, ack.Cleanup = state, m.owes()
	switch v.kind {
	case queue.AckRetry:
		ack.Outcome, ack.Detail = v.outcome, j.record(&r)
	case queue.AckSuspend:
		ack.Event, ack.KeepLocks = v.event, v.keepLocks
	}
	j.report(Event{Kind: JobSuspended, Step: v.step, Text: v.reason, ReasonCode: v.code, After: v.after})
	return ack
}

// givenUp is the ack of a job whose job type did not return; the poller gives it.
func (j *job) givenUp() queue.Ack {
	at := j.snapshot()
	ack := j.finish(core.Result{
		Outcome: core.Lost, Step: at.Step, ReasonCode: core.EffectsUnknown,
		Handlers: j.pendingHandlers(),
		Reason:   fmt.Sprintf("step %s did not end when it was asked to; nobody knows what the host saw", at.Step),
	})
	j.traced(ack)
	return ack
}

// fit encodes r in at most limit bytes: first long texts are cut shorter and
// shorter, then outputs go, then the steps' texts altogether.
func fit(r *core.Result, limit int) []byte {
	for keep := 32 << 10; ; keep /= 2 {
		data, err := json.Marshal(r)
		if err == nil && len(data) <= limit {
			return data
		}
		if err != nil || keep < 128 {
			break
		}
		r.Reason = shorten(r.Reason, keep)
		for i := range r.Steps {
			cutStep(&r.Steps[i], keep)
		}
	}
	for i := range r.Steps {
		r.Steps[i].Outputs, r.Steps[i].Truncated = nil, true
	}
	if data, err := json.Marshal(r); err == nil && len(data) <= limit {
		return data
	}
	r.Steps = nil
	data, _ := json.Marshal(r) // strings and numbers only: it cannot fail
	return data
}

func cutStep(s *core.StepResult, keep int) {
	for _, text := range []*string{&s.Stdout, &s.Stderr, &s.Diff, &s.Reason} {
		if short := shorten(*text, keep); short != *text {
			*text, s.Truncated = short, true
		}
	}
}
