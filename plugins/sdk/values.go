package sdk

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/plugins/sdk/shell"
)

const (
	durationPattern = `^([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))+$`
	sizePattern     = `^[0-9]+ ?([kKMGT]i?)?B?$`
)

// Duration is a time span in parameters, written "90s", "1h30m", "2d" or "1w", as everywhere in a
// playbook. Days have 24 hours.
type Duration time.Duration

// String is the span as Go writes it.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes what UnmarshalJSON reads.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads a string such as "90s".
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("duration %s: expected text such as 90s, 1h30m or 2d", raw)
	}
	sum, rest := 0.0, text
	for rest != "" {
		part := durationPart().FindStringSubmatch(rest)
		if part == nil {
			return fmt.Errorf("duration %q: expected such as 90s, 1h30m or 2d", text)
		}
		count, _ := strconv.ParseFloat(part[1], 64) // infinite at worst
		sum, rest = sum+count*float64(durationUnits[part[2]]), rest[len(part[0]):]
	}
	if text == "" || sum >= math.MaxInt64 {
		return fmt.Errorf("duration %q: expected such as 90s, 1h30m or 2d", text)
	}
	*d = Duration(math.Round(sum))
	return nil
}

var durationPart = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)`) })

var durationUnits = map[string]time.Duration{
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
}

// Size is a number of bytes in parameters, written as a number or "10MiB".
type Size int64

// UnmarshalJSON reads a number or a string with a unit: k, M, G, T are powers of
// 1000; Ki, Mi, Gi, Ti of 1024.
func (s *Size) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"`)
	digits := strings.TrimRight(text, "kKMGTiB ")
	n, err := strconv.ParseInt(digits, 10, 64)
	unit := strings.TrimSuffix(strings.TrimSpace(text[len(digits):]), "B")
	factor, known := sizeUnits[strings.ToUpper(unit)]
	if err != nil || !known || n < 0 || n > math.MaxInt64/factor {
		return fmt.Errorf("size %s: expected a number of bytes, or such as 10MiB", raw)
	}
	*s = Size(n * factor)
	return nil
}

var sizeUnits = map[string]int64{
	"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
	"KI": 1 << 10, "MI": 1 << 20, "GI": 1 << 30, "TI": 1 << 40,
}

// Quote makes any s one word of a shell command line. A path that may begin with a dash needs "--"
// before it or "./" in front as well: quoting does not change what a program takes for an option.
func Quote(s string) string { return shell.Quote(s) }

// QuoteAll quotes each word and joins them with spaces.
func QuoteAll(words ...string) string { return shell.Quote(words...) }

// Vars sets variables of a script, for the lines behind it: Vars("p", path, "n", 3) returns
// "p=PATH n=3\n". Names and values alternate; each value is quoted.
func Vars(pairs ...any) string {
	var words []string
	for pair := range slices.Chunk(pairs, 2) {
		words = append(words, fmt.Sprint(pair[0], "=", Quote(fmt.Sprint(pair[1]))))
	}
	return strings.Join(words, " ") + "\n"
}
