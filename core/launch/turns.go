package launch

import (
	"slices"

	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
)

// newTurns is nil where no job ever waits for another.
func (l *Launch) newTurns(after rollout.After) *snapshot.Turns {
	t := &snapshot.Turns{}
	for i, s := range l.Playbook.Steps {
		if s.After != "" && l.Snapshot.Selects(s.Tags) {
			t.Barriers = append(t.Barriers, snapshot.Barrier{Step: i, Remaining: s.After == playbooks.AfterRemaining})
		}
	}
	if len(t.Barriers) == 0 && len(after) == 0 {
		return nil
	}
	at := make(map[string]int, len(l.Hosts))
	for i, h := range l.Hosts {
		at[h.Name] = i
	}
	wave := -1
	for i, h := range l.Hosts {
		var before []int
		for _, name := range after[h.Name] {
			if j, ok := at[name]; ok {
				before = append(before, j)
			}
		}
		slices.Sort(before)
		k := rollout.Wave(l.Limits, i)
		if n := len(t.Classes); n == 0 || k != wave || !slices.Equal(before, t.Classes[n-1].After) {
			t.Classes = append(t.Classes, snapshot.Class{From: i, After: before})
			wave = k
		}
	}
	return t
}

// Waves is how many waves the run has in all: the hosts go through them again behind each barrier.
func (l *Launch) Waves() int {
	if l.Snapshot.Turns == nil {
		return len(l.Limits)
	}
	return len(l.Limits) * (1 + len(l.Snapshot.Turns.Barriers))
}

// WaveHosts is how many hosts a wave adds, from 0, of those that Waves counts.
func (l *Launch) WaveHosts(wave int) int {
	k := wave % len(l.Limits)
	if k == 0 {
		return l.Limits[0]
	}
	return l.Limits[k] - l.Limits[k-1]
}

// Passes are the stretches of Playbook.Calls between the barriers, each as its first call and the
// one behind its last. Handlers are in the last one.
func (l *Launch) Passes() [][2]int {
	passes, from := [][2]int{}, 0
	if t := l.Snapshot.Turns; t != nil {
		for _, b := range t.Barriers {
			passes, from = append(passes, [2]int{from, b.Step}), b.Step
		}
	}
	return append(passes, [2]int{from, len(l.Playbook.Calls())})
}

// NextWave is the first wave, from 0 and as Waves counts, that waits at a barrier by what Awaited
// answered; ok is false where none does.
func (l *Launch) NextWave(awaited map[string]int) (wave int, ok bool) {
	for event := range awaited {
		barrier, class, turn := snapshot.ParseTurn(event)
		if !turn || barrier == 0 || l.Snapshot.Turns == nil || class >= len(l.Snapshot.Turns.Classes) {
			continue
		}
		at := barrier*len(l.Limits) + rollout.Wave(l.Limits, l.Snapshot.Turns.Classes[class].From)
		if !ok || at < wave {
			wave, ok = at, true
		}
	}
	return wave, ok
}
