package playbooks

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/rollout"
	"github.com/turnus/turnus/core/yamlread"
)

// form describes a valid value: in words for messages, and as a schema for editors.
type form struct {
	want   string
	schema *jsonschema.Schema
}

const (
	wantDuration = "a duration such as 30s, 40m, 1h30m or 2d"
	wantSize     = "a number of hosts from 1, or a share such as 5%"
	wantPercent  = "a share such as 20%"
	wantName     = "a name of letters, digits, dots, dashes and underscores, 100 characters at most"
	wantExpr     = "an expression"
)

const (
	patternDuration = `^(\d+(\.\d+)?(ms|s|m|h|d|w))+$`
	patternSize     = `^\d+(\.\d+)?%?$`
	patternName     = `^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`
)

func textForm(want string) form {
	return form{want, &jsonschema.Schema{Type: "string", MinLength: new(1)}}
}

func nameForm() form { return form{wantName, &jsonschema.Schema{Type: "string", Pattern: patternName}} }

func exprForm(want string) form {
	return form{want, &jsonschema.Schema{Types: []string{"string", "boolean"}}}
}

func durationForm() form {
	return form{wantDuration, &jsonschema.Schema{Type: "string", Pattern: patternDuration}}
}

func sizeForm() form {
	return form{wantSize, &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "integer", Minimum: new(1.0)}, {Type: "string", Pattern: patternSize}}}}
}

func percentForm() form {
	return form{wantPercent, &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "string", Pattern: `^\d+(\.\d+)?%$`}, {Type: "number", Minimum: new(0.0), Maximum: new(1.0)}}}}
}

func intForm(low, high int) form {
	return form{fmt.Sprintf("a whole number from %d to %d", low, high),
		&jsonschema.Schema{Type: "integer", Minimum: new(float64(low)), Maximum: new(float64(high))}}
}

func boolForm() form { return form{"true or false", &jsonschema.Schema{Type: "boolean"}} }

func enumForm(values ...string) form {
	s := &jsonschema.Schema{Type: "string"}
	for _, v := range values {
		s.Enum = append(s.Enum, v)
	}
	return form{yamlread.OneOf(values), s}
}

func (d *decoder) textOf(n *yaml.Node, most int) string {
	target, ok := d.Scalar(n, "text")
	if !ok {
		return ""
	}
	if len(target.Value) > most {
		d.reportNode(n, problem{message: fmt.Sprintf("this text has %d bytes", len(target.Value)), expected: fmt.Sprintf("%d at most", most)})
		return ""
	}
	return target.Value
}

var namePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(patternName) })

func (d *decoder) nameOf(n *yaml.Node) string {
	target, ok := d.Scalar(n, wantName)
	if !ok {
		return ""
	}
	if !namePattern().MatchString(target.Value) {
		d.reportNode(n, problem{message: fmt.Sprintf("%s is not a name", quote(target.Value)), expected: wantName})
		return ""
	}
	return target.Value
}

func (d *decoder) boolOf(n *yaml.Node) bool {
	target, ok := d.Scalar(n, "true or false")
	if !ok {
		return false
	}
	if target.ShortTag() != "!!bool" {
		hint := ""
		switch strings.ToLower(target.Value) {
		case "yes", "on", "y":
			hint = "write true"
		case "no", "off", "n":
			hint = "write false"
		}
		d.Mismatch(n, target, "true or false", hint)
	}
	return strings.EqualFold(target.Value, "true")
}

func (d *decoder) intOf(n *yaml.Node, low, high int) int {
	want := intForm(low, high).want
	target, ok := d.Scalar(n, want)
	if !ok {
		return low
	}
	v, err := strconv.Atoi(target.Value)
	if err != nil || target.ShortTag() != "!!int" || v < low || v > high {
		d.Mismatch(n, target, want, "")
		return low
	}
	return v
}

func (d *decoder) enumOf(n *yaml.Node, values ...string) string {
	target, ok := d.Scalar(n, yamlread.OneOf(values))
	if !ok {
		return ""
	}
	if !slices.Contains(values, target.Value) {
		d.Mismatch(n, target, yamlread.OneOf(values), yamlread.DidYouMean(target.Value, values))
		return ""
	}
	return target.Value
}

func (d *decoder) durationOf(n *yaml.Node) time.Duration {
	target, ok := d.Scalar(n, wantDuration)
	if !ok {
		return 0
	}
	v, err := ParseDuration(target.Value)
	if err != nil {
		hint := ""
		if _, err := strconv.ParseFloat(target.Value, 64); err == nil {
			hint = fmt.Sprintf("a unit is missing: %ss is seconds, %sm minutes", clip(target.Value, 20), clip(target.Value, 20))
		}
		d.Mismatch(n, target, wantDuration, hint)
	}
	return v
}

var durationPart = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|d|w)`) })

// ParseDuration reads "30s", "1h30m", "2d", "1w". Days have 24 hours. Zero and
// anything over ten years are errors.
func ParseDuration(text string) (time.Duration, error) {
	units := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute,
		"h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}
	sum, rest := 0.0, text
	for len(rest) > 0 && len(text) <= 64 {
		m := durationPart().FindStringSubmatch(rest)
		if m == nil {
			break
		}
		count, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			break
		}
		sum += count * float64(units[m[2]])
		rest = rest[len(m[0]):]
	}
	if rest != "" || sum < float64(time.Millisecond) || sum > float64(10*366*24*time.Hour) {
		return 0, fmt.Errorf("%s: expected %s", quote(text), wantDuration)
	}
	return time.Duration(math.Round(sum)), nil
}

func (d *decoder) sizeOf(n *yaml.Node) rollout.Size {
	target, ok := d.Scalar(n, wantSize)
	if !ok {
		return rollout.Size{}
	}
	size, err := ParseSize(target.Value)
	if err != nil {
		d.Mismatch(n, target, wantSize, "")
	}
	return size
}

var sizePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\d{1,9}(\.\d{1,6})?%?$`) })

// ParseSize reads "5" or "2.5%". Zero is an error: leave the key out instead. A
// playbook has one way to write a size; rollout.ParseSize takes a few more.
func ParseSize(text string) (rollout.Size, error) {
	if sizePattern().MatchString(text) {
		if size, err := rollout.ParseSize(text); err == nil {
			return size, nil
		}
	}
	return rollout.Size{}, fmt.Errorf("%s: expected %s", quote(text), wantSize)
}

// shareOf reads "20%" or 0.2 as 0.2.
func (d *decoder) shareOf(n *yaml.Node) float64 {
	target, ok := d.Scalar(n, wantPercent)
	if !ok {
		return 0
	}
	text, percent := strings.CutSuffix(target.Value, "%")
	v, err := strconv.ParseFloat(text, 64)
	if percent {
		v /= 100
	}
	if err != nil || v < 0 || v > 1 || v != v {
		d.Mismatch(n, target, wantPercent+" of at most 100%", "")
		return 0
	}
	return v
}
