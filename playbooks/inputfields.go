package playbooks

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// maxParams bounds the params of a playbook: nobody fills in a longer form.
const maxParams = 100

func paramsForm() form {
	return form{"a mapping of names to params", &jsonschema.Schema{Type: "object", MaxProperties: new(maxParams),
		PropertyNames: &jsonschema.Schema{Pattern: patternAlias}, AdditionalProperties: objectSchema(paramFields())}}
}

// draftParam is a param while it is read: its default and choices need its type.
type draftParam struct {
	Param
	choices, fallback *yaml.Node
}

func paramFields() []field[draftParam] {
	number := form{"a number", &jsonschema.Schema{Type: "number"}}
	return []field[draftParam]{
		{key: "type", doc: "Type of the value. The value of a secret is its name.", form: enumForm(paramTypes()...), required: true,
			read: func(d *decoder, n *yaml.Node, p *draftParam) { p.Type = d.enumOf(n, paramTypes()...) }},
		{key: "description", doc: "Its use, in a sentence.", form: textForm("text"),
			read: func(d *decoder, n *yaml.Node, p *draftParam) { p.Description = d.textOf(n, 1024) }},
		{key: "required", doc: "A launch without a value is refused.", form: boolForm(),
			read: func(d *decoder, n *yaml.Node, p *draftParam) { p.Required = d.boolOf(n) }},
		{key: "pattern", doc: "Regular expression (RE2) that the whole text matches.", form: textForm("a regular expression"),
			read: func(d *decoder, n *yaml.Node, p *draftParam) { d.patternOf(n, p) }},
		{key: "choices", doc: "The values that there are.", form: form{"a list of values", &jsonschema.Schema{Type: "array", MinItems: new(1)}},
			read: func(_ *decoder, n *yaml.Node, p *draftParam) { p.choices = n }},
		{key: "min", doc: "Smallest number.", form: number, read: func(d *decoder, n *yaml.Node, p *draftParam) { p.Min = d.numberOf(n) }},
		{key: "max", doc: "Largest number.", form: number, read: func(d *decoder, n *yaml.Node, p *draftParam) { p.Max = d.numberOf(n) }},
		{key: "default", doc: "Value where a launch gives none.", form: form{"a value of the type", &jsonschema.Schema{}},
			read: func(_ *decoder, n *yaml.Node, p *draftParam) { p.fallback = n }},
	}
}

func paramWords() map[string]string {
	return map[string]string{"enum": `it is called "choices"`, "options": `it is called "choices"`, "values": `it is called "choices"`, "regex": `it is called "pattern"`,
		"doc": `it is called "description"`, "help": `it is called "description"`, "private": "secrets are never typed: write type: secret", "value": `it is called "default"`,
		"minimum": `it is called "min"`, "maximum": `it is called "max"`}
}

func (d *decoder) numberOf(n *yaml.Node) *float64 {
	target, ok := d.Scalar(n, "a number")
	if !ok {
		return nil
	}
	v, err := strconv.ParseFloat(target.Value, 64)
	if err != nil || target.ShortTag() == "!!str" || math.IsInf(v, 0) || math.IsNaN(v) {
		d.Mismatch(n, target, "a number", "")
		return nil
	}
	return &v
}

func (d *decoder) patternOf(n *yaml.Node, p *draftParam) {
	p.Pattern = d.textOf(n, 1024)
	re, err := regexp.Compile("^(?:" + p.Pattern + ")$")
	if err != nil {
		d.reportNode(n, problem{message: quote(p.Pattern) + " is not a regular expression", expected: "RE2 syntax such as [a-z]+"})
		return
	}
	p.pattern = re
}

// readParams reads params and gives them the values of the launch. They are no vars: a name is one
// or the other.
func (d *decoder) readParams(n *yaml.Node, p *Playbook) {
	d.params = map[string]bool{}
	for _, e := range d.Pairs(n, "params") {
		switch {
		case !secretAlias().MatchString(e.Name):
			d.reportNode(e.Key, problem{message: quote(e.Name) + " is not the name of a param", expected: "a letter or _, then letters, digits and _"})
			continue
		case d.read[e.Name]:
			d.reportNode(e.Key, problem{message: quote(e.Name) + " is also a var", expected: "a name in params or in vars", hint: "leave it out of vars: params have a default"})
			continue
		case len(p.Params) == maxParams:
			d.reportNode(e.Key, problem{message: fmt.Sprintf("more than %d params", maxParams), expected: fmt.Sprintf("%d at most", maxParams)})
			return
		}
		d.read[e.Name], d.params[e.Name] = true, true
		delete(p.Vars, e.Name)
		delete(d.vars, e.Name)
		one, ok := d.paramOf(e.Key, e.Value)
		if !ok {
			continue
		}
		if v, given := d.o.Vars[e.Name]; given {
			d.give(e.Key, &one, v, one.setHint(v))
		}
		p.Params = append(p.Params, one)
		d.declared = p.Params
	}
}

// paramOf reads one; ok is false where it is not right.
func (d *decoder) paramOf(key, n *yaml.Node) (one Param, ok bool) {
	before := len(d.diags)
	p := draftParam{Param: Param{Name: key.Value, Line: key.Line}}
	readFields(d, n, "param "+quote(p.Name), paramFields(), paramWords(), &p)
	if len(d.diags) > before || p.Type == "" {
		return p.Param, false
	}
	d.checkParam(n, &p)
	if p.choices != nil {
		var choices []any
		for _, item := range d.List(p.choices, "a list of values") {
			if v, ok := d.accept(item, &p.Param); ok {
				choices = append(choices, v)
			}
		}
		p.Choices = choices
	}
	if p.fallback != nil {
		p.Default, _ = d.accept(p.fallback, &p.Param)
	}
	return p.Param, len(d.diags) == before
}

// checkParam reports keys that mean nothing together.
func (d *decoder) checkParam(n *yaml.Node, p *draftParam) {
	numeric := p.Type == IntegerParam || p.Type == NumberParam
	switch {
	case p.Pattern != "" && p.Type != TextParam && p.Type != SecretParam:
		d.reportNode(d.child(n, "pattern"), problem{message: "a param of type " + p.Type + " has no pattern", expected: "pattern with type " + TextParam})
	case (p.Min != nil || p.Max != nil) && !numeric:
		d.reportNode(n, problem{message: "a param of type " + p.Type + " has no min and max", expected: "min and max with type " + IntegerParam + " or " + NumberParam})
	case p.Min != nil && p.Max != nil && *p.Min > *p.Max:
		d.reportNode(d.child(n, "max"), problem{message: "max is less than min", expected: "max of at least min"})
	case p.Required && p.fallback != nil:
		d.reportNode(d.child(n, "default"), problem{message: "a required param has a default", expected: "required or default, not both"})
	}
}

// accept reads a value of the file for a param.
func (d *decoder) accept(n *yaml.Node, p *Param) (any, bool) {
	before := len(d.diags)
	v := d.plain(n, 2)
	if len(d.diags) > before {
		return nil, false
	}
	d.give(n, p, v, "")
	out := p.given
	p.given = nil
	return out, out != nil
}

// give makes v the value of the launch, or reports at n why it cannot be; the hint is for an error
// without one.
func (d *decoder) give(n *yaml.Node, p *Param, v any, hint string) {
	out, err := p.Accept(v)
	if e, ok := errors.AsType[*ValueError](err); ok {
		e.Hint = cmp.Or(e.Hint, hint)
		d.reportNode(n, unwantedValue(e))
		return
	}
	p.given = out
}

// setHint shows how to give another value than v: the file declares the param, and the launch gives
// the value.
func (p *Param) setHint(v any) string {
	value := "VALUE"
	if text, ok := v.(string); ok && len(p.Choices) > 0 {
		value = cmp.Or(yamlread.Nearest(text, texts(p.Choices)), fmt.Sprint(p.Choices[0]))
	}
	return fmt.Sprintf("the launch gives this value; give another one: -e %s=%s", p.Name, value)
}

// unwantedValue is a value that a param does not take, for a place in a file.
func unwantedValue(e *ValueError) problem {
	return problem{message: fmt.Sprintf("param %s: %s", quote(e.Param), e.Got), expected: e.Want, hint: e.Hint}
}

// scheduleParams reads the params of a schedule; they travel with its vars, by names that differ.
func (d *decoder) scheduleParams(n *yaml.Node, s *Schedule) {
	given := d.launchVarsOf(n)
	for _, name := range sortedKeys(given) {
		if _, twice := s.Vars[name]; twice {
			d.reportNode(d.child(n, name), problem{message: quote(name) + " is also in vars", expected: "the value once"})
			continue
		}
		if s.Vars == nil {
			s.Vars = map[string]any{}
		}
		s.Vars[name] = given[name]
	}
}

// checkScheduleParams reports a schedule that could launch no run: each of its values is checked,
// and required ones are there.
func (d *decoder) checkScheduleParams(root *yaml.Node, p *Playbook) {
	if p.Schedule == nil {
		return
	}
	at := d.child(root, "schedule")
	for i := range p.Params {
		one := p.Params[i]
		v, given := p.Schedule.Vars[one.Name]
		switch {
		case given:
			d.give(d.scheduled(at, one.Name), &one, v, "")
		case one.Required:
			d.reportNode(at, problem{message: "the schedule gives no value for the required param " + quote(one.Name), expected: fmt.Sprintf("params: {%s: VALUE}", one.Name)})
		}
	}
}

// scheduled is where a schedule gives a value.
func (d *decoder) scheduled(schedule *yaml.Node, name string) *yaml.Node {
	for _, key := range []string{"params", "vars"} {
		if from := d.child(schedule, key); from != schedule && d.child(from, name) != from {
			return d.child(from, name)
		}
	}
	return schedule
}

const patternSecretParam = `^\$\{\{ *params\.([A-Za-z_][A-Za-z0-9_]*) *\}\}$` //nolint:gosec // a pattern

var secretParam = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(patternSecretParam) })

// secretParam returns the name of the secret that a param of type secret names; ok is false where
// text is no such reference. The name is "" where no launch has given one yet: CheckRequired
// refuses to launch that.
func (d *decoder) secretParam(n *yaml.Node, text string) (name string, ok bool) {
	m := secretParam().FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	i := slices.IndexFunc(d.declared, func(p Param) bool { return p.Name == m[1] })
	switch {
	case i < 0 && d.params[m[1]]: // it is wrong itself, which was reported
	case i < 0:
		d.reportNode(n, problem{message: "there is no param " + quote(m[1]), expected: "a param of type secret", hint: yamlread.DidYouMean(m[1], sortedKeys(d.params))})
	case d.declared[i].Type != SecretParam:
		d.reportNode(n, problem{message: "param " + quote(m[1]) + " has type " + d.declared[i].Type, expected: "a param of type secret"})
	default:
		name, _ = d.declared[i].Value().(string)
	}
	return name, true
}
