package cli

import (
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/api"
)

// A damaged schedule is shown with the reason, and without a time that it does not have. Control:
// the state of another one is its origin.
func TestADamagedScheduleIsShown(t *testing.T) {
	const why = "its kept data cannot be read: remove it with turnus schedules rm torn, and set it again"
	torn := api.Schedule{Name: "torn", Timezone: "UTC", Damaged: why}
	if got := scheduleState(&torn); got != "damaged: "+why {
		t.Error(got)
	}
	if got := scheduleState(&api.Schedule{Name: "sound"}); got != "made by hand" {
		t.Error(got)
	}
	var out strings.Builder
	a := &app{Console: console.New(strings.NewReader(""), &out, &out)}
	a.writeSchedule(torn)
	if !strings.Contains(out.String(), "damaged       "+why) || strings.Contains(out.String(), "UTC") {
		t.Error(out.String())
	}
}
