package server

import (
	"cmp"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/windows"
)

// wait is a playbook whose steps wait for a window set on hosts that have these sets.
type wait struct {
	api.WindowWork
	own []string
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

// waitsOf says for how many hosts the steps wait for each set, be it through a set that inherits
// from it or requires it. A job type that undoes its own failure does not undo earlier steps.
func waitsOf(steps *admission.Steps, p *playbooks.Playbook, hosts map[string]int, defs *windows.Definitions, types func(string) (playbooks.Type, bool)) map[string]wait {
	out := map[string]wait{}
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
				one.Rescue = (one.Rescue || !known) && (p.Rescued(i) || i == first && p.Calls()[i].Reverts(types))
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
