package playbooks

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/expr-lang/expr/ast"
	"github.com/google/jsonschema-go/jsonschema"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

const (
	maxSecrets    = 50 // of one step
	secretKeyword = "x-turnus-secret"
	onlyInParams  = "a secret stands only in params that take one, as ${{ secrets.NAME }}, in a step whose secrets: lists it"
)

// The names of secrets: in a step, where a name may become an environment variable, and where they
// are defined.
const (
	patternAlias   = `^[A-Za-z_][A-Za-z0-9_]{0,99}$`
	patternDefined = `^[A-Za-z_][A-Za-z0-9_.-]{0,127}$`
)

var (
	secretAlias = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(patternAlias) })
	secretName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(patternDefined) })
)

func secretsForm() form {
	return form{"a list of names of secrets, or a mapping {NAME: secret}", &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "array", MaxItems: new(maxSecrets), Items: &jsonschema.Schema{Type: "string", Pattern: patternAlias}},
		{Type: "object", MaxProperties: new(maxSecrets), PropertyNames: &jsonschema.Schema{Pattern: patternAlias},
			AdditionalProperties: &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", Pattern: patternDefined}, {Type: "string", Pattern: patternSecretParam}}}},
	}}}
}

// secretsOf reads what a step may have.
func (d *decoder) secretsOf(n *yaml.Node) map[string]string {
	target, ok := d.Follow(n)
	if !ok {
		return nil
	}
	out := map[string]string{}
	switch target.Kind {
	case yaml.SequenceNode:
		for _, item := range d.List(n, secretsForm().want) {
			name := d.secretOf(item)
			if name != "" && d.secretAlias(item, name, fmt.Sprintf("give it a name that the job type can use: secrets: {%s: %s}", aliasFor(name), name)) {
				out[name] = name
			}
		}
	case yaml.MappingNode:
		for _, e := range d.Pairs(n, "secrets") {
			if d.secretAlias(e.Key, e.Name, "") {
				out[e.Name] = d.secretOf(e.Value)
			}
		}
	default:
		d.Mismatch(n, target, secretsForm().want, "")
		return nil
	}
	if len(out) > maxSecrets {
		d.reportNode(n, problem{message: fmt.Sprintf("%d secrets", len(out)), expected: fmt.Sprintf("%d at most", maxSecrets)})
		return nil
	}
	return out
}

// secretOf reads the name of a secret.
func (d *decoder) secretOf(n *yaml.Node) string {
	target, ok := d.Scalar(n, "the name of a secret")
	if !ok {
		return ""
	}
	if name, ok := d.secretParam(n, target.Value); ok {
		return name
	}
	if !secretName().MatchString(target.Value) {
		p := problem{message: quote(target.Value) + " is not the name of a secret", expected: "a letter or _, then letters, digits, _ . and -"}
		if strings.Contains(target.Value, "${{") {
			p.hint = "list secrets by name, or write ${{ params.NAME }} of a param of type secret"
		}
		d.reportNode(n, p)
		return ""
	}
	return target.Value
}

func (d *decoder) secretAlias(n *yaml.Node, name, hint string) bool {
	if secretAlias().MatchString(name) && !strings.HasPrefix(strings.ToUpper(name), "TURNUS_") {
		return true
	}
	p := problem{message: quote(name) + " cannot be what the job type knows a secret by", expected: "a letter or _, then letters, digits and _, as of an environment variable", hint: hint}
	if strings.HasPrefix(strings.ToUpper(name), "TURNUS_") {
		p.expected = "a name that does not begin with TURNUS_: those are Turnus's own"
	}
	d.reportNode(n, p)
	return false
}

// aliasFor makes an identifier of a secret's name.
func aliasFor(name string) string {
	return strings.ToUpper(strings.Map(func(r rune) rune {
		if r == '.' || r == '-' {
			return '_'
		}
		return r
	}, name))
}

// withSecrets lets the params of a step read its secrets.
func (s scope) withSecrets(step string, secrets map[string]string) scope {
	if len(secrets) == 0 {
		s.elsewhere = maps.Clone(s.elsewhere)
		s.elsewhere["secrets"] = "the step lists none: secrets: [NAME] beside uses"
		return s
	}
	root := *s.root
	root.fields = maps.Clone(root.fields)
	root.fields["secrets"] = closedShape(fmt.Sprintf("secrets: of step %q", step), slices.Sorted(maps.Keys(secrets))...)
	s.root = &root
	return s
}

// secret sees that an expression with a secret is that secret, and nothing else: a text made of one
// would not be recognised in the output of the job.
func (k *checker) secret(tree ast.Node) {
	if k.root.fields["secrets"] == nil {
		return // it was reported as unknown
	}
	var at *ast.IdentifierNode
	ast.Walk(&tree, visit(func(n ast.Node) {
		if id, ok := n.(*ast.IdentifierNode); ok && id.Value == "secrets" && !k.locals["secrets"] {
			at = id
		}
	}))
	if at == nil {
		return
	}
	if m, ok := tree.(*ast.MemberNode); ok && m.Node == ast.Node(at) && !m.Method {
		if property, constant := m.Property.(*ast.StringNode); constant {
			k.code.reads.secret = property.Value
			return
		}
	}
	k.report(at, problem{message: "a secret cannot be computed with", expected: "${{ secrets.NAME }} and nothing else between the brackets; text may stand around them",
		hint: "what is made of a secret could not be kept out of output and logs"})
}

// secretUse is the place of a secret in a with:.
type secretUse struct {
	at   *value
	path string
	name string
	fits bool // the schema lets one stand there
}

// secretUses lists them. s is the schema of the value, and given whether what holds it takes
// secrets.
func (k *paramCheck) secretUses(v *value, s *jsonschema.Schema, path string, given bool, depth int) (out []secretUse) {
	if s != nil && k.typ != nil {
		s = k.deref(s)
	}
	given = given || takesSecrets(s)
	if depth > MaxDepth {
		return nil
	}
	within := func(v *value, s *jsonschema.Schema, path string) {
		out = append(out, k.secretUses(v, s, path, given, depth+1)...)
	}
	for _, f := range v.fields {
		var sub *jsonschema.Schema
		if s != nil {
			if sub = s.Properties[f.name]; sub == nil {
				sub = s.AdditionalProperties
			}
		}
		within(f.value, sub, join(path, f.name))
	}
	for i, item := range v.items {
		var sub *jsonschema.Schema
		if s != nil {
			sub = s.Items
		}
		within(item, sub, fmt.Sprintf("%s[%d]", path, i))
	}
	for _, p := range v.parts {
		if p.code != nil && p.code.reads.secret != "" {
			out = append(out, secretUse{at: v, path: path, name: p.code.reads.secret, fits: given})
		}
	}
	return out
}

func takesSecrets(s *jsonschema.Schema) bool {
	if s == nil {
		return false
	}
	yes, _ := s.Extra[secretKeyword].(bool)
	return yes
}

// secretParams are the params of a schema that take secrets, for messages.
func secretParams(s *jsonschema.Schema) []string {
	var out []string
	for _, name := range sortedKeys(s.Properties) {
		if takesSecrets(s.Properties[name]) {
			out = append(out, name)
		}
	}
	return out
}

// readSecrets notes whether a with: holds secrets, and reports each that stands where none may.
func (p *Params) readSecrets(d *decoder) {
	k := &paramCheck{typ: p.schema}
	var root *jsonschema.Schema
	if p.schema != nil {
		root = p.schema.params
	}
	for _, use := range k.secretUses(p.root, root, "", false, 0) {
		p.secrets = true
		if use.fits || root == nil {
			continue
		}
		where := problem{message: fmt.Sprintf("step %q: param %q of job type %q takes no secrets", p.step, use.path, p.schema.name)}
		if takes := secretParams(root); len(takes) > 0 {
			where.expected = "secrets only in " + strings.Join(takes, ", ")
		}
		switch p.schema.name {
		case "command", "script":
			where.hint = fmt.Sprintf("secrets: beside uses makes it the environment variable %s of the command: write $%s", use.name, use.name)
		default:
			where.hint = "a param that takes none may show in output, logs or lists of processes"
		}
		d.report(d.src.at(use.at.node), where)
	}
}

// CheckSecrets returns an error that names each secret in a param that the job type's schema does
// not mark as a secret any more. A worker's plugin may be another than the one that the playbook
// was checked against.
func (p Params) CheckSecrets(params json.RawMessage) error {
	if !p.secrets {
		return nil
	}
	typ, err := newTypeSchema(Type{Params: params})
	if err != nil {
		return err
	}
	k := &paramCheck{typ: typ}
	for _, use := range k.secretUses(p.root, typ.params, "", false, 0) {
		if !use.fits {
			return Diagnostics{use.at.src.diagnose(use.at.src.at(use.at.node), problem{
				message: fmt.Sprintf("step %q: param %q takes no secrets in the plugin that this worker has", p.step, use.path), hint: "the playbook was checked against another version of it"})}
		}
	}
	return nil
}

// Secrets are the names of all secrets that the steps list, sorted.
func (p *Playbook) Secrets() []string {
	names := map[string]bool{}
	for _, s := range p.Calls() {
		for _, name := range s.Secrets {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// MissingSecret returns the error for a step that lists a secret which nobody has; known are the
// existing secrets.
func (p *Playbook) MissingSecret(name string, known []string) error {
	for _, s := range p.Calls() {
		for _, listed := range s.Secrets {
			if listed == name {
				return Diagnostics{s.src.diagnose(s.src.wholeLine(s.Line), problem{message: fmt.Sprintf("step %q lists the secret %q, which does not exist", s.Name, name),
					expected: yamlread.OneOf(known), hint: cmp.Or(yamlread.DidYouMean(name, known), "a node has its own secrets by --secrets FILE, a service those of secrets.yaml in its project: turnus secrets --help")})}
			}
		}
	}
	return nil
}
