package playbooks

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"
	"gopkg.in/yaml.v3"

	"github.com/turnus/turnus/core/yamlread"
)

// Expr is a compiled expression with its place in the file. The zero Expr is
// absent. It is safe for concurrent use.
type Expr struct {
	Text string
	code *code
}

// code is one compiled expression.
type code struct {
	what    string // "targets", "when of step \"x\"": names it in messages
	src     *source
	node    *yaml.Node // nil: the text is the whole source
	from    int        // characters before the expression in the node's value
	text    string
	program *vm.Program
	within  string   // name of the include in whose file it stands; "" is the playbook itself
	steps   []string // names that steps. may read: those without a result are empty, not missing
	list    *value   // foreach given as a YAML list, instead of program
	reads   reads
	listed  []*fieldTree // of a foreach that gives hosts of hosts(): what is read of them
	at      *span        // a place for all of it; nil: found by node and from
}

// Absent reports whether the playbook gave no such expression.
func (e Expr) Absent() bool { return e.Text == "" }

// Place returns file:line:col of the expression, or "" without one.
func (e Expr) Place() string {
	if e.code == nil {
		return ""
	}
	return e.code.src.diagnose(e.code.place(0, 1), problem{}).Place()
}

// Bool evaluates a condition; an absent one is true. Errors are Diagnostics, or ErrNoFacts.
func (e Expr) Bool(env Env) (bool, error) {
	if e.code == nil {
		return true, nil
	}
	v, err := e.code.run(env)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, e.code.fail(env, span{}, notBool(describe(v)))
	}
	return b, nil
}

// List evaluates a foreach; an absent one is nil. Errors are Diagnostics.
func (e Expr) List(env Env) ([]any, error) {
	switch {
	case e.code == nil:
		return nil, nil
	case e.code.list != nil:
		v, err := e.code.list.evaluate(env, &allowance{})
		if err != nil {
			return nil, err
		}
		return v.plain().([]any), nil
	}
	v, err := e.code.run(env)
	if err != nil {
		return nil, err
	}
	if list, ok := asList(v); ok {
		return list, nil
	}
	return nil, e.code.fail(env, span{}, problem{message: "gives " + describe(v), expected: "a list", hint: `for a value that may be missing write default(…, [])`})
}

// asList returns the items of a list. Some functions give lists of one Go type, such as split.
func asList(v any) ([]any, bool) {
	if list, ok := v.([]any); ok {
		return list, true
	}
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Slice {
		return nil, false
	}
	out := make([]any, r.Len())
	for i := range out {
		out[i] = r.Index(i).Interface()
	}
	return out, true
}

// run evaluates with bounded work. The result is a JSON value as far as the env is.
func (c *code) run(env Env) (any, error) {
	b := &allowance{hosts: env.Hosts}
	v, err := expr.Run(c.program, c.values(env, b))
	if err == nil {
		if err := b.keep(v); err != nil {
			return nil, c.fail(env, span{}, problem{message: err.Error()})
		}
		return v, nil
	}
	if errors.Is(err, ErrNoFacts) {
		return nil, fmt.Errorf("%s on host %s: %w", c.what, env.Host.Name, ErrNoFacts)
	}
	var fe *file.Error
	if !errors.As(err, &fe) {
		return nil, c.fail(env, span{}, runtimeProblem(err.Error()))
	}
	return nil, c.fail(env, c.place(fe.From, fe.To), c.missing(env, runtimeProblem(fe.Message)))
}

// missing adds to the problem of a value that is missing the step that would have made it.
func (c *code) missing(env Env, p problem) problem {
	for _, name := range slices.Sorted(maps.Keys(c.reads.results)) {
		if env.Steps[c.full(name)]["outcome"] != "skipped" || !strings.Contains(p.message, "missing") {
			continue
		}
		p.message += fmt.Sprintf(": step %s was skipped, so it has no outputs", quote(name))
		step := "steps." + name
		if !secretAlias().MatchString(name) {
			step = "steps[" + quote(name) + "]"
		}
		p.hint = fmt.Sprintf(`give this step when: %s.outcome != "skipped", or the value with default(value, "…")`, step)
		break
	}
	return p
}

// fail is a run-time error: it names the expression and the host.
func (c *code) fail(env Env, at span, p problem) error {
	if at == (span{}) {
		at = c.place(0, utf8.RuneCountInString(c.text))
	}
	on := ""
	if env.Host.Name != "" {
		on = " on host " + env.Host.Name
	}
	p.message = fmt.Sprintf("%s%s: %s", c.what, on, p.message)
	return Diagnostics{c.src.diagnose(at, p)}
}

// place turns characters of the expression into a place in the file.
func (c *code) place(from, to int) span {
	if c.at != nil {
		return *c.at
	}
	width := max(1, to-from)
	if c.node == nil {
		return span{1, from + 1, width}
	}
	return c.src.inside(c.node, c.from+from, width)
}

// runtimeProblem explains in a user's words why an evaluation failed.
func runtimeProblem(message string) problem {
	message = strings.TrimPrefix(strings.TrimPrefix(message, "runtime error: "), "reflect: ")
	var what string
	if _, err := fmt.Sscanf(message, "cannot fetch %s from <nil>", &what); err == nil {
		return problem{message: fmt.Sprintf("cannot read %q of a value that is missing", what), hint: "write ?. instead of . where a value may be missing, or default(value, other)"}
	}
	if got, ok := strings.CutPrefix(message, "invalid operation: bool("); ok {
		return notBool(typeWord(strings.TrimSuffix(got, ")")))
	}
	switch {
	case message == "memory budget exceeded":
		return problem{message: errTooLarge.Error()}
	case strings.Contains(message, "<nil>") || strings.Contains(message, "is nil, not"):
		return problem{message: "needs a value, but one is missing", hint: "give it with default(value, other), or test it first: value != nil && …"}
	case strings.HasPrefix(message, "interface conversion: interface {} is "):
		got, want, _ := strings.Cut(strings.TrimPrefix(message, "interface conversion: interface {} is "), ", not ")
		return problem{message: fmt.Sprintf("needs %s, got %s", typeWord(want), typeWord(got))}
	}
	return problem{message: message}
}

func notBool(got string) problem {
	return problem{message: "gives " + got, expected: "true or false", hint: `compare it: … == "value", or … != nil`}
}

func typeWord(goType string) string {
	switch {
	case goType == "bool":
		return "true or false"
	case goType == "string":
		return "text"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "float"):
		return "a number"
	case strings.HasPrefix(goType, "[]"), goType == "slice":
		return "a list"
	case strings.HasPrefix(goType, "map"):
		return "a mapping"
	}
	return goType
}

// describe names a value's kind, and the value when it is short.
func describe(v any) string {
	switch x := v.(type) {
	case nil:
		return "nothing (nil)"
	case string:
		return "the text " + quote(x)
	case bool:
		return fmt.Sprintf("the boolean %v", x)
	case int, int64, float64:
		return fmt.Sprintf("the number %v", x)
	}
	return typeWord(reflect.TypeOf(v).String())
}

// kind of value that an expression must give.
type want int

const (
	wantAny want = iota
	wantBool
	wantList
	wantText
)

// CompileSelector compiles an expression over host, as targets: and --select
// have it. Errors are Diagnostics over the text as a file named "selector".
func CompileSelector(text string) (Expr, error) {
	src := newSource("selector", text)
	c := &code{what: "selector", src: src, text: text}
	if problems := c.compile(scope{root: object("host", hostShape())}, wantBool); len(problems) > 0 {
		return Expr{}, Diagnostics(problems)
	}
	return Expr{Text: text, code: c}, nil
}

// compile type-checks the text in a scope.
func (c *code) compile(s scope, w want) []Diagnostic {
	one := func(at span, p problem) []Diagnostic { return []Diagnostic{c.src.diagnose(at, p)} }
	length := utf8.RuneCountInString(c.text)
	if strings.TrimSpace(c.text) == "" {
		return one(c.place(0, 1), problem{message: c.what + " is an empty expression", expected: wantExpr})
	}
	if len(c.text) > MaxExpression {
		return one(c.place(0, 1), problem{message: fmt.Sprintf("this expression has %d bytes", len(c.text)), expected: fmt.Sprintf("%d at most", MaxExpression)})
	}
	if found := s.check(c, w); len(found) > 0 {
		return found
	}
	options := append(environment(), expr.MaxNodes(maxNodes))
	if s.recorded {
		options = append(options, factsFunction(), expr.Patch(askedFacts{}))
	}
	switch w {
	case wantBool:
		options = append(options, expr.AsBool())
	case wantList:
		options = append(options, expr.AsKind(reflect.Slice))
	case wantText:
		options = append(options, expr.AsKind(reflect.String))
	}
	program, err := compileSafely(c.text, options)
	if err == nil {
		c.program, c.steps, c.within = program, s.stepNames, s.within
		return nil
	}
	if fe, ok := errors.AsType[*file.Error](err); ok {
		return one(c.place(fe.From, fe.To), compileProblem(c.text, fe.Message))
	}
	p := problem{message: c.what + " is not valid: " + err.Error()}
	if _, got, ok := strings.Cut(err.Error(), "but got "); ok {
		p = problem{message: fmt.Sprintf("%s gives %s", c.what, typeWord(got)), expected: "an expression that is true or false"}
		switch w {
		case wantList:
			p.expected = "an expression that gives a list"
		case wantText:
			p.expected = "an expression that gives text"
		}
	}
	return one(c.place(0, length), p)
}

// compileSafely keeps a panic of the library from ending the program.
func compileSafely(text string, options []expr.Option) (program *vm.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			program, err = nil, fmt.Errorf("%v", r)
		}
	}()
	return expr.Compile(text, options...)
}

const commentHint = `in YAML " #" begins a comment: put the whole value in quotes`

// cutByComment reports whether YAML took the rest of an unquoted expression for a comment.
func (c *code) cutByComment() bool {
	return c.node != nil && c.node.Style == 0 && strings.Contains(c.src.line(c.node.Line), " #")
}

// compileProblem rewords a message of the expression library.
func compileProblem(text, message string) problem {
	p := problem{message: "in this expression: " + message}
	test := jinjaTest().FindStringSubmatch(text)
	switch {
	case strings.Contains(text, "{{") && jinja().MatchString(text):
		p.message, p.expected = "this is Jinja, which Turnus does not evaluate", "the expression without {{ and }}, such as vars.NAME or host.vars.NAME"
	case test != nil:
		p.message, p.expected = fmt.Sprintf("%q is Jinja, which Turnus does not evaluate", strings.Join(strings.Fields(test[0]), " ")), jinjaTests[test[2]]
		if test[1] != "" {
			p.expected = "!(…) of " + p.expected
		}
	case strings.HasPrefix(message, "unexpected token EOF"):
		p.message, p.hint = "the expression ends too early", "is a bracket or an operand missing?"
	case strings.HasPrefix(message, `unexpected token Operator("=")`):
		p.hint = "equality is written =="
	case strings.HasPrefix(message, `unexpected token Operator("${`), strings.HasPrefix(message, "unrecognized character: U+0024"):
		p.message, p.expected = "this is an expression already", "it without ${{ and }}"
	case strings.Contains(message, "mismatched types"):
		p.hint = "the two sides can never be equal or compared: is one of them a quoted number?"
	case strings.HasPrefix(message, "exceeds maximum"), strings.HasPrefix(message, "compilation failed: expression exceeds"):
		p.message, p.expected = "the expression is too complex", fmt.Sprintf("at most %d operands and operators", maxNodes)
	}
	return p
}

// suggestFor lists what could have been meant at one place of an expression.
func suggestFor(name string, s *shape) problem {
	known := s.names()
	slices.Sort(known)
	return problem{expected: yamlread.OneOf(known), hint: yamlread.DidYouMean(name, known)}
}
