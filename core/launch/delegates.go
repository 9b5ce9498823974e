package launch

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

// delegate finds the hosts on which steps with on are called for hosts, and writes them into the
// snapshot. Workers evaluate on again, and find only these.
func (l *Launch) delegate(hosts []core.Host, o Options) error {
	if !l.Playbook.Delegates() {
		return nil
	}
	d := &delegating{l: l, o: o, inventory: make(map[string]core.Host, len(o.Inventory)), own: make(map[string]bool, len(hosts)),
		env: playbooks.Env{Vars: mergedVars(l.Playbook, o), Params: l.Playbook.Values()}}
	for _, h := range o.Inventory {
		d.inventory[h.Name] = h
	}
	for _, h := range hosts {
		d.own[h.Name] = true
	}
	l.Delegates, l.Snapshot.Delegates = map[int]map[string]core.Host{}, map[string]json.RawMessage{}
	selected := l.Playbook.Selected(l.Snapshot.Selects)
	for i, s := range l.Playbook.Steps {
		if s.On.Absent() || !selected[i] {
			continue
		}
		l.Delegates[i] = map[string]core.Host{}
		for _, h := range hosts {
			if err := d.add(i, s, h); err != nil {
				return err
			}
		}
		for name, h := range l.Delegates[i] {
			data, err := snapshot.EncodeHost(h)
			if err != nil {
				return err
			}
			l.Snapshot.Delegates[name] = data
		}
	}
	return nil
}

// delegating finds the delegates of one launch.
type delegating struct {
	l         *Launch
	o         Options
	inventory map[string]core.Host
	own       map[string]bool // hosts of the run
	env       playbooks.Env
}

// add finds the host on which step i is called for h. A step that may be skipped need not have one.
func (d *delegating) add(i int, s playbooks.Step, h core.Host) error {
	d.env.Host = h
	name, err := s.Delegate(d.env)
	to, known := d.inventory[name]
	switch {
	case name == h.Name, (err != nil || name == "") && d.l.Playbook.MaySkip(i):
		return nil
	case err != nil:
		return err
	case name == "":
		return s.Misplaced(h, "gives no host", "the name of a host of the inventory", "give the step a when that is false on such hosts")
	case !known || to.Customer != h.Customer:
		return s.Misplaced(h, fmt.Sprintf("gives %q, which is not in the inventory of the run", name), inventoryOf(h), "turnus hosts ls lists the hosts")
	case d.own[name] && disrupts(d.l.Playbook, d.o):
		return s.Misplaced(h, fmt.Sprintf("gives %q, a host that the run itself disrupts", name), "a host that is not one of the run",
			"leave it out with targets, and write a playbook of its own for it")
	}
	if err := snapshot.CheckPool(d.l.Playbook, []core.Host{to}, d.o.Pool); err != nil {
		return fmt.Errorf("step %s: %w", s.Name, err)
	}
	d.l.Delegates[i][name] = to
	return nil
}

func inventoryOf(h core.Host) string {
	if h.Customer == "" {
		return "a host without a customer, as this one is"
	}
	return "a host of the same customer, " + h.Customer
}

// delegateSets adds the delegates to the hosts by the window sets that their steps wait for.
func (l *Launch) delegateSets(steps *admission.Steps, sets map[string][]string) {
	for i, h := range l.AllDelegates() {
		set, windowed := steps.Set(i, h)
		if windowed && !slices.Contains(sets[set], h.Name) {
			sets[set] = append(sets[set], h.Name)
		}
	}
}

// AllDelegates are the delegates of each step, by its index, in the order of their names.
func (l *Launch) AllDelegates() iter.Seq2[int, core.Host] {
	return func(yield func(int, core.Host) bool) {
		for _, i := range slices.Sorted(maps.Keys(l.Delegates)) {
			for _, name := range slices.Sorted(maps.Keys(l.Delegates[i])) {
				if !yield(i, l.Delegates[i][name]) {
					return
				}
			}
		}
	}
}

// delegateWindows refuses delegates for which no window of a step's ever opens, if a host calls it.
func (l *Launch) delegateWindows(hosts []core.Host, steps *admission.Steps, o Options) error {
	kept := len(l.Playbook.Steps)
	for _, h := range hosts {
		kept = min(kept, o.kept[h.Name])
	}
	for i, h := range l.AllDelegates() {
		q, windowed := l.Snapshot.Windows.Delegated(steps, i, h)
		if !windowed || !l.calls(i, kept) {
			continue
		}
		a, err := o.Windows.Ask(o.Now, q)
		if err != nil {
			return fmt.Errorf("playbook %s: host %s: %w", l.Playbook.Name, h.Name, err)
		}
		if !a.Open && a.Next.IsZero() {
			return l.Playbook.Steps[i].Misplaced(core.Host{}, fmt.Sprintf("gives %q, and no window fits it: %s", h.Name, a.Reason),
				"a host whose window set opens, or window: none on the step", "turnus windows next -f windows.yaml SET shows when a set opens")
		}
	}
	return nil
}
