package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync"
	"time"

	"github.com/turnus/turnus/windows/civil"
)

// plan is a definition made ready for questions of time. It is immutable.
type plan struct {
	Definition
	cron *civil.Cron
	zone *time.Location
	frac float64 // in [0, 1), fixed by the id
}

// planner compiles definitions and remembers the zones and expressions met, of which there are few.
type planner struct {
	mu    sync.Mutex
	zones map[string]*time.Location
	crons map[string]*civil.Cron
}

const (
	mostCrons = 10_000
	mostZones = 1000
)

func newPlanner() *planner {
	return &planner{zones: map[string]*time.Location{"": time.UTC}, crons: map[string]*civil.Cron{}}
}

// plan compiles a definition that was valid when it was kept.
func (p *planner) plan(d Definition) (*plan, error) {
	p.mu.Lock()
	zone, cron := p.zones[d.Timezone], p.crons[d.Cron]
	p.mu.Unlock()
	if once := !d.At.IsZero(); zone == nil || cron == nil && !once {
		c, err := d.compile()
		if err != nil {
			return nil, err
		}
		zone, cron = c.zone, c.cron
		p.mu.Lock()
		if len(p.crons) >= mostCrons {
			clear(p.crons)
		}
		if len(p.zones) >= mostZones { // more than there are: by letters of another case
			clear(p.zones)
		}
		if p.zones[d.Timezone] = zone; !once {
			p.crons[d.Cron] = cron
		}
		p.mu.Unlock()
	}
	out := &plan{Definition: d, cron: cron, zone: zone}
	if d.Jitter > 0 {
		sum := sha256.Sum256([]byte(d.ID.String()))
		out.frac = float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
	}
	return out, nil
}

// next is the first nominal time strictly after the given one.
func (p *plan) next(after time.Time) (time.Time, bool) {
	if p.cron == nil {
		return p.At, p.At.After(after)
	}
	at, ok := p.cron.Next(after, p.zone)
	if !ok || !at.Before(maxTime) {
		return time.Time{}, false
	}
	return at.UTC(), true
}

// start is when a nominal time is launched: its jitter later, and always before the next one.
func (p *plan) start(nominal time.Time) time.Time {
	if p.Jitter == 0 {
		return nominal
	}
	span := p.Jitter
	if next, ok := p.next(nominal); ok {
		span = min(span, next.Sub(nominal))
	}
	return nominal.Add(time.Duration(p.frac * float64(span)).Truncate(time.Millisecond))
}

// latest is the last nominal time in (after, until]. It bisects: a year of minutes costs as
// little as a day.
func (p *plan) latest(after, until time.Time) (time.Time, bool) {
	found, ok := p.next(after)
	if !ok || found.After(until) {
		return time.Time{}, false
	}
	for low, high := found, until; high.Sub(low) > time.Minute; {
		mid := low.Add(high.Sub(low) / 2)
		if at, ok := p.next(mid); ok && !at.After(until) {
			low, found = at, at
		} else {
			high = mid
		}
	}
	for {
		at, ok := p.next(found)
		if !ok || at.After(until) {
			return found, true
		}
		found = at
	}
}

// count is the number of nominal times in (after, until], at most most.
func (p *plan) count(after, until time.Time, most int) int {
	n := 0
	for ; n < most; n++ {
		at, ok := p.next(after)
		if !ok || at.After(until) {
			break
		}
		after = at
	}
	return n
}

// The nominal time in the id of a run: expressions trigger at whole minutes, At may have seconds.
const (
	minuteStamp = "20060102T1504Z"
	secondStamp = "20060102T150405Z"
)

// RunID is the id of the run that a nominal time launches: TENANT:NAME-20060102T1504Z. Two fire
// times never share one: neither tenants nor names have colons, and no expression triggers twice
// within a minute.
func RunID(id ID, nominal time.Time) string {
	layout := minuteStamp
	if nominal.Second() != 0 {
		layout = secondStamp
	}
	return id.String() + "-" + nominal.UTC().Format(layout)
}

// TriggerRunID is the id of the run that a trigger with this key launches: TENANT:NAME-t and 80
// bits of the key's hash. It differs from every RunID, which ends in Z.
func TriggerRunID(id ID, key string) string {
	sum := sha256.Sum256([]byte(key))
	return id.String() + "-t" + hex.EncodeToString(sum[:10])
}

// Next lists up to n nominal times strictly after the given one.
func (d *Definition) Next(after time.Time, n int) ([]time.Time, error) {
	p, err := newPlanner().plan(*d)
	if err != nil {
		return nil, err
	}
	var out []time.Time
	for range min(n, MaxBackfill) {
		at, ok := p.next(after)
		if !ok {
			break
		}
		out = append(out, at)
		after = at
	}
	return out, nil
}
