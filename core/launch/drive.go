package launch

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/gate"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/rollout"
)

// Driver is the part of a queue that Drive needs.
type Driver interface {
	queue.Control
	queue.Inspect
}

// DriveOptions guide Drive. All functions are called by one goroutine at a time,
// except Approve, which has its own.
type DriveOptions struct {
	// OnRecord gets the result of each job exactly once for each of its lives, in the
	// order of the queue. Jobs cancelled in bulk come one by one, with their reason.
	OnRecord func(core.Result)
	// OnStatus gets the run's progress after it has changed, a few times a second at most.
	OnStatus func(queue.Status)
	// OnEvent gets what an operator should be told.
	OnEvent func(Event)
	// Approve returns nil when the wave (from 0) may start; an error cancels the run.
	// Nil leaves it to others: Drive waits until somebody else raises the run's limit.
	Approve func(ctx context.Context, wave int) error
	// Now, when closed, cancels the run at once, those jobs included that run. Without
	// it, or before, a cancelled context lets them finish.
	Now <-chan struct{}
	// Windows are the newest windows of the run, for EventWaiting; nil when it waits for none.
	Windows func() *gate.Book
	// Record, when set, makes what the queue recorded between two of its cursors durable, before
	// anything follows from it. Its error ends Drive; it repeats by itself what may be repeated.
	Record func(ctx context.Context, records []queue.Record, from, to string) error
	// Resume joins a run that the queue has; nil submits it.
	Resume *Resume
	// Leave makes Drive return when ctx ends, and leave the run to whoever resumes it.
	Leave bool
	// Idle, when set, is asked after each look at the run at which nothing was recorded: quiet is for how long nothing has happened, rest
	// what to go on with. True ends Drive with ErrIdle.
	Idle func(quiet time.Duration, s queue.Status, rest Rest) bool
	// Wait, when set, is called before each look: it may wait, and says how long the queue may be asked to. Without it
	// that is half a second. ctx ends when there is something to look at.
	Wait func(ctx context.Context, quiet time.Duration) time.Duration
	// Patience is how long Drive follows a run after Now was closed, before it gives up
	// on jobs that do not end; 30 s when zero.
	Patience time.Duration
}

// Resume is where to go on with a run that somebody followed before.
type Resume struct {
	Cursor  string          // of the queue's records, behind what was recorded
	Settled []queue.Settled // what was recorded up to there
	Rest    *Rest           // nil: it was never left
}

// Rest is what Drive knows of a run that it leaves, besides what can be read.
type Rest struct {
	Asked  int       // wave that waits for an approval, from 0; -1 if none does
	Paused int       // last wave before which a pause was said
	Began  time.Time // when the last wave was released
	Done   time.Time // when the released waves were seen settled
	Until  time.Time // when the pause before the next wave is over, or stragglers are not waited for any more
}

// ErrIdle is what Drive returns when Idle ended it.
var ErrIdle = errors.New("nothing happens in the run for now")

// EventKind says what happened.
type EventKind string

// The kinds of events.
const (
	EventSubmitted EventKind = "submitted"
	EventReleased  EventKind = "released" // wave Wave
	EventAsk       EventKind = "ask"      // wave Wave waits for an approval
	EventPause     EventKind = "pause"    // wave Wave waits until Until
	EventWaiting   EventKind = "waiting"  // Waiting hosts wait for windows, of which Set opens next, at Until
	EventAway      EventKind = "away"     // the queue does not answer; Err says why
	EventBack      EventKind = "back"     // it answers again
	EventEnding    EventKind = "ending"   // cancelled: no new job starts, running ones finish
	EventCancelled EventKind = "cancelled"
	EventClosed    EventKind = "closed"  // a barrier stays closed: Waiting hosts that wait at it are cancelled, for Reason
	EventStopped   EventKind = "stopped" // the budget is spent or a job was lost; Reason says it
)

// Event is something that an operator should be told of a run.
type Event struct {
	Kind   EventKind
	Run    string
	Wave   int // from 0
	Until  time.Time
	Reason string
	Err    error
	// Of EventWaiting. A zero Until says that no opening is known.
	Waiting int
	Set     string
	Zone    *time.Location
}

// Drive submits the run and follows it until every job has its outcome: it
// releases waves, hands on each record, and waits while the queue is away.
//
// When ctx ends, no new job starts, running ones finish, the rest is cancelled, and
// Drive returns when that is done, with the context's cause. Closing o.Now also
// stops the jobs that run; the error is then context.Canceled too. Other errors mean that the run was not accepted, that
// it is gone, or that a wave was refused; the status is what was last known.
func Drive(ctx context.Context, q Driver, l *Launch, o DriveOptions) (queue.Status, error) {
	if o.Patience <= 0 {
		o.Patience = 30 * time.Second
	}
	d := &drive{q: q, l: l, o: o, answers: make(chan answer, 1), changed: time.Now(), began: time.Now(), said: -1, proven: make([]int, len(l.Limits)), good: make([]int, len(l.Limits)), outcome: make([]core.Outcome, len(l.Hosts))}
	if o.Resume != nil {
		d.cursor = o.Resume.Cursor
		d.settle(o.Resume.Settled)
		if rest := o.Resume.Rest; rest != nil {
			d.said, d.paused, d.doneAt = rest.Asked, max(rest.Paused, 0), rest.Done
			if !rest.Began.IsZero() {
				d.began = rest.Began
			}
		}
	} else if err := d.submit(ctx); err != nil {
		return queue.Status{}, err
	} else {
		d.settle(l.Run.Settled)
	}
	// The run outlives ctx, unless it is left: what runs must finish, and the rest be cancelled.
	life := context.WithoutCancel(ctx)
	if o.Leave {
		life = ctx
	}
	follow, stop := context.WithCancelCause(life)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer stop(nil)
	d.helpers = &helpers
	helpers.Go(func() { d.watchNow(follow, stop) })
	defer context.AfterFunc(ctx, d.wake)()

	err := d.follow(ctx, follow)
	return d.status, err
}

// drive is one Drive. Its fields belong to the goroutine of Drive, but those below mu.
type drive struct {
	q       Driver
	l       *Launch
	o       DriveOptions
	helpers *sync.WaitGroup
	answers chan answer // of Approve, at most one in flight

	cursor   string
	settled  int            // records seen
	proven   []int          // hosts whose outcome proves something, by wave
	good     []int          // hosts that succeeded, by wave
	outcome  []core.Outcome // by index
	gates    gates          // what waited at the last look
	passAt   int            // pass of the last wave that was opened, see pass.go
	passTo   int            // waves of it that are open
	waits    opening
	lookedAt time.Time // when waits was worked out
	status   queue.Status
	statusAt time.Time
	began    time.Time // when the last wave was released, or Drive joined the run if that was later
	doneAt   time.Time // when the released waves were seen settled
	asked    int       // last wave that somebody was asked about
	approved int
	said     int // wave of which it was said before that it waits for an approval
	paused   int // last wave that was said to be paused before
	until    time.Time
	changed  time.Time    // when something last happened
	before   queue.Status // then
	stopSaid bool
	ending   bool  // the run was paused to let running jobs finish
	ended    error // the run was cancelled by us: what Drive returns
	failures int   // calls in a row that the queue did not answer

	mu        sync.Mutex
	interrupt context.CancelFunc // ends the present wait for records
	pending   bool               // wake was called while nothing waited
	now       bool               // o.Now was closed
}

type answer struct {
	wave int
	err  error
}

// The pace of following.
const (
	statusEvery = 200 * time.Millisecond // between readings of the status while records keep coming
	recordsWait = 500 * time.Millisecond // of one look for records
	turnsWait   = 50 * time.Millisecond  // the same while jobs may come to a barrier, which no record tells
	recordsMax  = 1000                   // of one look
)

func (d *drive) submit(ctx context.Context) error {
	err := d.call(ctx, func() error {
		_, err := queue.SubmitOne(ctx, d.q, d.l.Run)
		return err
	})
	if err != nil {
		return fmt.Errorf("submit run %s: %w", d.l.Run.ID, err)
	}
	d.say(Event{Kind: EventSubmitted})
	return nil
}

// watchNow cancels the run's following some time after o.Now was closed.
func (d *drive) watchNow(ctx context.Context, stop context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
		return
	case <-d.o.Now:
	}
	d.mu.Lock()
	d.now = true
	d.mu.Unlock()
	d.wake()
	select {
	case <-ctx.Done():
	case <-time.After(d.o.Patience):
		stop(fmt.Errorf("run %s was cancelled, but jobs did not end within %v: %w", d.l.Run.ID, d.o.Patience, core.ErrTimeout))
	}
}

func (d *drive) follow(ctx, follow context.Context) error {
	for {
		if err := d.obey(ctx, follow); err != nil {
			return err
		}
		n, err := d.records(follow, d.wait(follow))
		if err != nil {
			return err
		}
		if n > 0 && d.settled < d.status.Limit && d.settled < d.status.Total && time.Since(d.statusAt) < statusEvery {
			continue
		}
		if err := d.readStatus(follow); err != nil {
			return err
		}
		if d.status.Complete {
			return d.finish(follow)
		}
		d.tellWaiting(time.Now())
		if err := d.advance(follow); err != nil {
			return err
		}
		if d.rests(n) {
			return ErrIdle
		}
	}
}

// wait is how long the next look may last.
func (d *drive) wait(ctx context.Context) time.Duration {
	if d.o.Wait == nil {
		if d.l.Snapshot.Turns != nil && d.status.Suspended > 0 {
			return turnsWait // no record tells that a host came to a barrier
		}
		return recordsWait
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	d.arm(cancel)
	defer d.arm(nil)
	return d.o.Wait(waiting, time.Since(d.changed))
}

// rests tells whether the run is to be left alone for now. n records came at the last look.
func (d *drive) rests(n int) bool {
	now := d.status
	now.Served, d.before.Served = 0, 0
	if n > 0 || !reflect.DeepEqual(now, d.before) {
		d.changed, d.before = time.Now(), now
		return false
	}
	rest := Rest{Asked: -1, Paused: d.paused, Began: d.began, Done: d.doneAt, Until: d.until}
	if d.asked > d.approved {
		rest.Asked = d.asked
	}
	return d.o.Idle != nil && !d.ending && d.ended == nil && d.o.Idle(time.Since(d.changed), d.status, rest)
}

// finish hands on what was recorded between the last records and completion.
func (d *drive) finish(ctx context.Context) error {
	for {
		n, err := d.records(ctx, 0)
		if err != nil {
			return err
		}
		if n == 0 {
			return d.ended
		}
	}
}

// obey does what the caller asked for by ending the context or closing o.Now.
func (d *drive) obey(ctx, follow context.Context) error {
	d.mu.Lock()
	now := d.now
	d.mu.Unlock()
	switch {
	case d.ended != nil:
		return nil //nolint:nilerr // that is why it ended; nothing is left to obey
	case now:
		return d.cancel(follow, errStoppedNow)
	case ctx.Err() == nil:
		return nil
	case d.ending:
		if err := d.readStatus(follow); err != nil || d.status.InFlight > 0 || d.status.Complete {
			return err
		}
		return d.cancel(follow, context.Cause(ctx))
	}
	d.ending = true
	d.say(Event{Kind: EventEnding, Err: context.Cause(ctx)})
	yes := true
	return d.adjust(follow, queue.Adjust{Paused: &yes})
}

var errStoppedNow = fmt.Errorf("stopped at once by the operator: %w", context.Canceled)

func (d *drive) cancel(ctx context.Context, why error) error {
	reason := "cancelled by the operator"
	if !errors.Is(why, context.Canceled) {
		reason = why.Error()
	}
	err := d.call(ctx, func() error { return d.q.Cancel(ctx, d.l.Run.ID, reason) })
	if err != nil {
		return fmt.Errorf("cancel run %s: %w", d.l.Run.ID, err)
	}
	d.ended = why
	d.say(Event{Kind: EventCancelled, Reason: reason, Err: why})
	return nil
}

// records hands on the next records and returns how many there were.
func (d *drive) records(ctx context.Context, wait time.Duration) (int, error) {
	var records []queue.Record
	from := d.cursor
	err := d.call(ctx, func() error {
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		d.arm(cancel)
		defer d.arm(nil)
		got, next, err := d.q.Records(waiting, d.l.Run.ID, d.cursor, recordsMax, wait)
		if err != nil && waiting.Err() != nil && ctx.Err() == nil {
			return nil // woken to look at something else; nothing was read
		}
		if err == nil {
			records, d.cursor = got, next
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("follow run %s: %w", d.l.Run.ID, err)
	}
	if d.o.Record != nil && len(records) > 0 {
		if err := d.o.Record(ctx, records, from, d.cursor); err != nil {
			return 0, fmt.Errorf("record outcomes of run %s: %w", d.l.Run.ID, err)
		}
	}
	for _, r := range records {
		d.settle([]queue.Settled{{Index: r.Index, Count: max(r.Count, 1), Outcome: r.Outcome}})
		if d.o.OnRecord != nil {
			d.l.Results(r, d.o.OnRecord)
		}
	}
	return len(records), nil
}

// settle takes in what is known to have ended.
func (d *drive) settle(known []queue.Settled) {
	for _, s := range known {
		d.settled += s.Count
		for i := s.Index; i < min(s.Index+s.Count, len(d.outcome)); i++ {
			d.outcome[i] = s.Outcome
			wave := rollout.Wave(d.l.Limits, i)
			if s.Outcome.Proves() {
				d.proven[wave]++
			}
			if s.Outcome.Good() {
				d.good[wave]++
			}
		}
	}
}

func (d *drive) readStatus(ctx context.Context) error {
	err := d.call(ctx, func() error {
		s, err := d.q.Status(ctx, d.l.Run.ID)
		if err == nil {
			d.status, d.statusAt = s, time.Now()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("status of run %s: %w", d.l.Run.ID, err)
	}
	if d.o.OnStatus != nil {
		d.o.OnStatus(d.status)
	}
	if d.status.Phase == queue.Stopped && !d.stopSaid {
		d.stopSaid = true
		d.say(Event{Kind: EventStopped, Reason: d.status.Reason})
	}
	return nil
}

func (d *drive) adjust(ctx context.Context, a queue.Adjust) error {
	err := d.call(ctx, func() error { return d.q.Adjust(ctx, d.l.Run.ID, a) })
	if err != nil {
		return fmt.Errorf("adjust run %s: %w", d.l.Run.ID, err)
	}
	return nil
}

// call repeats f while the queue is away. Every call of Drive may be repeated:
// submitting, cancelling and adjusting twice is the same as once.
func (d *drive) call(ctx context.Context, f func() error) error {
	backoff := core.Backoff{Interval: 100 * time.Millisecond, Max: 5 * time.Second}
	for {
		err := f()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !errors.Is(err, core.ErrUnavailable) && !errors.Is(err, core.ErrUnknown) {
			if d.failures > 0 {
				d.failures = 0
				d.say(Event{Kind: EventBack})
			}
			return err
		}
		if d.failures == 0 {
			d.say(Event{Kind: EventAway, Err: err})
		}
		delay := backoff.Delay(d.failures, 0)
		d.failures++
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(delay):
		}
	}
}

func (d *drive) say(e Event) {
	e.Run = d.l.Run.ID
	if d.o.OnEvent != nil {
		d.o.OnEvent(e)
	}
}

// arm lets wake end the present wait; nil says that nothing waits.
func (d *drive) arm(cancel context.CancelFunc) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.interrupt = cancel
	if cancel != nil && d.pending {
		d.pending = false
		cancel()
	}
}

// wake makes Drive look at what changed outside the queue.
func (d *drive) wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.interrupt == nil {
		d.pending = true
		return
	}
	d.interrupt()
}
