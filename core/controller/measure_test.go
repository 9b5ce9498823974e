package controller_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/queue"
)

// measured keeps what was counted.
type measured struct {
	mu             sync.Mutex
	runs, jobs     int
	ended, results int
	delays         []time.Duration
}

func (m *measured) measure() controller.Measure {
	return controller.Measure{
		Accepted: func(_ string, jobs int) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.runs, m.jobs = m.runs+1, m.jobs+jobs
		},
		Recorded: func(r controller.Recorded) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, o := range r.Outcomes {
				m.ended += max(o.Count, 1)
			}
			m.results += len(r.Results)
			m.delays = append(m.delays, r.Delays...)
		},
	}
}

// Accepted and recorded jobs are counted once, and how late each job started, by its segment and by
// its wave.
func TestMeasures(t *testing.T) {
	for name, more := range map[string]string{"at once": "", "in waves": "strategy: {waves: [1, 100%]}\n"} {
		t.Run(name, func(t *testing.T) {
			fake(t, func(l *lab) {
				m := &measured{}
				l.measure = m.measure()
				c, stop := l.server("s1", l.queue())
				defer stop()
				defer l.node(l.queue(), 1)()
				one := l.launch(spec{id: "r1", hosts: 4, more: more})
				one.Run.Segments = []queue.Segment{{Due: time.Now().Add(time.Minute), Count: 4}}
				l.put(c, one)
				l.accept(c, spec{id: "r2", hosts: 3})
				l.complete("r2")
				if lag := c.Lag(); lag != 0 {
					t.Errorf("a lag of %v", lag)
				}
				<-time.After(2 * time.Minute)
				l.complete("r1")
				m.mu.Lock()
				defer m.mu.Unlock()
				if m.runs != 2 || m.jobs != 7 || m.ended != 7 || m.results != 7 || len(m.delays) != 7 {
					t.Errorf("%+v", m)
				}
				// One slot, a second a job: of both runs one starts immediately and each further one a second
				// later. Of waves the first job is alone.
				slices.Sort(m.delays)
				if first, last := m.delays[0], m.delays[6]; first > time.Second || last < time.Second || last > 5*time.Second {
					t.Errorf("delays %v", m.delays)
				}
			})
		})
	}
}

// A run that was under way before this server knew it has no measured delays.
func TestMeasuresNoDelaysOfWhatItDidNotFollow(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		defer l.node(l.queue(), 1)()
		l.accept(c, spec{id: "r1", hosts: 20})
		l.until("a part is recorded", func() bool { return l.run("r1").Recorded > 3 })
		stop()
		m := &measured{}
		l.measure = m.measure()
		_, stop = l.server("s2", l.queue())
		defer stop()
		l.complete("r1")
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.ended == 0 || len(m.delays) > 0 {
			t.Errorf("%+v", m)
		}
	})
}

// The lag grows while the ledger is away, although nothing of what the queue has can be read then.
func TestLagCountsWhatTheLedgerDoesNotTake(t *testing.T) {
	fake(t, func(l *lab) {
		c, stop := l.server("s1", l.queue())
		defer stop()
		l.accept(c, spec{id: "r1", hosts: 2})
		h := l.hands()
		lease := h.take(2)[0]
		h.wait(5 * time.Second)
		if lag := c.Lag(); lag != 0 {
			t.Errorf("a lag of %v before anything ended", lag)
		}
		if err := l.ledger.Close(); err != nil {
			t.Fatal(err)
		}
		h.ack(queue.Ack{Job: lease.Job, Token: lease.Token, Kind: queue.AckDone, Outcome: core.Changed})
		h.wait(5 * time.Second)
		if lag := c.Lag(); lag < 4*time.Second {
			t.Errorf("a lag of %v, of an outcome that nobody could record for 5s", lag)
		}
	})
}
