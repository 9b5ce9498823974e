package windows

import (
	"fmt"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/windows/civil"
)

// decoder reads one file into shared definitions. It collects problems and continues, so that all
// of them are reported together.
type decoder struct {
	*yamlread.Reader
	src       *source
	defs      *Definitions
	problems  Problems
	rulesRead int
	later     []func() // checks that need all definitions
}

func newDecoder(src *source, defs *Definitions) *decoder {
	d := &decoder{src: src, defs: defs}
	d.Reader = yamlread.NewReader(func(n *yaml.Node, f yamlread.Fault) {
		if len(d.problems) >= MaxProblems {
			d.Full = true
			return
		}
		d.problems = append(d.problems, d.src.problem(n.Line, n.Column, f.Error(), f.Hint))
	})
	return d
}

func (d *decoder) fail(n *yaml.Node, hint, format string, args ...any) {
	d.Fail(n, yamlread.Fault{Message: fmt.Sprintf(format, args...), Hint: hint})
}

// field is one key of a mapping; value is one that a parser reads.
type field = yamlread.Field

func value[T any](d *decoder, key string, into *T, parse func(string) (T, error)) field {
	return yamlread.Value(d.Reader, key, into, parse)
}

func plainText(text string) (string, error) {
	if len(text) > 500 {
		return "", fmt.Errorf("longer than 500 characters")
	}
	return text, nil
}

// nameText is a name that may be in file names, keys and commands.
func nameText(text string) (string, error) {
	if text == "" || len(text) > 100 || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || printable(r) != r }) {
		return "", fmt.Errorf("expected a name of 1 to 100 characters without blanks")
	}
	return text, nil
}

// names is a field of a list of names.
func (d *decoder) names(key string, into *[]string, then func(n *yaml.Node)) field {
	return field{Key: key, Want: "a list of names", Read: func(n *yaml.Node) {
		*into = []string{}
		for _, item := range d.List(n, "a list of names") {
			var name string
			yamlread.Parse(d.Reader, item, &name, nameText)
			if name != "" {
				*into = append(*into, name)
			}
		}
		d.later = append(d.later, func() { then(n) })
	}}
}

func zoneText(text string) (string, error) {
	_, err := civil.LoadZone(text)
	return text, err
}

// zone loads a zone that was checked; UTC replaces one that was reported.
func zone(name string) *time.Location {
	if z, err := civil.LoadZone(name); err == nil {
		return z
	}
	return time.UTC
}

// instant reads RFC 3339, or a wall time in the zone. A date is its beginning, or with end
// the beginning of the next day: a last day counts whole.
func instant(zoneName *string, end bool) func(string) (time.Time, error) {
	return func(text string) (time.Time, error) {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return t, CheckYear(t)
		}
		wall, date, err := parseWall(text)
		if err != nil {
			return wall, fmt.Errorf("expected a date such as 2026-12-31, or a time such as 2026-12-31T22:00 or 2026-12-31T22:00:00+01:00")
		}
		if date && end {
			wall = wall.AddDate(0, 0, 1)
		}
		at, _ := civil.Resolve(wall, zone(*zoneName))
		return at, nil
	}
}
