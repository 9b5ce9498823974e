package cron

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// field is one of the five of a schedule.
type field struct {
	name      string
	low, high int
	names     []string // of the numbers from low on
}

var fields = []field{
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of month", 1, 31, nil},
	{"month", 1, 12, strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")},
	{"day of week", 0, 7, strings.Fields("sun mon tue wed thu fri sat")},
}

// checkSchedule returns why cron would not take the schedule, or would never run it.
func checkSchedule(text string) error {
	parts := strings.Fields(text)
	if len(parts) != len(fields) || strings.ContainsAny(text, "\r\n") {
		return fmt.Errorf("expected five fields on one line: minute, hour, day of month, month, day of week; found %d in %q", len(parts), text)
	}
	for i, f := range fields {
		for item := range strings.SplitSeq(parts[i], ",") {
			if err := f.check(item); err != nil {
				return fmt.Errorf("%s %q: %w", f.name, parts[i], err)
			}
		}
	}
	if parts[4] == "*" && never(parts[2], parts[3]) {
		return fmt.Errorf("%q never comes: no such month has a day %s", text, parts[2])
	}
	return nil
}

// check takes one item of a list: *, a value or a range, and then a step.
func (f field) check(item string) error {
	body, step, stepped := strings.Cut(item, "/")
	if n, err := strconv.Atoi(step); stepped && (err != nil || n < 1 || n > f.high) {
		return fmt.Errorf("expected a step from 1 to %d after the slash", f.high)
	}
	if body == "*" {
		return nil
	}
	from, to, ranged := strings.Cut(body, "-")
	if stepped && !ranged {
		return fmt.Errorf("a step goes with * or a range, such as %d-%d/2", f.low, f.high)
	}
	low, err := f.value(from)
	if err != nil || !ranged {
		return err
	}
	high, err := f.value(to)
	if err == nil && low > high {
		err = fmt.Errorf("the range %s begins after its end", body)
	}
	return err
}

func (f field) value(text string) (int, error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.low + i, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.low || n > f.high || strings.ContainsAny(text, "+-") {
		return 0, fmt.Errorf("expected %d to %d, found %q", f.low, f.high, text)
	}
	return n, nil
}

// never reports whether a single day of a single month does not exist, such as 31 of February.
func never(day, month string) bool {
	d, err := strconv.Atoi(day)
	m, monthErr := fields[3].value(month)
	return err == nil && monthErr == nil && d > []int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[m-1]
}
