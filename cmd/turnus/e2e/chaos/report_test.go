//go:build linux

package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
)

// Bounds of recovery after a single fault, for a cluster that has the machine for itself. The short
// form runs beside other labs: there only a hang counts.
const (
	recoveryMedian = 7 * time.Second
	recoveryMost   = 10 * time.Second
	recoveryHangs  = time.Minute
)

// recoveryBounds returns the bounds of the median and of the longest recovery.
func (s shape) recoveryBounds() (median, most time.Duration) {
	if s.length > time.Minute {
		return recoveryMedian, recoveryMost
	}
	return recoveryHangs, recoveryHangs
}

// due is a piece of work that probes asked for: when it was to begin, and when it did.
type due struct{ at, begun time.Duration }

// probes are all pulses, and all jobs that were suspended for a time. A job that never began is
// given the end of the evidence, except a job that ended as unreachable: nobody waited for it
// longer.
func probes(v evidence) (all []due) {
	first, second := map[string]execution{}, map[string]execution{} // by run: each has one host
	given := map[string]time.Duration{}                             // when a run ended without a result
	for _, o := range v.outcomes {
		if o.outcome == core.Unreachable {
			given[o.run] = o.seen
		}
	}
	for _, e := range v.seen {
		switch e.step {
		case "b":
			if _, ok := second[e.run]; !ok {
				second[e.run] = e
			}
		default:
			if before, ok := first[e.run]; !ok || !before.ended {
				first[e.run] = e
			}
		}
	}
	begun := func(run string, e execution, ok bool) time.Duration {
		if !ok {
			return cmp.Or(given[run], v.until)
		}
		return e.begin
	}
	for _, r := range v.runs {
		e, ok := first[r.id]
		switch r.kind {
		case "pulse", "fire":
			all = append(all, due{r.asked, begun(r.id, e, ok)})
		case "timed":
			all = append(all, due{r.asked, begun(r.id, e, ok)})
			if e.ended {
				e2, ok := second[r.id]
				all = append(all, due{e.end + v.recipes["timed"].suspended, begun(r.id, e2, ok)})
			}
		}
	}
	return all
}

// recoveries returns, by fault, how long work was delayed at most. A delay begins at the onset of a
// fault that leaves others at work, else at its end. It lasts until jobs that were due meanwhile
// had begun, and until the hosts of a worker saw work again. From the onset of the next fault on, a
// delay is not this one's.
func recoveries(v evidence) map[int]time.Duration {
	ended := map[string]time.Duration{}
	for _, o := range v.outcomes {
		ended[o.run+" on "+o.host] = o.seen
	}
	all, took := probes(v), map[int]time.Duration{}
	for i, f := range v.faults {
		if !f.single {
			continue
		}
		from := f.begin
		if f.outage {
			from = f.end
		}
		until := time.Duration(1<<63 - 1)
		if i+1 < len(v.faults) {
			until = v.faults[i+1].begin
		}
		took[i] = 0
		for _, d := range all {
			if d.at < until && d.begun > from {
				took[i] = max(took[i], min(d.begun, until)-max(d.at, from))
			}
		}
		if f.of == "worker" {
			for _, at := range leftBehind(v, f, from, ended) {
				if at < until {
					took[i] = max(took[i], at-from)
				}
			}
		}
	}
	return took
}

// leftBehind is when the hosts on which a worker was at work when a fault hit it saw work again, or
// the job that was under way had its outcome.
func leftBehind(v evidence, f happened, from time.Duration, ended map[string]time.Duration) (at []time.Duration) {
	under, next := map[string]execution{}, map[string]time.Duration{}
	for _, e := range v.seen {
		switch {
		case e.begin < from:
			under[e.host] = e
		case next[e.host] == 0:
			next[e.host] = e.begin
		}
	}
	for host, e := range under {
		if e.worker != fmt.Sprintf("worker-%d", f.target) || e.ended && e.end < from {
			continue
		}
		again := next[host]
		if over := ended[e.job()]; again == 0 || over != 0 && over < again {
			again = over
		}
		if again > from {
			at = append(at, again)
		}
	}
	return at
}

// of is the q-th part of sorted values.
func of(q float64, sorted []time.Duration) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// report prints what was found, and fails the test where a promise was broken.
func report(t *testing.T, seed uint64, s shape, v evidence, refused []string) {
	t.Helper()
	var b strings.Builder
	took := recoveries(v)
	byKind, count, all := map[string][]time.Duration{}, map[string]int{}, []time.Duration{}
	for i, f := range v.faults {
		count[f.name]++
		if d, ok := took[i]; ok {
			byKind[f.name], all = append(byKind[f.name], d), append(all, d)
		}
	}
	line := func(name string, n int, list []time.Duration) {
		slices.Sort(list)
		fmt.Fprintf(&b, "%-34s %5d %7.1f %7.1f %7.1f\n", name, n, of(0.5, list).Seconds(), of(0.95, list).Seconds(), of(1, list).Seconds())
	}
	outcomes := map[string]int{}
	for _, o := range v.outcomes {
		outcomes[string(o.outcome)]++
	}
	fmt.Fprintf(&b, "\n%d runs, %d executions on %d hosts, outcomes %v\n", len(v.runs), len(v.seen), workHosts+probeHosts, outcomes)
	fmt.Fprintf(&b, "%-34s %5s %7s %7s %7s  seconds until work went on, after single faults\n", "fault", "count", "p50", "p95", "max")
	for _, name := range slices.Sorted(maps.Keys(count)) {
		line(name, count[name], byKind[name])
	}
	line("all", len(v.faults), all)
	for _, name := range slices.Sorted(maps.Keys(leftOut)) {
		fmt.Fprintf(&b, "left out: %s: %s\n", name, leftOut[name])
	}
	bad := judge(v)
	slices.SortStableFunc(bad, func(a, b violation) int { return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.at, b.at)) })
	rules := map[string]int{}
	for _, one := range bad {
		if rules[one.rule]++; rules[one.rule] <= 10 {
			fmt.Fprintf(&b, "VIOLATION %v\n    %s\n", one, near(v.faults, one.at))
		}
	}
	fmt.Fprintf(&b, "violations: %d %v\nrepeat it with: make chaos MINUTES=%g SEED=%d\n", len(bad), rules, *minutes, seed)
	t.Log(b.String())
	if len(bad) > 0 {
		t.Errorf("%d promises were broken: %v", len(bad), rules)
	}
	medianBound, mostBound := s.recoveryBounds()
	if p50, most := of(0.5, all), of(1, all); p50 > medianBound || most > mostBound {
		t.Errorf("recovery after a single fault: p50 %v, max %v; expected at most %v and %v", p50, most, medianBound, mostBound)
	}
	for _, r := range refused {
		t.Errorf("a request was refused: %s", r)
	}
	if len(v.seen) == 0 || len(v.faults) == 0 {
		t.Error("nothing was shown: no execution, or no fault")
	}
}

// near names the faults about a time.
func near(faults []happened, at time.Duration) string {
	var list []string
	for _, f := range faults {
		if f.begin-time.Second < at && at < f.end+20*time.Second {
			list = append(list, fmt.Sprintf("%v %+.1fs after its onset", f.planned, (at-f.begin).Seconds()))
		}
	}
	if list == nil {
		return "near no fault"
	}
	return "near " + strings.Join(list, ", ")
}
