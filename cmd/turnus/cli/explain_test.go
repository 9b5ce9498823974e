package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// A host that waits for its window shows when that opens, not when the worker asks again, and no
// start that has passed.
func TestExplanationOfASuspendedHost(t *testing.T) {
	t.Parallel()
	now := time.Now()
	e := api.Explanation{
		Host: "db1", State: core.Suspended, Reason: "waits for its maintenance window", Until: now.Add(time.Hour),
		Window: &api.HostWindow{Set: "nights", Opens: now.Add(13 * time.Hour), OpensLocal: "Sat 01:00 CET"},
		Starts: &api.HostEstimate{P50: now.Add(-time.Minute), FinishP50: now.Add(14 * time.Hour), FinishP90: now.Add(15 * time.Hour)},
	}
	said := func() string {
		var out bytes.Buffer
		newApp(strings.NewReader(""), &out, io.Discard).writeExplanation(e)
		return out.String()
	}
	if text := said(); strings.Contains(text, "until") || strings.Contains(text, "starts") || !strings.Contains(text, "opens Sat 01:00 CET") || !strings.Contains(text, "estimate  done ") {
		t.Errorf("%s", text)
	}
	e.Window, e.Starts.P50 = nil, now.Add(time.Minute)
	if text := said(); !strings.Contains(text, ", until ") || !strings.Contains(text, "starts ") {
		t.Errorf("negative control: %s", text)
	}
}
