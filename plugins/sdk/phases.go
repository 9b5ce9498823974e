package sdk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// PhasesDone is the value of the field given to [Run.Phases] when all phases are done. No phase has
// this name.
const PhasesDone = "done"

// Phase is one stage of a job type that takes long, or that may be interrupted between its stages.
// Its name is kept in saved states: it stays the same over the versions of a plugin.
type Phase[P, S any] struct {
	Name string
	Run  func(ctx context.Context, r *Run[P, S]) error
}

// Phases runs the phases in their order, from the one that at names: a field of r.State, "" at
// first. Each reads and changes r.State. When one returns nil, r.State, with the next one's name in
// it, is durable before the next begins: a job whose plugin or worker died continues in the phase
// that was under way, and repeats none that was done. So a phase may be called twice: what cannot
// be undone has its intent saved before (the phase before it ends with it, or [Run.Save] within),
// and first checks what the host has done.
//
//	type State struct{ Phase, BootID string }
//
//	err := r.Phases(ctx, &r.State.Phase,
//		sdk.Phase[Params, State]{Name: "stage", Run: stage},
//		sdk.Phase[Params, State]{Name: "reboot", Run: reboot},
//		sdk.Phase[Params, State]{Name: "verify", Run: verify})
//
// A phase that returns [Run.Wait] or [Suspend] suspends the job with the present r.State, and the
// same phase is called again afterwards. Between phases stands a [Run.Checkpoint]: where the window
// has closed the call ends there with [ErrWindowClosed], which the function returns; unless the
// phase called [Run.GoOn]. Any other error of a phase ends the call and names the phase. After the
// last one the field holds [PhasesDone]; if it does already, nothing is called.
//
// Meanwhile [Run.Log] and [Run.Progress] carry the phase's name. Phases panics when the declaration
// is wrong: two phases of one name, none at all, or at is no field of r.State that is saved.
func (r *Run[P, S]) Phases(ctx context.Context, at *string, phases ...Phase[P, S]) error {
	names := r.mustPhases(at, phases)
	if *at == PhasesDone {
		return nil
	}
	first := 0
	if *at != "" {
		if first = slices.Index(names, *at); first < 0 {
			return Failf("the saved state is in phase %q, which this version of the job type does not have; it has %s. "+
				"The version that saved it can continue", *at, strings.Join(names, ", "))
		}
	}
	defer r.s.update(func(d *done) { d.phase = phaseAt{} })
	for i := first; i < len(phases); i++ {
		*at = names[i]
		r.s.update(func(d *done) { d.phase = phaseAt{name: names[i], index: i, of: len(phases)} })
		r.Progress(0, "")
		if err := phases[i].Run(ctx, r); err != nil {
			return r.phaseEnded(names[i], err)
		}
		*at = append(names, PhasesDone)[i+1]
		if err := r.phaseDone(ctx, *at); err != nil {
			return err
		}
	}
	return nil
}

// phaseDone saves that the phase before next is done, also in a call that was asked to end
// meanwhile: the next attempt must not repeat it.
func (r *Run[P, S]) phaseDone(ctx context.Context, next string) error {
	goOn := next == PhasesDone
	r.s.update(func(d *done) { goOn = goOn || d.phase.goOn })
	if ctx.Err() == nil {
		return r.save(ctx, next, r.State, goOn)
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
	defer cancel()
	if err := r.save(late, next, r.State, true); err != nil {
		return err
	}
	if next == PhasesDone {
		return nil
	}
	return fmt.Errorf("before phase %s: %w", next, context.Cause(ctx))
}

// lastSave bounds the checkpoint of a call that was asked to end; its process is killed some
// seconds later.
const lastSave = 2 * time.Second

// GoOn makes a job that is within a phase continue to the next phase also if the host's
// window closes meanwhile: for example because a device was armed to revert automatically.
func (r *Run[P, S]) GoOn() { r.s.update(func(d *done) { d.phase.goOn = true }) }

// Wait is [Suspend] with the present State: return it, and the job is called again after the time,
// or when the event comes that [UntilSignal] names.
func (r *Run[P, S]) Wait(after time.Duration, opts ...SuspendOption) error {
	return Suspend(r.State, after, opts...)
}

// phaseAt is the state of Phases.
type phaseAt struct {
	name      string
	index, of int
	goOn      bool
}

// progress places the progress of a phase within the whole.
func (p phaseAt) progress(part float64, text string) (whole float64, name string) {
	switch {
	case p.of == 0:
		return part, text
	case text == "" || text == p.name:
		text = p.name
	default:
		text = p.name + ": " + text
	}
	return (float64(p.index) + part) / float64(p.of), text
}

// phaseEnded makes the state of a suspension the present one, and lets other errors name the phase.
func (r *Run[P, S]) phaseEnded(name string, err error) error {
	var suspended *suspension
	if !errors.As(err, &suspended) {
		return fmt.Errorf("phase %s: %w", name, err)
	}
	suspended.state, suspended.err = encodeState(r.State)
	return err
}

// mustPhases panics where the declaration is wrong; it returns the names.
func (r *Run[P, S]) mustPhases(at *string, phases []Phase[P, S]) []string {
	if len(phases) == 0 {
		panic("sdk: Phases without a phase")
	}
	names := make([]string, 0, len(phases)+1)
	for _, p := range phases {
		if p.Name == "" || p.Name == PhasesDone || p.Run == nil || slices.Contains(names, p.Name) {
			panic(fmt.Sprintf("sdk: phase %q: expected a name of its own that is not %q, and a function", p.Name, PhasesDone))
		}
		names = append(names, p.Name)
	}
	if at == nil {
		panic("sdk: Phases needs a field of State that holds the phase")
	}
	// A field elsewhere, or one that JSON leaves out, would be lost: the first phase would be repeated
	// for ever.
	was := *at
	before, err := encodeState(r.State)
	*at = was + "?"
	after, err2 := encodeState(r.State)
	*at = was
	if err == nil && err2 == nil && bytes.Equal(before, after) {
		panic("sdk: Phases was given a string that is not saved with State; expected the address of a field of r.State")
	}
	return names
}
