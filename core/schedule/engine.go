package schedule

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// Engine launches the schedules of a ledger: each server runs one. Any number of servers may share
// a ledger.
type Engine struct {
	ledger   *ledger.Ledger
	launcher Launcher
	events   func(Event)
	planner  *planner
	check    chan struct{} // has room for one
}

const (
	idle       = time.Second // the longest wait: what other servers change is seen then
	most       = 1000        // schedules of one read
	perChange  = 128         // schedules of one transaction
	quarantine = time.Minute // before a row that cannot be read is read again
	scatter    = 20          // milliseconds at most, after another server was faster
)

// NewEngine makes an engine. events gets what happens; it must be quick, and safe for concurrent
// use.
func NewEngine(l *ledger.Ledger, launcher Launcher, events func(Event)) *Engine {
	return &Engine{ledger: l, launcher: launcher, events: events, planner: newPlanner(), check: make(chan struct{}, 1)}
}

// Check makes the engine check immediately, for schedules that were changed by this process. It
// does not block.
func (e *Engine) Check() { core.Notify(e.check) }

// Run launches what is due until ctx ends. Errors of the ledger are reported as events, and waited
// out.
func (e *Engine) Run(ctx context.Context) {
	for ctx.Err() == nil {
		wait, err := e.poll(ctx)
		if err != nil && ctx.Err() == nil {
			e.events(Event{Kind: EventTrouble, At: time.Now(), Err: fmt.Errorf("launching what is due: %w", err)})
			wait = idle
		}
		core.Pause(ctx, wait, e.check)
	}
}

// poll launches what is due, and returns how long to wait before the next look.
func (e *Engine) poll(ctx context.Context) (wait time.Duration, err error) {
	due, err := e.ledger.DueSchedules(ctx, most)
	if err != nil {
		return 0, err
	}
	if len(due.Rows) == 0 {
		if due.Next.IsZero() {
			return idle, nil
		}
		return min(max(due.Next.Sub(due.Now), time.Millisecond), idle), nil
	}
	read := time.Now()
	from := 0
	if len(due.Rows) > perChange { // servers begin at different places, so that they rarely do the same work
		from = rand.IntN(len(due.Rows)) //nolint:gosec // it only has to differ
	}
	for rows := range slices.Chunk(slices.Concat(due.Rows[from:], due.Rows[:from]), perChange) {
		b := &batch{Engine: e, now: due.Now.Add(time.Since(read)).Truncate(time.Millisecond)}
		if b.now.Before(due.Now) {
			b.now = due.Now
		}
		lost, err := b.run(ctx, rows)
		if err != nil {
			return 0, err
		}
		if lost > len(rows)/2 { // another server also has the rest
			return time.Duration(rand.IntN(scatter)) * time.Millisecond, nil //nolint:gosec // as above
		}
	}
	return 0, nil
}

// batch is some schedules on their way from decision to the ledger.
type batch struct {
	*Engine
	now     time.Time
	firings []*triggering
}

// triggering is one schedule of a batch.
type triggering struct {
	row      ledger.Schedule
	plan     *plan
	state    State
	decision Decision
	launches []launch   // of claims whose runs could not be prepared
	runs     []string   // that the change accepts, in its order
	finished []finished // what became of the claims, once the ledger has answered
}

// run decides and changes, and returns how many schedules others had changed before.
func (b *batch) run(ctx context.Context, rows []ledger.Schedule) (lost int, err error) {
	for _, row := range rows {
		if err := b.add(ctx, row); err != nil {
			return 0, err
		}
	}
	var asks []string
	for _, f := range b.firings {
		asks = append(asks, f.state.asks()...)
	}
	open, err := b.ledger.Open(ctx, asks)
	if err != nil {
		return 0, err
	}
	changes := make([]ledger.ScheduleChange, len(b.firings))
	for i, f := range b.firings {
		f.decision = f.plan.decide(f.state, b.now, func(run string) bool { return open[run] })
		changes[i] = b.prepare(ctx, f)
	}
	if ctx.Err() != nil { // Prepare's answers after it do not concern the fire times
		return 0, ctx.Err()
	}
	changed, err := b.ledger.ChangeSchedules(ctx, changes)
	if err != nil {
		b.failed(err)
		return 0, err
	}
	var accepted []ledger.Run
	for i, f := range b.firings {
		if changed[i].Version == 0 {
			lost++
			continue
		}
		for _, a := range changed[i].Runs {
			if a.Created {
				accepted = append(accepted, a.Run)
			}
		}
		b.report(f)
		if changed[i].Refused() {
			continue
		}
		for _, run := range changes[i].Cancel {
			if err := b.launcher.Cancelled(ctx, run, changes[i].Reason); err != nil {
				b.trouble(f.plan.ID, err)
			}
		}
	}
	if len(accepted) > 0 {
		b.launcher.Accepted(accepted)
	}
	return lost, nil
}

// failed reports the first launch of a batch that the ledger did not take: the others failed with
// it.
func (b *batch) failed(err error) {
	for _, f := range b.firings {
		for _, claim := range f.decision.State.Claimed {
			if slices.Contains(f.runs, claim.RunID) {
				b.events(Event{Kind: EventFailed, Schedule: f.plan.ID, At: b.now, Trigger: f.plan.bare(claim), Err: err})
				return
			}
		}
	}
}

// add reads a row. One that cannot be read is put off, and stops no other.
func (b *batch) add(ctx context.Context, row ledger.Schedule) error {
	p, s, err := b.planner.read(row)
	if err != nil {
		b.trouble(idOf(row), err)
		return b.ledger.PostponeSchedule(ctx, row, b.now.Add(quarantine))
	}
	b.firings = append(b.firings, &triggering{row: row, plan: p, state: s})
	return nil
}

// prepare makes the change of a schedule: its new state, and the runs of the claims to launch now.
func (b *batch) prepare(ctx context.Context, f *triggering) ledger.ScheduleChange {
	c := ledger.ScheduleChange{Schedule: f.row, Delete: f.decision.Gone}
	for _, claim := range f.decision.State.Claimed {
		if claim.After.After(b.now) {
			continue
		}
		run, err := b.launcher.Prepare(ctx, f.plan.trigger(claim))
		if err != nil {
			f.launches = append(f.launches, launch{claim.RunID, err})
			continue
		}
		f.runs, c.Runs = append(f.runs, claim.RunID), append(c.Runs, run)
		if len(claim.Cancel) > 0 {
			c.Cancel, c.Reason = claim.Cancel, fmt.Sprintf("a later fire of schedule %s takes its place: %s", f.plan.ID, claim.RunID)
		}
	}
	c.Finish = func(answers []ledger.Accepted) ledger.Schedule { return f.finish(answers, b.now) }
	return c
}

// finish makes the row of the ledger's answers.
func (f *triggering) finish(answers []ledger.Accepted, now time.Time) ledger.Schedule {
	launches := f.launches
	for i, a := range answers {
		launches = append(launches, launch{f.runs[i], a.Err})
	}
	s := f.decision.State
	if len(launches) == 0 {
		return f.plan.row(&s, f.decision.Due, f.decision.Waits)
	}
	s, f.finished = finish(s, launches, now)
	return f.plan.row(&s, f.plan.due(&s, now, false), s.waits())
}

// report emits what was decided and launched.
func (b *batch) report(f *triggering) {
	id := f.plan.ID
	for _, k := range f.decision.Skips {
		b.events(Event{Kind: EventSkipped, Schedule: id, At: b.now, Skip: k, Payload: f.plan.Payload})
	}
	for _, s := range f.finished {
		switch {
		case s.skip != nil:
			b.events(Event{Kind: EventSkipped, Schedule: id, At: b.now, Skip: *s.skip, Payload: f.plan.Payload, Err: s.err})
		case s.err != nil:
			b.events(Event{Kind: EventFailed, Schedule: id, At: b.now, Trigger: f.plan.bare(s.claim), Err: s.err})
		default:
			b.events(Event{Kind: EventTriggered, Schedule: id, At: b.now, Trigger: f.plan.bare(s.claim), Late: b.now.Sub(f.plan.start(s.claim.Nominal))})
		}
	}
}

func (b *batch) trouble(id ID, err error) {
	if !errors.Is(err, core.ErrNotFound) {
		b.events(Event{Kind: EventTrouble, Schedule: id, At: b.now, Err: err})
	}
}

func idOf(row ledger.Schedule) ID { return ID{Tenant: row.Tenant, Name: row.Name} }

// read makes a row ready for decisions.
func (p *planner) read(row ledger.Schedule) (*plan, State, error) {
	if row.Unreadable != nil {
		return nil, State{}, Damaged(idOf(row), row.By, fmt.Errorf("schedule %s: %w", idOf(row), row.Unreadable))
	}
	d, s, err := Decode(idOf(row), row.Data)
	if err != nil {
		return nil, State{}, Damaged(idOf(row), row.By, err)
	}
	out, err := p.plan(d)
	if err != nil {
		return nil, State{}, Damaged(idOf(row), row.By, err)
	}
	if !row.Passed.IsZero() {
		out.pass(&s, row.Passed)
	}
	return out, s, nil
}

// Damaged adds to the error of a schedule that cannot be read what to do: by is who made it, "" of
// one of the definitions. While only its key is missing here, it is not damaged.
func Damaged(id ID, by string, err error) error {
	switch {
	case errors.Is(err, core.ErrUnavailable):
		return err
	case by == "":
		return fmt.Errorf("%w\nhint: turnus schedules rm %s; then the project makes it again", err, id)
	}
	return fmt.Errorf("%w\nhint: turnus schedules rm %s; then set it again", err, id)
}

// row is the ledger's record of a schedule, beside its name and versions.
func (p *plan) row(s *State, due time.Time, waits bool) ledger.Schedule {
	return ledger.Schedule{Due: due, Waits: waits, Data: Encode(p.Definition, *s)}
}

// pass counts all fire times that started until then as decided: nobody knows which were launched.
func (p *plan) pass(s *State, until time.Time) {
	s.Since = latest(s.Since, p.decided(s.Since, until))
	s.Claimed, s.Waiting, s.Backfill = nil, nil, nil
}
