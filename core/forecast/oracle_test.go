package forecast

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/windows"
)

// random is a small run; its durations are whole minutes.
func random(t *rapid.T, sets map[string]*windows.Compiled) Input {
	in := Input{
		At: monday.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "at")) * time.Hour), HAGroups: rapid.Bool().Draw(t, "ha"),
		Concurrency: rapid.IntRange(0, 4).Draw(t, "slots"), MaxInFlight: rapid.IntRange(0, 4).Draw(t, "in flight"), PerGroup: rapid.IntRange(0, 2).Draw(t, "per group"),
		WaitForWindows: rapid.Bool().Draw(t, "wait"), Samples: 1,
		// Not Finished: the simulation counts a host whose window closed while it was ready only at the
		// next event.
		NextWaveAt: rollout.NextWave{After: rapid.SampledFrom([]time.Duration{0, 90 * time.Minute}).Draw(t, "next wave")},
	}
	wave := 0
	for i := range rapid.IntRange(1, 9).Draw(t, "hosts") {
		h := Host{Name: fmt.Sprint(i), Work: &Work{}}
		wave += rapid.IntRange(0, 4).Draw(t, "wave") / 4
		h.Wave = wave
		h.HAGroup = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "ha group")
		h.Group = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "group")
		h.Windows = sets[rapid.SampledFrom([]string{"night", "long", "cutoff"}).Draw(t, "set")]
		for range rapid.IntRange(1, 3).Draw(t, "stages") {
			took := time.Duration(rapid.IntRange(1, 200).Draw(t, "minutes")) * time.Minute
			h.Work.Stages = append(h.Work.Stages, Stage{
				Windowed: rapid.Bool().Draw(t, "gated"), Need: time.Duration(rapid.IntRange(1, 240).Draw(t, "need")) * time.Minute,
				Steps: []Step{{Took: always(took)}},
			})
		}
		in.Hosts = append(in.Hosts, h)
	}
	return in
}

func randomSets(tb testing.TB) map[string]*windows.Compiled {
	tb.Helper()
	out := map[string]*windows.Compiled{}
	for _, name := range []string{"night", "long", "cutoff"} {
		out[name] = compiled(tb, name)
	}
	return out
}

// job is the oracle's host.
type job struct {
	Host
	stage    int
	left     int // minutes of the stage that runs; 0: it does not run
	released bool
	done     bool
	ends     []time.Time
}

// slack reports whether the job may start its stage now, and the last minute at which it may.
func (j *job) slack(now time.Time) (last time.Time, may bool) {
	s := j.Work.Stages[j.stage]
	if !s.Windowed {
		return now.AddDate(10, 0, 0), true
	}
	start, err := j.Windows.Next(now, s.Need)
	if err != nil || !start.Equal(now) {
		return time.Time{}, false
	}
	e, _ := j.Windows.Explain(now, s.Need)
	return e.Window.Close.Add(-max(s.Need, j.Windows.Cutoff)), true
}

// bruteForce checks every host in every minute.
func bruteForce(in Input, minutes int) []*job {
	var jobs []*job
	for _, h := range in.Hosts {
		jobs = append(jobs, &job{Host: h})
	}
	wave, began := -1, in.At
	for minute := range minutes {
		now := in.At.Add(time.Duration(minute) * time.Minute)
		for _, j := range jobs {
			if j.left > 0 {
				if j.left--; j.left == 0 {
					j.finished(now)
				}
			}
		}
		for {
			startAll(in, jobs, now)
			if wave == in.Hosts[len(in.Hosts)-1].Wave || !waveDone(in, jobs, wave, now.Sub(began), now) {
				break
			}
			wave, began = wave+1, now
			for _, j := range jobs {
				j.released = j.released || j.Wave == wave
			}
		}
	}
	return jobs
}

func (j *job) finished(now time.Time) {
	j.ends = append(j.ends, now)
	if j.stage++; j.stage == len(j.Work.Stages) {
		j.done = true
	} else if _, may := j.slack(now); may {
		j.run()
	}
}

func (j *job) run() { j.left = int(j.Work.Stages[j.stage].Steps[0].Took.Quantile(0.5) / time.Minute) }

func waveDone(in Input, jobs []*job, wave int, lasted time.Duration, now time.Time) bool {
	released, finished, deferred, proven := 0, 0, 0, wave < 0
	for _, j := range jobs {
		if !j.released {
			continue
		}
		released++
		if j.done {
			finished++
			proven = proven || j.Wave == wave
		} else if _, may := j.slack(now); j.left == 0 && !may {
			deferred++
		}
	}
	if finished == released || !proven {
		return finished == released
	}
	if !in.WaitForWindows {
		finished += deferred
	}
	next := in.NextWaveAt
	return finished == released || next.After > 0 && lasted >= next.After
}

func startAll(in Input, jobs []*job, now time.Time) {
	type waiting struct {
		*job
		last time.Time
	}
	var list []waiting
	for _, j := range jobs {
		if j.released && !j.done && j.left == 0 {
			if last, may := j.slack(now); may {
				list = append(list, waiting{j, last})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b waiting) int { return a.last.Compare(b.last) })
	for _, w := range list {
		all, ha, group := 0, 0, 0
		for _, o := range jobs {
			if o.left > 0 {
				all++
				if o.HAGroup == w.HAGroup {
					ha++
				}
				if o.Group == w.Group {
					group++
				}
			}
		}
		switch {
		case in.Concurrency > 0 && all >= in.Concurrency, in.MaxInFlight > 0 && all >= in.MaxInFlight:
			return
		case in.HAGroups && w.HAGroup != "" && ha > 0, in.PerGroup > 0 && w.Group != "" && group >= in.PerGroup:
			continue
		}
		w.run()
	}
}

func TestForecastIsWhatEveryMinuteSays(t *testing.T) {
	sets := randomSets(t)
	rapid.Check(t, func(t *rapid.T) {
		in := random(t, sets)
		r, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		in.Hosts = slices.Clone(in.Hosts)
		for i := range slices.Backward(slices.Clone(in.Hosts)) {
			if r.Hosts[i].Never != "" { // it takes no part
				in.Hosts = slices.Delete(in.Hosts, i, i+1)
				r.Hosts = slices.Delete(r.Hosts, i, i+1)
			}
		}
		if len(in.Hosts) == 0 {
			return
		}
		const days = 6
		for i, j := range bruteForce(in, days*24*60) {
			if !j.done {
				continue // it has long queues
			}
			if got, want := r.Hosts[i].Finish, j.ends[len(j.ends)-1]; !got.Equal(want) {
				t.Fatalf("host %d is done at %s, by every minute %s: %v", i, got, want, r.Hosts[i])
			}
		}
	})
}

// broken returns what a traced simulation does that no run may do.
func broken(in Input, s *sim) string {
	type change struct {
		at   time.Time
		by   int
		host int
	}
	var all []change
	ha, group := map[string]int{}, map[string]int{}
	for i, h := range in.Hosts {
		for _, run := range s.runs[i] {
			all = append(all, change{run.From, 1, i}, change{run.To, -1, i})
		}
		if len(h.Work.Stages) == 1 && h.Work.Stages[0].Windowed && s.begin[i] != never {
			if next, err := h.Windows.Next(instant(s.begin[i]), h.Work.Stages[0].Need); err != nil || !next.Equal(instant(s.begin[i])) {
				return fmt.Sprintf("host %d starts at %s, outside its windows", i, instant(s.begin[i]))
			}
		}
	}
	slices.SortStableFunc(all, func(a, b change) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.by - b.by
	})
	flying := 0
	for _, c := range all {
		h := in.Hosts[c.host]
		flying += c.by
		ha[h.HAGroup] += c.by
		group[h.Group] += c.by
		switch {
		case in.Concurrency > 0 && flying > in.Concurrency || in.MaxInFlight > 0 && flying > in.MaxInFlight:
			return fmt.Sprintf("%d at once at %s", flying, c.at)
		case in.HAGroups && h.HAGroup != "" && ha[h.HAGroup] > 1:
			return "HA group " + h.HAGroup + " overlaps"
		case in.PerGroup > 0 && h.Group != "" && group[h.Group] > in.PerGroup:
			return "too many of group " + h.Group
		}
	}
	return ""
}

// traced simulates one sample of random durations.
func traced(tb interface{ Fatal(args ...any) }, in Input, l limits, sample uint64) *sim {
	m, err := newModel(in)
	if err != nil {
		tb.Fatal(err)
	}
	s := newSim(m, l)
	m.draw(s.took, sample)
	s.run(true)
	return s
}

// vary gives the stages durations that vary.
func vary(in *Input) {
	for i := range in.Hosts {
		for k := range in.Hosts[i].Work.Stages {
			step := &in.Hosts[i].Work.Stages[k].Steps[0]
			step.Took, _ = Assumed(step.Took.Quantile(0.5), 3*step.Took.Quantile(0.5))
			step.Attempts, step.Fails = 3, 0.2
		}
	}
}

func TestNoSimulationBreaksALimit(t *testing.T) {
	sets := randomSets(t)
	rapid.Check(t, func(t *rapid.T) {
		in := random(t, sets)
		vary(&in)
		s := traced(t, in, limitsOf(in), rapid.Uint64().Draw(t, "sample"))
		if why := broken(in, s); why != "" {
			t.Fatal(why)
		}
		in.Samples = 20
		r, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		if r.FinishP50.After(r.FinishP90) {
			t.Fatalf("P50 %s is after P90 %s", r.FinishP50, r.FinishP90)
		}
		for i, h := range r.Hosts {
			if h.Never == "" && !h.Start.IsZero() && (h.Start.Before(h.Earliest) || h.Start.Before(h.Begin) || h.Late.Before(h.Finish)) {
				t.Fatalf("host %d: %+v", i, h)
			}
		}
	})
}

// The negative control: with a guard taken out, the test above notices.
func TestSimulationWithoutAGuardIsNoticed(t *testing.T) {
	night := []string{"night ha=a group=x", "night ha=a group=y", "night group=x", "night"}
	in := Input{At: monday, Concurrency: 2, HAGroups: true, PerGroup: 1, Hosts: fleet(t, time.Hour, time.Hour, night...)}
	whole := limitsOf(in)
	if why := broken(in, traced(t, in, whole, 0)); why != "" {
		t.Fatal(why)
	}
	for why, without := range map[string]func(*limits){
		"windows":     func(l *limits) { l.noWindows = true },
		"HA groups":   func(l *limits) { l.freeAll = ByHAGroup },
		"groups":      func(l *limits) { l.freeAll = ByGroup },
		"concurrency": func(l *limits) { l.concurrency, l.freeAll = 10, ByGroup },
	} {
		l := whole
		without(&l)
		check := in
		if why == "concurrency" {
			check.PerGroup, check.HAGroups, check.Concurrency = 0, false, 1
		}
		if broken(check, traced(t, in, l, 0)) == "" {
			t.Errorf("a simulation without %s passes", why)
		}
	}
}

// More workers may change the order of jobs, but in the mean they end the run no later, give or
// take a job.
func TestMoreWorkersAreNotSlower(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Input{At: monday, Samples: 40, PerGroup: rapid.IntRange(0, 2).Draw(t, "per group")}
		longest := time.Duration(0)
		for i := range rapid.IntRange(1, 20).Draw(t, "hosts") {
			took := time.Duration(rapid.IntRange(1, 60).Draw(t, "minutes")) * time.Minute
			longest = max(longest, 3*took)
			h := Host{Name: fmt.Sprint(i), Work: fixed(took, 0), Group: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "group")}
			in.Hosts = append(in.Hosts, h)
		}
		vary(&in)
		in.Concurrency = rapid.IntRange(1, 5).Draw(t, "slots")
		few, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		in.Concurrency++
		more, err := Make(in)
		if err != nil {
			t.Fatal(err)
		}
		if more.FinishP50.After(few.FinishP50.Add(longest)) {
			t.Fatalf("%d workers are done at %s, %d at %s", in.Concurrency-1, few.FinishP50, in.Concurrency, more.FinishP50)
		}
	})
}

// fit asks its own list; windows is right.
func TestFitsAreWhatWindowsSays(t *testing.T) {
	sets := randomSets(t)
	sets["asked"] = compiled(t, "asked")
	rapid.Check(t, func(t *rapid.T) {
		set := sets[rapid.SampledFrom([]string{"night", "long", "cutoff", "asked"}).Draw(t, "set")]
		need := time.Duration(rapid.IntRange(1, 600).Draw(t, "need")) * time.Minute
		at := monday.Add(time.Duration(rapid.IntRange(0, 61*24*60).Draw(t, "at")) * time.Minute)
		m := &model{at: monday.UnixNano(), fits: map[fitKey]*fit{}}
		f, err := m.fitOf(set, need)
		if err != nil {
			t.Fatal(err)
		}
		want, err := set.Next(at, need)
		got, last, ok := f.next(at.UnixNano())
		if ok != (err == nil) || ok && !instant(got).Equal(want) {
			t.Fatalf("%s, need %s: %v %s, windows returns %s %v", at, need, ok, instant(got), want, err)
		}
		if !ok {
			return
		}
		if again, err := set.Next(instant(last), need); err != nil || !again.Equal(instant(last)) {
			t.Fatalf("the last start, %s, does not fit: %s %v", instant(last), again, err)
		}
		if again, err := set.Next(instant(last).Add(time.Second), need); err == nil && again.Equal(instant(last).Add(time.Second)) {
			t.Fatalf("a second after the last start, %s, also fits", instant(last))
		}
	})
}
