package ansible

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// node is a parsed Jinja expression. op is: lit, name, attr, item, list, not, and, or, if, is,
// filter, call, or a comparison.
type node struct {
	op   string
	name string
	val  any
	args []*node
}

var jinjaToken = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*(?:([A-Za-z_]\w*)|(\d+(?:\.\d+)?)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(==|!=|<=|>=|\*\*|//|[-<>.\[\](),|+*/%~:{}]))`)
})

type parser struct {
	tokens []string
	at     int
	depth  int
}

// parse reads one Jinja expression.
func parse(text string) (*node, *doubt) {
	if len(text) > 4096 {
		return nil, doubtf("the expression is too long")
	}
	p := &parser{}
	rest := text
	for strings.TrimSpace(rest) != "" {
		m := jinjaToken().FindString(rest)
		if m == "" {
			return nil, doubtf("the expression %s is not understood", clip(text))
		}
		p.tokens = append(p.tokens, strings.TrimSpace(m))
		rest = rest[len(m):]
	}
	n, d := p.ternary()
	if d == nil && p.at < len(p.tokens) {
		d = doubtf("%s in the expression %s has no equivalent", p.peek(), clip(text))
	}
	return n, d
}

// printable is a text on one line, without characters that a terminal interprets or hides.
func printable(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text)
}

func clip(text string) string {
	text = printable(text)
	if r := []rune(text); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return text
}

func (p *parser) peek() string {
	if p.at < len(p.tokens) {
		return p.tokens[p.at]
	}
	return ""
}

func (p *parser) take(tokens ...string) bool {
	for i, t := range tokens {
		if p.at+i >= len(p.tokens) || p.tokens[p.at+i] != t {
			return false
		}
	}
	p.at += len(tokens)
	return true
}

func (p *parser) expect(token string) *doubt {
	if !p.take(token) {
		return doubtf("the expression has no %s where one is expected", token)
	}
	return nil
}

func (p *parser) ternary() (*node, *doubt) {
	if p.depth++; p.depth > 50 {
		return nil, doubtf("the expression is nested too deep")
	}
	defer func() { p.depth-- }()
	n, d := p.binary(0)
	if d != nil || !p.take("if") {
		return n, d
	}
	cond, d := p.binary(0)
	if d != nil {
		return nil, d
	}
	if d := p.expect("else"); d != nil {
		return nil, d
	}
	other, d := p.ternary()
	return &node{op: "if", args: []*node{cond, n, other}}, d
}

// binary reads or (level 0) and and (level 1).
func (p *parser) binary(level int) (*node, *doubt) {
	op := []string{"or", "and"}[level]
	next := func() (*node, *doubt) {
		if level == 0 {
			return p.binary(1)
		}
		return p.not()
	}
	n, d := next()
	for d == nil && p.take(op) {
		var right *node
		right, d = next()
		n = &node{op: op, args: []*node{n, right}}
	}
	return n, d
}

func (p *parser) not() (*node, *doubt) {
	if p.depth++; p.depth > 50 {
		return nil, doubtf("the expression is nested too deep")
	}
	defer func() { p.depth-- }()
	if p.take("not") {
		n, d := p.not()
		return &node{op: "not", args: []*node{n}}, d
	}
	return p.comparison()
}

func (p *parser) comparison() (*node, *doubt) {
	n, d := p.postfix()
	if d != nil {
		return nil, d
	}
	op := ""
	for _, o := range []string{"==", "!=", "<=", ">=", "<", ">", "in"} {
		if p.take(o) {
			op = o
			break
		}
	}
	if op == "" && p.take("not", "in") {
		op = "not in"
	}
	if op == "" {
		return n, nil
	}
	right, d := p.postfix()
	return &node{op: op, args: []*node{n, right}}, d
}

func (p *parser) postfix() (*node, *doubt) {
	n, d := p.primary()
	for d == nil {
		switch {
		case p.take("."):
			n = &node{op: "attr", name: p.peek(), args: []*node{n}}
			p.at++
		case p.take("["):
			var key *node
			if key, d = p.ternary(); d == nil {
				d = p.expect("]")
			}
			n = &node{op: "item", args: []*node{n, key}}
			if key != nil && key.op == "lit" {
				if name, ok := key.val.(string); ok {
					n = &node{op: "attr", name: name, args: n.args[:1]}
				}
			}
		case p.take("("):
			return nil, doubtf("the call %s() has no equivalent", n.name)
		case p.take("|"):
			n, d = p.suffix("filter", n)
		case p.take("is", "not"):
			n, d = p.suffix("is", n)
			n = &node{op: "not", args: []*node{n}}
		case p.take("is"):
			n, d = p.suffix("is", n)
		default:
			return n, nil
		}
	}
	return n, d
}

// suffix reads the name and the arguments of a filter or a test.
func (p *parser) suffix(op string, of *node) (*node, *doubt) {
	n := &node{op: op, name: p.peek(), args: []*node{of}}
	p.at++
	for p.take(".") {
		n.name += "." + p.peek()
		p.at++
	}
	if !p.take("(") {
		return n, nil
	}
	for !p.take(")") {
		arg, d := p.ternary()
		if d != nil {
			return nil, d
		}
		n.args = append(n.args, arg)
		if !p.take(",") && p.peek() != ")" {
			return nil, doubtf("the arguments of %s are not understood", n.name)
		}
	}
	return n, nil
}

func (p *parser) primary() (*node, *doubt) {
	t := p.peek()
	p.at++
	switch {
	case t == "(":
		n, d := p.ternary()
		if d == nil {
			d = p.expect(")")
		}
		return n, d
	case t == "[":
		n := &node{op: "list"}
		for !p.take("]") {
			item, d := p.ternary()
			if d != nil {
				return nil, d
			}
			n.args = append(n.args, item)
			if !p.take(",") && p.peek() != "]" {
				return nil, doubtf("a list is not understood")
			}
		}
		return n, nil
	case t == "-" && plainInt().MatchString(p.peek()):
		v, _ := strconv.Atoi(p.peek())
		p.at++
		return &node{op: "lit", val: -v}, nil
	case plainInt().MatchString(t):
		v, _ := strconv.Atoi(t)
		return &node{op: "lit", val: v}, nil
	case plainFloat().MatchString(t):
		v, _ := strconv.ParseFloat(t, 64)
		return &node{op: "lit", val: v}, nil
	case t != "" && (t[0] == '"' || t[0] == '\''):
		return unquoted(t)
	case t == "true" || t == "True":
		return &node{op: "lit", val: true}, nil
	case t == "false" || t == "False":
		return &node{op: "lit", val: false}, nil
	case t == "none" || t == "None":
		return &node{op: "lit"}, nil
	case t != "" && (t[0] == '_' || t[0] >= 'A' && t[0] <= 'Z' || t[0] >= 'a' && t[0] <= 'z'):
		return &node{op: "name", name: t}, nil
	}
	return nil, doubtf("%q in the expression has no equivalent", t)
}

func unquoted(t string) (*node, *doubt) {
	body := t[1 : len(t)-1]
	if strings.Contains(body, `\`) {
		return nil, doubtf("the escape in %s has no equivalent", fmt.Sprintf("%.40s", t))
	}
	return &node{op: "lit", val: body}, nil
}
