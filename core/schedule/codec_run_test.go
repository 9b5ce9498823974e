package schedule

import (
	"testing"
	"time"
)

// TestCodecKeepsRunIDs: each kind of run id comes back as it was, and the common one takes few
// bytes.
func TestCodecKeepsRunIDs(t *testing.T) {
	t.Parallel()
	id := ID{Tenant: "acme", Name: "nightly"}
	for _, tc := range []struct {
		run  string
		most int // bytes
	}{
		{RunID(id, time.Date(2026, 11, 20, 22, 5, 0, 0, time.UTC)), 5},
		{RunID(id, time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)), 6},
		{TriggerRunID(id, "key"), 24},
		{id.String() + "-20261320T9999Z", 17}, // no minute
		{id.String(), 2},
		{"", 2},
		{"other:nightly-20261120T2205Z", 30},
	} {
		w := writer{id: id}
		w.run(tc.run)
		r := reader{b: w.b, id: id}
		if got := r.run(); got != tc.run || r.err != nil || len(r.b) > 0 || len(w.b) > tc.most {
			t.Errorf("%q took %d bytes and came back as %q (%v)", tc.run, len(w.b), got, r.err)
		}
	}
	for _, bad := range [][]byte{{}, {3}, {runMinute}, {runMinute, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, {runTail, 200}} {
		if r := (&reader{b: bad, id: id}); readRun(r) == nil {
			t.Errorf("%v was read", bad)
		}
	}
}

func readRun(r *reader) error {
	r.run()
	return r.err
}
