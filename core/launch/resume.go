package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/redact"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

const (
	// ResumeWithin is how old the record of a host may be of which a retry continues.
	ResumeWithin = 24 * time.Hour
	maxResume    = 16 << 10 // bytes of a Resume in Target.Data
)

// Past is the record of one host of an earlier run.
type Past struct {
	Run      string
	Recorded time.Time
	Result   core.Result
	Boot     string // boot id that the host has now; "" is not known

	Unreadable error // why Result has only the outcome
}

// ResumeOf returns the Resume of a host for another run of the playbook, which calls the same
// steps. An error is the reason why the host must begin with the first step.
func ResumeOf(p *playbooks.Playbook, past Past, now time.Time) (snapshot.Resume, error) {
	if err := past.refused(now); err != nil {
		return snapshot.Resume{}, err
	}
	steps, err := past.steps(p)
	if err != nil {
		return snapshot.Resume{}, err
	}
	ended := endedWell(p, steps)
	read := p.OutputsRead(ended)
	r := snapshot.Resume{Steps: make([]core.StepResult, 0, ended), Boot: past.had()}
	if r.Entered, err = past.entered(p, steps[:ended]); err != nil {
		return snapshot.Resume{}, err
	}
	for _, s := range steps[:ended] {
		kept, err := past.keep(s, read(s.Name), now)
		if err != nil {
			return snapshot.Resume{}, err
		}
		r.Steps = append(r.Steps, kept)
	}
	if ended < len(steps) && group(p, ended) == nil {
		if r.Items, err = finishedItems(p.Steps[ended], steps[ended], read(steps[ended].Name)); err != nil {
			return snapshot.Resume{}, err
		}
	}
	if data, err := json.Marshal(r); err != nil || len(data) > maxResume {
		return snapshot.Resume{}, fmt.Errorf("the outputs that later steps read have %d bytes, at most %d are given to a retry", len(data), maxResume)
	}
	return r, nil
}

// refused returns why the host as a whole cannot continue.
func (p *Past) refused(now time.Time) error {
	had := p.had()
	switch {
	case p.Result.Outcome == core.Lost:
		return errors.New("its outcome is lost: nobody knows what the failed step did")
	case p.Result.Outcome.Good():
		return fmt.Errorf("it ended %s: no step failed", p.Result.Outcome)
	case p.Unreadable != nil:
		return fmt.Errorf("its record cannot be read: %w", p.Unreadable)
	case now.Sub(p.Recorded) > ResumeWithin:
		return tooOld(p.Recorded)
	case had != "" && p.Boot != "" && had != p.Boot:
		return errors.New("it has booted since")
	}
	return nil
}

// had is the boot id that the host had at the end of the run; "" is not known.
func (p *Past) had() string {
	if p.Result.Facts == nil {
		return ""
	}
	return p.Result.Facts.Boot
}

func tooOld(at time.Time) error {
	return fmt.Errorf("its record is of %s, and older than %v", at.UTC().Format(time.RFC3339), ResumeWithin)
}

// steps are the results of the playbook's steps, from the first on.
func (p *Past) steps(book *playbooks.Playbook) ([]core.StepResult, error) {
	steps := slices.DeleteFunc(slices.Clone(p.Result.Steps), func(s core.StepResult) bool { return s.Handler })
	if len(steps) == 0 && p.Result.Attempt > 0 && p.Result.Step != book.Steps[0].Name {
		return nil, errors.New("the results of its steps are not on record")
	}
	for i, s := range steps {
		if i >= len(book.Steps) || s.Name != book.Steps[i].Name {
			return nil, fmt.Errorf("step %q is on record at another place than in the playbook", s.Name)
		}
	}
	return steps, nil
}

// entered returns the result of the when of each include that began before the kept steps end.
func (p *Past) entered(book *playbooks.Playbook, kept []core.StepResult) (map[string]bool, error) {
	entered := map[string]bool{}
	for i, s := range kept {
		for _, index := range book.Steps[i].Within {
			name := book.Blocks[index].Name
			said, known := p.Result.Entered[name]
			if known {
				entered[name] = said
			} else if s.Outcome != core.Skipped {
				return nil, fmt.Errorf("the result of when of %s is not on record", name)
			}
		}
	}
	return entered, nil
}

// endedWell returns how many steps, from the first on, need not be called again. A group with a
// failure is called again as a whole: its rescue may have undone its first steps.
func endedWell(p *playbooks.Playbook, steps []core.StepResult) int {
	for i, s := range steps {
		if passed(p.Steps[i], s.Outcome) {
			continue
		}
		if b := group(p, i); b != nil {
			return b.First
		}
		return i
	}
	return len(steps)
}

// group is the outermost group around a step; nil without one.
func group(p *playbooks.Playbook, step int) *playbooks.Block {
	for _, index := range p.Steps[step].Within {
		if b := &p.Blocks[index]; b.Group() {
			return b
		}
	}
	return nil
}

// passed reports whether the host continues to the next step, or item, after an outcome.
func passed(s playbooks.Step, o core.Outcome) bool {
	return o.Good() || s.IgnoreFailure && (o == core.Failed || o == core.RolledBack)
}

// keep is the result of a step for the run that does not call it again: with outputs only if they
// are read.
func (p *Past) keep(s core.StepResult, read bool, now time.Time) (core.StepResult, error) {
	if s.Kept == nil {
		s.Kept = &core.Kept{Run: p.Run, At: p.Recorded.UTC()}
	}
	if now.Sub(s.Kept.At) > ResumeWithin {
		return s, fmt.Errorf("step %q: %w", s.Name, tooOld(s.Kept.At))
	}
	s.Stderr, s.Diff, s.Window = "", "", nil
	if !read {
		s.Stdout, s.Outputs = "", nil
		return s, nil
	}
	if s.Truncated {
		return s, fmt.Errorf("the output of step %q is read later, and was cut on record", s.Name)
	}
	if redacted(s.Stdout) || redacted(s.Outputs) {
		return s, fmt.Errorf("the output of step %q is read later, and a secret was taken out of it", s.Name)
	}
	return s, nil
}

// finishedItems returns the items of a foreach that need not be called again.
func finishedItems(s playbooks.Step, failed core.StepResult, read bool) (items []any, err error) {
	all, known := failed.Outputs["items"].([]any)
	if s.Foreach.Absent() || !known && failed.Attempts == 0 {
		return nil, nil
	}
	if !known {
		return nil, fmt.Errorf("which items of step %q finished was cut on record", failed.Name)
	}
	for _, one := range all {
		item, _ := one.(map[string]any)
		said, _ := item["outcome"].(string)
		o := core.Outcome(said)
		if !passed(s, o) {
			continue
		}
		if _, whole := item["outputs"]; read && !whole {
			return nil, fmt.Errorf("the output of step %q is read later, and was cut on record", failed.Name)
		}
		if redacted(item) { // also an item that is compared with those of today
			return nil, fmt.Errorf("a secret was taken out of the items of step %q on record", failed.Name)
		}
		if !read {
			item = map[string]any{"item": item["item"], "outcome": said}
		}
		items = append(items, item)
	}
	return items, nil
}

// redacted reports whether a value of the record shows that a secret was taken out of it.
func redacted(v any) bool {
	data, err := json.Marshal(v)
	return err == nil && strings.Contains(string(data), redact.Mark)
}

// calls reports whether a job calls step i, if an earlier run called the first kept steps.
func (l *Launch) calls(i, kept int) bool { return i >= kept || l.Playbook.Steps[i].Redo }

// SetResume makes jobs continue at a later step, by host. Call it before the run is accepted.
// run is the earlier run.
func (l *Launch) SetResume(run string, by map[string]snapshot.Resume) error {
	l.Snapshot.Resumes = run
	payload, err := l.Snapshot.Encode()
	if err != nil {
		return err
	}
	targets := slices.Clone(l.Run.Targets)
	for i := range targets {
		if r, known := by[targets[i].Host]; known {
			if targets[i].Data, err = snapshot.AddResume(targets[i], r); err != nil {
				return err
			}
		}
	}
	l.Run.Payload, l.Run.Targets = payload, targets
	return nil
}
