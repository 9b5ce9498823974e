package rollout

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/turnus/turnus/core"
)

// Size is a count of hosts or a share of all: "5", "5%". The zero Size means
// that none was given.
type Size struct {
	Count   int
	Percent float64 // used when Count is 0
}

// ParseSize reads "5" or "5%". Zero is refused, since no wave, limit or threshold of
// no host makes sense; its error wraps core.ErrInvalid.
func ParseSize(s string) (Size, error) {
	if number, ok := strings.CutSuffix(s, "%"); ok {
		p, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(p > 0 && p <= 100) {
			return Size{}, sizeError(s)
		}
		return Size{Percent: p}, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return Size{}, sizeError(s)
	}
	return Size{Count: n}, nil
}

func sizeError(s string) error {
	return fmt.Errorf("size %q: expected a count of hosts from 1, as in 5, or a share over 0%% and up to 100%%, as in 5%%: %w", s, core.ErrInvalid)
}

// String writes what ParseSize reads, and "" for the zero Size.
func (s Size) String() string {
	switch {
	case s.Count > 0:
		return strconv.Itoa(s.Count)
	case s.Percent > 0:
		return strconv.FormatFloat(s.Percent, 'f', -1, 64) + "%"
	}
	return ""
}

// IsZero reports whether no size was given.
func (s Size) IsZero() bool { return s == Size{} }

// Of is the size as a count of hosts out of total. A share rounds up, so that it is
// at least one host; a count is cut to total. The zero Size is 0.
func (s Size) Of(total int) int {
	switch {
	case total <= 0:
		return 0
	case s.Count > 0:
		return min(s.Count, total)
	case s.Percent > 0:
		// Without the margin, 7 % of 100 is 7.000000000000001, hence 8.
		n := math.Ceil(s.Percent*float64(total)/100 - 1e-9)
		return min(max(int(n), 1), total)
	}
	return 0
}

// MarshalText writes the size as in a playbook.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *Size) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*s = Size{}
		return nil
	}
	size, err := ParseSize(string(text))
	if err != nil {
		return err
	}
	*s = size
	return nil
}
