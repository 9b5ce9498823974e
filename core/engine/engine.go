// Package engine decides what happens next in a run: which wave is released, when hosts may pass a
// barrier, who is asked for an approval, when the run stops. Next is a pure function of what is
// known; core/controller reads that, acts, and keeps Progress in the ledger, so that any server can
// continue.
//
// It must not know queues beyond their types, the ledger, or how things are shown.
package engine

import (
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/rollout"
)

// Input is the known state of a run.
type Input struct {
	Launch    *launch.Launch
	Results   *Results            // everything that is recorded
	Recorded  int                 // how much that was before Status was read
	Progress  Progress            // what Next returned before
	Phase     Phase               // what people asked for, as the ledger has it
	Reason    core.Reason         // of Phase
	Status    queue.Status        // in the queue
	Awaited   map[string]int      // suspended jobs by their event, of the moment of Status; nil: not known
	Decisions map[int]Decision    // by wave
	Once      []Once              // of the steps that one host calls, those of which the ledger has that host
	Windows   *admission.Calendar // for EventWaiting; nil: it is not wanted
	Now       time.Time
}

// Phase is the state of a run in the ledger.
type Phase string

// The phases that matter here; their names are the ledger's.
const (
	Queued    Phase = "queued"
	Active    Phase = "active"
	Paused    Phase = "paused"
	Stopped   Phase = "stopped"
	Cancelled Phase = "cancelled"
)

// Decision is a person's decision on a wave.
type Decision struct {
	By       string
	Approved bool
	Comment  string
}

// Progress is the state of a run that Next remembers between two calls. Losing it costs a repeated
// event, or a pause that begins again; no host is touched twice. The zero value is that of a new
// run, and of every run without waves.
type Progress struct {
	Asked   int       `json:"asked,omitempty"`   // last wave, from 1, for which an approval was asked; 0 is none
	Delayed int       `json:"delayed,omitempty"` // last wave before which a pause was announced
	Limit   int       `json:"limit,omitempty"`   // hosts of the waves that were released, written down before the queue hears of it; 0 is the first wave
	Began   time.Time `json:"began,omitzero"`    // when the last wave was released, where time ends a wave
	Done    time.Time `json:"done,omitzero"`     // when the released waves were seen done, where a pause follows
	Pass    int       `json:"pass,omitempty"`    // pass of the last wave that was opened behind a barrier
	Open    int       `json:"open,omitempty"`    // waves of it that are open
	Stopped bool      `json:"stopped,omitempty"` // that the queue stopped the run was announced
	Behind  int       `json:"behind,omitempty"`  // recorded outcomes that the queue had forgotten, at most
	Waits   time.Time `json:"waits,omitzero"`    // since when hosts wait for windows, where EventWaiting is wanted
	Opening *Opening  `json:"opening,omitempty"` // of the last EventWaiting

	Until time.Time `json:"-"` // when to check the run although nothing happens; zero: never
}

// Kind is the kind of an action.
type Kind string

// The actions. All of them may be repeated.
const (
	Release  Kind = "release"  // raise the queue's limit to Limit
	Signal   Kind = "signal"   // let the jobs continue that are suspended for Signal
	Dismiss  Kind = "dismiss"  // end the jobs that are suspended for Signal, for Reason
	Stop     Kind = "stop"     // stop the run in the queue, for Reason
	Cancel   Kind = "cancel"   // cancel it in the queue, for Reason
	Pause    Kind = "pause"    // pause it in the queue
	Resume   Kind = "resume"   // let it continue in the queue, once jobs of a lost queue cannot run any more
	Activate Kind = "activate" // write down that it is active
	MarkStop Kind = "markstop" // write down that the queue stopped it, for Reason
	Notify   Kind = "notify"   // notify people about Event
	Elect    Kind = "elect"    // write down which host calls step Step, and signal the hosts that wait for it
	Keep     Kind = "keep"     // write down the result of step Step, and signal the hosts that wait for it
	Share    Kind = "share"    // post the record of step Step again, and signal the jobs that are suspended for Signal
)

// Action is one thing to do.
type Action struct {
	Kind   Kind
	Limit  int
	Signal string
	Step   int // index in the playbook
	Reason core.Reason
	Event  Event
}

// retry is how soon a run is checked again whose action may have had no effect yet.
const retry = time.Second

// askAgain is how soon jobs that wait at a barrier are counted again, where their count was not of
// one moment.
const askAgain = 50 * time.Millisecond

// decideEvery is how often decisions are read when nothing reports that there is one: another
// server may have taken it.
const decideEvery = 2 * time.Second

// Next returns what to do now, in this order, and what to remember once that is done.
func Next(in Input) (Progress, []Action) {
	d := &decider{Input: &in, p: in.Progress}
	d.p.Until = time.Time{}
	if in.Status.Phase == queue.Stopped && !d.p.Stopped {
		d.p.Stopped = true
		d.notify(Event{Kind: EventStopped, Reason: in.Status.Reason.Text()})
	}
	switch {
	case in.Status.Complete, !d.agree():
	case in.Results.Count() < in.Status.Ended(): // the status is newer than the records: there are more to read
		d.until(in.Now.Add(retry))
	default:
		d.waiting()
		if !d.once() {
			d.advance()
		}
	}
	return d.p, d.actions
}

// decider is one call of Next.
type decider struct {
	*Input
	p         Progress
	atBarrier atBarrier
	actions   []Action
}

func (d *decider) do(a Action) { d.actions = append(d.actions, a) }

func (d *decider) notify(e Event) {
	e.Run = d.Launch.Run.ID
	d.do(Action{Kind: Notify, Event: e})
}

// until makes the run due for a check at t or earlier. A clock that is set back meanwhile does not
// delay it.
func (d *decider) until(t time.Time) {
	t = d.Now.Add(t.Sub(d.Now)) // t may be of the ledger: without the reading of the monotonic clock
	if d.p.Until.IsZero() || t.Before(d.p.Until) {
		d.p.Until = t
	}
}

// agree brings ledger and queue together, and reports whether they agreed. The request of a person
// is in the ledger, even if the queue was away; the queue alone decides that a run was stopped.
func (d *decider) agree() bool {
	has := d.Status.Phase
	switch {
	case d.Phase == Cancelled && has != queue.Cancelled:
		d.do(Action{Kind: Cancel, Reason: d.Reason})
	case has == queue.Stopped && d.Phase != Stopped && d.Phase != Cancelled:
		d.do(Action{Kind: MarkStop, Reason: d.Status.Reason})
	case d.Phase == Stopped && (has == queue.Active || has == queue.Paused): // a queue that was lost had stopped it
		d.do(Action{Kind: Stop, Reason: d.Reason})
	case d.Phase == Queued: // it was released while it was being put into the queue
		d.do(Action{Kind: Activate})
		d.do(Action{Kind: Resume})
		d.until(d.Now.Add(retry))
	case d.Phase == Paused && has == queue.Active:
		d.do(Action{Kind: Pause})
	case d.Phase == Active && has == queue.Paused:
		d.do(Action{Kind: Resume})
		d.until(d.Now.Add(retry))
	default:
		return true
	}
	return false
}

// advance releases the next wave when it is its turn, or reports what it waits for.
func (d *decider) advance() {
	l, strategy := d.Launch, d.Launch.Playbook.Strategy
	if l.Waves() == 1 && l.Snapshot.Turns == nil {
		return
	}
	for _, at := range []*time.Time{&d.p.Began, &d.p.Done} {
		if at.After(d.Now) { // the clock was set back
			*at = d.Now
		}
	}
	if strategy.NextWaveAt.After > 0 && d.p.Began.IsZero() {
		d.p.Began = d.Now
	}
	last := rollout.Wave(l.Limits, d.Status.Limit-1)
	p := rollout.Progress{
		Released: d.Status.Limit, Finished: d.Status.Ended(), Deferred: d.Status.Deferred,
		Proven: d.Results.proven[last], Succeeded: d.Results.good[last],
		Held: d.Status.Phase != queue.Active, Reached: d.p.Limit, Began: d.p.Began, Now: d.Now,
	}
	limits := l.Limits
	if l.Snapshot.Turns != nil {
		var decides bool
		if limits, decides = d.barriers(&p); !decides {
			return
		}
	}
	switch {
	case strategy.PauseBetween.For <= 0: // nothing asks since when
	case !p.WaveDone(strategy):
		d.p.Done = time.Time{}
	case d.p.Done.IsZero():
		d.p.Done = d.Now
	}
	p.Done = d.p.Done
	d.follow(rollout.Next(limits, strategy, p), limits, strategy, p)
}

// follow acts on the decision of the rollout.
func (d *decider) follow(next rollout.Decision, limits []int, strategy rollout.Strategy, p rollout.Progress) {
	if !next.Until.IsZero() {
		d.until(next.Until)
	}
	switch next.Action {
	case rollout.Release:
		d.release(next)
	case rollout.Stop:
		d.stop(next.Wave)
	case rollout.Delay:
		if d.p.Delayed < next.Wave {
			d.p.Delayed = next.Wave
			d.notify(Event{Kind: EventPause, Wave: next.Wave, Until: next.Until})
		}
	case rollout.Ask:
		switch decided, ok := d.Decisions[next.Wave]; {
		case !ok:
			d.ask(next.Wave)
		case decided.Approved:
			p.Approved = next.Wave
			d.follow(rollout.Next(limits, strategy, p), limits, strategy, p)
		default:
			d.do(Action{Kind: Cancel, Reason: core.Because(core.WaveRefused, fmt.Sprintf("wave %d was not approved: %s refused it: %s", next.Wave+1, decided.By, decided.Comment))})
		}
	}
}

func (d *decider) ask(wave int) {
	if d.p.Asked < wave {
		d.p.Asked = wave
		d.notify(Event{Kind: EventAsk, Wave: wave})
	}
	d.until(d.Now.Add(decideEvery))
}

func (d *decider) release(next rollout.Decision) {
	if next.Wave >= len(d.Launch.Limits) {
		d.open(next)
	} else {
		d.do(Action{Kind: Release, Limit: next.Limit})
		d.p.Limit = max(d.p.Limit, next.Limit)
	}
	if !d.p.Began.IsZero() {
		d.p.Began = d.Now
	}
	d.p.Done = time.Time{}
	d.notify(Event{Kind: EventReleased, Wave: next.Wave})
}

// stop stops the run behind a wave of which no host succeeded.
func (d *decider) stop(wave int) {
	limits := d.Launch.Limits
	wave %= len(limits)
	from := 0
	if wave > 0 {
		from = limits[wave-1]
	}
	d.do(Action{Kind: Stop, Reason: core.Because(core.WaveFailed, failedWave(wave, len(limits), d.Results.outcome[from:limits[wave]]))})
}

// failedWave returns why a run stops behind a wave of which no host succeeded.
func failedWave(wave, waves int, outcomes []core.Outcome) string {
	count := map[core.Outcome]int{}
	for _, o := range outcomes {
		count[o]++
	}
	var counts []string
	for _, o := range core.Outcomes() {
		if count[o] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", count[o], o))
		}
	}
	return fmt.Sprintf("no host of wave %d of %d succeeded (%s)", wave+1, waves, strings.Join(counts, ", "))
}
