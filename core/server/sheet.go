package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
)

// Bounds of the sheets in memory: a row has about 300 bytes.
const (
	gridHosts = 20_000  // of one run
	sheetRows = 100_000 // of all runs
	sheetAge  = 10 * time.Second
)

// sheetRow is a host of a run, and what its steps did.
type sheetRow struct {
	ledger.Job
	cells string // a letter a step
	group string // of equal results; "" without an outcome
	// window is that of the first step which was started in one.
	window *core.Window
}

// sheet is the hosts of a run as they were at a time. It does not change.
type sheet struct {
	at       time.Time
	version  int64 // of the run
	recorded int
	steps    []api.GridStep
	limits   []int // hosts that are released with each wave
	rows     []sheetRow
	diffs    map[string]string // of groups
}

// sheets are those of runs that somebody watches. The zero value is ready.
type sheets struct {
	mu   sync.Mutex
	runs map[string]*kept
}

// kept is the newest sheet of a run; one at a time reads the next.
type kept struct {
	used  time.Time // under the lock of sheets
	hosts int
	mu    sync.Mutex
	sheet *sheet // nil before the first
	asked askedJobs
}

// sheetOf returns a run that a caller may see, with its sheet.
func (s *Server) sheetOf(ctx context.Context, by caller, id string) (ledger.Run, *sheet, error) {
	run, err := s.cfg.Ledger.Run(ctx, by.scope, id)
	if err != nil {
		return run, nil, err
	}
	sheet, err := s.sheets.of(ctx, s, &run)
	return run, sheet, err
}

// of returns the sheet of a run as of its newest outcome. The caller has read the run in its scope.
func (c *sheets) of(ctx context.Context, s *Server, run *ledger.Run) (*sheet, error) {
	one := c.keep(run)
	one.mu.Lock()
	defer one.mu.Unlock()
	if last := one.sheet; last != nil && last.version == run.Version && last.recorded == run.Recorded && (run.Complete() || time.Since(last.at) < sheetAge) {
		return last, nil
	}
	next, err := s.readSheet(ctx, run, one.sheet)
	if err != nil {
		return nil, err
	}
	one.sheet = next
	return next, nil
}

// keep finds the place of a run. Those that were not used for longest make room for a new one.
func (c *sheets) keep(run *ledger.Run) *kept {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.runs[run.ID]
	if one == nil {
		one = &kept{hosts: min(run.Total, gridHosts)}
		rows := one.hosts
		for _, k := range c.runs {
			rows += k.hosts
		}
		for rows > sheetRows {
			oldest := ""
			for id, k := range c.runs {
				if oldest == "" || k.used.Before(c.runs[oldest].used) {
					oldest = id
				}
			}
			rows -= c.runs[oldest].hosts
			delete(c.runs, oldest)
		}
		if c.runs == nil {
			c.runs = map[string]*kept{}
		}
		c.runs[run.ID] = one
	}
	one.used = time.Now()
	return one
}

// readSheet reads the sheet of a run; of the one before it takes what is the same.
func (s *Server) readSheet(ctx context.Context, run *ledger.Run, before *sheet) (*sheet, error) {
	next := &sheet{at: time.Now(), version: run.Version, recorded: run.Recorded, diffs: map[string]string{}}
	if before != nil {
		next.steps, next.limits, next.diffs = before.steps, before.limits, maps.Clone(before.diffs)
	}
	if before == nil || before.version != run.Version { // a run that waits may be replaced
		l, err := s.restore(ctx, run.ID)
		if err != nil {
			return nil, err
		}
		next.steps, next.limits = []api.GridStep{}, slices.Clone(l.Limits)
		for i, step := range l.Playbook.Calls() {
			next.steps = append(next.steps, api.GridStep{Name: cmp.Or(step.Name, step.Uses), Uses: step.Uses, Handler: i >= len(l.Playbook.Steps)})
		}
	}
	var missing []int
	for p := (ledger.Page{Limit: ledger.MaxPage}); ; {
		jobs, cursor, err := s.cfg.Ledger.AllJobs(ctx, ledger.AllTenants(), run.ID, "", false, p)
		if err != nil {
			return nil, err
		}
		for _, j := range jobs[:min(len(jobs), gridHosts-len(next.rows))] {
			row := sheetRow{Job: j}
			if i := len(next.rows); before != nil && i < len(before.rows) && before.version == run.Version && before.rows[i].same(&j) {
				row = before.rows[i]
			} else if j.Outcome != "" {
				missing = append(missing, i)
			}
			next.rows = append(next.rows, row)
		}
		if cursor == "" || len(next.rows) >= gridHosts {
			break
		}
		p.Cursor = cursor
	}
	return next, s.fillSheet(ctx, run, next, missing)
}

// same reports whether a record is the one that the row was made of.
func (r *sheetRow) same(j *ledger.Job) bool {
	return r.Index == j.Index && r.Attempt == j.Attempt && r.Outcome == j.Outcome && r.Recorded.Equal(j.Recorded)
}

// fillSheet adds what steps did to rows, which are by index.
func (s *Server) fillSheet(ctx context.Context, run *ledger.Run, next *sheet, missing []int) error {
	err := s.cfg.Ledger.Details(ctx, run, missing, func(index int, detail []byte, err error) error {
		var did []launch.StepBrief
		if err == nil {
			did, err = launch.DecodeBriefs(detail)
		}
		if err != nil {
			s.cfg.Log.Warn("the detail of a job cannot be read", "job", core.JobID{Run: run.ID, Index: index}.String(), "error", err)
		}
		row := &next.rows[index]
		row.cells = cellsOf(next.steps, did)
		row.group = groupOf(row, did)
		if i := slices.IndexFunc(did, func(b launch.StepBrief) bool { return b.Window != nil }); i >= 0 {
			row.window = did[i].Window
		}
		if _, known := next.diffs[row.group]; !known && len(next.diffs) < maxGroups {
			next.diffs[row.group] = diffOf(did)
		}
		return nil
	})
	for _, i := range missing {
		if row := &next.rows[i]; row.group == "" { // it has no record
			row.group = groupOf(row, nil)
		}
	}
	return err
}

// cellsOf gives each step its letter. Steps are in the order of the playbook; handlers run between
// and behind them, and go by their names.
func cellsOf(columns []api.GridStep, did []launch.StepBrief) string {
	cells := bytes.Repeat([]byte{'.'}, len(columns))
	at := 0
	for _, step := range did {
		i := at
		if step.Handler {
			i = slices.IndexFunc(columns, func(c api.GridStep) bool { return c.Handler && c.Name == step.Name })
		} else {
			at++
		}
		if i >= 0 && i < len(cells) {
			cells[i] = step.Outcome.Letter()
		}
	}
	return strings.TrimRight(string(cells), ".")
}

// groupOf identifies equal results: outcome, step, reason, and what each step did and changed. The
// host's own name is no difference, nor are addresses, times and temporary names of a reason.
func groupOf(row *sheetRow, did []launch.StepBrief) string {
	h := sha256.New()
	add := func(text string) { _, _ = h.Write(append([]byte(text), 1)) }
	add(string(row.Outcome))
	add(row.Step)
	add(core.Generalize(row.Host, row.Reason))
	for _, step := range did {
		add(step.Name)
		add(string(step.Outcome))
		add(core.ReplaceHost(row.Host, step.Diff))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func diffOf(did []launch.StepBrief) string {
	var diff strings.Builder
	for _, step := range did {
		if diff.Len() < groupDiff {
			diff.WriteString(step.Diff)
		}
	}
	return clip(diff.String(), groupDiff)
}

// groups are the results of a sheet, the worst outcome first, in each the largest group.
func (t *sheet) groups() api.ResultGroups {
	at := map[string]int{}
	all := []api.ResultGroup{}
	first := []string{} // reason of each group, without the name of its first host
	found := api.ResultGroups{}
	for i := range t.rows {
		r := &t.rows[i]
		if r.Outcome == "" {
			continue
		}
		reason := core.ReplaceHost(r.Host, r.Reason)
		k, known := at[r.group]
		if !known {
			k = len(all)
			at[r.group] = k
			first = append(first, reason)
			all = append(all, api.ResultGroup{
				ID: r.group, Outcome: r.Outcome, Step: r.Step, Reason: r.Reason, ReasonCode: r.ReasonCode, Diff: t.diffs[r.group], Index: r.Index, Hosts: []string{},
			})
		}
		g := &all[k]
		g.Varied = g.Varied || reason != first[k]
		if g.Total++; len(g.Hosts) < groupHosts {
			g.Hosts = append(g.Hosts, r.Host)
		}
		found.Differ++
	}
	slices.SortStableFunc(all, func(a, b api.ResultGroup) int {
		return cmp.Or(cmp.Compare(slices.Index(worstFirst, a.Outcome), slices.Index(worstFirst, b.Outcome)), cmp.Compare(b.Total, a.Total))
	})
	for i := range all {
		found.Same = max(found.Same, all[i].Total)
		if i >= maxGroups {
			found.LeftOut, found.LeftOutHosts = found.LeftOut+1, found.LeftOutHosts+all[i].Total
		}
	}
	found.Differ -= found.Same
	found.Items = all[:min(len(all), maxGroups)]
	return found
}

// worstFirst is the order in which outcomes need attention.
var worstFirst = []core.Outcome{core.Lost, core.Failed, core.Unreachable, core.RolledBack, core.Cancelled, core.Changed, core.Unchanged, core.Skipped}
