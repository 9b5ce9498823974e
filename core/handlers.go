package core

import "slices"

// Handlers is the state of a host's handlers, those of its playbook. A handler is armed while
// nobody knows whether a step that notifies it has changed the host, and pending from then on until
// it has succeeded, or does not apply. The methods return the new standing and leave the old one as
// it is. The zero value is no handler to run.
type Handlers struct {
	// From are the earlier runs whose pending handlers are among these: what this run leaves replaces
	// what they left.
	From    []string `json:"from,omitempty"`
	Armed   []string `json:"armed,omitempty"`
	Pending []string `json:"pending,omitempty"`
}

// Left returns the handlers that have to run in the playbook's next run if the job ends now,
// sorted.
func (h Handlers) Left() []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(h.Armed, h.Pending))))
}

// Has reports whether all of these handlers are left.
func (h Handlers) Has(names []string) bool { return len(without(names, h.Left())) == 0 }

// Final is h once its job has ended: an armed handler counts as pending.
func (h Handlers) Final() *Handlers { return &Handlers{From: h.From, Pending: h.Left()} }

// None reports whether there is nothing to keep.
func (h Handlers) None() bool { return len(h.From)+len(h.Armed)+len(h.Pending) == 0 }

// IsArmed reports whether a step that notifies these has armed one.
func (h Handlers) IsArmed(notify []string) bool {
	return slices.ContainsFunc(notify, func(name string) bool { return slices.Contains(h.Armed, name) })
}

// Arm notes that a step which notifies these is about to change the host.
func (h Handlers) Arm(notify []string) Handlers {
	h.Armed = Union(h.Armed, notify)
	return h
}

// Notify makes handlers pending.
func (h Handlers) Notify(names []string) Handlers {
	h.Pending = Union(h.Pending, names)
	h.Armed = without(h.Armed, names)
	return h
}

// After returns the handlers after the outcome of a step, or of one item or attempt of it. before
// means that an earlier call of the step had armed its handlers. That call may have made the change
// that this one no longer found to make. goesOn means that the host's next step runs although this
// outcome is not good.
func (h Handlers) After(notify []string, o Outcome, before, goesOn bool) Handlers {
	switch {
	case o == Changed, before && o.Good(), goesOn && h.IsArmed(notify):
		return h.Notify(notify)
	case o.Good():
		h.Armed = without(h.Armed, notify)
	}
	return h
}

// Replaces notes runs of which everything that was pending is known here.
func (h Handlers) Replaces(runs []string) Handlers {
	h.From = Union(h.From, runs)
	return h
}

// Clear takes out a handler that has succeeded, or that does not apply.
func (h Handlers) Clear(name string) Handlers {
	h.Pending = without(h.Pending, []string{name})
	return h
}

func without(all, names []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(names, name) })
}
