package queue

import (
	"fmt"
	"unicode/utf8"

	"github.com/turnus/turnus/core"
)

// ValidateSubmit reports whether Submit takes so many runs; errors wrap core.ErrInvalid.
func ValidateSubmit(runs int) error {
	if runs > MaxSubmit {
		return fmt.Errorf("submit of %d runs, expected at most %d: %w", runs, MaxSubmit, core.ErrInvalid)
	}
	return nil
}

// Validate reports what Submit refuses of a run; errors wrap core.ErrInvalid and name the field.
func (r *Run) Validate() error {
	if err := checkID("run id", r.ID, true); err != nil {
		return err
	}
	if err := checkID("tenant", r.Tenant, false); err != nil {
		return err
	}
	if n := len(r.Targets); n == 0 || n > MaxTargets {
		return fmt.Errorf("run %q has %d targets, expected 1 to %d: %w", r.ID, n, MaxTargets, core.ErrInvalid)
	}
	for _, n := range []struct {
		name          string
		value, lo, hi int
	}{
		{"weight", r.Weight, 0, MaxWeight},
		{"tenant weight", r.TenantWeight, 0, MaxWeight},
		{"priority", r.Priority, -MaxPriority, MaxPriority},
		{"limit", r.Limit, 0, MaxTargets},
		{"max in flight", r.MaxInFlight, 0, MaxTargets},
		{"per group", r.PerGroup, 0, MaxTargets},
		{"stop after", r.StopAfter, 0, MaxTargets},
		{"stop after unreachable", r.StopUnreachable, 0, MaxTargets},
		{"payload bytes", len(r.Payload), 0, MaxPayload + core.EncryptionRoom},
	} {
		if n.value < n.lo || n.value > n.hi {
			return fmt.Errorf("run %q: %s is %d, expected %d to %d: %w", r.ID, n.name, n.value, n.lo, n.hi, core.ErrInvalid)
		}
	}
	if r.OnLost != "" && r.OnLost != LostRetry && r.OnLost != LostHold {
		return fmt.Errorf("run %q: on_lost is %q, expected retry or hold: %w", r.ID, r.OnLost, core.ErrInvalid)
	}
	if err := r.validateSegments(); err != nil {
		return err
	}
	if err := r.validateFinished(); err != nil {
		return err
	}
	return r.validateTargets()
}

func (r *Run) validateFinished() error {
	if n := len(r.FinishedJobs); n > MaxFinished {
		return fmt.Errorf("run %q: finished has %d ranges, expected at most %d: %w", r.ID, n, MaxFinished, core.ErrInvalid)
	}
	from, total := 0, len(r.Targets)
	for i, s := range r.FinishedJobs {
		switch {
		case s.Index < from || s.Index >= total:
			return fmt.Errorf("run %q: finished range %d begins at target %d, expected %d to %d: %w", r.ID, i, s.Index, from, total-1, core.ErrInvalid)
		case s.Count < 1 || s.Count > total-s.Index:
			return fmt.Errorf("run %q: finished range %d has %d targets, expected 1 to %d: %w", r.ID, i, s.Count, total-s.Index, core.ErrInvalid)
		case !s.Outcome.Valid():
			return fmt.Errorf("run %q: finished range %d has outcome %q, expected one of %v: %w", r.ID, i, s.Outcome, core.Outcomes(), core.ErrInvalid)
		}
		from = s.Index + s.Count
	}
	return nil
}

func (r *Run) validateSegments() error {
	if len(r.Segments) == 0 {
		return nil
	}
	sum := 0
	for i, s := range r.Segments {
		if s.Count < 1 || s.Count > MaxTargets {
			return fmt.Errorf("run %q: segment %d has count %d, expected 1 to %d: %w", r.ID, i, s.Count, MaxTargets, core.ErrInvalid)
		}
		sum += s.Count
	}
	if sum != len(r.Targets) {
		return fmt.Errorf("run %q: segments cover %d targets, expected all %d: %w", r.ID, sum, len(r.Targets), core.ErrInvalid)
	}
	return nil
}

func (r *Run) validateTargets() error {
	for i := range r.Targets {
		t := &r.Targets[i]
		// The message is built only where something is wrong: there may be millions.
		if err := t.validate(); err != nil {
			return fmt.Errorf("run %q, target %d: %w", r.ID, i, err)
		}
	}
	return nil
}

func (t *Target) validate() error {
	if err := checkID("host", t.Host, true); err != nil {
		return err
	}
	if err := checkID("HA group", t.HAGroup, false); err != nil {
		return err
	}
	if err := checkID("group", t.Group, false); err != nil {
		return err
	}
	if len(t.Data) > MaxDataLength+core.EncryptionRoom {
		return fmt.Errorf("data is %d bytes, expected at most %d: %w", len(t.Data), MaxDataLength, core.ErrInvalid)
	}
	return nil
}

func checkID(what, id string, needed bool) error {
	switch {
	case id == "" && needed:
		return fmt.Errorf("%s is empty: %w", what, core.ErrInvalid)
	case len(id) > MaxIDLength:
		return fmt.Errorf("%s is %d bytes, expected at most %d: %w", what, len(id), MaxIDLength, core.ErrInvalid)
	case !utf8.ValidString(id):
		return fmt.Errorf("%s %q is not UTF-8: %w", what, id, core.ErrInvalid)
	}
	return nil
}

// Validate reports what a queue refuses of a Turn before it changes anything.
func (t *Turn) Validate() error {
	if t.Want < 0 || t.Want > MaxLeasesTurn {
		return fmt.Errorf("turn wants %d leases, expected 0 to %d: %w", t.Want, MaxLeasesTurn, core.ErrInvalid)
	}
	if len(t.Acks) > MaxAcksPerTurn {
		return fmt.Errorf("turn has %d acks, expected at most %d: %w", len(t.Acks), MaxAcksPerTurn, core.ErrInvalid)
	}
	for i := range t.Acks {
		if err := t.Acks[i].validate(); err != nil {
			return fmt.Errorf("ack of %s: %w", t.Acks[i].Job, err)
		}
	}
	return nil
}

func (a *Ack) validate() error {
	switch a.Kind {
	case AckDone, AckRetry:
		if !a.Outcome.Valid() {
			return fmt.Errorf("%s with outcome %q, expected one of %v: %w", a.Kind, a.Outcome, core.Outcomes(), core.ErrInvalid)
		}
	case AckSuspend, AckReturn:
	default:
		return fmt.Errorf("kind %q, expected done, retry, suspend or return: %w", a.Kind, core.ErrInvalid)
	}
	if len(a.Detail) > MaxDetail+core.EncryptionRoom || len(a.State) > MaxDetail+core.EncryptionRoom {
		return fmt.Errorf("detail of %d and state of %d bytes, expected at most %d: %w", len(a.Detail), len(a.State), MaxDetail, core.ErrInvalid)
	}
	return checkID("event", a.Event, false)
}

// Validate reports what a queue refuses of an Adjust of a run.
func (a Adjust) Validate() error {
	if a.Weight != nil && (*a.Weight < 1 || *a.Weight > MaxWeight) {
		return fmt.Errorf("weight is %d, expected 1 to %d: %w", *a.Weight, MaxWeight, core.ErrInvalid)
	}
	if a.MaxInFlight != nil && (*a.MaxInFlight < 0 || *a.MaxInFlight > MaxTargets) {
		return fmt.Errorf("max_in_flight is %d, expected 0 (no limit) to %d: %w", *a.MaxInFlight, MaxTargets, core.ErrInvalid)
	}
	if a.Limit != nil && (*a.Limit < 0 || *a.Limit > MaxTargets) {
		return fmt.Errorf("limit is %d, expected 0 (all) to %d: %w", *a.Limit, MaxTargets, core.ErrInvalid)
	}
	return nil
}
