package playbooks

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// Types of params.
const (
	TextParam    = "string"
	IntegerParam = "integer"
	NumberParam  = "number"
	BooleanParam = "boolean"
	ListParam    = "list" // of texts
	SecretParam  = "secret"
)

func paramTypes() []string {
	return []string{TextParam, IntegerParam, NumberParam, BooleanParam, ListParam, SecretParam}
}

// Param is one input of a launch. Values of a launch may be text, as people type it on a command
// line; a value of a secret's param is the name of a secret.
type Param struct {
	Name        string
	Type        string
	Description string
	Required    bool
	Pattern     string   // a regular expression that the whole text matches; "" is any
	Choices     []any    // of Type; nil is any
	Min, Max    *float64 // of a number
	Default     any      // nil: none
	Line        int      // the line in its file, from 1

	pattern *regexp.Regexp
	given   any // value of this launch; nil: none
}

// Value returns the value of this launch, else the default; nil if there is none.
func (p *Param) Value() any {
	if p.given != nil {
		return p.given
	}
	return p.Default
}

// Values returns the values of all params, as Env.Params has them: nil where a param has none.
func (p *Playbook) Values() map[string]any {
	if len(p.Params) == 0 {
		return nil
	}
	out := make(map[string]any, len(p.Params))
	for i := range p.Params {
		out[p.Params[i].Name] = p.Params[i].Value()
	}
	return out
}

// CheckRequired refuses a launch without the params that are required. Errors are core.ErrInvalid.
func (p *Playbook) CheckRequired() error {
	for i := range p.Params {
		one := &p.Params[i]
		if !one.Required || one.Value() != nil {
			continue
		}
		about := ""
		if one.Description != "" {
			about = " (" + one.Description + ")"
		}
		return fmt.Errorf("playbook %s: the required param %s has no value: expected %s%s: %w\nhint: give it with -e %s=VALUE; turnus run and turnus submit ask for it with --ask",
			p.Name, quote(one.Name), one.Want(), about, core.ErrInvalid, one.Name)
	}
	return nil
}

// Want describes the allowed values.
func (p *Param) Want() string {
	kind := map[string]string{ //nolint:gosec // words, no secret
		TextParam: "text", IntegerParam: "a whole number", NumberParam: "a number", BooleanParam: "true or false",
		ListParam: "a list of texts", SecretParam: "the name of a secret"}[p.Type]
	switch {
	case len(p.Choices) > 0:
		kind = yamlread.OneOf(texts(p.Choices))
	case p.Pattern != "":
		kind += " that matches " + p.Pattern
	}
	switch {
	case p.Min != nil && p.Max != nil:
		kind += fmt.Sprintf(" from %v to %v", *p.Min, *p.Max)
	case p.Min != nil:
		kind += fmt.Sprintf(" of at least %v", *p.Min)
	case p.Max != nil:
		kind += fmt.Sprintf(" of at most %v", *p.Max)
	}
	return kind
}

// ValueError is a value that a param does not take. It wraps core.ErrInvalid.
type ValueError struct{ Param, Got, Want, Hint string }

// Error implements error.
func (e *ValueError) Error() string {
	text := fmt.Sprintf("param %s: %s: expected %s", quote(e.Param), e.Got, e.Want)
	if e.Hint != "" {
		text += "\nhint: " + e.Hint
	}
	return text
}

// Unwrap returns core.ErrInvalid.
func (e *ValueError) Unwrap() error { return core.ErrInvalid }

const wantNoNUL = "text without a NUL byte"

// hasNUL reports whether a value has a text with a NUL byte. No argument of a command and no
// environment variable of a host can hold one.
func hasNUL(v any) bool {
	return AnyText(v, func(text string) bool { return strings.ContainsRune(text, 0) })
}

// AnyText reports whether is holds for a text in a value of JSON, or for a name in it.
func AnyText(v any, is func(string) bool) bool {
	switch v := v.(type) {
	case string:
		return is(v)
	case []any:
		return slices.ContainsFunc(v, func(inner any) bool { return AnyText(inner, is) })
	case map[string]any:
		for name, inner := range v {
			if is(name) || AnyText(inner, is) {
				return true
			}
		}
	}
	return false
}

// Accept returns the value that v stands for, or a *ValueError. Text stands for a value of any
// type, as on a command line; a number never stands for text, because 1.10 would have become 1.1 by
// then.
func (p *Param) Accept(v any) (any, error) {
	out, ok := p.typed(v)
	if ok && p.pattern != nil {
		text, isText := out.(string)
		ok = isText && p.pattern.MatchString(text)
	}
	if ok && len(p.Choices) > 0 {
		ok = slices.ContainsFunc(p.Choices, func(c any) bool { return reflect.DeepEqual(c, out) })
	}
	if n, number := asNumber(out); ok && number {
		ok = (p.Min == nil || n >= *p.Min) && (p.Max == nil || n <= *p.Max)
	}
	switch {
	case ok && hasNUL(out):
		return nil, &ValueError{Param: p.Name, Got: p.shown(v), Want: wantNoNUL}
	case ok:
		return out, nil
	}
	e := &ValueError{Param: p.Name, Got: p.shown(v), Want: p.Want()}
	_, number := asNumber(v)
	_, text := v.(string)
	switch {
	case number && p.Type == TextParam:
		e.Hint = "write the value in quotes: it is text"
	case text && p.Type == ListParam:
		e.Hint = fmt.Sprintf(`a list is JSON: ["a", "b"]; with -e in single quotes: -e '%s=["a", "b"]'`, p.Name)
	}
	return nil, e
}

// shown returns the value for a message. A text in the place of a secret's name may be the secret
// itself.
func (p *Param) shown(v any) string {
	if p.Type == SecretParam {
		return "this is not the name of a secret"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%T", v)
	}
	return clip(string(text), 60)
}

func (p *Param) typed(v any) (any, bool) {
	text, isText := v.(string)
	switch p.Type {
	case TextParam:
		return text, isText
	case SecretParam:
		return text, isText && secretName().MatchString(text)
	case BooleanParam:
		if isText {
			on, err := strconv.ParseBool(text)
			return on, err == nil
		}
		on, ok := v.(bool)
		return on, ok
	case ListParam:
		return asTexts(v)
	}
	n, ok := asNumber(v)
	if isText {
		var err error
		n, err = strconv.ParseFloat(text, 64)
		ok = err == nil && !math.IsInf(n, 0) && !math.IsNaN(n)
	}
	if p.Type == IntegerParam {
		return int(n), ok && n == math.Trunc(n) && math.Abs(n) <= 1<<53
	}
	return n, ok
}

func asNumber(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case float64:
		return n, true
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	}
	return 0, false
}

// asTexts reads a list of texts: a list, or the JSON of one.
func asTexts(v any) (any, bool) {
	if text, ok := v.(string); ok {
		var list []any
		if json.Unmarshal([]byte(text), &list) != nil {
			return nil, false
		}
		v = list
	}
	list, ok := asList(v)
	return list, ok && !slices.ContainsFunc(list, func(item any) bool { _, text := item.(string); return !text })
}
