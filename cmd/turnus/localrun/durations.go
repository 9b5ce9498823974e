package localrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core"
)

// Bounds of what is kept of how long steps took. Each run is a file of its own, so that runs
// which end at the same time lose nothing of each other.
const (
	keptRuns      = 20      // of a playbook, the newest
	keptDurations = 50      // of a step in one run: evenly spread over all hosts'
	maxRunFile    = 4 << 20 // bytes that are read of one run
	leastToLearn  = 10      // hosts that a step must have been measured on before it says anything
)

// runDurations is how long the steps of one run took on hosts where they went well.
type runDurations struct {
	Run      string         `json:"run"`
	Playbook string         `json:"playbook"`
	Steps    []stepDuration `json:"steps"`
}

type stepDuration struct {
	Step string `json:"step"`
	Uses string `json:"uses"`
	// Ascending. Where nothing had to be changed a step is quick, which says nothing of the time that it needs.
	Changed   []time.Duration `json:"changed_ns,omitempty"`
	Unchanged []time.Duration `json:"unchanged_ns,omitempty"`
	Hosts     int             `json:"hosts"` // measured, before the list was thinned out
}

// stepKey names a step: one that uses another job type is another one.
type stepKey struct{ step, uses string }

// durationsDir is where the runs of a playbook are kept.
func durationsDir(playbook string) (string, error) {
	dir, err := settings.StateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "durations", fmt.Sprintf("%x", playbook)), nil
}

// durationsOf gathers the durations of a run that was not a check.
func durationsOf(r runview.Report) runDurations {
	out := runDurations{Run: r.Run, Playbook: r.Playbook}
	at := map[stepKey]int{}
	for _, res := range r.Results {
		for _, s := range res.Steps {
			if s.Took <= 0 || s.Outcome != core.Changed && s.Outcome != core.Unchanged {
				continue
			}
			k := stepKey{s.Name, s.Uses}
			i, ok := at[k]
			if !ok {
				i = len(out.Steps)
				at[k] = i
				out.Steps = append(out.Steps, stepDuration{Step: s.Name, Uses: s.Uses})
			}
			list := &out.Steps[i].Unchanged
			if s.Outcome == core.Changed {
				list = &out.Steps[i].Changed
			}
			*list = append(*list, s.Took)
			out.Steps[i].Hosts++
		}
	}
	for i := range out.Steps {
		s := &out.Steps[i]
		s.Changed, s.Unchanged = thinned(s.Changed), thinned(s.Unchanged)
	}
	return out
}

// thinned sorts, and keeps the shortest, the longest, and quantiles evenly between them.
func thinned(list []time.Duration) []time.Duration {
	slices.Sort(list)
	if len(list) <= keptDurations {
		return list
	}
	few := make([]time.Duration, keptDurations)
	for i := range few {
		few[i] = list[i*(len(list)-1)/(keptDurations-1)]
	}
	return few
}

// saveDurations keeps how long a run's steps took, and forgets all but the newest runs.
func saveDurations(r runview.Report) error {
	d := durationsOf(r)
	if len(d.Steps) == 0 {
		return nil
	}
	dir, err := durationsDir(r.Playbook)
	if err != nil {
		return err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if err := settings.ReplaceFile(filepath.Join(dir, fmt.Sprintf("%x.json", r.Run)), text); err != nil {
		return err
	}
	files, err := durationFiles(dir)
	if err != nil {
		return err
	}
	for _, old := range files[:max(len(files)-keptRuns, 0)] {
		if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) { // another run may have been first
			return err
		}
	}
	return nil
}

// durationFiles are the runs that are kept, the oldest first: run ids sort by time.
func durationFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var files []string
	for _, e := range entries { // sorted
		if filepath.Ext(e.Name()) == ".json" {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, err
}

// History is what earlier runs tell of a playbook's steps. It is read when it is first asked for.
type History struct {
	books map[string]map[stepKey]*Learned
}

// Learned is what is known of one step.
type Learned struct {
	changed, All []time.Duration
	Runs, Hosts  int
}

func newHistory() *History { return &History{map[string]map[stepKey]*Learned{}} }

// Step is what earlier runs tell of a step; nil if that is too little.
func (h *History) Step(playbook, step, uses string) *Learned {
	book, ok := h.books[playbook]
	if !ok {
		book = readDurations(playbook)
		h.books[playbook] = book
	}
	if l := book[stepKey{step, uses}]; l != nil && len(l.All) >= leastToLearn {
		return l
	}
	return nil
}

// readDurations reads what is kept of a playbook. What cannot be read tells nothing: it is no more than a hint.
func readDurations(playbook string) map[stepKey]*Learned {
	book := map[stepKey]*Learned{}
	dir, err := durationsDir(playbook)
	if err != nil {
		return book
	}
	files, err := durationFiles(dir)
	if err != nil {
		return book
	}
	for _, file := range files[max(len(files)-keptRuns, 0):] {
		text, err := settings.ReadFile(file, maxRunFile)
		var d runDurations
		if err != nil || json.Unmarshal(text, &d) != nil || d.Playbook != playbook {
			continue
		}
		for _, s := range d.Steps {
			k := stepKey{s.Step, s.Uses}
			l := book[k]
			if l == nil {
				l = &Learned{}
				book[k] = l
			}
			l.changed = append(l.changed, s.Changed...)
			l.All = append(append(l.All, s.Changed...), s.Unchanged...)
			l.Runs++
			l.Hosts += s.Hosts
		}
	}
	return book
}

// need is the time that must fit for a step whose playbook does not say: the p95 of where it
// changed something, and as much again to take it back, in whole minutes. A step that was never
// seen to change enough hosts has none.
func (h *History) need(playbook, step, uses string) (time.Duration, bool) {
	l := h.Step(playbook, step, uses)
	if l == nil || len(l.changed) < leastToLearn {
		return 0, false
	}
	need := 2 * p95(l.changed)
	return (need + time.Minute - 1).Truncate(time.Minute), true
}

// p95 is the duration that 95 % do not exceed.
func p95(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[int(math.Ceil(0.95*float64(len(sorted))))-1]
}
