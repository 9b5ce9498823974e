package civil

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Describe is the expression as one sentence.
func (c *Cron) Describe() string {
	parts := []string{c.times(), c.days()}
	if m := values(c.month); len(m) < 12 {
		parts = append(parts, "in "+list(m, func(n int) string { return time.Month(n).String() }, "and"))
	}
	s := strings.Join(parts, " ")
	return strings.ToUpper(s[:1]) + s[1:] + "."
}

func (c *Cron) times() string {
	minutes, hours := values(c.minute), values(c.hour)
	every := len(hours) == 24
	step := stepOf(minutes, 60)
	clock := func(n int) string { return fmt.Sprintf("%02d:%02d", n/60, n%60) }
	const most = 8 // times that are written out
	switch {
	case every && len(minutes) == 60:
		return "every minute"
	case every && step > 0:
		return fmt.Sprintf("every %d minutes", step)
	case every && len(minutes) == 1 && minutes[0] == 0:
		return "every hour, on the hour,"
	case every:
		return "at minute " + list(minutes, strconv.Itoa, "and") + " of every hour"
	case len(minutes)*len(hours) <= most:
		var at []int
		for _, h := range hours {
			for _, m := range minutes {
				at = append(at, h*60+m)
			}
		}
		return "at " + list(at, clock, "and")
	case len(minutes) == 1 && minutes[0] == 0 && stepOf(hours, 24) > 0:
		return fmt.Sprintf("every %d hours, on the hour,", stepOf(hours, 24))
	case len(minutes) == 60:
		return "every minute of hour " + list(hours, strconv.Itoa, "and")
	case step > 0:
		return fmt.Sprintf("every %d minutes of hour %s", step, list(hours, strconv.Itoa, "and"))
	}
	return "at minute " + list(minutes, strconv.Itoa, "and") + " of hour " + list(hours, strconv.Itoa, "and")
}

func (c *Cron) days() string {
	dom, dow := values(c.dom), values(c.dow)
	weekday := func(n int) string { return time.Weekday(n).String() }
	week := func(join string) string {
		if c.dow&1 != 0 && len(dow) > 2 && c.dow == 1|(1<<7-1)&^(1<<(8-len(dow))-1) { // Sunday ends the range
			return weekday(8-len(dow)) + " to Sunday"
		}
		return list(dow, weekday, join)
	}
	ordinal := "day " + list(dom, strconv.Itoa, "and")
	if len(values(c.month)) == 12 {
		ordinal += " of the month"
	}
	switch allDom, allDow := len(dom) == 31, len(dow) == 7; {
	case !c.domStar && !c.dowStar && (allDom || allDow), allDom && allDow:
		return "every day"
	case !c.domStar && !c.dowStar:
		return "on " + ordinal + ", or on any " + week("or")
	case allDom:
		return "on " + week("and")
	case allDow:
		return "on " + ordinal
	}
	return "on " + ordinal + " if it is a " + week("or")
}

// WarningsIn is Warnings without that of clock changes where a zone has none within [from, to).
func (c *Cron) WarningsIn(zone *time.Location, from, to time.Time) []string {
	all := c.Warnings()
	if clocks := c.clockWarning(); clocks != "" && len(Changes(zone, from, to)) == 0 {
		all = slices.DeleteFunc(all, func(w string) bool { return w == clocks })
	}
	return all
}

// Warnings lists parts of the expression that people usually do not mean.
func (c *Cron) Warnings() []string {
	var out []string
	_, fires := c.NextWall(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	if !fires {
		return []string{"it has no fire time: " + c.whyNever()}
	}
	dom, dow := bits.OnesCount64(c.dom) < 31, bits.OnesCount64(c.dow) < 7
	switch {
	case dom && dow && !c.domStar && !c.dowStar:
		out = append(out, "both day fields are restricted: a day matches when either does, not only when both do")
	case dom && dow:
		out = append(out, "a day field begins with *, so both day fields must match")
	}
	if dom && !dow || dom && (c.domStar || c.dowStar) {
		if first := bits.TrailingZeros64(c.dom); first > 28 {
			out = append(out, fmt.Sprintf("months without day %d are passed over", first))
		}
	}
	if clocks := c.clockWarning(); clocks != "" {
		out = append(out, clocks)
	}
	return out
}

// clockWarning returns the effect of clock changes on the expression, or "".
func (c *Cron) clockWarning() string {
	const early = 1<<4 - 1 // hours 0 to 3, in which clocks change nearly everywhere
	switch {
	case c.real && bits.OnesCount64(c.hour) < 24 && c.hour&early != 0:
		return "it counts real time (a field begins with *): at a clock change an hour that is skipped is not made up for, and one that comes twice is served twice"
	case !c.real && c.hour&early != 0:
		return "clocks change at night: a time that is skipped moves to the first instant after it, one that comes twice counts the first time only"
	}
	return ""
}

func (c *Cron) whyNever() string {
	months, days := values(c.month), values(c.dom)
	return fmt.Sprintf("%s has no day %s", list(months, func(n int) string { return time.Month(n).String() }, "and"), list(days, strconv.Itoa, "or"))
}

// ClockChanges returns what the clock changes of a zone within [from, to) do to the expression.
func (c *Cron) ClockChanges(zone *time.Location, from, to time.Time) []string {
	var out []string
	const show = "2006-01-02 15:04"
	for _, change := range Changes(zone, from, to) {
		start, end := change.Span()
		first, ok := c.NextWall(start.Add(-1))
		if !ok || !first.Before(end) {
			continue
		}
		at, _ := Resolve(first, zone)
		zoned := at.In(zone).Format(time.RFC3339)
		switch {
		case change.Gap() && c.real:
			out = append(out, fmt.Sprintf("%s does not exist in %s: skipped", first.Format(show), zone))
		case change.Gap():
			out = append(out, fmt.Sprintf("%s does not exist in %s: the fire time is %s", first.Format(show), zone, zoned))
		case c.real:
			out = append(out, fmt.Sprintf("%s comes twice in %s: both are fire times", first.Format(show), zone))
		default:
			out = append(out, fmt.Sprintf("%s comes twice in %s: the fire time is the first, %s", first.Format(show), zone, zoned))
		}
	}
	return out
}

func values(mask uint64) []int {
	var out []int
	for ; mask != 0; mask &= mask - 1 {
		out = append(out, bits.TrailingZeros64(mask))
	}
	return out
}

// stepOf is the step of 0, n, 2n … where n divides the whole; else 0.
func stepOf(v []int, whole int) int {
	if len(v) < 2 || v[0] != 0 || whole%len(v) != 0 {
		return 0
	}
	step := whole / len(v)
	for i, n := range v {
		if n != i*step {
			return 0
		}
	}
	return step
}

// list is "1, 2 and 3"; three or more in a row are "1 to 3".
func list(v []int, name func(int) string, join string) string {
	var parts []string
	for i := 0; i < len(v); {
		end := i
		for end+1 < len(v) && v[end+1] == v[end]+1 {
			end++
		}
		if end-i >= 2 {
			parts = append(parts, name(v[i])+" to "+name(v[end]))
			i = end + 1
			continue
		}
		parts = append(parts, name(v[i]))
		i++
	}
	if n := len(parts); n > 1 {
		return strings.Join(parts[:n-1], ", ") + " " + join + " " + parts[n-1]
	}
	return strings.Join(parts, "")
}
