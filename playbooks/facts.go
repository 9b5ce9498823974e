package playbooks

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core"
)

// Bounds of facts: {max_age}. The record keeps facts for no longer than maxFactsAge.
const (
	DefaultFactsAge = 24 * time.Hour // of a playbook whose targets or hosts() read facts, and that gives no age
	minFactsAge     = time.Minute
	maxFactsAge     = 30 * 24 * time.Hour
)

// ErrNoFacts is of targets that read the facts of a host without any. It is not known whether they
// select the host.
var ErrNoFacts = errors.New("the host has no facts")

// factsField is the field of a host that only the host itself knows: a step that reads it has the
// worker ask, and targets read what is on record.
const factsField = "facts"

// factsAge is beside the facts: seconds since they were gathered.
const factsAge = "age"

// withAge returns the facts of a host with their age; empty where there are none.
func withAge(h core.Host) map[string]any {
	out := make(map[string]any, len(h.Facts)+1)
	if maps.Copy(out, h.Facts); len(out) > 0 {
		out[factsAge] = max(0, int(h.FactsAge.Seconds())) // the clocks of two nodes may differ
	}
	return out
}

// factsName is the function that targets call with host.facts. Expressions cannot contain its name.
const factsName = "__facts"

// askedFacts makes targets stop at a host without facts, where a missing fact would be a value.
type askedFacts struct{}

// Visit wraps host.facts.
func (askedFacts) Visit(node *ast.Node) {
	member, ok := (*node).(*ast.MemberNode)
	if !ok {
		return
	}
	base, isName := member.Node.(*ast.IdentifierNode)
	property, isText := member.Property.(*ast.StringNode)
	if isName && isText && base.Value == "host" && property.Value == factsField {
		*node = call(factsName, member)
	}
}

func factsFunction() expr.Option {
	return expr.Function(factsName, func(args ...any) (any, error) {
		if facts, _ := args[1].(map[string]any); len(facts) == 0 {
			return nil, ErrNoFacts
		}
		return args[1], nil
	}, new(func(any, any) any))
}

// withFacts is a host as steps and targets read it.
func withFacts(host *shape) *shape {
	facts := closedShape("host.facts", "os", "kernel", "arch", "cpus", "memory", "addresses", "init", "package_manager", "boot_id", factsAge)
	facts.fields["os"] = closedShape("host.facts.os", "family", "id", "version", "name")
	facts.fields["kernel"] = closedShape("host.facts.kernel", "name", "release")
	host.fields[factsField] = facts
	return host
}

// readsFacts reports whether the expression reads host.facts.
func (e Expr) readsFacts() bool { return e.code != nil && e.code.reads.host[factsField] }

// factsRule is the key facts.
type factsRule struct{ maxAge time.Duration }

func factsFields() []field[factsRule] {
	return []field[factsRule]{
		{key: "max_age", doc: "Older facts do not count: targets do not select such a host, and a step fails that would read them. From 1m to 30d.", form: durationForm(), required: true,
			read: func(d *decoder, n *yaml.Node, r *factsRule) {
				r.maxAge = d.durationOf(n)
				if r.maxAge > 0 && (r.maxAge < minFactsAge || r.maxAge > maxFactsAge) {
					d.reportNode(n, problem{message: fmt.Sprintf("max_age is %s", quote(n.Value)), expected: "from 1m to 30d: facts are kept for 30 days"})
				}
			}},
	}
}

func (d *decoder) factsOf(n *yaml.Node) time.Duration {
	var r factsRule
	readFields(d, n, "facts", factsFields(), map[string]string{"age": `it is called "max_age"`, "ttl": `it is called "max_age"`, "timeout": `it is called "max_age"`}, &r)
	return r.maxAge
}

// checkFacts decides how old the facts may be that targets and hosts() read, and those of steps.
func (d *decoder) checkFacts(root *yaml.Node, p *Playbook) {
	reads := p.Targets.readsFacts() || p.hostFacts()
	if p.FactsLimit = p.FactsAge; reads {
		p.FactsAge = cmp.Or(p.FactsAge, DefaultFactsAge)
		return
	}
	inSteps := slices.ContainsFunc(p.Calls(), func(s Step) bool { return s.Facts })
	if p.FactsAge = 0; p.FactsLimit > 0 && !inSteps && !p.Targets.Absent() {
		d.reportNode(d.child(root, "facts"), problem{message: "facts limits how old the facts may be that the playbook reads, and it reads none",
			expected: `an expression that reads facts, such as host.facts.os.family == "debian"`, hint: "remove facts, or read host.facts in targets or a step (docs/facts.md)"})
	}
}
