package worker

import (
	"strings"
	"testing"
	"time"
)

func TestEvidenceNamesTheApproval(t *testing.T) {
	const set = `
window_sets:
  night:
    timezone: UTC
    approval: {by: acme-cab, until: "2000-06-01"}
    allow:
      - {id: nightly, rrule: "FREQ=DAILY", from: "22:00", to: "+1d 02:00"}
      - {id: once, at: "2000-01-01T01:00", to: "2000-01-01T06:00", approval: {id: CHG0041, by: acme-cab}}
`
	for begin, want := range map[time.Duration]string{20 * time.Hour: "acme-cab", time.Hour: "acme-cab CHG0041", 21 * time.Hour: "ann"} {
		inDays(t, func(l *lab) {
			pass(begin)
			text := set
			if want == "ann" { // the file's is not in force, another one is
				text = strings.Replace(set, "until:", "state: proposed, until:", 1) + "approvals: [{set: night, by: ann, at: 1999-12-01}]\n"
			}
			la := l.windowed("r", 1, text, flash)
			n := l.start(l.windowedConfig())
			r := l.results(la)[0]
			n.drain()
			if w := r.Steps[0].Window; w == nil || strings.Join(w.Approvals, " ") != want || w.Started.Before(w.Open) || !w.Started.Before(w.Close) {
				t.Errorf("started after %v: %+v, expected %s", begin, w, want)
			}
		})
	}
}
