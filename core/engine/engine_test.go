package engine_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/engine"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/snapshot"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// runOf launches ten hosts in waves of 2, 5 and 10; strategy has more of its lines.
func runOf(t *testing.T, strategy string) *launch.Launch {
	t.Helper()
	l, err := launch.Prepare(parse(t, "targets: true\nstrategy: {waves: [2, 5]"+strategy+"}\n"+command), fleet(10), launch.Options{RunID: "r", Types: types, Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ended is the first so many jobs with an outcome.
func ended(n int, o core.Outcome) []queue.FinishedJobs {
	return []queue.FinishedJobs{{Count: n, Outcome: o}}
}

// reported writes actions in few words.
func reported(actions []engine.Action) string {
	var out []string
	for _, a := range actions {
		text := string(a.Kind)
		switch a.Kind {
		case engine.Release:
			text += fmt.Sprint(" ", a.Limit)
		case engine.Notify:
			text = string(a.Event.Kind)
			if a.Event.Wave > 0 {
				text += fmt.Sprint(" ", a.Event.Wave)
			}
			if !a.Event.Until.IsZero() {
				text += " " + a.Event.Until.Format(time.TimeOnly)
			}
		case engine.Stop, engine.Cancel, engine.MarkStop, engine.Dismiss:
			text += ": " + a.Reason.Text()
		case engine.Signal:
			text += " " + a.Signal
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// Each row is a run of ten hosts in waves of 2, 5 and 10, and what follows in it at noon.
func TestNext(t *testing.T) {
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	yes, no := engine.Decision{By: "bob", Approved: true}, engine.Decision{By: "bob", Comment: "looks bad"}
	for name, c := range map[string]struct {
		strategy  string
		phase     engine.Phase // Active when empty
		status    queue.Status // Active, with the outcomes of recorded
		recorded  []queue.FinishedJobs
		progress  engine.Progress
		decisions map[int]engine.Decision
		want      string
		after     engine.Progress // except for Until
		until     time.Time
	}{
		"the first wave runs":           {status: queue.Status{Limit: 2, InFlight: 2}},
		"half of it is done":            {status: queue.Status{Limit: 2, InFlight: 1}, recorded: ended(1, core.Changed)},
		"it is done":                    {status: queue.Status{Limit: 2}, recorded: ended(2, core.Changed), want: "release 5, released 1"},
		"a server died behind a wave":   {status: queue.Status{Limit: 5}, recorded: ended(5, core.Unchanged), want: "release 10, released 2"},
		"all is released":               {status: queue.Status{Limit: 10}, recorded: ended(9, core.Changed)},
		"no host succeeded":             {status: queue.Status{Limit: 2}, recorded: ended(2, core.Failed), want: "stop: no host of wave 1 of 3 succeeded (2 failed)"},
		"no host did, and it continues": {strategy: ", on_failed_wave: continue", status: queue.Status{Limit: 2}, recorded: ended(2, core.Failed), want: "release 5, released 1"},
		"hosts wait for windows":        {status: queue.Status{Limit: 2, Deferred: 1, Pending: 1}, recorded: ended(1, core.Changed), want: "release 5, released 1"},
		"nobody is proven":              {status: queue.Status{Limit: 2, Deferred: 1, Pending: 1}, recorded: ended(1, core.Skipped)},
		"it waits for windows":          {strategy: ", wait_for_windows: true", status: queue.Status{Limit: 2, Deferred: 1, Pending: 1}, recorded: ended(1, core.Changed)},
		"stragglers, half is enough":    {strategy: ", next_wave_at: 50%", status: queue.Status{Limit: 2, InFlight: 1}, recorded: ended(1, core.Changed), want: "release 5, released 1"},
		"stragglers, in time": {
			strategy: ", next_wave_at: 3m", status: queue.Status{Limit: 2, InFlight: 1}, recorded: ended(1, core.Changed),
			after: engine.Progress{Began: noon}, until: noon.Add(3 * time.Minute),
		},
		"stragglers, time is up": {
			strategy: ", next_wave_at: 3m", status: queue.Status{Limit: 2, InFlight: 1}, recorded: ended(1, core.Changed),
			progress: engine.Progress{Began: ago(3 * time.Minute)}, want: "release 5, released 1", after: engine.Progress{Began: noon},
		},
		"a pause begins": {
			strategy: ", pause_between: 30m", status: queue.Status{Limit: 2}, recorded: ended(2, core.Changed),
			want: "pause 1 12:30:00", after: engine.Progress{Done: noon, Delayed: 1}, until: noon.Add(30 * time.Minute),
		},
		"a pause continues with another server": {
			strategy: ", pause_between: 30m", status: queue.Status{Limit: 2}, recorded: ended(2, core.Changed),
			progress: engine.Progress{Done: ago(10 * time.Minute), Delayed: 1}, after: engine.Progress{Done: ago(10 * time.Minute), Delayed: 1}, until: noon.Add(20 * time.Minute),
		},
		"the clock is set back in a pause": {
			strategy: ", pause_between: 30m", status: queue.Status{Limit: 2}, recorded: ended(2, core.Changed),
			progress: engine.Progress{Done: noon.Add(time.Hour), Delayed: 1}, after: engine.Progress{Done: noon, Delayed: 1}, until: noon.Add(30 * time.Minute),
		},
		"the clock is set back, with stragglers": {
			strategy: ", next_wave_at: 3m", status: queue.Status{Limit: 2, InFlight: 1}, recorded: ended(1, core.Changed),
			progress: engine.Progress{Began: noon.Add(time.Hour)}, after: engine.Progress{Began: noon}, until: noon.Add(3 * time.Minute),
		},
		"a pause is over": {
			strategy: ", pause_between: 30m", status: queue.Status{Limit: 2}, recorded: ended(2, core.Changed),
			progress: engine.Progress{Done: ago(30 * time.Minute), Delayed: 1}, want: "release 5, released 1", after: engine.Progress{Delayed: 1},
		},
		"a pause was over before the queue was lost": {
			strategy: ", pause_between: 30m", status: queue.Status{Limit: 2}, recorded: ended(2, core.Changed),
			progress: engine.Progress{Limit: 5, Delayed: 1}, want: "release 5, released 1", after: engine.Progress{Limit: 5, Delayed: 1},
		},
		"an approval is asked for": {
			strategy: ", pause_between: approve", status: queue.Status{Limit: 2}, recorded: ended(2, core.Changed),
			want: "ask 1", after: engine.Progress{Asked: 1}, until: noon.Add(2 * time.Second),
		},
		"it is not asked for twice": {
			strategy: ", pause_between: approve", status: queue.Status{Limit: 2}, recorded: ended(2, core.Changed),
			progress: engine.Progress{Asked: 1}, after: engine.Progress{Asked: 1}, until: noon.Add(2 * time.Second),
		},
		"it is given": {
			strategy: ", pause_between: approve", status: queue.Status{Limit: 2}, recorded: ended(2, core.Changed), progress: engine.Progress{Asked: 1},
			decisions: map[int]engine.Decision{1: yes}, want: "release 5, released 1", after: engine.Progress{Asked: 1},
		},
		"that of another wave is not enough": {
			strategy: ", pause_between: approve", status: queue.Status{Limit: 5}, recorded: ended(5, core.Changed), progress: engine.Progress{Asked: 1},
			decisions: map[int]engine.Decision{1: yes}, want: "ask 2", after: engine.Progress{Asked: 2}, until: noon.Add(2 * time.Second),
		},
		"it is refused": {
			strategy: ", pause_between: approve", status: queue.Status{Limit: 2}, recorded: ended(2, core.Changed), progress: engine.Progress{Asked: 1},
			decisions: map[int]engine.Decision{1: no}, want: "cancel: wave 2 was not approved: bob refused it: looks bad", after: engine.Progress{Asked: 1},
		},
		"paused in the queue":     {phase: engine.Paused, status: queue.Status{Phase: queue.Paused, Limit: 2}, recorded: ended(2, core.Changed)},
		"paused in the ledger":    {phase: engine.Paused, status: queue.Status{Limit: 2}, recorded: ended(2, core.Changed), want: "pause"},
		"resumed in the ledger":   {status: queue.Status{Phase: queue.Paused, Limit: 2}, recorded: ended(2, core.Changed), want: "resume", until: noon.Add(time.Second)},
		"resumed while put in":    {phase: engine.Queued, status: queue.Status{Phase: queue.Paused, Limit: 2}, want: "activate, resume", until: noon.Add(time.Second)},
		"cancelled in the ledger": {phase: engine.Cancelled, status: queue.Status{Limit: 2}, recorded: ended(2, core.Changed), want: "cancel: the reason"},
		"cancelled in both":       {phase: engine.Cancelled, status: queue.Status{Phase: queue.Cancelled, Limit: 2, InFlight: 1}, recorded: ended(1, core.Changed)},
		"stopped by the queue": {
			status: queue.Status{Phase: queue.Stopped, Reason: "too many failed", Limit: 2}, recorded: ended(2, core.Changed),
			want: "stopped, markstop: too many failed", after: engine.Progress{Stopped: true},
		},
		"that is told once": {
			phase: engine.Stopped, status: queue.Status{Phase: queue.Stopped, Reason: "too many failed", Limit: 2}, recorded: ended(2, core.Changed),
			progress: engine.Progress{Stopped: true}, after: engine.Progress{Stopped: true},
		},
		"complete": {phase: engine.Cancelled, status: queue.Status{Phase: queue.Finished, Limit: 10, Complete: true}, recorded: ended(10, core.Changed)},
	} {
		t.Run(name, func(t *testing.T) {
			l := runOf(t, c.strategy)
			in := engine.Input{Launch: l, Results: engine.NewResults(l, c.recorded...), Progress: c.progress, Phase: c.phase, Reason: "the reason", Status: c.status, Decisions: c.decisions, Now: noon}
			if in.Phase == "" {
				in.Phase = engine.Active
			}
			if in.Status.Phase == "" {
				in.Status.Phase = queue.Active
			}
			in.Status.Total, in.Status.Outcomes = 10, map[core.Outcome]int{}
			for _, s := range c.recorded {
				in.Status.Outcomes[s.Outcome] += s.Count
			}
			progress, actions := engine.Next(in)
			until := progress.Until
			for _, a := range actions {
				if a.Kind == engine.Release { // which c.want has
					c.after.Limit = a.Limit
				}
			}
			if progress.Until = (time.Time{}); !reflect.DeepEqual(progress, c.after) || !until.Equal(c.until) {
				t.Errorf("progress %+v until %v, expected %+v until %v", progress, until, c.after, c.until)
			}
			if got := reported(actions); got != c.want {
				t.Errorf("%s\nexpected\n%s", got, c.want)
			}
		})
	}
}

// The next check follows the monotonic clock, also if the ledger has kept the start of the pause.
func TestUntilOutlivesAClockThatIsSetBack(t *testing.T) {
	now := time.Now()
	status := queue.Status{Phase: queue.Active, Total: 10, Limit: 2, Outcomes: map[core.Outcome]int{core.Changed: 2}}
	in := engine.Input{
		Launch: runOf(t, ", pause_between: 30m"), Phase: engine.Active, Status: status, Now: now,
		Progress: engine.Progress{Done: now.Add(-10 * time.Minute).Round(0), Delayed: 1},
	}
	in.Results = engine.NewResults(in.Launch, ended(2, core.Changed)...)
	p, _ := engine.Next(in)
	if !p.Until.Round(0).Equal(now.Add(20*time.Minute).Round(0)) || !strings.Contains(p.Until.String(), " m=") {
		t.Errorf("again at %v, expected 20 minutes after %v by the monotonic clock", p.Until, now)
	}
}

// While there are records to read that the status counts, nothing is decided: a wave would be taken
// for one that failed.
func TestNextWaitsForRecords(t *testing.T) {
	l := runOf(t, "")
	status := queue.Status{Phase: queue.Active, Total: 10, Limit: 2, Outcomes: map[core.Outcome]int{core.Changed: 2}}
	in := engine.Input{Launch: l, Results: engine.NewResults(l), Phase: engine.Active, Status: status, Now: noon}
	if p, actions := engine.Next(in); len(actions) > 0 || !p.Until.Equal(noon.Add(time.Second)) {
		t.Errorf("%s, again at %v", reported(actions), p.Until)
	}
}

// Each row is four hosts behind a barrier, of which some wait at it.
func TestNextAtABarrier(t *testing.T) {
	one, two := snapshot.TurnEvent(1, 0), snapshot.TurnEvent(1, 1)
	oneAndOne := []queue.FinishedJobs{{Count: 1, Outcome: core.Changed}, {Index: 1, Count: 1, Outcome: core.Failed}}
	for name, c := range map[string]struct {
		after    string
		resumes  bool
		recorded []queue.FinishedJobs
		status   queue.Status
		awaited  map[string]int
		progress engine.Progress
		want     string
		then     engine.Progress
		until    time.Time
	}{
		"not all have come": {status: queue.Status{Limit: 4, InFlight: 1, Suspended: 3}, awaited: map[string]int{one: 2, two: 1}},
		"all have come":     {status: queue.Status{Limit: 4, Suspended: 4}, awaited: map[string]int{one: 2, two: 2}, want: "signal " + one + ", released 2", then: engine.Progress{Pass: 1, Open: 1}},
		"that was lost":     {status: queue.Status{Limit: 4, Suspended: 4}, awaited: map[string]int{one: 2, two: 2}, progress: engine.Progress{Pass: 1, Open: 1}, want: "signal " + one, then: engine.Progress{Pass: 1, Open: 1}},
		"the first wave is done": {
			recorded: ended(2, core.Changed), status: queue.Status{Limit: 4, Suspended: 2}, awaited: map[string]int{two: 2}, progress: engine.Progress{Pass: 1, Open: 1},
			want: "signal " + two + ", released 3", then: engine.Progress{Pass: 1, Open: 2},
		},
		"another server's first look": {
			recorded: ended(2, core.Changed), status: queue.Status{Limit: 4, Suspended: 2}, awaited: map[string]int{two: 2},
			want: "signal " + two + ", released 3", then: engine.Progress{Pass: 1, Open: 2},
		},
		"it is not known who waits": {status: queue.Status{Limit: 4, Suspended: 4}, until: noon.Add(50 * time.Millisecond)},
		"one has failed": {
			recorded: ended(1, core.Failed), status: queue.Status{Limit: 4, Suspended: 3}, awaited: map[string]int{one: 1, two: 2},
			want: "dismiss: step b begins after all hosts, and not all came to it: h0000 (failed); see to them, and launch the run again: what is done is then unchanged, " +
				"dismiss: step b begins after all hosts, and not all came to it: h0000 (failed); see to them, and launch the run again: what is done is then unchanged, closed",
		},
		"one has failed, the others continue": {
			after: "remaining_hosts", recorded: ended(1, core.Failed), status: queue.Status{Limit: 4, Suspended: 3}, awaited: map[string]int{one: 1, two: 2},
			want: "signal " + one + ", released 2", then: engine.Progress{Pass: 1, Open: 1},
		},
		"one of a retry has failed, another kept its steps": {
			resumes: true, recorded: oneAndOne, status: queue.Status{Limit: 4, Suspended: 2}, awaited: map[string]int{two: 2},
			want: "dismiss: step b begins after all hosts, and not all came to it: h0001 (failed); see to them, and launch the run again: what is done is then unchanged, closed",
		},
		"one of a retry has failed behind it": {
			resumes: true, recorded: oneAndOne, status: queue.Status{Limit: 4, Suspended: 2}, awaited: map[string]int{two: 2}, progress: engine.Progress{Pass: 1, Open: 1},
			want: "signal " + two + ", released 3", then: engine.Progress{Pass: 1, Open: 2},
		},
		"one has failed behind it": {
			recorded: oneAndOne, status: queue.Status{Limit: 4, Suspended: 2}, awaited: map[string]int{two: 2},
			want: "signal " + two + ", released 3", then: engine.Progress{Pass: 1, Open: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.after == "" {
				c.after = "all_hosts"
			}
			body := "targets: true\nstrategy: {waves: [2]}\nsteps: [{name: a, uses: command, with: {run: x}}, {name: b, after: " + c.after + ", uses: command, with: {run: x}}]\n"
			l, err := launch.Prepare(parse(t, body), fleet(4), launch.Options{RunID: "r", Types: types, Now: noon})
			if err != nil {
				t.Fatal(err)
			}
			if c.resumes {
				l.Snapshot.Resumes = "earlier"
			}
			c.status.Phase, c.status.Total, c.status.Outcomes = queue.Active, 4, map[core.Outcome]int{}
			for _, s := range c.recorded {
				c.status.Outcomes[s.Outcome] += s.Count
			}
			p, actions := engine.Next(engine.Input{Launch: l, Results: engine.NewResults(l, c.recorded...), Progress: c.progress, Phase: engine.Active, Status: c.status, Awaited: c.awaited, Now: noon})
			until := p.Until
			if p.Until = (time.Time{}); p != c.then || !until.Equal(c.until) {
				t.Errorf("progress %+v until %v, expected %+v until %v", p, until, c.then, c.until)
			}
			if got := reported(actions); got != c.want {
				t.Errorf("%s\nexpected\n%s", got, c.want)
			}
		})
	}
}

// A queue that came back older has forgotten outcomes: what may have begun is doubted, what must
// not be repeated is paused, once.
func TestOlder(t *testing.T) {
	for name, c := range map[string]struct {
		recorded, knows int
		phase           engine.Phase
		repeatable      bool
		progress        engine.Progress
		begun           int
		hold            bool
		after           engine.Progress
	}{
		"it knows all":                  {recorded: 3, knows: 3, phase: engine.Active},
		"it knows more":                 {recorded: 3, knows: 4, phase: engine.Active},
		"it has forgotten two":          {recorded: 3, knows: 1, phase: engine.Active, begun: 5, hold: true, after: engine.Progress{Behind: 2}},
		"that may be repeated":          {recorded: 3, knows: 1, phase: engine.Active, repeatable: true, begun: 5, after: engine.Progress{Behind: 2}},
		"it is paused anyway":           {recorded: 3, knows: 1, phase: engine.Paused, begun: 5, after: engine.Progress{Behind: 2}},
		"somebody resumed it":           {recorded: 3, knows: 1, phase: engine.Active, progress: engine.Progress{Behind: 2}, after: engine.Progress{Behind: 2}},
		"it forgot more after that":     {recorded: 3, knows: 0, phase: engine.Active, progress: engine.Progress{Behind: 2}, begun: 5, hold: true, after: engine.Progress{Behind: 3}},
		"they have all ended once more": {recorded: 3, knows: 3, phase: engine.Active, progress: engine.Progress{Behind: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			l := runOf(t, "")
			if c.repeatable {
				l.Run.OnLost = queue.LostRetry
			}
			in := engine.Input{
				Launch: l, Results: engine.NewResults(l, ended(c.recorded, core.Changed)...), Recorded: c.recorded, Progress: c.progress, Phase: c.phase, Now: noon,
				Status: queue.Status{Phase: queue.Active, Total: 10, Limit: 5, Outcomes: map[core.Outcome]int{core.Changed: c.knows}},
			}
			p, begun, hold := engine.Older(&in)
			if p != c.after || begun != c.begun || hold != c.hold {
				t.Errorf("%+v, %d begun, hold %v", p, begun, hold)
			}
		})
	}
}

// In a queue that is known to have lost changes, jobs may have begun that it does not have in
// flight. The control is a run whose open jobs are all in flight: the queue knows of them.
func TestForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		recorded, inFlight int
		phase              engine.Phase
		repeatable         bool
		begun              int
		hold               bool
	}{
		"some may have begun":         {recorded: 3, phase: engine.Active, begun: 5, hold: true},
		"one more may have begun":     {recorded: 3, inFlight: 1, phase: engine.Active, begun: 5, hold: true},
		"all that are open run":       {recorded: 3, inFlight: 2, phase: engine.Active},
		"they may be repeated":        {recorded: 3, phase: engine.Active, repeatable: true, begun: 5},
		"it is paused anyway":         {recorded: 3, phase: engine.Paused, begun: 5},
		"the next wave has not begun": {recorded: 5, inFlight: 5, phase: engine.Active},
	} {
		t.Run(name, func(t *testing.T) {
			l := runOf(t, "")
			if c.repeatable {
				l.Run.OnLost = queue.LostRetry
			}
			begun, hold := engine.Forgotten(&engine.Input{
				Launch: l, Results: engine.NewResults(l, ended(c.recorded, core.Changed)...), Recorded: c.recorded, Phase: c.phase, Now: noon,
				Status: queue.Status{Phase: queue.Active, Total: 10, Limit: 5, InFlight: c.inFlight, Outcomes: map[core.Outcome]int{core.Changed: c.recorded}},
			})
			if begun != c.begun || hold != c.hold {
				t.Errorf("%d begun, hold %t; expected %d, %t", begun, hold, c.begun, c.hold)
			}
		})
	}
}

// A wave does not wait for stragglers, or for hosts that wait for windows: how far the waves are
// released is in the progress. Without it they are released in order.
func TestBegun(t *testing.T) {
	for name, c := range map[string]struct {
		finished []queue.FinishedJobs
		limit    int
		begun    int
	}{
		"nothing has ended":                 {begun: 2},
		"the first wave has ended":          {finished: ended(2, core.Changed), limit: 5, begun: 5},
		"progress of an older version":      {finished: ended(2, core.Changed), begun: 5},
		"the second left a straggler":       {finished: []queue.FinishedJobs{{Index: 1, Count: 1, Outcome: core.Changed}}, limit: 5, begun: 5},
		"the third left two":                {finished: []queue.FinishedJobs{{Index: 1, Count: 3, Outcome: core.Changed}}, limit: 10, begun: 10},
		"a queue that began again":          {finished: ended(1, core.Changed), limit: 5, begun: 5},
		"all that was released has ended":   {finished: ended(10, core.Changed), limit: 10},
		"the first wave, and no second yet": {finished: ended(1, core.Changed), begun: 2},
	} {
		t.Run(name, func(t *testing.T) {
			l := runOf(t, "")
			if begun := engine.Begun(l, engine.NewResults(l, c.finished...), engine.Progress{Limit: c.limit}, noon); begun != c.begun {
				t.Errorf("%d begun, expected %d", begun, c.begun)
			}
		})
	}
}

// Progress comes back as it was, and that of most runs takes no room.
func TestProgressIsKept(t *testing.T) {
	if text, err := (engine.Progress{Until: noon}).Encode(); text != "" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	want := engine.Progress{Asked: 2, Delayed: 1, Limit: 4, Began: noon, Done: noon, Pass: 1, Open: 2, Stopped: true, Behind: 3, Opening: &engine.Opening{Set: "night", At: noon}}
	text, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := engine.DecodeProgress(text); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if p, err := engine.DecodeProgress(`{"asked":1,"newer":true}`); err != nil || p.Asked != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := engine.DecodeProgress("{"); err == nil {
		t.Error("broken progress is read")
	}
}
