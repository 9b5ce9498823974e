package windows

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
	"github.com/turnus/turnus/windows/civil"
)

// decoder reads one file into shared definitions. It collects problems and goes on, so that
// all of them are told at once.
type decoder struct {
	src       *source
	defs      *Definitions
	problems  Problems
	nodes     int
	rulesRead int
	full      bool
	later     []func() // checks that need all definitions
}

func (d *decoder) fail(n *yaml.Node, hint, format string, args ...any) {
	if len(d.problems) >= MaxProblems {
		d.full = true
		return
	}
	d.problems = append(d.problems, d.src.problem(n.Line, n.Column, fmt.Sprintf(format, args...), hint))
}

// follow resolves aliases and counts what is read, so that a few bytes cannot become a lot of work.
func (d *decoder) follow(n *yaml.Node) *yaml.Node {
	d.nodes++
	if d.nodes > maxNodes && !d.full {
		d.fail(n, "split it; several files are read together", "the file has more than %d values up to here, aliases expanded", maxNodes)
		d.full = true
	}
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

// keys says how each key of a mapping is read; required ones are listed beside it.
type keys map[string]func(*yaml.Node)

func (d *decoder) mapping(n *yaml.Node, what string, known keys, required ...string) bool {
	target := d.follow(n)
	names := slices.Sorted(maps.Keys(known))
	if target.Kind != yaml.MappingNode {
		d.fail(n, "expected a mapping with the keys "+strings.Join(names, ", "), "%s is %s", what, kindOf(target))
		return false
	}
	seen := map[string]bool{}
	good := true
	d.each(target, what, func(key string, k, v *yaml.Node) {
		read, ok := known[key]
		switch {
		case !ok:
			near := yamlread.Nearest(key, slices.Sorted(slices.Values(names)))
			seen[near] = true // misspelt, not missing besides
			good = false
			hint := "expected one of: " + strings.Join(names, ", ")
			if near != "" {
				hint = didYouMean(key, names) + " " + hint
			}
			d.fail(k, hint, "unknown key %s in %s", quote(key), what)
		case isNull(d.follow(v)):
			good = false
			seen[key] = true
			d.fail(k, "leave the key out, or give it a value", "%q has no value", key)
		default:
			seen[key] = true
			read(v)
		}
	})
	for _, key := range required {
		if !seen[key] && !d.full {
			good = false
			d.fail(n, "", "%s has no %q", what, key)
		}
	}
	return good
}

// each goes through a mapping's keys in the order of the file.
func (d *decoder) each(target *yaml.Node, what string, read func(key string, k, v *yaml.Node)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(target.Content) && !d.full; i += 2 {
		k, v := target.Content[i], target.Content[i+1]
		key := d.follow(k)
		first, twice := seen[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
			d.fail(k, "", "a key of %s is %s; expected a word", what, kindOf(key))
			continue
		case twice:
			d.fail(k, fmt.Sprintf("it stands in line %d already", first), "key %s is given twice", quote(key.Value))
			continue
		}
		seen[key.Value] = k.Line
		if strings.HasPrefix(key.Value, "x-") && k.Column == 1 {
			continue // a place for anchors, at the top of a file
		}
		read(key.Value, k, v)
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if isNull(n) {
		return "empty"
	}
	return "the value " + quote(n.Value)
}

// text reads a scalar as it is written.
func (d *decoder) text(n *yaml.Node, what string) (string, bool) {
	target := d.follow(n)
	if target.Kind != yaml.ScalarNode || isNull(target) {
		d.fail(n, "", "%s is %s; expected a single value", what, kindOf(target))
		return "", false
	}
	return target.Value, true
}

// with reads a scalar through a parser; what the parser says becomes the problem.
func with[T any](d *decoder, n *yaml.Node, what string, parse func(string) (T, error), into *T) {
	text, ok := d.text(n, what)
	if !ok {
		return
	}
	v, err := parse(text)
	if err != nil {
		message := strings.TrimPrefix(err.Error(), "invalid ")
		if !strings.Contains(message, quote(text)) {
			message = what + " " + quote(text) + ": " + message
		}
		d.fail(n, "", "%s", message)
		return
	}
	*into = v
}

func plainText(text string) (string, error) {
	if len(text) > 500 {
		return "", fmt.Errorf("longer than 500 characters")
	}
	return text, nil
}

// nameText is a name that may stand in file names, keys and commands.
func nameText(text string) (string, error) {
	if text == "" || len(text) > 100 || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || printable(r) != r }) {
		return "", fmt.Errorf("expected a name of 1 to 100 characters without blanks")
	}
	return text, nil
}

func (d *decoder) list(n *yaml.Node, what string) []*yaml.Node {
	target := d.follow(n)
	if target.Kind != yaml.SequenceNode {
		hint := ""
		if target.Kind == yaml.ScalarNode {
			hint = "a list of one is written [" + target.Value + "]"
		}
		d.fail(n, hint, "%s is %s; expected a list", what, kindOf(target))
		return nil
	}
	return target.Content
}

func (d *decoder) names(n *yaml.Node, what string) []string {
	out := []string{}
	for _, item := range d.list(n, what) {
		var name string
		with(d, item, what, nameText, &name)
		if name != "" {
			out = append(out, name)
		}
	}
	return out
}

// trueOrFalse reads a truth value as YAML 1.2 has it.
func trueOrFalse(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, errors.New("expected true or false")
	}
	return text == "true", nil
}

func choice[T ~string](options ...T) func(string) (T, error) {
	return func(text string) (T, error) {
		if slices.Contains(options, T(text)) {
			return T(text), nil
		}
		names := make([]string, len(options))
		for i, o := range options {
			names[i] = string(o)
		}
		return "", fmt.Errorf("expected %s%s", strings.Join(names, " or "), hinted(didYouMean(text, names)))
	}
}

func zoneText(text string) (string, error) {
	_, err := civil.LoadZone(text)
	return text, err
}

// zone loads a zone that was checked; UTC stands in for one that was reported.
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
			return t, yearBounds(t)
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
