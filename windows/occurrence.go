package windows

import (
	"fmt"
	"time"

	"github.com/turnus/turnus/windows/civil"
)

// maxOccurrences is how often a rule may recur in 400 days: about once an hour.
const maxOccurrences = 10_000

// occurrence is one time a rule opens, before anything is taken from it.
type occurrence struct {
	start       time.Time // wall time that the rule names
	open, close time.Time
	nominal     time.Duration // its length on a day without a clock change
	end         time.Time     // wall time at which it closes; zero: it closes some time after its start
	moved       bool          // the start does not exist: it moved to the end of the gap
}

// prepare parses what the rule repeats by. A rule that was loaded is prepared already.
func (r *Rule) prepare() (recurrence, error) {
	switch {
	case r.recur.rule != nil || r.recur.cron != nil:
		return r.recur, nil
	case r.RRule != "":
		rule, err := parseRRule(r.RRule)
		if err == nil && rule.anchored && r.Valid == nil {
			err = fmt.Errorf("which days it means depends on where it begins; give valid: [FIRST, LAST]")
		}
		if err == nil && len(rule.days(r.anchor(rule), r.anchor(rule), r.anchor(rule).AddDate(60, 0, 0), 1)) == 0 {
			err = fmt.Errorf("it never matches a day")
		}
		if err != nil {
			return recurrence{}, fmt.Errorf("%w rrule %s: %w", ErrInvalid, quote(r.RRule), err)
		}
		return recurrence{rule: rule}, nil
	case r.Cron != "":
		cron, err := civil.ParseCron(r.Cron)
		if err != nil {
			return recurrence{}, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return recurrence{cron: cron}, nil
	}
	return recurrence{}, nil
}

// anchor is the day on which a rule begins, where that matters.
func (r *Rule) anchor(rule *dayRule) time.Time {
	if rule.anchored && r.Valid != nil {
		return r.Valid.First
	}
	return time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC)
}

// reach is the longest wall time from a start to its end, and a bit more.
func (r *Rule) reach() time.Duration {
	length := r.Duration
	if r.To != nil {
		length = time.Duration(r.To.Days+1) * 24 * time.Hour
	}
	return length + 26*time.Hour
}

// occurrences lists what begins before hi and ends after lo, by start. An occurrence may be
// empty, or turned around by a clock change: close is then not after open.
func (r *Rule) occurrences(zone *time.Location, lo, hi time.Time) ([]occurrence, error) {
	recur, err := r.prepare()
	if err != nil {
		return nil, err
	}
	most := maxOccurrences * (1 + int(hi.Sub(lo).Hours())/24/400)
	var out []occurrence
	add := func(o occurrence) bool {
		if o.open.Before(hi) && (o.close.After(lo) || !o.close.After(o.open)) && r.validOn(o.start) {
			out = append(out, o)
		}
		return len(out) <= most
	}
	switch {
	case recur.rule != nil:
		first := day(civil.Wall(lo, zone).Add(-r.reach())).AddDate(0, 0, -r.Offset-1)
		last := day(civil.Wall(hi, zone)).AddDate(0, 0, -r.Offset+1)
		for _, d := range recur.rule.days(r.anchor(recur.rule), first, last, most+1) {
			if recur.rule.past(d.Add(r.From), zone) {
				break
			}
			if !add(r.at(d.AddDate(0, 0, r.Offset).Add(r.From), zone)) {
				break
			}
		}
	case recur.cron != nil:
		at := lo.Add(-r.reach())
		for n := 0; n <= most; n++ {
			next, ok := recur.cron.Next(at, zone)
			if !ok || !next.Before(hi) {
				break
			}
			at = next
			o := r.at(civil.Wall(next, zone), zone)
			o.open, o.moved = next, false
			if r.To == nil {
				o.close = next.Add(r.Duration)
			}
			if !add(o) {
				break
			}
		}
	default:
		add(r.at(r.At, zone))
	}
	if len(out) > most {
		return nil, fmt.Errorf("%w rule %s: it occurs more than %d times in 400 days", ErrInvalid, r.ID, maxOccurrences)
	}
	return out, nil
}

// at is the occurrence that starts at a wall time.
func (r *Rule) at(start time.Time, zone *time.Location) occurrence {
	o := occurrence{start: start}
	var kind civil.Kind
	o.open, kind = civil.Resolve(start, zone)
	o.moved = kind == civil.Gap
	end := r.ToAt
	switch {
	case r.Duration > 0:
		o.close, o.nominal = o.open.Add(r.Duration), r.Duration
		return o
	case r.To != nil:
		end = day(start).AddDate(0, 0, r.To.Days).Add(r.To.Time)
	}
	o.end, o.nominal = end, end.Sub(start)
	o.close, _ = civil.Resolve(end, zone)
	return o
}

// denied returns the span that an occurrence closes as a deny. Of a wall time that comes twice, an
// allow opens and closes at the first copy, which is the careful side; a deny closes both.
func (r *Rule) denied(o occurrence, zone *time.Location) span {
	s := spanOf(o.open, o.close)
	switch {
	case !o.end.IsZero():
		s.close = civil.LastBefore(o.end, zone).UnixNano()
	case r.recur.cron == nil || !r.recur.cron.RealTime(): // that occurs at each copy
		s.close = civil.Last(o.start, zone).Add(o.nominal).UnixNano()
	}
	return s
}

func (r *Rule) validOn(start time.Time) bool {
	return r.Valid == nil || !start.Before(r.Valid.First) && start.Before(r.Valid.Last.AddDate(0, 0, 1))
}

// day is the midnight that begins the day of a floating time.
func day(wall time.Time) time.Time { return wall.Truncate(24 * time.Hour) }
