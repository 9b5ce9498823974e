package worker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/redact"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

const (
	inPlace    = 2 * time.Second // a longer pause before the next attempt suspends the job, which then uses no concurrency
	maxCrashes = 3               // of the plugin in one step: then the step has failed
	staleAfter = 5 * time.Second // a job whose lease a host refused is returned for so long; the queue also refuses it, unless it was set back
	maxAbsence = 8               // calls that the plugin could not take, some minutes in all
)

var crashBackoff = core.Backoff{Interval: time.Second, Max: time.Minute}

// attempts is one step, or one item of it, being tried until it is decided.
type attempts struct {
	m      *machine
	index  int
	items  int // of the step's foreach; 1 without
	step   playbooks.Step
	name   string
	typ    host.Type
	params json.RawMessage
	cur    *progress
	host   core.Host // on which the step is called: the job's, or that of on
	fence  uint64    // of the job as the guest of that host; 0 where it is none

	window *window // of the present attempt

	stdout, stderr, diff capture
	out, err             *redact.Stream // what comes before stdout and stderr
	warned               map[string]bool
}

// run tries until there is a result, or the end of the lease.
func (a *attempts) run() (core.StepResult, *leaseEnd) {
	defer a.dropOutputs()
	defer a.leave()
	for {
		before := a.m.state.Window
		v := a.admit()
		if v == nil {
			if v = a.enter(); v != nil {
				a.m.state.Window = before // nothing began, and the window may close meanwhile
			}
		}
		if v != nil {
			sr := a.cur.Printed
			sr.Name, sr.Uses, sr.Attempts, sr.Took = a.name, a.step.Uses, a.cur.All, a.cur.Took
			return a.elsewhere(sr), v
		}
		if !a.cur.Resumed {
			a.cur.Attempts++
			a.cur.All++
			a.cur.Printed = core.StepResult{}
		}
		a.cur.Resumed = false
		started := time.Now()
		ctx, span := a.span()
		out, timedOut, err := a.call(ctx)
		if out.Held && out.Effects == host.EffectsNone {
			a.m.state.Window = before // the job type could not begin: keep the window of before the call
		}
		a.cur.Took += time.Since(started)
		sr := a.result(out)
		if out.Barred != "" {
			a.m.state.bar(a.host.Name, out.Barred)
		}
		v = a.ended(out, err, &sr, timedOut)
		if out.Misfit && out.Effects == host.EffectsNone {
			sr.ReasonCode = core.ParamsRefused
		}
		if out.Misfit || errors.Is(err, core.ErrInvalid) {
			sr.Reason += a.m.skew(a.step.Uses)
		}
		endAttempt(span, sr.Outcome, v)
		if v != nil {
			if v.kind == queue.AckDone {
				a.keepOutputs()
				v.reason = a.located(v.reason)
			}
			a.cur.keepPrinted(sr)
			return sr, v
		}
		if timedOut && errors.Is(err, core.ErrPluginFailed) {
			err = nil // the plugin's process was killed for that, and did not crash: the step's own retries decide
		}
		again, delay := a.again(err, &sr, out.Barred != "")
		if !again {
			a.keepOutputs()
			if !sr.Outcome.Good() {
				sr.Reason = a.located(sr.Reason)
			}
			return sr, nil
		}
		a.cur.keepPrinted(sr)
		if v := a.pause(sr, delay); v != nil {
			return sr, v
		}
	}
}

// call makes one attempt. Its context is the job's, with the span of the attempt.
func (a *attempts) call(ctx context.Context) (out host.Outcome, timedOut bool, err error) {
	j := a.m.job
	a.dropOutputs()
	before := &a.cur.Printed
	a.stdout, a.stderr, a.diff = j.w.captured(before.Stdout), j.w.captured(before.Stderr), j.w.captured(before.Diff)
	limit := a.step.Timeout
	cancel := context.CancelFunc(func() {})
	var by time.Time
	if limit > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errTimeout)
		by = time.Now().Add(limit + j.w.patience())
	}
	defer cancel()
	j.enter(a.name, by)
	defer j.enter(a.name, time.Time{})
	j.report(Event{Kind: StepStarted, Step: a.name, Uses: a.step.Uses, Attempt: a.cur.Attempts})
	a.m.armed = a.m.state.Handlers.IsArmed(a.step.Notify)
	saved := &checkpoint{keep: a.checkpoint, arm: a.arm}
	c := a.request(saved)
	if err = a.equip(ctx, &c); err != nil {
		out, err = unresolved(err)
	} else {
		a.listen()
		out, err = j.w.cfg.Plugins.Run(ctx, c)
		a.out.Flush()
		a.err.Flush()
	}
	out, err = a.hide(out, err)
	if bad := unusableSignal(out); bad != nil {
		out = host.Outcome{Failed: true, Effects: host.EffectsUnknown, Reason: fmt.Sprintf("job type %s suspended itself until %v", a.step.Uses, bad)}
	}
	if state := saved.close(); state != nil {
		a.cur.Plugin, a.cur.Held = state, false // from here on it resumes what it began
	}
	deadline, limited := ctx.Deadline()
	first := limited && out.TimedOut && time.Until(deadline) < sameInstant // the job type saw the deadline first
	return out, j.ctx.Err() == nil && (first || errors.Is(context.Cause(ctx), errTimeout)), err
}

// unusableSignal returns why a job cannot be suspended until the event that its job type names.
func unusableSignal(out host.Outcome) error {
	switch {
	case !out.Suspended || out.Signal == "":
		return nil
	case !queue.ForPeople(out.Signal): // its wave would continue without it, or nobody could signal it
		return fmt.Errorf("event %.100q, which is the worker's own; ErrWindowClosed waits for the maintenance window", out.Signal)
	}
	if err := queue.CheckEvent(out.Signal); err != nil { // else the queue refuses what this node sends of all its jobs
		return fmt.Errorf("an event: %w", err)
	}
	return nil
}

// sameInstant is how far apart two processes may see one deadline.
const sameInstant = 250 * time.Millisecond

// checkpoint holds the last state that a call saved. It outlives the plugin's process, every
// suspension of the job and, once the queue has it, this node. The handlers that the call arms are
// saved under the same lock.
type checkpoint struct {
	keep func(ctx context.Context, s host.State) error
	arm  func(ctx context.Context) error

	mu     sync.Mutex
	state  *host.State
	closed bool
}

func (c *checkpoint) save(ctx context.Context, s host.State) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("checkpoint: the call has ended: %w", core.ErrInvalid)
	}
	if err := c.keep(ctx, s); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	c.state = &s
	return nil
}

// beforeChange stands before each of the call's operations that could change the host.
func (c *checkpoint) beforeChange(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("the call has ended: %w", core.ErrInvalid)
	}
	return c.arm(ctx)
}

func (c *checkpoint) close() *host.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.state
}

func (a *attempts) request(saved *checkpoint) host.Call {
	j, snap := a.m.job, a.m.prog.snapshot
	c := host.Call{
		Job: j.lease.Job, Step: a.name, Attempt: a.cur.Attempts, Type: a.step.Uses, Params: a.params,
		Host: a.host, Become: a.host.As(cmp.Or(a.step.Become, a.m.prog.playbook.Become, snap.Become)), State: a.cur.Plugin, Check: snap.Check, Untouched: snap.Check && !a.delegated() && a.m.untouched(), Diff: snap.Diff,
		Barred: a.m.state.Barred[a.host.Name], Key: a.key(), Fence: j.lease.Token, Queue: a.m.queue, Fetch: j.w.cfg.FetchDir, Sink: a.sink,
		Checkpoint: saved.save, Live: j.live,
	}
	if a.delegated() { // guests have fences of their own, which the host's own jobs do not count with
		c.Fence = a.fence
		if c.Queue != "" { // without a name of the queue there is no fence: another queue may count the same
			c.Queue += "/guests"
		}
	}
	if len(a.step.Notify) > 0 {
		c.BeforeChange = saved.beforeChange
	}
	if a.window.windowed {
		c.MayBegin, c.MayStart = a.window.mayBegin, a.window.mayStart
		if !a.window.resumed {
			c.Stop = a.window.stopHere
		}
	}
	if repo := j.w.cfg.Configs; repo != nil {
		a.keepIn(repo, &c)
	}
	if files := j.w.cfg.FilesDir; files != nil {
		c.Files, c.Withheld = files(j.lease.Job.Run, snap.Files), j.w.cfg.Withheld
	}
	return c
}

// key is the idempotency key of the step, the same in every attempt and on every worker.
func (a *attempts) key() string {
	item := -1
	if !a.step.Foreach.Absent() {
		item = a.cur.Item
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %d %d", a.m.job.lease.Job.Run, a.m.job.lease.Job.Index, a.index, item))
	return hex.EncodeToString(sum[:16])
}

// sink takes the call's events, which come one at a time.
func (a *attempts) sink(e host.Event) {
	j, hidden := a.m.job, a.m.hidden
	switch {
	case len(e.Stdout) > 0 || len(e.Stderr) > 0:
		heard(a.out, e.Stdout)
		heard(a.err, e.Stderr)
	case e.Diff != "":
		text := hidden.String(e.Diff)
		a.diff.write([]byte(text))
		j.report(Event{Kind: Diff, Step: a.name, Title: hidden.String(e.DiffTitle), Text: text})
	case e.Log != "" && e.Level == slog.LevelWarn:
		a.warn(e.Log)
	case e.Log != "":
		j.report(Event{Kind: Message, Step: a.name, Text: hidden.String(e.Log)})
	default:
		j.report(Event{Kind: Progress, Step: a.name, Text: hidden.String(e.Phase), Done: e.Done})
	}
}

// warn shows a warning of the job type, once in an attempt: it is a line of the step's standard
// error, which the operator sees and the record keeps.
func (a *attempts) warn(text string) {
	if !a.warned[text] {
		a.warned[text] = true
		heard(a.err, []byte("warning: "+text+"\n"))
	}
}

// result reads what the call brought.
func (a *attempts) result(out host.Outcome) core.StepResult {
	sr := core.StepResult{
		Name: a.name, Uses: a.step.Uses, Reason: escape(out.Reason), Attempts: a.cur.All,
		Outputs: out.Outputs, Took: a.cur.Took, Window: a.cur.Window,
	}
	var cut [3]bool
	sr.Stdout, cut[0] = a.stdout.text()
	sr.Stderr, cut[1] = a.stderr.text()
	sr.Diff, cut[2] = a.diff.text()
	sr.Truncated = cut[0] || cut[1] || cut[2] || a.cur.Printed.Truncated
	sr.ExitCode = exitCode(out.Outputs)
	switch {
	case out.Lost:
		sr.Outcome = core.Lost
	case out.RolledBack:
		sr.Outcome = core.RolledBack
	case out.Unreachable:
		sr.Outcome = core.Unreachable
	case out.Failed, out.TimedOut:
		sr.Outcome = core.Failed
	case out.Cancelled:
		sr.Outcome = core.Cancelled
	case out.Skipped:
		sr.Outcome = core.Skipped
	case out.Changed:
		sr.Outcome = core.Changed
		if out.Unchecked && a.m.prog.snapshot.Check {
			sr.ReasonCode = core.Unchecked
		}
	default:
		sr.Outcome = core.Unchanged
	}
	if sr.Outcome == core.Skipped && sr.Reason == "" {
		sr.Reason, sr.ReasonCode = "the job type found nothing to do", core.NothingToDo
	}
	return a.elsewhere(boundOutputs(sr))
}

// ended decides the cases in which no further attempt is made by this lease: the job was asked to
// end, the job type suspended, or nobody knows what the host saw. It completes sr for the cases
// that again decides.
func (a *attempts) ended(out host.Outcome, err error, sr *core.StepResult, timedOut bool) *leaseEnd {
	crashed := errors.Is(err, core.ErrPluginFailed)
	switch {
	case errors.Is(err, core.ErrSessionGone) && a.m.job.ctx.Err() == nil: // the host saw a newer lease
		a.cur.Resumed = true
		v := a.m.setAside(core.ErrorText(err))
		v.after = staleAfter
		return &v
	case a.m.job.ctx.Err() != nil && (err != nil || !sr.Outcome.Good() || out.Suspended):
		return a.interrupted(out, err, sr)
	case err == nil && out.Suspended && out.Held:
		return a.held(out)
	case err == nil && out.Suspended:
		a.cur.Plugin, a.cur.Resumed, a.cur.Held = out.State, true, false
		return &leaseEnd{
			kind: queue.AckSuspend, step: a.name, code: snapshot.WhyWaits(out.Signal).Code(), reason: out.Reason,
			after: max(out.ResumeAfter, leastPause), event: out.Signal, keepLocks: out.KeepLocks,
		}
	case crashed && out.Effects != host.EffectsNone && onLost(a.typ) == queue.LostHold:
		sr.Outcome, sr.ReasonCode = core.Lost, core.EffectsUnknown
		sr.Reason = fmt.Sprintf("%v; job type %s may not be repeated, and nobody knows what the host saw", err, a.step.Uses)
		if timedOut {
			sr.Reason = tooLong(a.step.Timeout, ": "+sr.Reason)
		}
	case err != nil:
		sr.Outcome, sr.Reason, sr.ReasonCode = core.Failed, core.ErrorText(err), codeOf(err)
		if timedOut {
			sr.Reason, sr.ReasonCode = tooLong(a.step.Timeout, out.How), core.TimedOut
		}
	case timedOut && (sr.Outcome == core.Cancelled || sr.Outcome == core.Failed || sr.Outcome == core.Lost):
		more := ""
		if sr.Outcome != core.Cancelled && sr.Reason != "" {
			more = ": " + sr.Reason
		}
		sr.Reason, sr.ReasonCode = tooLong(a.step.Timeout, more), core.EffectsUnknown
		if sr.Outcome != core.Lost {
			sr.Outcome, sr.ReasonCode = core.Failed, core.TimedOut
		}
	case sr.Outcome == core.Cancelled: // although nobody asked for it
		sr.Outcome = core.Failed
		sr.Reason = "the job type says that it was cancelled: " + sr.Reason
	}
	if !sr.Outcome.Good() && sr.Reason == "" {
		sr.Reason = fmt.Sprintf("job type %s gave no reason", a.step.Uses)
	}
	return nil
}

// tooLong is the reason of a step that its timeout ended; more is what else is known.
func tooLong(timeout time.Duration, more string) string {
	text := fmt.Sprintf("timed out after %v%s", timeout, more)
	if strings.Contains(more, "\nhint: ") {
		return text
	}
	return text + "\nhint: raise timeout: of the step, or --timeout of turnus exec; or find what the host waits for, with ps ax there"
}

// codeOf is the code of an error that ended a call.
func codeOf(err error) core.ReasonCode {
	switch {
	case errors.Is(err, core.ErrPluginFailed):
		return core.PluginDied
	case errors.Is(err, core.ErrUnavailable):
		return core.Unavailable
	case errors.Is(err, core.ErrInvalid):
		return core.ParamsRefused
	}
	return ""
}

// interrupted is the end of the lease for a step that was asked to end in its middle.
func (a *attempts) interrupted(out host.Outcome, err error, sr *core.StepResult) *leaseEnd {
	cause := context.Cause(a.m.job.ctx)
	report := func(o core.Outcome, text string) *leaseEnd {
		code := core.LeaseLost
		switch {
		case o == core.Lost:
			code = core.EffectsUnknown
		case errors.Is(cause, errCancelled):
			code = core.RunCancelled
		}
		v := done(o, a.name, code, fmt.Sprintf("%v during step %s%s", cause, a.name, text))
		return &v
	}
	detail := ""
	if sr.Reason != "" {
		detail = ": " + sr.Reason
	}
	switch {
	case err == nil && out.Suspended && !errors.Is(cause, errCancelled):
		a.cur.Plugin, a.cur.Resumed, a.cur.Held = out.State, true, out.Held
		return &leaseEnd{kind: queue.AckSuspend, step: a.name, reason: cause.Error(), after: max(out.ResumeAfter, leastPause), event: out.Signal, keepLocks: out.KeepLocks}
	case out.Lost:
		return report(core.Lost, detail)
	case out.RolledBack:
		return report(core.RolledBack, detail)
	case a.unclean(out, err) && onLost(a.typ) == queue.LostHold:
		return report(core.Lost, "; it did not end in time, and nobody knows what the host saw")
	case errors.Is(cause, errSession) && onLost(a.typ) == queue.LostHold && out.Effects != host.EffectsNone:
		// The worker may have slept while the step ended on its host.
		return report(core.Lost, "; nobody knows what the host saw"+detail)
	case errors.Is(cause, errCancelled) || onLost(a.typ) == queue.LostHold:
		return report(core.Cancelled, detail)
	}
	v := report(core.Cancelled, "")
	v.kind = queue.AckRetry // another worker continues with the same attempt
	a.cur.Resumed = true
	return v
}

// unclean reports whether the call ended without the job type's own word.
func (a *attempts) unclean(out host.Outcome, err error) bool {
	if errors.Is(err, core.ErrPluginFailed) {
		return out.Effects != host.EffectsNone
	}
	return err == nil && out.Cancelled && out.Effects == host.EffectsUnknown
}

// again decides whether another attempt follows. None does after a host refused a password.
func (a *attempts) again(err error, sr *core.StepResult, barred bool) (bool, time.Duration) {
	if sr.Outcome.Good() || sr.Outcome == core.Lost {
		return false, 0
	}
	if errors.Is(err, core.ErrPluginFailed) {
		a.cur.Crashes++
		if a.cur.Crashes >= maxCrashes {
			sr.Reason = fmt.Sprintf("%s, %d times in this step", sr.Reason, a.cur.Crashes)
			return false, 0
		}
		a.cur.Resumed = true // not the host's failure: the same attempt continues, from its last checkpoint
		return true, crashBackoff.Delay(a.cur.Crashes-1, 0)
	}
	if errors.Is(err, core.ErrUnavailable) { // the plugin does not start, or its calls are refused: nothing was done
		a.cur.Absent++
		if a.cur.Absent < maxAbsence {
			a.cur.Resumed = true
			return true, crashBackoff.Delay(a.cur.Absent-1, 0)
		}
		return false, 0
	}
	if a.cur.Attempts >= a.step.Retry.Attempts || barred {
		return false, 0
	}
	a.cur.Plugin, a.cur.Held = nil, false                             // a new attempt begins again
	return true, a.step.Retry.Delay(a.cur.Attempts-1, rand.Float64()) //nolint:gosec // spread, no secret
}

// pause waits before the next attempt: here if that is short, else suspended.
func (a *attempts) pause(sr core.StepResult, delay time.Duration) *leaseEnd {
	j := a.m.job
	j.report(Event{Kind: StepRetry, Step: a.name, Uses: a.step.Uses, Attempt: a.cur.Attempts, Text: sr.Reason, ReasonCode: sr.ReasonCode, After: delay})
	if delay > inPlace && !j.runCancelled() {
		return &leaseEnd{kind: queue.AckRetry, outcome: sr.Outcome, step: a.name, reason: sr.Reason, after: delay, code: sr.ReasonCode}
	}
	if a.cur.Plugin == nil && a.m.catchUp() != nil && !j.runCancelled() { // a new attempt begins only when nobody can continue with the old one
		return &leaseEnd{kind: queue.AckRetry, outcome: sr.Outcome, step: a.name, reason: sr.Reason, after: delay, code: sr.ReasonCode}
	}
	core.Pause(j.ctx, delay, a.m.draining())
	if v, stop := a.m.between(a.name); stop {
		return &v
	}
	return nil
}
