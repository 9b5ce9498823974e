package worker

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/windows"
)

// Pauses of a job that waits, for its window or because it wants to: a script that always asks for
// no time at all would go round without end.
const (
	askAgain    = 10 * time.Second // the board or the queue's clock could not be read
	pollAgain   = time.Hour        // the longest that a job waits without asking again
	leastPause  = time.Second      // nothing asks, or comes back, faster than this, whatever the answers are
	calendarAge = 2 * time.Second  // how old definitions may be for a step that runs
)

// stepAdmission asks whether an attempt of a step with a window may begin.
type stepAdmission struct {
	calendar    *admission.Calendar
	question    admission.Question
	early, late time.Time // the queue's clock is between them
	attempt     int       // made before on the present item
	item        int       // of foreach, from 0
}

// askCalendar asks on the safe side of what is known of the clock: the window must have opened by
// its earliest reading, and fit by its latest.
func askCalendar(r stepAdmission) (admission.Answer, error) {
	early, late := r.early.Truncate(time.Second), r.late
	if q := r.question; q.Need > 0 {
		e, err := r.calendar.Compiled(early, q.Set, windows.Work{Change: q.Change, Targets: q.Targets}).Explain(early, time.Second)
		if err == nil && e.Window != nil {
			late = started(late, e.Window.Open)
		}
		r.question.Need += max(late.Sub(early), 0)
	}
	return r.calendar.Ask(early, r.question)
}

// started is from when what starts at late counts. Windows are right to the second, and a lease
// comes milliseconds after one opens: in its first second it is as at its opening, so that a window
// that is just long enough can be used.
func started(late, open time.Time) time.Time {
	if late.Sub(open) < time.Second {
		return open
	}
	return late
}

// window is the present attempt's. Of it only begun changes once the job type was called.
type window struct {
	w         *Worker
	board     string
	windowed  bool
	resumed   bool                 // it continues with what it began: windows do not stop it
	questions []admission.Question // at the attempt's begin: for the job's host, and for that of on
	share     time.Duration        // of the need of each: the present item's own

	mu    sync.Mutex
	begun time.Time // local: admitted, or when it was last allowed to begin
}

// question returns the question to ask before step i, for the items that remain of it.
func (m *machine) question(i, done, items int) (q admission.Question, share time.Duration, windowed bool) {
	w := m.prog.snapshot.Windows
	q, windowed = w.Question(m.prog.steps, i, m.host, m.state.Window.of(true, "").Missed)
	s := m.prog.calls[i]
	share = cmp.Or(s.Needs, w.Needs[s.Name]) / time.Duration(max(items, 1)) // a step's need is that of all its items
	if q.Need > 0 {
		q.Need -= share * time.Duration(done) // those done need nothing more
	}
	return q, share, windowed
}

// admit decides whether an attempt may begin: nil is that it may.
func (a *attempts) admit() *leaseEnd {
	a.window = &window{begun: time.Now()}
	m := a.m
	if m.prog.steps == nil {
		return nil
	}
	questions, share := a.questions()
	if len(questions) == 0 {
		return nil
	}
	a.window = &window{
		w: m.job.w, board: m.prog.snapshot.Windows.Board, windowed: true, begun: time.Now(), questions: questions, share: share,
	}
	if a.cur.Resumed && a.cur.Plugin != nil && !a.cur.Held {
		a.window.resumed = true // what began must end: a rollback outranks the window
		return nil
	}
	r, v := m.ready(a.name)
	if v != nil {
		return v
	}
	r.attempt, r.item = a.cur.Attempts, a.cur.Item
	stop := false
	for _, q := range questions {
		r.question = q
		answer, err := m.job.w.admit(r)
		if err != nil {
			v := done(core.Failed, a.name, "", fmt.Sprintf("cannot check whether step %s fits its window: %v", a.name, err))
			return &v
		}
		if !answer.Open {
			return m.wait(a.index, a.name, r, answer)
		}
		stop = stop || answer.Overrun == windows.StopAtCheckpoint
	}
	r.question = questions[0]
	a.cur.Window = evidence(r)
	m.state.Window = m.state.Window.begins(a.index, stop)
	return nil
}

// questions returns the questions to ask before an attempt: for the job's host, and for the host of
// on, where the step waits for a window of it. The present item needs share of each.
func (a *attempts) questions() (all []admission.Question, share time.Duration) {
	m := a.m
	q, share, windowed := m.question(a.index, a.cur.Item, a.items)
	if windowed {
		all = append(all, q)
	}
	if !a.delegated() {
		return all, share
	}
	other, windowed := m.prog.snapshot.Windows.Delegated(m.prog.steps, a.index, a.host)
	if windowed {
		other.Need -= share * time.Duration(a.cur.Item)
		other.Missed = m.state.Window.of(m.isOwn(a.index, other.Set), other.Set).Missed
		all = append(all, other)
	}
	return all, share
}

// isOwn reports whether the job's own host waits for windows of a set before step i.
func (m *machine) isOwn(i int, set string) bool {
	own, windowed := m.prog.steps.Set(i, m.host)
	return windowed && own == set
}

// ready reads the definitions and the clock. The end of the lease is that of a job that must ask
// again.
func (m *machine) ready(step string) (stepAdmission, *leaseEnd) {
	cal, err := m.job.w.windows.Read(m.job.ctx, m.prog.snapshot.Windows.Board, 0)
	if m.job.ctx.Err() != nil {
		v, _ := m.between(step)
		return stepAdmission{}, &v
	}
	if err != nil {
		return stepAdmission{}, m.suspend(step, "closed, for its windows are not known: "+core.ErrorText(err), askAgain)
	}
	early, late, known := m.job.w.clock.now()
	if !known {
		return stepAdmission{}, m.suspend(step, "closed, for the queue's clock is not known", askAgain)
	}
	return stepAdmission{calendar: cal, early: early, late: late}, nil
}

// wait suspends the job until its next start, or ends it when it has waited long enough for the
// windows that step i lacks: those of its own host, or of the host of on.
func (m *machine) wait(i int, step string, r stepAdmission, answer admission.Answer) *leaseEnd {
	if answer.Reapprove && m.onlyInDoubt(r) {
		return m.suspend(step, "closed, for the queue's clock is in doubt: "+answer.Reason, askAgain)
	}
	set := r.question.Set
	own := m.isOwn(i, set)
	w := m.state.Window.of(own, set)
	came := !w.Promised.IsZero() && !r.early.Before(w.Promised)
	if own && m.state.Window == nil { // nothing was promised since launch
		came = m.prog.snapshot.Missed(m.job.lease.Job.Index, r.question, r.early)
	}
	if !answer.Reapprove && came {
		m.job.w.missed.Add(1)
		w.Missed++ // it came in time, or late, and could not use the window; a job that is signalled early misses nothing
		r.question.Missed = w.Missed
		if again, err := m.job.w.admit(r); err == nil {
			answer = again
		}
	}
	w.Promised = answer.Next
	m.state.Window = m.state.Window.with(own, set, w)
	if answer.Reapprove {
		reason := answer.Reason
		if m.state.Current.Held {
			reason += fmt.Sprintf("; step %s had begun, and stopped at a checkpoint", step)
		}
		v := done(core.Cancelled, step, core.NeedsReapproval, reason)
		return &v
	}
	after := pollAgain // at least: definitions may change before the queue has this answer, and their signal be missed
	if !answer.Next.IsZero() {
		after = max(min(after, answer.Next.Sub(r.early)), leastPause)
	}
	return m.suspend(step, answer.Reason, after)
}

// onlyInDoubt reports whether a window would be left if the queue's clock were known: by how much
// it is not comes on top of what the step needs. Doubt ends, and must not end a job.
func (m *machine) onlyInDoubt(r stepAdmission) bool {
	r.late = r.early
	answer, err := m.job.w.admit(r)
	return err == nil && !answer.Reapprove
}

// suspend lets the job wait for its window, without slot and locks.
func (m *machine) suspend(step, reason string, after time.Duration) *leaseEnd {
	return &leaseEnd{kind: queue.AckSuspend, step: step, code: core.WindowClosed, reason: reason, after: after, event: queue.EventWindow}
}

// evidence is the window that an attempt starts in.
func evidence(r stepAdmission) *core.Window {
	q := r.question
	w := &core.Window{Set: q.Set, Started: r.early.UTC().Truncate(time.Millisecond)}
	work := windows.Work{Change: q.Change, Targets: q.Targets}
	e, err := r.calendar.Compiled(r.early, q.Set, work).Explain(r.early, time.Second)
	if err != nil || e.Window == nil {
		return w
	}
	w.Open, w.Close, w.Rules = e.Window.Open.UTC(), e.Window.Close.UTC(), e.Window.Rules
	w.Approvals = r.calendar.Definitions().Consents(q.Set, w.Rules, work, r.early)
	return w
}

// sight is the state of a window.
type sight struct {
	windows.Explanation
	set  *windows.Compiled
	late time.Time // the queue's clock at the latest
}

// poll is the present state of a window, by definitions that were read within age. With an error it
// is by those last read; it has no set where there are none, or the clock is not known.
func (w *Worker) poll(ctx context.Context, board string, q admission.Question, age time.Duration) (sight, error) {
	cal, err := w.windows.Read(ctx, board, age)
	if cal == nil {
		return sight{}, err
	}
	early, late, known := w.clock.now()
	if !known {
		return sight{}, fmt.Errorf("the queue's clock is not known: %w", core.ErrUnavailable)
	}
	c := cal.Compiled(early, q.Set, windows.Work{Change: q.Change, Targets: q.Targets})
	e, explainErr := c.Explain(early.Truncate(time.Second), time.Second)
	return sight{e, c, late}, cmp.Or(err, explainErr)
}

// stops reports whether nothing may continue that a checkpoint can stop.
func (s sight) stops() bool {
	return s.set != nil && s.set.Overrun == windows.StopAtCheckpoint && !s.Open
}

// lacks is why what takes so long does not fit, or "".
func (s sight) lacks(need time.Duration) string {
	switch {
	case !s.Open:
		return "its window is not open: " + s.Reason
	case started(s.late, s.Window.Open).Add(need).After(s.Window.Close):
		return fmt.Sprintf("its window closes at %s, and %v are needed", s.Window.Close.UTC().Format(time.RFC3339), need.Round(time.Second))
	}
	return ""
}

// mayBegin is an admitted step's question when its plugin stands ready, and again when its host
// stands ready for the first call: why it must wait after all, or "". It is asked of the board as
// it is now. While that cannot be read, nothing begins.
func (a *window) mayBegin(ctx context.Context) string {
	for _, q := range a.questions {
		if a.resumed {
			break
		}
		s, err := a.w.poll(ctx, a.board, q, 0)
		if err != nil {
			return "its windows are not known: " + core.ErrorText(err)
		}
		if why := s.lacks(max(q.Need, s.set.Cutoff)); why != "" {
			return why
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun = time.Now() // its waiting used nothing of the time that it was given
	return ""
}

// stopHere is a running step's question at its checkpoints: why it should stop, or "". A running
// step continues while the answer is not known.
func (a *window) stopHere(ctx context.Context) string {
	for _, q := range a.questions {
		if s, _ := a.w.poll(ctx, a.board, q, calendarAge); s.stops() {
			return "its window has closed: " + s.Reason
		}
	}
	return ""
}

// mayStart is a running step's question before what cannot be undone: why it must wait, or "".
func (a *window) mayStart(ctx context.Context, need time.Duration) string {
	if need <= 0 {
		need = a.share
	}
	a.mu.Lock()
	begun := a.begun
	a.mu.Unlock()
	if left := a.share - time.Since(begun); left > 0 { // of the time that it was given when it began
		need = min(need, left)
	}
	for _, q := range a.questions {
		s, err := a.w.poll(ctx, a.board, q, 0)
		if err != nil {
			return "its windows are not known: " + core.ErrorText(err)
		}
		if why := s.lacks(need + q.Need - a.share); why != "" { // with what comes after it
			return why
		}
	}
	return ""
}

// held suspends a job whose job type stopped for its window.
func (a *attempts) held(out host.Outcome) *leaseEnd {
	a.cur.Plugin, a.cur.Resumed, a.cur.Held = out.State, true, true
	m := a.m
	if !a.window.windowed {
		return m.suspend(a.name, out.Reason, max(out.ResumeAfter, askAgain))
	}
	r, v := m.ready(a.name)
	if v != nil {
		return v
	}
	questions, _ := a.questions()
	for _, r.question = range questions {
		answer, err := m.job.w.admit(r)
		if err != nil || answer.Open {
			continue
		}
		v = m.wait(a.index, a.name, r, answer)
		if v.kind == queue.AckSuspend {
			v.reason = out.Reason
		}
		return v
	}
	return m.suspend(a.name, out.Reason, askAgain) // it is the job type that cannot begin now: check again, after a pause
}

// stillOpen holds a step that waits for no window itself, where one before it did: under
// overrun: stop_at_checkpoint nothing more of the job starts after its window has closed.
func (m *machine) stillOpen(i int, step string) *leaseEnd {
	cur := &m.state.Current
	w := m.state.Window
	if m.prog.steps == nil || w == nil || !w.Began || cur.Attempts > 0 || cur.Item > 0 || cur.Plugin != nil {
		return nil
	}
	if _, _, windowed := m.question(i, 0, 1); windowed {
		return nil // it asks for itself
	}
	q, _, _ := m.question(w.Step, 0, 1)
	if s, err := m.job.w.poll(m.job.ctx, m.prog.snapshot.Windows.Board, q, 0); err == nil && !s.stops() || err != nil && !w.Stop {
		return nil
	}
	r, v := m.ready(step)
	if v != nil {
		return v
	}
	q.Need = time.Second
	r.question = q
	answer, err := m.job.w.admit(r)
	if err != nil || answer.Open {
		return nil
	}
	return m.wait(w.Step, step, r, answer)
}
