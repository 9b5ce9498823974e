//go:build linux

package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// execution is one call of the oracle on a host, as the host noted it. Times are since boot.
type execution struct {
	host, run, step string
	fence           uint64
	pid             int
	worker          string
	alive           []string // FENCE:RUN:STEP of executions that were alive when it began
	begin, end      time.Duration
	ended           bool
	code            int // of one that ended
	line            string
}

func (e execution) job() string { return e.run + " on " + e.host }

// accepted is a run that a server accepted, and what was asked of it.
type accepted struct {
	id, kind  string
	asked     time.Duration // when it was first asked for
	accepted  time.Duration
	approved  time.Duration // when somebody was about to approve it; 0: it needs nobody
	cancel    time.Duration // when somebody was about to cancel it; 0: nobody did
	cancelled time.Duration // when that had returned
	over      bool          // it has ended
	state     string        // of one that has not
}

// outcome is the ledger's outcome of a job.
type outcome struct {
	run, host string
	outcome   core.Outcome
	reason    string
	seen      time.Duration // when the ledger first had it: it was recorded before
}

// span is from begin until before end.
type span struct{ begin, end time.Duration }

func (s span) has(t time.Duration) bool { return s.begin <= t && t < s.end }

// happened is a fault that was made.
type happened struct {
	planned
	span
	mending time.Duration // when its end began: from then on a part of what was cut may work again
}

// recipe is the judge's knowledge of a playbook.
type recipe struct {
	steps   []string      // of command, or of a repeatable job type
	once    bool          // its steps must not be repeated
	fails   string        // the step that fails
	window  bool          // its steps wait for a window
	needs   time.Duration // of a step, in its window
	haGroup bool          // its steps take the lock of the HA group

	suspended time.Duration // its last step is, before it begins
}

// evidence is all that the judge reads.
type evidence struct {
	runs     []accepted
	outcomes []outcome
	seen     []execution
	faults   []happened
	windows  []span // open, freezes taken out
	group    map[string]string
	recipes  map[string]recipe
	ttl      time.Duration // of a session
	until    time.Duration // nothing was seen later
	triggers []trigger
}

// violation is a promise that was broken, with the lines that prove it.
type violation struct {
	rule  string
	at    time.Duration
	text  string
	proof []string
}

func (v violation) String() string {
	return v.rule + ": " + v.text + "\n    " + strings.Join(v.proof, "\n    ")
}

// Slacks of the judge. The host's clock shows hundredths of a second.
const (
	tick       = 10 * time.Millisecond
	needsSlack = 250 * time.Millisecond // between the last check of a window and the begin on the host
	// A job that was leased before the cancel of its run may be on its way until its worker's next
	// beat.
	cancelSlack = 3 * time.Second
	// Redis starts, and servers and workers find it again, each after a pause of its own.
	lateSlack = 5 * time.Second
	// The exit status of a command may be on its way to its worker when the run is cancelled.
	exitSlack = time.Second
	// A command that a host has may not have begun, on a busy machine, when its worker is cut off.
	cutSlack = 2 * time.Second
)

// parse reads what a host noted. A line that is not whole is none.
func parse(host, log string) (all []execution) {
	at := map[string]int{} // of an open execution
	for line := range strings.Lines(log) {
		f := strings.Fields(line)
		if len(f) < 7 || !strings.HasSuffix(line, "\n") {
			continue
		}
		fence, _ := strconv.ParseUint(f[1], 10, 64)
		pid, _ := strconv.Atoi(f[4])
		id := strings.Join(f[1:5], " ")
		switch {
		case f[0] == "begin" && len(f) == 8:
			e := execution{host: host, fence: fence, run: f[2], step: f[3], pid: pid, worker: f[5], begin: seconds(f[7]), line: host + ": " + strings.TrimSpace(line)}
			if f[6] != "-" {
				e.alive = strings.Split(strings.TrimPrefix(f[6], "-,"), ",")
			}
			at[id] = len(all)
			all = append(all, e)
		case f[0] == "end" && len(f) == 7:
			if i, ok := at[id]; ok {
				all[i].end, all[i].ended = seconds(f[6]), true
				all[i].code, _ = strconv.Atoi(f[5])
				all[i].line += "; " + strings.TrimSpace(line)
			}
		}
	}
	return all
}

func seconds(s string) time.Duration {
	f, _ := strconv.ParseFloat(s, 64)
	return time.Duration(f * float64(time.Second)).Round(tick)
}

// judge lists all violations. It is a pure function of the evidence.
func judge(v evidence) (all []violation) {
	v.seen = slices.Clone(v.seen)
	slices.SortStableFunc(v.seen, func(a, b execution) int { return cmp.Compare(a.begin, b.begin) })
	v.faults = slices.Clone(v.faults)
	slices.SortStableFunc(v.faults, func(a, b happened) int { return cmp.Compare(a.begin, b.begin) })
	kind := map[string]string{}
	for _, r := range v.runs {
		kind[r.id] = r.kind
	}
	for _, rule := range []func(evidence, map[string]string) []violation{
		overlaps, oldFences, expired, through, outsideWindows, afterTheEnd, unasked, repeated, unended, contradicted, triggeredOnce,
	} {
		all = append(all, rule(v, kind)...)
	}
	return all
}

// overlaps: a host, and an HA group of disruptive steps, has one fence at a time.
func overlaps(v evidence, kind map[string]string) (all []violation) {
	latest, named := map[string]execution{}, map[string]execution{}
	for _, e := range v.seen {
		named[fmt.Sprintf("%s %d:%s:%s", e.host, e.fence, e.run, e.step)] = e
		for _, other := range e.alive {
			if fence, _, _ := strings.Cut(other, ":"); fence != strconv.FormatUint(e.fence, 10) || !strings.HasPrefix(other, fence+":"+e.run+":") {
				all = append(all, violation{"overlap", e.begin, fmt.Sprintf("%s began while %s was alive", e.job(), other), []string{named[e.host+" "+other].line, e.line}})
			}
		}
		places := []string{e.host}
		if g := v.group[e.host]; g != "" && v.recipes[kind[e.run]].haGroup {
			places = append(places, "HA group "+g)
		}
		for _, place := range places {
			before, ok := latest[place]
			if ok && before.ended && before.end > e.begin+tick && (before.run != e.run || before.fence != e.fence) {
				all = append(all, violation{"overlap", e.begin, fmt.Sprintf("%s: %s began before %s ended", place, e.job(), before.job()), []string{before.line, e.line}})
			}
			if !ok || before.end < e.end {
				latest[place] = e
			}
		}
	}
	return all
}

// oldFences: of a job, no lease begins a step after a later lease has begun one.
func oldFences(v evidence, _ map[string]string) (all []violation) {
	newest := map[string]execution{}
	for _, e := range v.seen {
		before, ok := newest[e.job()]
		forgot := slices.ContainsFunc(v.faults, func(h happened) bool { // fences begin again with an empty Redis
			return (h.name == "FLUSHALL" || h.name == "roll Redis back" || h.name == "promote a late replica") && h.begin <= e.begin
		})
		if ok && before.fence > e.fence && e.begin > before.begin+tick && !forgot {
			all = append(all, violation{"expired lease", e.begin, fmt.Sprintf("%s: fence %d began a step after fence %d had", e.job(), e.fence, before.fence), []string{before.line, e.line}})
		}
		if !ok || e.fence > before.fence {
			newest[e.job()] = e
		}
	}
	return all
}

// expired: a worker that could not reach Redis for longer than a session lives begins no step under
// a lease that it had before, while others could take the lease over.
func expired(v evidence, _ map[string]string) (all []violation) {
	isolates := []string{"stop worker", "cut worker from Redis", "cut requests of worker to Redis", "stop worker and drop replies"}
	ofRedis := []string{"kill Redis", "stop Redis", "cut all from Redis", "fill disk of Redis", "leap forward", "leap back", "FLUSHALL", "roll Redis back", "promote a late replica"}
	for _, f := range v.faults {
		if !slices.Contains(isolates, f.name) || slices.ContainsFunc(v.faults, func(o happened) bool {
			return slices.Contains(ofRedis, o.name) && o.begin < f.end+v.ttl && f.begin < o.end+v.ttl
		}) {
			continue
		}
		worker := fmt.Sprintf("worker-%d", f.target)
		had := map[string]execution{} // before the fault
		for _, e := range v.seen {
			id := fmt.Sprint(e.job(), e.fence)
			if e.worker == worker && e.begin < f.begin {
				had[id] = e
			}
			if old, ok := had[id]; ok && e.worker == worker && e.begin > f.begin+v.ttl+tick {
				all = append(all, violation{"expired lease", e.begin, fmt.Sprintf("%s began %v after %v, by a lease from before", e.job(), (e.begin - f.begin).Round(tick), f.planned), []string{old.line, e.line}})
			}
		}
	}
	return all
}

// through: a worker that is cut off from its hosts begins nothing there, or the suite's own cut is
// none.
func through(v evidence, _ map[string]string) (all []violation) {
	for _, f := range v.faults {
		for _, e := range v.seen {
			if f.name == "cut worker from hosts" && e.worker == fmt.Sprintf("worker-%d", f.target) && f.begin+cutSlack < e.begin && e.begin < f.mending {
				all = append(all, violation{"through a cut", e.begin, fmt.Sprintf("%s began %v after %v", e.job(), (e.begin - f.begin).Round(tick), f.planned), []string{e.line}})
			}
		}
	}
	return all
}

// outsideWindows: a step that waits for a window begins in it, and with as much time left as it
// needs.
func outsideWindows(v evidence, kind map[string]string) (all []violation) {
	for _, e := range v.seen {
		r := v.recipes[kind[e.run]]
		if !r.window {
			continue
		}
		at := slices.IndexFunc(v.windows, func(s span) bool { return s.has(e.begin) })
		switch {
		case at < 0:
			near := time.Duration(-1)
			for _, w := range v.windows {
				if w.end <= e.begin {
					near = e.begin - w.end
				}
			}
			all = append(all, violation{"window", e.begin, fmt.Sprintf("%s began outside of every window, %v after the last one", e.job(), near), []string{e.line}})
		case e.begin+r.needs > v.windows[at].end+needsSlack:
			all = append(all, violation{"window", e.begin, fmt.Sprintf("%s began with %v left, and needs %v", e.job(), v.windows[at].end-e.begin, r.needs), []string{e.line}})
		}
	}
	return all
}

// afterTheEnd: nothing of a job begins once its outcome is recorded.
func afterTheEnd(v evidence, _ map[string]string) (all []violation) {
	ends := map[string]outcome{}
	for _, o := range v.outcomes {
		ends[o.run+" on "+o.host] = o
	}
	for _, e := range v.seen {
		if o, ok := ends[e.job()]; ok && e.begin > o.seen+tick {
			all = append(all, violation{"after the end", e.begin, fmt.Sprintf("%s began %v after it was recorded as %s", e.job(), (e.begin - o.seen).Round(tick), o.outcome), []string{o.reason, e.line}})
		}
	}
	return all
}

// unasked: no job begins before its run was asked for or approved, or at all after its cancel has
// returned.
func unasked(v evidence, _ map[string]string) (all []violation) {
	runs, begun := map[string]accepted{}, map[string]bool{}
	for _, r := range v.runs {
		runs[r.id] = r
	}
	for _, e := range v.seen {
		r, ok := runs[e.run]
		first := !begun[e.job()]
		begun[e.job()] = true
		switch {
		case !ok:
			all = append(all, violation{"unasked", e.begin, e.job() + " is of no run that a server has accepted", []string{e.line}})
		case e.begin+tick < max(r.asked, r.approved):
			all = append(all, violation{"unasked", e.begin, e.job() + " began before it was asked for, or approved", []string{e.line}})
		case first && r.cancelled > 0 && e.begin > reported(v, r.cancelled)+cancelSlack:
			all = append(all, violation{"cancel", e.begin, fmt.Sprintf("%s began %v after the cancel of its run had returned", e.job(), (e.begin - r.cancelled).Round(tick)), []string{e.line}})
		}
	}
	return all
}

// reported is when the queue has a cancel that returned at a time: immediately, or, where no server
// that was up reached Redis, when the last fault in a row that kept servers from it has ended.
func reported(v evidence, at time.Duration) time.Duration {
	late := false
	for _, f := range v.faults { // by begin
		away := f.of == "server" || f.ledger != "" || slices.Contains([]string{"slow ledger", "read-only ledger", "kill Redis", "stop Redis", "cut all from Redis", "fill disk of Redis", "roll Redis back", "promote a late replica"}, f.name)
		if away && f.begin <= at && at < f.end+lateSlack {
			at, late = max(at, f.end), true
		}
	}
	if late {
		at += lateSlack
	}
	return at
}

// repeated: a step that must not be repeated begins once.
func repeated(v evidence, kind map[string]string) (all []violation) {
	first := map[string]execution{}
	for _, e := range v.seen {
		if !v.recipes[kind[e.run]].once {
			continue
		}
		id := e.job() + " " + e.step
		if before, ok := first[id]; ok {
			all = append(all, violation{"repeated", e.begin, e.job() + ": step " + e.step + " must not be repeated, and began again", []string{before.line, e.line}})
			continue
		}
		first[id] = e
	}
	return all
}

// unended: every accepted run ends, and with one outcome for each job that the hosts saw.
func unended(v evidence, _ map[string]string) (all []violation) {
	count := map[string]int{}
	for _, o := range v.outcomes {
		count[o.run+" on "+o.host]++
	}
	for _, r := range v.runs {
		if !r.over {
			all = append(all, violation{"lost run", r.asked, fmt.Sprintf("%s, a run of %s, does not end", r.id, r.kind), []string{r.state}})
		}
	}
	for job, n := range count {
		if n > 1 {
			all = append(all, violation{"outcomes", 0, fmt.Sprintf("%s has %d outcomes", job, n), nil})
		}
	}
	over := map[string]bool{}
	for _, r := range v.runs {
		over[r.id] = r.over
	}
	for _, e := range v.seen {
		if over[e.run] && count[e.job()] == 0 {
			count[e.job()] = 1
			all = append(all, violation{"outcomes", e.begin, e.job() + " ran, its run is over, and it has no outcome", []string{e.line}})
		}
	}
	return all
}

// contradicted: an outcome is what the host saw, except lost, which claims nothing.
func contradicted(v evidence, kind map[string]string) (all []violation) {
	byJob, cancel := map[string][]execution{}, map[string]time.Duration{}
	for _, e := range v.seen {
		byJob[e.job()] = append(byJob[e.job()], e)
	}
	for _, r := range v.runs {
		cancel[r.id] = r.cancel
	}
	for _, o := range v.outcomes {
		job := o.run + " on " + o.host
		r, ok := v.recipes[kind[o.run]]
		if !ok {
			continue
		}
		well, ill, last := map[string]bool{}, false, time.Duration(0)
		var proof []string
		for _, e := range byJob[job] {
			proof = append(proof, e.line)
			if e.ended && e.code == 0 {
				well[e.step], last = true, max(last, e.end)
			}
			ill = ill || e.ended && e.code != 0
		}
		complete := len(well) == len(r.steps)
		why := ""
		switch o.outcome {
		case core.Changed:
			if !complete {
				why = fmt.Sprintf("only %d of its %d steps ended well", len(well), len(r.steps))
			}
		case core.Unchanged, core.Skipped, core.RolledBack:
			why = "no playbook of the suite ends so"
		case core.Failed:
			if complete || r.fails == "" || !ill {
				why = "no step of it failed on its host"
			}
		case core.Unreachable:
			if complete {
				why = "all its steps ended well"
			}
		case core.Cancelled: // the last step may end while the host is asked to stop it
			if complete && (cancel[o.run] == 0 || last < cancel[o.run]-exitSlack) {
				why = "all its steps had ended well before"
			}
		case core.Lost:
		default:
			why = "that is no outcome"
		}
		if why != "" {
			all = append(all, violation{"contradicted", o.seen, fmt.Sprintf("%s is %s (%s), and %s", job, o.outcome, o.reason, why), proof})
		}
	}
	return all
}
