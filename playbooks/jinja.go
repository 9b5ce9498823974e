package playbooks

import (
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// jinja finds {{ name … }} as Ansible writes it. Go templates begin with a dot, or a word and a
// dot: {{.Names}}, {{json .}}.
var jinja = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{-?\s*([A-Za-z_][^{}]*?)\s*-?\}\}`) })

// jinjaTest finds a test of Jinja in an expression, such as x is not defined.
var jinjaTest = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\bis\s+(not\s+)?(changed|failed|succeeded|success|skipped|defined|undefined)\b`)
})

var jinjaTests = map[string]string{
	"changed": "steps.NAME.changed", "failed": `steps.NAME.outcome == "failed"`, "succeeded": `steps.NAME.outcome != "failed"`, "success": `steps.NAME.outcome != "failed"`,
	"skipped": `steps.NAME.outcome == "skipped"`, "defined": "NAME != nil", "undefined": "NAME == nil",
}

var goTemplate = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\w+\s+[.$"(]|^(end|else)$`) })

// refuseJinja refuses a text with an expression in Ansible's form, which would reach the host as it
// stands.
func (d *decoder) refuseJinja(n *yaml.Node) {
	if n.ShortTag() != "!!str" {
		return
	}
	for _, m := range jinja().FindAllStringSubmatchIndex(n.Value, -1) {
		body := n.Value[m[2]:m[3]]
		if strings.HasSuffix(n.Value[:m[0]], "$") || goTemplate().MatchString(body) || within(n.Value, m[0]) {
			continue
		}
		d.report(d.src.inside(n, utf8.RuneCountInString(n.Value[:m[0]]), utf8.RuneCountInString(n.Value[m[0]:m[1]])), problem{
			message: quote(n.Value[m[0]:m[1]]) + " is Jinja, which Turnus does not evaluate", expected: "${{ " + d.inTurnus(body) + " }}, in with:",
			hint: `a literal {{ is written ${{ "{{" }}`})
		return
	}
}

// within reports whether a place of a text is in a ${{ }}, as a literal {{ in quotes does.
func within(text string, at int) bool {
	start := strings.LastIndex(text[:at], "${{")
	if start < 0 {
		return false
	}
	end := closing(text[start+3:])
	return end < 0 || start+3+end >= at
}

// inTurnus is a simple Jinja expression as Turnus has it.
func (d *decoder) inTurnus(body string) string {
	name := strings.TrimSpace(body)
	if _, ok := d.vars[name]; ok {
		return "vars." + name
	}
	switch name {
	case "inventory_hostname", "ansible_hostname", "inventory_hostname_short":
		return "host.name"
	case "ansible_host":
		return "host.address"
	}
	return name
}
