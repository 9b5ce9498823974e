package playbooks

import (
	"encoding/json"
	"fmt"
	"slices"
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

// CheckParams asks the job type of each call about its params. It leaves out calls whose params
// hold an expression, because their values are known only on a host. An error of ask is a problem
// of the call. The results are sorted, and at most MaxProblems each.
func (p *Playbook) CheckParams(ask func(uses string, params json.RawMessage) ([]ParamProblem, error)) (problems, warnings Diagnostics) {
	for i, s := range p.Calls() {
		if s.With.root == nil || s.With.root.dynamic {
			continue
		}
		params, err := s.With.JSON(Env{})
		if err != nil { // a playbook that loaded has none
			continue
		}
		found, err := ask(s.Uses, params)
		if err != nil {
			problems = append(problems, p.Diagnose(i, clip(fmt.Sprintf("step %q: its params were not checked: %v", s.Name, err), maxParamText), "",
				"turnus plugins test PROGRAM|FOLDER shows what is wrong with a plugin"))
		}
		for _, f := range found[:min(len(found), MaxProblems)] {
			if f.Warning {
				warnings = append(warnings, s.With.diagnose(f))
			} else {
				problems = append(problems, s.With.diagnose(f))
			}
		}
	}
	return first(problems.sorted()), first(warnings.sorted())
}

func first(d Diagnostics) Diagnostics { return slices.Clip(d[:min(len(d), MaxProblems)]) }

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
