package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/schedule"
)

func TestWhatAPersonShouldSeeToIsANotice(t *testing.T) {
	t.Parallel()
	ended := func(phase queue.Phase, outcomes map[core.Outcome]int) controller.Event {
		return controller.Event{Kind: controller.RunEnded, Run: "r1", Status: &queue.Status{Phase: phase, Outcomes: outcomes}}
	}
	for name, c := range map[string]struct {
		event controller.Event
		want  string // kind and a part of the text; empty: no notice
	}{
		"failed":                 {ended(queue.Finished, map[core.Outcome]int{core.Changed: 2, core.Failed: 1}), "run_failed 1 failed"},
		"unreachable":            {ended(queue.Finished, map[core.Outcome]int{core.Unreachable: 1}), "run_failed 1 unreachable"},
		"stopped":                {ended(queue.Stopped, map[core.Outcome]int{core.Lost: 1, core.Cancelled: 4}), "run_failed run r1 is stopped"},
		"well":                   {ended(queue.Finished, map[core.Outcome]int{core.Changed: 2, core.Skipped: 1, core.Unchanged: 3}), ""},
		"cancelled by a person":  {ended(queue.Cancelled, map[core.Outcome]int{core.Changed: 2, core.Cancelled: 1}), ""},
		"failed before a person": {ended(queue.Cancelled, map[core.Outcome]int{core.Failed: 1, core.Cancelled: 1}), "run_failed 1 failed"},
		"held":                   {controller.Event{Kind: controller.RunHeld, Run: "r1", Reason: "look"}, "run_held run r1 is paused: look"},
		"away":                   {controller.Event{Kind: controller.QueueAway, Err: errors.New("refused")}, "queue_away refused"},
		"enqueued":               {controller.Event{Kind: controller.RunEnqueued, Run: "r1"}, ""},
	} {
		n, worth := noticeOf(c.event)
		kind, text, _ := strings.Cut(c.want, " ")
		if worth != (c.want != "") || worth && (n.Kind != kind || !strings.Contains(n.Text, text)) {
			t.Errorf("%s: %+v, %t", name, n, worth)
		}
	}
	id := schedule.ID{Tenant: "acme", Name: "patch"}
	n, worth := catalogNoticeOf(catalog.Event{Kind: catalog.FireSkipped, Schedule: id, Reason: "too late"})
	if !worth || n.Schedule != id.String() || !strings.Contains(n.Text, "too late") {
		t.Errorf("%+v, %t", n, worth)
	}
	if _, worth := catalogNoticeOf(catalog.Event{Kind: catalog.FireLaunched, Schedule: id}); worth {
		t.Error("a launch is nobody's trouble")
	}
}

func TestNotifyFlags(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]notifyFlags{
		"a secret for nobody": {secret: "x"}, "no address": {url: "hook"}, "no such secret": {url: "http://127.0.0.1:1", secret: "/nowhere"},
	} {
		if _, err := f.open("s", nil); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if hook, err := (&notifyFlags{}).open("s", nil); hook != nil || err != nil {
		t.Errorf("nobody is to be told: %v, %v", hook, err)
	}
}
