package schedule

import (
	"testing"
	"time"
)

// BenchmarkDecide measures what a server does for one fire beside the ledger and the launcher.
func BenchmarkDecide(b *testing.B) {
	planner := newPlanner()
	id := ID{"acme", "nightly"}
	data := Encode(Definition{ID: id, Cron: "17 3 * * 1-5", Timezone: "Europe/Zurich", Jitter: time.Minute, Payload: []byte("what")}, State{Since: clock("03 01:00")})
	now := clock("03 02:18")
	for b.Loop() {
		d, s, err := Decode(id, data)
		if err != nil {
			b.Fatal(err)
		}
		p, err := planner.plan(d)
		if err != nil {
			b.Fatal(err)
		}
		dec := p.decide(s, now, func(string) bool { return false })
		if len(dec.State.Claimed) != 1 {
			b.Fatal("did not trigger")
		}
		s, _ = finish(dec.State, []launch{{run: dec.State.Claimed[0].RunID}}, now)
		p.due(&s, now, false)
		Encode(d, s)
	}
}

// BenchmarkLongDowntime measures the decision after a year of missed minutes.
func BenchmarkLongDowntime(b *testing.B) {
	p, err := newPlanner().plan(Definition{ID: ID{Name: "n"}, Cron: "* * * * *", CatchUp: CatchUpAll})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		p.decide(State{Since: clock("03 01:00")}, clock("03 01:00").AddDate(1, 0, 0), func(string) bool { return false })
	}
}
