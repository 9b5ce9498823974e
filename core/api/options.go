package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Kinds of runs that are not of a playbook of the project.
const (
	KindExec     = "exec"
	KindHostKeys = "hostkeys"
)

// RunOptions are the request that launched a run, at most 16 KiB of it, as far as the reader of the
// run may see it.
type RunOptions struct {
	LaunchOptions
	Select   string   `json:"select,omitempty" doc:"of turnus run: the expression of --select"`
	Retry    string   `json:"retry,omitempty" doc:"the run whose hosts it tries again"`
	From     string   `json:"from,omitempty" enum:"failed-step" doc:"of a retry: its hosts continue at the step that failed"`
	Pinned   bool     `json:"pinned,omitempty" doc:"the project and its hosts are those of the time when its schedule was made"`
	NoWindow int      `json:"no_window,omitempty" doc:"hosts that it left out because no window fits them"`
	LeftOut  []string `json:"left_out,omitempty" doc:"options that are not shown, or not all of them: limit, select, tags, skip_tags, params.NAME, vars.NAME; params, vars for many. They are long, their name marks a secret, or the limit is of a launcher of all tenants"`
}

// OptionRow is options of one kind as text.
type OptionRow struct {
	Name   string
	Values []string
}

// Rows returns the options as text, except Retry. A nil RunOptions has none.
func (o *RunOptions) Rows() (rows []OptionRow) {
	if o == nil {
		return nil
	}
	chosen := []string{}
	if o.Select != "" {
		chosen = append(chosen, o.Select)
	}
	for _, row := range []OptionRow{
		{"Limit", o.Limit}, {"Select", chosen}, {"Params", assigned(o.Params)}, {"Vars", assigned(o.Vars)}, {"Tags", o.Tags}, {"Skipped tags", o.SkipTags},
		{"Options", o.switches()}, {"Not shown", o.LeftOut},
	} {
		if len(row.Values) > 0 {
			rows = append(rows, row)
		}
	}
	return rows
}

// switches are the options that have no value of their own, or a number.
func (o *RunOptions) switches() (all []string) {
	for _, one := range []struct {
		on   bool
		text string
	}{
		{o.Check, "dry run"},
		{o.Diff, "diff"},
		{o.MaxInFlight > 0, fmt.Sprintf("at most %d at the same time", o.MaxInFlight)},
		{o.From != "", "from the failed step"},
		{o.Pinned, "pinned project"},
		{o.NoWindow > 0, fmt.Sprintf("%d left out: no window fits", o.NoWindow)},
	} {
		if one.on {
			all = append(all, one.text)
		}
	}
	return all
}

// assigned are values as NAME=VALUE, by name. Other values than text are JSON.
func assigned(values map[string]any) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text, isText := values[name].(string)
		if !isText {
			data, _ := json.Marshal(values[name]) // it came as JSON
			text = string(data)
		}
		all = append(all, name+"="+text)
	}
	return all
}
