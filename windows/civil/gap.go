package civil

import "time"

// ShortestGap is the shortest time between two instants in [from, to) at which the expression
// triggers one after the other in zone, and the first of the two; 0 if it triggers less than twice.
// Clock changes count: what triggers at 02:30 each night comes 23 h 30 min after the last in the
// night in which 02:30 does not exist. Use ten years or so.
func (c *Cron) ShortestGap(zone *time.Location, from, to time.Time) (gap time.Duration, at time.Time) {
	look := func(from, to time.Time) {
		last, ok := c.Next(from.Add(-1), zone)
		for ok && last.Before(to) && gap != time.Minute { // no gap is shorter
			next, more := c.Next(last, zone)
			if more && next.Before(to) && (gap == 0 || next.Sub(last) < gap) {
				gap, at = next.Sub(last), last
			}
			last, ok = next, more
		}
	}
	// An expression that triggers often within a day shows its shortest gap on any such day, the one
	// to the next day included, unless a clock change makes a shorter one near to it. Of the others
	// every fire time is checked.
	const often = 4
	if c.PerDay() <= often {
		look(from, to)
		return gap, at
	}
	first, ok := c.Next(from.Add(-1), zone)
	if !ok {
		return 0, time.Time{}
	}
	look(first, earliest(to, first.Add(49*time.Hour)))
	look(c.adjacent(first, to, zone))
	const near = 24 * time.Hour / often
	for _, change := range Changes(zone, from, to) {
		look(change.At.Add(-near), earliest(to, change.At.Add(near)))
	}
	return gap, at
}

// adjacent is a span of two days that follow each other on both of which the expression triggers,
// if there is one: the last fire of a day and the first of the next may be closest.
func (c *Cron) adjacent(from, to time.Time, zone *time.Location) (time.Time, time.Time) {
	wall := Wall(from, zone)
	for end := Wall(to, zone); wall.Before(end); {
		day := wall.Truncate(24 * time.Hour)
		next, ok := c.NextWall(day.Add(24*time.Hour - 1))
		if !ok {
			break
		}
		if next.Before(day.Add(48 * time.Hour)) {
			start, _ := Resolve(day, zone)
			return start, earliest(to, start.Add(49*time.Hour))
		}
		wall = next
	}
	return from, from
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
