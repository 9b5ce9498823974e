package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/schedule"
)

// Rows whose due time is missing or too late are found, made due, and trigger; before that no
// server launches them.
func TestSchedulesWithAWrongDueTimeAreFound(t *testing.T) {
	for name, wrong := range map[string]string{"missing": "NULL", "too late": "due + 864000000000"} {
		inLab(t, func(l *lab) {
			good, bad := every(1, "*/10 * * * *"), every(2, "*/10 * * * *")
			l.put(good, bad)
			defer l.completing()()
			from := time.Now()
			l.serve()
			l.raw("UPDATE schedules SET due = " + wrong + " WHERE name = '" + bad.ID.Name + "'")
			check := func(repair bool) []ledger.Finding {
				found, err := schedule.NewControl(l.ledger).Check(t.Context(), repair)
				l.ok(err)
				return found
			}
			if found := check(false); len(found) != 1 || !strings.Contains(found[0].What, bad.ID.String()) || found[0].Repaired {
				t.Errorf("%s: %+v", name, found)
			}
			l.pass(25 * time.Minute)
			l.exactly(from, time.Now(), good) // the control: the other does not trigger
			if found := check(true); len(found) != 1 || !found[0].Repaired {
				t.Errorf("%s, with repair: %+v", name, found)
			}
			if found := check(false); len(found) != 0 {
				t.Errorf("%s, after the repair: %+v", name, found)
			}
			l.pass(10 * time.Minute)
			if s := l.status(bad.ID).State; s.Triggered == 0 {
				t.Errorf("%s: it does not trigger after the repair: %+v", name, s)
			}
		})
	}
}
