package playbooks

import (
	"fmt"
	"strconv"
	"strings"
)

// ParamProblem is a problem that a job type finds in params beyond its schema.
type ParamProblem struct {
	Pointer string // JSON pointer into with:; "" is with: itself
	Message string
	Hint    string
	Warning bool
}

// maxParamText bounds the texts of a job type in characters.
const maxParamText = 500

// askJobType asks the job type of a call about its params, which keep to its schema. It leaves out
// params that hold an expression, because their values are known only on a host.
func (d *decoder) askJobType(s Step) {
	if d.o.Ask == nil || s.With.root == nil || s.With.root.dynamic {
		return
	}
	params, err := s.With.JSON(Env{})
	if err != nil { // params that loaded have none
		return
	}
	found, err := d.o.Ask(s.Uses, params)
	if err != nil {
		d.report(d.src.wholeLine(s.Line), problem{message: clip(fmt.Sprintf("step %q: its params were not checked: %v", s.Name, err), maxParamText),
			hint: "turnus plugins test PROGRAM|FOLDER shows what is wrong with a plugin"})
	}
	for _, f := range found[:min(len(found), MaxProblems)] {
		switch one := s.With.diagnose(f); {
		case !f.Warning:
			d.add([]Diagnostic{one})
		case len(d.whole.warnings) < MaxProblems:
			d.whole.warnings = append(d.whole.warnings, one)
		}
	}
}

// diagnose gives a problem its place: that of the value, or of the closest one around it that the
// file has.
func (p Params) diagnose(f ParamProblem) Diagnostic {
	v, path := p.root, ""
	at, node := v, v.node
	for token := range strings.SplitSeq(clip(f.Pointer, maxParamText), "/") {
		if token == "" {
			continue // before the first slash
		}
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		index, err := strconv.Atoi(token)
		isIndex := err == nil && (v == nil || v.fields == nil)
		if isIndex {
			path += "[" + token + "]"
		} else {
			path = join(path, token)
		}
		if v == nil {
			continue
		}
		var next *value
		if isIndex && index >= 0 && index < len(v.items) {
			next = v.items[index]
		}
		for _, field := range v.fields {
			if field.name == token {
				next = field.value
			}
		}
		if v = next; v != nil {
			at, node = v, v.node
		}
	}
	message := fmt.Sprintf("step %q: %s: %s", p.step, paramName(path), clip(f.Message, maxParamText))
	return at.src.diagnose(at.src.at(node), problem{message: message, hint: clip(f.Hint, maxParamText)})
}
