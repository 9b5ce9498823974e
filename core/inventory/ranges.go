package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Bounds of an inventory: its hosts, and so what one pattern expands to; the names
// that all patterns together expand to; the keys and items that are read, those of
// aliases each time; the groups of one host.
const (
	maxHosts      = 100_000
	maxExpanded   = 500_000
	maxRead       = 4_000_000
	maxCompared   = 20_000_000
	maxMembership = 500
	maxGroups     = 20_000
)

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// expand writes out ranges: [001:300], [a:f], [1:9:2], several of them; the last
// one runs fastest. Text without a range is returned as it is.
func expand(pattern string) ([]string, error) {
	parts, err := splitRanges(pattern)
	if err != nil {
		return nil, err
	}
	total := 1
	for _, p := range parts {
		if total *= len(p); total > maxHosts {
			return nil, fmt.Errorf("%q is more than %d hosts", pattern, maxHosts)
		}
	}
	out := []string{""}
	for _, p := range parts {
		next := make([]string, 0, len(out)*len(p))
		for _, head := range out {
			for _, s := range p {
				next = append(next, head+s)
			}
		}
		out = next
	}
	return out, nil
}

// hasRange reports whether there is something to expand.
func hasRange(s string) bool {
	i := strings.IndexByte(s, '[')
	return i >= 0 && strings.IndexByte(s[i:], ']') > strings.IndexByte(s[i:], ':') && strings.IndexByte(s[i:], ':') > 0
}

// splitRanges cuts a pattern into literal text and the values of each range.
func splitRanges(pattern string) ([][]string, error) {
	var parts [][]string
	for rest := pattern; rest != ""; {
		open := strings.IndexByte(rest, '[')
		if open < 0 {
			return append(parts, []string{rest}), nil
		}
		size := strings.IndexByte(rest[open:], ']')
		if size < 0 {
			return nil, fmt.Errorf("%q: \"[\" without \"]\"", pattern)
		}
		values, err := rangeValues(rest[open+1 : open+size])
		if err != nil {
			return nil, fmt.Errorf("%q: %w", pattern, err)
		}
		if open > 0 {
			parts = append(parts, []string{rest[:open]})
		}
		parts = append(parts, values)
		rest = rest[open+size+1:]
	}
	return parts, nil
}

func rangeValues(r string) ([]string, error) {
	bounds := strings.Split(r, ":")
	if len(bounds) != 2 && len(bounds) != 3 {
		return nil, fmt.Errorf("range [%s] must be [first:last] or [first:last:step]", r)
	}
	first, last, step := bounds[0], bounds[1], 1
	first = cmp.Or(first, "0")
	if last == "" {
		return nil, fmt.Errorf("range [%s] has no end", r)
	}
	if len(bounds) == 3 {
		var err error
		if step, err = strconv.Atoi(bounds[2]); err != nil || step < 1 {
			return nil, fmt.Errorf("range [%s]: the step must be a number from 1", r)
		}
	}
	if len(first) == 1 && len(last) == 1 {
		i, j := strings.Index(letters, first), strings.Index(letters, last)
		if i >= 0 && j >= 0 {
			return letterRange(r, i, j, step)
		}
	}
	return numberRange(r, first, last, step)
}

func letterRange(r string, i, j, step int) ([]string, error) {
	if i > j {
		return nil, fmt.Errorf("range [%s] ends before it begins", r)
	}
	var out []string
	for ; i <= j; i += step {
		out = append(out, letters[i:i+1])
	}
	return out, nil
}

func numberRange(r, first, last string, step int) ([]string, error) {
	from, err1 := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err1 != nil || err2 != nil || from < 0 || to < 0 {
		return nil, fmt.Errorf("range [%s] must be between two numbers or two letters", r)
	}
	width := 0
	if first[0] == '0' && len(first) > 1 {
		if width = len(first); len(last) != width {
			return nil, fmt.Errorf("range [%s]: with leading zeros both ends must have the same length", r)
		}
	}
	switch {
	case from > to:
		return nil, fmt.Errorf("range [%s] ends before it begins", r)
	case (to-from)/step >= maxHosts:
		return nil, fmt.Errorf("range [%s] is more than %d hosts", r, maxHosts)
	}
	out := make([]string, 0, (to-from)/step+1)
	for ; from <= to; from += step {
		s := strconv.Itoa(from)
		if len(s) < width {
			s = strings.Repeat("0", width-len(s)) + s
		}
		out = append(out, s)
	}
	return out, nil
}

// expandHost reads a host pattern with an optional port: web[1:3]:2222, [::1]:22.
func expandHost(s string) ([]string, int, error) {
	pattern, port, err := splitPort(s)
	if err != nil {
		return nil, 0, err
	}
	names := []string{pattern}
	if strings.HasPrefix(pattern, "[") && strings.HasSuffix(pattern, "]") && strings.Count(pattern, ":") > 2 {
		names[0] = pattern[1 : len(pattern)-1] // an IPv6 address in brackets
	} else if strings.Contains(pattern, "[") {
		if names, err = expand(pattern); err != nil {
			return nil, 0, err
		}
	}
	for _, n := range names {
		if err := CheckName(n); err != nil {
			return nil, 0, err
		}
	}
	return names, port, nil
}

// splitPort cuts :PORT off, when exactly one colon stands outside of brackets.
func splitPort(s string) (string, int, error) {
	depth, colons, last := 0, 0, -1
	for i := range len(s) {
		switch s[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ':':
			if depth == 0 {
				colons, last = colons+1, i
			}
		}
	}
	if colons != 1 {
		return s, 0, nil
	}
	port, err := strconv.Atoi(s[last+1:])
	if err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("%q: %q is no port", s, s[last+1:])
	}
	return s[:last], port, nil
}

var errName = errors.New("a host's name is 1 to 253 letters, digits and any of . _ - : @ %, not dots alone")

// CheckName refuses names that could mean something else to a shell, a URL, a
// pattern or a terminal.
func CheckName(s string) error {
	if strings.Trim(s, ".") == "" || len(s) > 253 || s[0] == '-' {
		return fmt.Errorf("%q: %w", s, errName)
	}
	for _, r := range s {
		if r < 0x80 && !isNameByte(byte(r)) || r == 0xfffd || r > 0x7f && r < 0xa1 {
			return fmt.Errorf("%q: %w", s, errName)
		}
	}
	return nil
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._-:@%+", c) >= 0
}
