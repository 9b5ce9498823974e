package server

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/forecast"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/windows"
)

// wait is a playbook whose steps wait for a window set on hosts that have these sets.
type wait struct {
	api.WindowWork
	own    []string
	tenant string // of the playbook
	steps  []int  // that wait, as in Playbook.Calls
	calls  []playbooks.Step
}

// work is windowWork of the project as it is now.
func (s *Server) work(by caller, cal *admission.Calendar) (map[string][]wait, error) {
	set, err := s.set()
	if err != nil {
		return nil, err
	}
	return s.windowWork(by, cal.Definitions(), set), nil
}

// windowWork lists by window set which playbooks wait for it, on how many of the caller's hosts:
// those of the caller's tenants, and those of the provider, whose work the caller's windows admit.
func (s *Server) windowWork(by caller, defs *windows.Definitions, set *definitions.Set) map[string][]wait {
	work := map[string][]wait{}
	for _, p := range set.Playbooks {
		if p.Tenant != "" && !by.scope.Allows(p.Tenant) {
			continue
		}
		steps := admission.NewSteps(p, admission.Options{Disruptive: playbooks.Disruptive(s.typeOf)})
		if !steps.Any() {
			continue
		}
		for name, one := range waitsOf(steps, p, hostsBySet(by, set, p.Name), defs, s.typeOf) {
			work[name] = append(work[name], one)
		}
	}
	for _, list := range work {
		slices.SortFunc(list, func(a, b wait) int { return strings.Compare(a.Playbook, b.Playbook) })
	}
	return work
}

// hostsBySet counts the caller's hosts that a playbook selects, by the window set that they have.
func hostsBySet(by caller, set *definitions.Set, playbook string) map[string]int {
	count := map[string]int{}
	for _, name := range set.Selected(playbook) {
		if h, ok := set.Inventory.Host(name); ok && by.scope.Allows(h.Customer) {
			count[h.WindowSet]++
		}
	}
	return count
}

// waitsOf returns for how many hosts the steps wait for each set, be it through a set that inherits
// from it or requires it. A job type that undoes its own failure does not undo earlier steps.
func waitsOf(steps *admission.Steps, p *playbooks.Playbook, hosts map[string]int, defs *windows.Definitions, types func(string) (playbooks.Type, bool)) map[string]wait {
	out, calls := map[string]wait{}, p.Calls()
	for own, n := range hosts {
		h := core.Host{WindowSet: own}
		served := map[string]bool{}
		first := steps.First(0)
		for i := first; i < steps.Len(); i = steps.First(i + 1) {
			used, _ := steps.Set(i, h)
			if defs.Sets[used] == nil {
				continue
			}
			for _, name := range defs.Serves(used) {
				one, known := out[name]
				one.Rescue = (one.Rescue || !known) && (p.Rescued(i) || i == first && calls[i].Reverts(types))
				if one.tenant, one.calls = p.Tenant, calls; !slices.Contains(one.steps, i) {
					one.steps = append(one.steps, i)
				}
				if served[name] {
					out[name] = one
					continue
				}
				served[name] = true
				one.Playbook, one.Hosts, one.own = p.Name, one.Hosts+n, append(one.own, own)
				if need := steps.Need(i, h); need > 0 {
					one.Need = cmp.Or(one.Need, core.InSeconds(need))
				}
				out[name] = one
			}
		}
	}
	for _, one := range out {
		slices.Sort(one.steps) // hosts come in any order, and the steps are a key of workTimes
	}
	return out
}

// shownWork returns waits without their sets.
func shownWork(waits []wait) []api.WindowWork {
	out := make([]api.WindowWork, len(waits))
	for i, w := range waits {
		out[i] = w.WindowWork
	}
	return out
}

// Bounds of reading how long work in windows took.
const (
	tookReads = 16               // playbooks that one request reads, each with a bounded number of hosts
	tookAge   = 10 * time.Minute // of what was read before
	tookKept  = 1000
)

// workTimes has how long the waiting steps of playbooks took, as of the last reading. The zero
// value is ready.
type workTimes struct {
	mu   sync.Mutex
	kept map[string]workTime // by playbook and steps
}

type workTime struct {
	at   time.Time
	took time.Duration // 0: not known
}

// addTook adds how long the steps took to the work of waits that a caller sees. reads is how many
// playbooks it may still read. A later request reads the others.
func (s *Server) addTook(ctx context.Context, work []api.WindowWork, waits []wait, reads *int) {
	for i := range work {
		work[i].Took = core.InSeconds(s.took(ctx, &waits[i], reads))
	}
}

// took returns the sum of the medians of the steps that wait, in the runs of the playbook's tenant;
// 0 if one is not known. It is a hint: while the ledger does not answer, windows have none.
func (s *Server) took(ctx context.Context, w *wait, reads *int) time.Duration {
	of := []string{w.tenant, w.Playbook}
	for _, i := range w.steps {
		of = append(of, w.calls[i].Name, w.calls[i].Uses)
	}
	key := strings.Join(of, "\x00")
	t := &s.workTimes
	t.mu.Lock()
	last := t.kept[key]
	t.mu.Unlock()
	if !last.at.IsZero() && time.Since(last.at) < tookAge || *reads == 0 {
		return last.took
	}
	*reads--
	past, err := controller.Learned(ctx, s.cfg.Ledger, ledger.Tenants(w.tenant), w.Playbook)
	if err != nil {
		return last.took
	}
	now := workTime{at: time.Now()}
	for _, i := range w.steps {
		l := past.Step(w.calls[i].Name, w.calls[i].Uses)
		if l == nil {
			now.took = 0
			break
		}
		now.took += forecast.Observed(l.Took).Quantile(0.5)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil || len(t.kept) >= tookKept {
		t.kept = map[string]workTime{}
	}
	t.kept[key] = now
	return now.took
}

// waitingHosts counts the caller's hosts that do not have a window set, and on which playbooks wait
// for it.
func waitingHosts(by caller, set *definitions.Set, name string, waits []wait) int {
	hosts := map[string]bool{}
	for _, w := range waits {
		for _, host := range set.Selected(w.Playbook) {
			if h, ok := set.Inventory.Host(host); ok && h.WindowSet != name && slices.Contains(w.own, h.WindowSet) && by.scope.Allows(h.Customer) {
				hosts[host] = true
			}
		}
	}
	return len(hosts)
}
