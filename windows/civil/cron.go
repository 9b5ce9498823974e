package civil

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Cron is a parsed five-field cron expression. It is immutable and safe for concurrent use.
//
// A minute or hour field that begins with * means real time: the expression triggers whenever a
// clock in the zone shows a matching time, so in a repeated hour both copies trigger, and times
// that a gap skips do not. Otherwise it names fixed times, and each triggers exactly once: in a gap
// at the first instant after it, in a fold at the first occurrence.
//
// When both day fields are restricted, either may match; a field that begins with * is not
// restricted, and then both must (Vixie cron).
type Cron struct {
	text                          string
	minute, hour, dom, month, dow uint64 // bit n: value n matches
	real                          bool   // minute or hour begins with *
	domStar, dowStar              bool
	fields                        [5]string
}

var fieldNames = [5]string{"minute", "hour", "day-of-month", "month", "day-of-week"}

var fieldValues = [5]string{"0 to 59", "0 to 23", "1 to 31", "1 to 12 or jan to dec", "0 to 7 or sun to sat"}

const maxCron = 256 // bytes

// ParseCron reads minute, hour, day of month, month and day of week. Names (jan, mon) are
// understood, Sunday is 0 or 7. The error names the field, and satisfies errors.Is(err,
// ErrInvalid).
func ParseCron(text string) (*Cron, error) {
	c := &Cron{text: strings.Join(strings.Fields(text), " ")}
	fields := strings.Fields(text)
	switch {
	case len(text) > maxCron:
		return nil, fmt.Errorf("%w cron expression: longer than %d characters", ErrInvalid, maxCron)
	case strings.Contains(text, "="):
		return nil, c.fail("it cannot contain a time zone; the zone has its own field")
	case strings.HasPrefix(c.text, "@"):
		return nil, c.fail("words are not supported%s", atHint(c.text))
	case len(fields) == 6 || len(fields) == 7:
		return nil, c.fail("%d fields, expected five: minute hour day-of-month month day-of-week; there is none for seconds or years", len(fields))
	case len(fields) != 5:
		return nil, c.fail("%d fields, expected five: minute hour day-of-month month day-of-week", len(fields))
	}
	masks := [5]*uint64{&c.minute, &c.hour, &c.dom, &c.month, &c.dow}
	for i, field := range fields {
		mask, err := parseField(i, field)
		if err != nil {
			return nil, c.fail("%s field %q: %v", fieldNames[i], clip(field), err)
		}
		*masks[i] = mask
		c.fields[i] = strings.ToLower(field)
	}
	c.real = fields[0][0] == '*' || fields[1][0] == '*'
	c.domStar, c.dowStar = fields[2][0] == '*', fields[4][0] == '*'
	return c, nil
}

func (c *Cron) fail(format string, args ...any) error {
	return fmt.Errorf("%w cron expression %q: %s", ErrInvalid, clip(c.text), fmt.Sprintf(format, args...))
}

func atHint(text string) string {
	if same := map[string]string{"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
		"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *"}[strings.ToLower(text)]; same != "" {
		return fmt.Sprintf("; write %q", same)
	}
	return ""
}

// parseField lets robfig/cron read one field, after what it takes wrongly is refused or rewritten.
func parseField(i int, field string) (mask uint64, err error) {
	for _, r := range field {
		switch {
		case r == '?':
			return 0, fmt.Errorf("? is not supported; write *")
		case r > 'z' || !strings.ContainsRune("*/,-", r) && (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'z'):
			return 0, fmt.Errorf("character %q is not supported", r)
		}
	}
	items := strings.Split(field, ",")
	for n, item := range items {
		if item == "" {
			return 0, fmt.Errorf("an item of the list is empty")
		}
		if _, step, stepped := strings.Cut(item, "/"); stepped {
			if k, err := strconv.Atoi(step); err != nil || k < 1 || k > 59 {
				return 0, fmt.Errorf("step %q: expected a number from 1 to 59", step)
			}
		}
		if i == 4 {
			items[n] = sundays(item)
		}
	}
	five := [5]string{"*", "*", "*", "*", "*"}
	five[i] = strings.Join(items, ",")
	defer func() { // the library has panicked on input before (robfig/cron#554)
		if r := recover(); r != nil {
			err = fmt.Errorf("cannot be read: %v", r)
		}
	}()
	parsed, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(strings.Join(five[:], " "))
	if err != nil { // the library's words are about its own parser
		return 0, fmt.Errorf("expected %s, lists as 1,3, ranges as 1-5 that do not run backwards, and steps as */2", fieldValues[i])
	}
	s, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return 0, fmt.Errorf("cannot be read")
	}
	const values = 1<<60 - 1 // without the library's mark for a star
	return [5]uint64{s.Minute, s.Hour, s.Dom, s.Month, s.Dow}[i] & values, nil
}

// sundays writes day of week 7, and a range that ends on Sunday, in the library's 0 to 6.
func sundays(item string) string {
	base, step, stepped := strings.Cut(strings.ToLower(item), "/")
	from, to, ranged := strings.Cut(base, "-")
	if !ranged {
		to = from
	}
	if to != "7" && (to != "sun" || !ranged || from == "sun") {
		return item
	}
	names := map[string]int{"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
	first, named := names[from]
	if !named {
		var err error
		if first, err = strconv.Atoi(from); err != nil || first < 0 || first > 7 {
			return item // the library reports what is wrong with it
		}
	}
	every := 1
	if stepped {
		every, _ = strconv.Atoi(step)
	}
	var days []string
	for day := first; day <= 7; day += every {
		days = append(days, strconv.Itoa(day%7))
	}
	return strings.Join(days, ",")
}

// String is the expression, its blanks made single.
func (c *Cron) String() string { return c.text }

// RealTime reports whether the expression counts real time (minute or hour begins with *),
// and does not name fixed times.
func (c *Cron) RealTime() bool { return c.real }

// PerDay is how often the expression triggers on a day on which it triggers.
func (c *Cron) PerDay() int { return bits.OnesCount64(c.minute) * bits.OnesCount64(c.hour) }

// Latest is the latest wall time of a day at which the expression triggers, since midnight.
func (c *Cron) Latest() time.Duration {
	hour, minute := bits.Len64(c.hour)-1, bits.Len64(c.minute)-1
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute
}

// Next is the first instant strictly after the given one at which the expression triggers in zone.
// ok is false if it never does.
func (c *Cron) Next(after time.Time, zone *time.Location) (at time.Time, ok bool) {
	if c.real {
		return c.nextReal(after, zone)
	}
	// Each fire time after `after` has a later wall time: Resolve is monotone.
	for wall := Wall(after, zone); ; {
		if wall, ok = c.NextWall(wall); !ok {
			return time.Time{}, false
		}
		if at, _ = Resolve(wall, zone); at.After(after) {
			return at, true
		}
	}
}

// nextReal searches one period of constant offset after the other.
func (c *Cron) nextReal(after time.Time, zone *time.Location) (time.Time, bool) {
	wall := Wall(after, zone)
	for range 1000 {
		_, end := after.In(zone).ZoneBounds()
		next, ok := c.NextWall(wall)
		if !ok {
			return time.Time{}, false
		}
		if at := next.Add(-offset(after, zone)); end.IsZero() || at.Before(end) {
			return at.In(zone), true
		}
		after, wall = end, Wall(end, zone).Add(-1) // the first moment of the next period counts
	}
	return time.Time{}, false
}

// searchYears covers every combination of date and weekday: 29 February falls on each weekday
// within 40 years, even across a century without a leap day.
const searchYears = 48

// NextWall is the first matching wall time strictly after the given one.
func (c *Cron) NextWall(after time.Time) (time.Time, bool) {
	t := after.UTC().Truncate(time.Minute).Add(time.Minute)
	year, month, day := t.Date()
	minute := t.Hour()*60 + t.Minute()
	for last := year + searchYears; year <= last; {
		if c.month&(1<<month) != 0 {
			first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
			for n := first.AddDate(0, 1, -1).Day(); day <= n; day++ {
				if c.onDay(day, (int(first.Weekday())+day-1)%7) {
					if at, ok := c.inDay(minute); ok {
						return time.Date(year, month, day, at/60, at%60, 0, 0, time.UTC), true
					}
				}
				minute = 0
			}
		}
		day, minute = 1, 0
		if month++; month > 12 {
			month, year = 1, year+1
		}
	}
	return time.Time{}, false
}

func (c *Cron) onDay(day, weekday int) bool {
	dom, dow := c.dom&(1<<day) != 0, c.dow&(1<<weekday) != 0
	if c.domStar || c.dowStar {
		return dom && dow
	}
	return dom || dow
}

// inDay is the first matching minute of a day that is not before from.
func (c *Cron) inDay(from int) (int, bool) {
	hour, minute := from/60, from%60
	for ; hour < 24; hour++ {
		if c.hour&(1<<hour) != 0 {
			if rest := c.minute >> minute << minute; rest != 0 {
				return hour*60 + bits.TrailingZeros64(rest), true
			}
		}
		minute = 0
	}
	return 0, false
}
