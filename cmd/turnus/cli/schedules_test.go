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
	const why, next = "its kept data cannot be read", "\nhint: turnus schedules rm torn; then set it again"
	torn := api.Schedule{Name: "torn", Timezone: "UTC", Damaged: why + next}
	if got := scheduleState(&torn); got != "damaged: "+why {
		t.Error(got)
	}
	if got := scheduleState(&api.Schedule{Name: "sound"}); got != "made by hand" {
		t.Error(got)
	}
	var out strings.Builder
	a := &app{Console: console.New(strings.NewReader(""), &out, &out)}
	a.writeSchedule(torn)
	if !strings.Contains(out.String(), "damaged       "+why+"\n              hint: turnus schedules rm torn; then set it again\n") || strings.Contains(out.String(), "UTC") {
		t.Error(out.String())
	}
}
