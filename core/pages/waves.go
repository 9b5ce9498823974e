package pages

import (
	"fmt"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/pictures"
)

// wavesShown is how many waves the page of a run shows one by one.
const wavesShown = 12

// waveRow counts what the steps did in a wave, or in several that are counted together.
type waveRow struct {
	Label       string
	Hosts, Done int
	Steps       [][]pictures.Count // of each step, the worst outcome first
}

// wavesOf are the rows of waves that have begun, the newest ones one by one, those before together.
func wavesOf(c api.StepCounts) (rows []waveRow) {
	begun := 0
	for i, w := range c.Waves {
		if w.Done > 0 {
			begun = i + 1
		}
	}
	from := max(begun-wavesShown, 0)
	if from == 1 {
		from = 0 // a row of its own takes no more place
	}
	if from > 0 {
		rows = append(rows, waveRowOf(fmt.Sprintf("1 to %d", from), c.Waves[:from]))
	}
	for _, w := range c.Waves[from:begun] {
		rows = append(rows, waveRowOf(fmt.Sprint(w.Wave), []api.WaveCounts{w}))
	}
	return rows
}

func waveRowOf(label string, waves []api.WaveCounts) waveRow {
	row := waveRow{Label: label, Steps: make([][]pictures.Count, len(waves[0].Steps))}
	for _, w := range waves {
		row.Hosts, row.Done = row.Hosts+w.Hosts, row.Done+w.Done
	}
	for k := range row.Steps {
		for _, o := range allOutcomes {
			n := 0
			for _, w := range waves {
				n += w.Steps[k][o]
			}
			if n > 0 {
				row.Steps[k] = append(row.Steps[k], pictures.Count{Outcome: o, Hosts: n})
			}
		}
	}
	return row
}
