package api

import (
	"fmt"
	"testing"
)

func TestRowsOfOptions(t *testing.T) {
	o := &RunOptions{
		LaunchOptions: LaunchOptions{
			Limit: []string{"web", "!web1"}, Params: map[string]any{"release": "1.10", "port": 80.0}, Vars: map[string]any{"zones": []any{"a", 1.0}}, Tags: []string{"t"}, SkipTags: []string{"s"},
			Check: true, Diff: true, MaxInFlight: 2,
		},
		Select: "true", Retry: "r0", From: FromFailedStep, Pinned: true, NoWindow: 3, LeftOut: []string{"vars.long"},
	}
	want := `[{Limit [web !web1]} {Select [true]} {Params [port=80 release=1.10]} {Vars [zones=["a",1]]} {Tags [t]} {Skipped tags [s]} ` +
		`{Options [dry run diff at most 2 at the same time from the failed step pinned project 3 left out: no window fits]} {Not shown [vars.long]}]`
	if got := fmt.Sprint(o.Rows()); got != want {
		t.Errorf("%s\nexpected\n%s", got, want)
	}
	for _, none := range []*RunOptions{nil, {}} {
		if rows := none.Rows(); len(rows) > 0 {
			t.Errorf("%+v has rows %v", none, rows)
		}
	}
}
