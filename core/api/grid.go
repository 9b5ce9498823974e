package api

import (
	"time"

	"github.com/turnus/turnus/core"
)

// Grid is the results of all steps of a run on all its hosts, a letter each.
type Grid struct {
	Steps   []GridStep `json:"steps" doc:"in the order of the playbook, its handlers last"`
	Items   []GridHost `json:"items"`
	Next    string     `json:"next,omitempty" doc:"cursor of the next page"`
	LeftOut int        `json:"left_out,omitempty" doc:"hosts behind the last one that a grid shows"`
}

// GridStep is a column of the grid.
type GridStep struct {
	Name    string `json:"name"`
	Uses    string `json:"uses"`
	Handler bool   `json:"handler,omitempty"`
}

// GridHost is a row of the grid.
type GridHost struct {
	Index   int          `json:"index"`
	Host    string       `json:"host"`
	Outcome core.Outcome `json:"outcome,omitempty"`
	Cells   string       `json:"cells,omitempty" doc:"a letter a step: C changed, = unchanged, S skipped, F failed, N unreachable, B rolled back, L lost, X cancelled, . no result; the end without a result is left out"`
	Group   string       `json:"group,omitempty" doc:"id of its result group"`
}

// StepCounts counts hosts by the outcomes of each step of a run.
type StepCounts struct {
	Steps []GridStep   `json:"steps" doc:"in the order of the playbook, its handlers last"`
	Waves []WaveCounts `json:"waves"`
}

// WaveCounts counts the hosts of a wave by the outcomes of each step.
type WaveCounts struct {
	Wave  int                    `json:"wave" doc:"from 1 on"`
	Hosts int                    `json:"hosts"`
	Done  int                    `json:"done" doc:"hosts with an outcome"`
	Steps []map[core.Outcome]int `json:"steps" doc:"hosts by outcome, of each step"`
}

// ResultGroups is the results of a run. Its counts include the groups that it leaves out.
type ResultGroups struct {
	Items        []ResultGroup `json:"items" doc:"the worst outcome first, in each the largest group first"`
	Same         int           `json:"same" doc:"hosts of the largest group"`
	Differ       int           `json:"differ" doc:"hosts of all other groups"`
	LeftOut      int           `json:"left_out,omitempty" doc:"groups behind the last item"`
	LeftOutHosts int           `json:"left_out_hosts,omitempty" doc:"hosts of these groups"`
}

// ResultGroup is hosts with the same outcome, for the same reason, by the same steps and diffs.
type ResultGroup struct {
	ID         string          `json:"id"`
	Outcome    core.Outcome    `json:"outcome"`
	Step       string          `json:"step,omitempty"`
	Reason     string          `json:"reason,omitempty" doc:"of its first host"`
	Varied     bool            `json:"varied,omitempty" doc:"reasons of other hosts differ in addresses, times, temporary names or keys"`
	ReasonCode core.ReasonCode `json:"reason_code,omitempty"`
	Diff       string          `json:"diff,omitempty" doc:"of one of its hosts, up to 2000 bytes"`
	Total      int             `json:"total" doc:"hosts"`
	Index      int             `json:"index" doc:"of its first host"`
	Hosts      []string        `json:"hosts" doc:"the first ones"`
}

// Waits lists why hosts of a run wait, and which hosts run for longest.
type Waits struct {
	Items        []Wait `json:"items" doc:"the reason with most hosts first"`
	LeftOut      int    `json:"left_out,omitempty" doc:"reasons behind the last item"`
	LeftOutHosts int    `json:"left_out_hosts,omitempty" doc:"hosts that wait for these"`
	// Longest is not of Items.
	Longest []RunningHost `json:"longest,omitempty" doc:"hosts that run, the longest first; up to 8"`
}

// RunningHost is a host that a worker works on.
type RunningHost struct {
	Index  int       `json:"index"`
	Host   string    `json:"host"`
	Worker string    `json:"worker"`
	Since  time.Time `json:"since" doc:"when the worker began or continued with it"`
}

// Wait is hosts of a run that have not started, or do not continue, for the same reason.
type Wait struct {
	Code   core.ReasonCode `json:"reason_code,omitempty"`
	Reason string          `json:"reason"`
	Until  time.Time       `json:"until,omitzero" doc:"when they continue, where that is known"`
	Total  int             `json:"total" doc:"hosts"`
	Hosts  []string        `json:"hosts,omitempty" doc:"some of them"`
}

// Timeline is how a run went and how it is expected to continue.
type Timeline struct {
	Run     string          `json:"run"`
	From    time.Time       `json:"from"`
	To      time.Time       `json:"to"`
	Now     time.Time       `json:"now"`
	Hosts   int             `json:"hosts"`
	Waves   []TimelineWave  `json:"waves"`
	Windows []TimelineSet   `json:"windows" doc:"window sets of its hosts, those with most hosts first"`
	Done    []TimelinePoint `json:"done" doc:"hosts with an outcome"`
	P50     []TimelinePoint `json:"p50,omitempty" doc:"hosts that are expected to have an outcome"`
	P90     []TimelinePoint `json:"p90,omitempty" doc:"the same by the P90 of each host"`
	// Expected is beside what happened.
	Expected *Expectation `json:"expected,omitempty" doc:"the forecast at the launch"`
	OfWave   *WaveHosts   `json:"of_wave,omitempty" doc:"with wave=N: the hosts of that wave"`
}

// WaveHosts is the hosts of a wave: those without an outcome first, then those that took longest.
type WaveHosts struct {
	Wave  int            `json:"wave"`
	Hosts []TimelineHost `json:"hosts"`
	Left  int            `json:"left,omitempty" doc:"further hosts, which are left out"`
}

// TimelineHost is a host from its first step to its last.
type TimelineHost struct {
	Index   int          `json:"index"`
	Host    string       `json:"host"`
	State   core.State   `json:"state,omitempty" doc:"while it has no outcome, as in the list of jobs"`
	Outcome core.Outcome `json:"outcome,omitempty"`
	From    time.Time    `json:"from,omitzero" doc:"when it started; before that, when it is expected to; absent if it never starts"`
	To      time.Time    `json:"to,omitzero" doc:"when it ended, or is expected to (P50), as if a host at work began now"`
	Late    time.Time    `json:"late,omitzero" doc:"of a host without an outcome: the same at P90"`
}

// TimelineWave is a wave, from its first host to its last.
type TimelineWave struct {
	Wave  int       `json:"wave" doc:"from 1"`
	Hosts int       `json:"hosts"`
	Done  int       `json:"done"`
	From  time.Time `json:"from,omitzero" doc:"when its first host started, or is expected to"`
	To    time.Time `json:"to,omitzero" doc:"when its last host ended, or is expected to (P50)"`
	Late  time.Time `json:"late,omitzero" doc:"the same at P90"`
}

// TimelineSet is the windows of a window set.
type TimelineSet struct {
	Set     string         `json:"set"`
	Hosts   int            `json:"hosts"`
	Windows []TimelineSpan `json:"windows"`
}

// TimelineSpan is a time from its beginning to its end.
type TimelineSpan struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// TimelinePoint is how many hosts are done at a time.
type TimelinePoint struct {
	At    time.Time `json:"at"`
	Hosts int       `json:"hosts"`
}
