package windows

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Bounds of single values.
const (
	maxLength = 31 * 24 * time.Hour // of an occurrence that recurs
	maxOnce   = 400 * 24 * time.Hour
	firstYear = 1970
	lastYear  = 2200
)

var (
	durationText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:(\d{1,3})w)?(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,6})m)?(?:(\d{1,8})s)?$`)
	})
	clockText  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:\+(\d{1,2})d )?(\d{2}):(\d{2})(?::(\d{2}))?$`) })
	offsetText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([+-]?)(\d{1,3})([dw])$`) })
)

// ParseDuration reads 90s, 30m, 1h30m, 2d, 1w: whole seconds, more than none.
func ParseDuration(text string) (time.Duration, error) {
	m := durationText().FindStringSubmatch(text)
	if m == nil || text == "" {
		return 0, fmt.Errorf("%w duration %s: expected one such as 30m, 1h30m or 2d", ErrInvalid, quote(text))
	}
	var sum time.Duration
	for i, unit := range []time.Duration{7 * 24 * time.Hour, 24 * time.Hour, time.Hour, time.Minute, time.Second} {
		n, _ := strconv.Atoi("0" + m[i+1])
		sum += time.Duration(n) * unit
	}
	if sum <= 0 {
		return 0, fmt.Errorf("%w duration %s: expected more than none", ErrInvalid, quote(text))
	}
	return sum, nil
}

// FormatDuration writes a duration as ParseDuration reads it: 1h30m, 2d.
func FormatDuration(d time.Duration) string {
	if d <= 0 || d%time.Second != 0 {
		return d.String()
	}
	var b strings.Builder
	for _, u := range []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if n := int64(d / u.size); n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d %= u.size
		}
	}
	return b.String()
}

// parseClock reads HH:MM or HH:MM:SS, with +Nd before it. 24:00 is midnight at the day's end.
func parseClock(text string) (Clock, error) {
	m := clockText().FindStringSubmatch(text)
	if m == nil {
		return Clock{}, fmt.Errorf(`expected a wall clock time such as "22:00", or "+1d 05:00" on the next day`)
	}
	days, _ := strconv.Atoi("0" + m[1])
	h, _ := strconv.Atoi(m[2])
	minute, _ := strconv.Atoi(m[3])
	s, _ := strconv.Atoi("0" + m[4])
	if h == 24 && minute == 0 && s == 0 {
		h, days = 0, days+1
	}
	if h > 23 || minute > 59 || s > 59 || days > 31 {
		return Clock{}, fmt.Errorf("there is no such time; hours go to 23, minutes to 59, days to 31")
	}
	return Clock{days, time.Duration(h)*time.Hour + time.Duration(minute)*time.Minute + time.Duration(s)*time.Second}, nil
}

// parseOffset reads a number of days: 2d, -1d, 1w.
func parseOffset(text string) (int, error) {
	m := offsetText().FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("expected whole days such as 2d or -1d")
	}
	n, _ := strconv.Atoi(m[2])
	if m[3] == "w" {
		n *= 7
	}
	if n > 366 {
		return 0, fmt.Errorf("at most 366 days")
	}
	if m[1] == "-" {
		n = -n
	}
	return n, nil
}

func parseDate(text string) (time.Time, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return t, fmt.Errorf("expected a date such as 2026-12-31")
	}
	return t, CheckYear(t)
}

// parseWall reads a date, or a date and time without a zone.
func parseWall(text string) (t time.Time, dateOnly bool, err error) {
	for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil && t.Nanosecond() == 0 {
			return t, layout == time.DateOnly, CheckYear(t)
		}
	}
	if _, err := time.Parse(time.RFC3339, text); err == nil {
		return t, false, fmt.Errorf("expected wall clock time without Z or an offset; the zone is the timezone of the definition")
	}
	return t, false, fmt.Errorf("expected a date such as 2026-12-31, or a date and time such as 2026-12-31T22:00")
}

// CheckYear refuses a time whose year definitions cannot have.
func CheckYear(t time.Time) error {
	if t.Year() < firstYear || t.Year() > lastYear {
		return fmt.Errorf("expected a year from %d to %d", firstYear, lastYear)
	}
	return nil
}
