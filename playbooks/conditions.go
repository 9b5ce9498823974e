package playbooks

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// conditionKeyword marks a param that is a condition.
const conditionKeyword = "x-turnus-condition"

// A comparison that is evaluated is true or false. As a text it always holds.
var comparison = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\s(?:[=!<>]=|[<>]|&&|\|\|)\s`) })

// condition reports a comparison outside of ${{ }}. It reads the playbook's own text: values that
// expressions have may look like one.
func (k *paramCheck) condition(v *value, s *jsonschema.Schema, path string) {
	if s.Extra[conditionKeyword] != true || !comparison().MatchString(v.written()) {
		return
	}
	inside := strings.NewReplacer("${{ ", "", " }}", "", "${{", "", "}}", "").Replace(v.node.Value)
	k.report(v, problem{message: fmt.Sprintf("%s is text, which always holds", paramName(path)), expected: "true, false, or one expression",
		hint: fmt.Sprintf("write ${{ %s }}", clip(strings.TrimSpace(inside), 80))})
}

// written is the text of a scalar in the playbook, with its expressions left empty.
func (v *value) written() string {
	if v.parts == nil {
		text, _ := v.literal.(string)
		if strings.Contains(v.node.Value, "${{") {
			return "" // evaluated
		}
		return text
	}
	var text strings.Builder
	for _, p := range v.parts {
		if p.code != nil {
			text.WriteString("${{ }}")
		}
		text.WriteString(p.text)
	}
	return text.String()
}
