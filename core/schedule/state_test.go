package schedule

import "testing"

// Each reason that the rules give has a word of its own.
func TestWhySkipped(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"missed: no server looked within 1m0s":              "missed",
		"too late: start_within 5m0s has passed":            "too_late",
		"refused: the playbook is gone":                     "refused",
		"could not be launched until 03:00: unavailable":    "not_launched",
		"a later fire took its place":                       "overlap",
		"the fire of 03:00 waits already, and only one may": "overlap",
		"run s-1 is not complete":                           "overlap",
		"skipped by ann: enough":                            "other",
	} {
		if got := (Skip{Reason: reason}).Why(); got != want {
			t.Errorf("%q is %s, expected %s", reason, got, want)
		}
	}
}
