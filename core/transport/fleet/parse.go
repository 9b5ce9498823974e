package fleet

import (
	"fmt"
	"strings"
)

// The language is the part of POSIX shell that playbooks and the transport use:
// lists, pipelines, redirections, quoting, $NAME, ${NAME:-word}, $(…), if, for, case,
// while, functions, groups and subshells, * and ? in the last part of a path. No here-documents, no arithmetic.

// maxDepth bounds the nesting of a script.
const maxDepth = 64

type (
	// list is statements, one after the other.
	list []statement

	// statement is pipelines joined by && and ||, perhaps in the background.
	statement struct {
		pos        int
		links      []link
		background bool
	}

	link struct {
		op   string // "", "&&" or "||": what stands before
		pipe pipeline
	}

	pipeline struct {
		negate bool
		cmds   []command
	}

	// command is one of its forms, by kind.
	command struct {
		kind    string // "", "{", "(", "if", "for", "while", "until", "case", "function"
		assigns []assign
		words   []word   // of a simple command; what a for runs over; the word of a case
		choices [][]word // the patterns of a case
		name    string   // a for's variable, a function's name
		cond    []list   // of if and elif, while, until
		bodies  []list   // of the same, and else at last
		redirs  []redir
	}

	assign struct {
		name  string
		value word
	}

	redir struct {
		fd     int
		op     string // <, >, >>, >&
		target word
	}

	// word is pieces joined without a blank.
	word []piece

	piece struct {
		text   string // literal, or the variable's name
		quoted bool
		isVar  bool
		op     string // of ${NAME:-word}
		alt    word
		run    list // of $(…)
		isRun  bool
	}
)

type syntaxError string

func (e syntaxError) Error() string { return string(e) }

type parser struct {
	src   string
	pos   int
	depth int
	brace bool // within ${NAME:-word}: } ends a word
}

// parse reads a whole script.
func parse(src string) (l list, err error) {
	p := &parser{src: src}
	defer func() {
		if e, ok := recover().(syntaxError); ok {
			l, err = nil, e
		}
	}()
	l = p.list()
	if p.pos < len(p.src) {
		p.fail("%q unexpected", p.src[p.pos:p.pos+1])
	}
	return l, nil
}

// fail leaves the parser; parse turns it into an error.
func (p *parser) fail(format string, args ...any) {
	panic(syntaxError("syntax error: " + fmt.Sprintf(format, args...)))
}

func (p *parser) peek() byte {
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

func (p *parser) take(s string) bool {
	if strings.HasPrefix(p.src[p.pos:], s) {
		p.pos += len(s)
		return true
	}
	return false
}

// blanks skips blanks, comments and joined lines; with newlines also ends of statements.
func (p *parser) blanks(newlines bool) {
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case newlines && strings.HasPrefix(p.src[p.pos:], ";;"):
			return
		case c == ' ' || c == '\t' || c == '\r' || newlines && (c == '\n' || c == ';'):
			p.pos++
		case c == '\\' && p.pos+1 < len(p.src) && p.src[p.pos+1] == '\n':
			p.pos += 2
		case c == '#' && (p.pos == 0 || strings.IndexByte(" \t\n;&|(", p.src[p.pos-1]) >= 0):
			for p.pos < len(p.src) && p.src[p.pos] != '\n' {
				p.pos++
			}
		default:
			return
		}
	}
}

// reserved returns the reserved word that stands here, if any.
func (p *parser) reserved() string {
	end := p.pos
	for end < len(p.src) && strings.IndexByte(" \t\n;&|()<>\"'$\\", p.src[end]) < 0 {
		end++
	}
	switch w := p.src[p.pos:end]; w {
	case "if", "then", "elif", "else", "fi", "for", "in", "do", "done", "while", "until", "case", "esac", "{", "}", "!":
		return w
	}
	return ""
}

func (p *parser) expect(w string) {
	p.blanks(true)
	if p.reserved() != w {
		p.fail("expecting %q", w)
	}
	p.pos += len(w)
}

func (p *parser) enter() {
	if p.depth++; p.depth > maxDepth {
		p.fail("nested too deeply")
	}
}

// list reads statements up to something that cannot begin one.
func (p *parser) list() list {
	p.enter()
	defer func() { p.depth-- }()
	var l list
	for {
		p.blanks(true)
		if p.pos >= len(p.src) || p.peek() == ')' || p.peek() == ';' {
			return l
		}
		switch p.reserved() {
		case "then", "elif", "else", "fi", "do", "done", "esac", "}", "in":
			return l
		}
		st := p.statement()
		p.blanks(false)
		if p.peek() == '&' {
			p.pos++
			st.background = true
		}
		l = append(l, st)
	}
}

func (p *parser) statement() statement {
	st := statement{pos: p.pos}
	op := ""
	for {
		st.links = append(st.links, link{op: op, pipe: p.pipeline()})
		p.blanks(false)
		switch {
		case p.take("&&"):
			op = "&&"
		case p.take("||"):
			op = "||"
		default:
			return st
		}
		p.blanks(true)
	}
}

func (p *parser) pipeline() pipeline {
	var pl pipeline
	for p.reserved() == "!" {
		pl.negate = !pl.negate
		p.pos++
		p.blanks(false)
	}
	for {
		pl.cmds = append(pl.cmds, p.command())
		p.blanks(false)
		if p.peek() != '|' || strings.HasPrefix(p.src[p.pos:], "||") {
			return pl
		}
		p.pos++
		p.blanks(true)
	}
}

func (p *parser) command() command {
	c := command{}
	switch w := p.reserved(); {
	case p.peek() == '(':
		p.pos++
		c.kind, c.bodies = "(", []list{p.list()}
		if !p.take(")") {
			p.fail("expecting \")\"")
		}
	case w == "{":
		p.pos++
		c.kind, c.bodies = "{", []list{p.list()}
		p.expect("}")
	case w == "if":
		p.ifClause(&c)
	case w == "while", w == "until":
		p.pos += len(w)
		c.kind, c.cond = w, []list{p.list()}
		p.expect("do")
		c.bodies = []list{p.list()}
		p.expect("done")
	case w == "for":
		p.forClause(&c)
	case w == "case":
		p.caseClause(&c)
	case w != "":
		p.fail("%q unexpected", w)
	default:
		p.simple(&c)
		return c
	}
	p.blanks(false)
	for p.redirection(&c) {
		p.blanks(false)
	}
	return c
}

func (p *parser) ifClause(c *command) {
	c.kind = "if"
	p.expect("if")
	for {
		c.cond = append(c.cond, p.list())
		p.expect("then")
		c.bodies = append(c.bodies, p.list())
		switch p.reserved() {
		case "elif":
			p.pos += len("elif")
			continue
		case "else":
			p.pos += len("else")
			c.bodies = append(c.bodies, p.list())
		}
		p.expect("fi")
		return
	}
}

func (p *parser) caseClause(c *command) {
	c.kind = "case"
	p.expect("case")
	p.blanks(false)
	c.words = []word{p.mustWord()}
	p.expect("in")
	for {
		p.blanks(true)
		if p.take("esac") {
			return
		}
		p.take("(")
		var patterns []word
		for {
			p.blanks(false)
			patterns = append(patterns, p.mustWord())
			p.blanks(false)
			if !p.take("|") {
				break
			}
		}
		if !p.take(")") {
			p.fail("expecting \")\"")
		}
		c.choices, c.bodies = append(c.choices, patterns), append(c.bodies, p.list())
		p.take(";;")
	}
}

func (p *parser) forClause(c *command) {
	c.kind = "for"
	p.expect("for")
	p.blanks(false)
	name := p.word()
	if len(name) != 1 || name[0].isVar || name[0].isRun {
		p.fail("bad for loop variable")
	}
	c.name = name[0].text
	p.expect("in")
	for p.blanks(false); p.pos < len(p.src) && strings.IndexByte(";\n", p.peek()) < 0; p.blanks(false) {
		c.words = append(c.words, p.mustWord())
	}
	p.expect("do")
	c.bodies = []list{p.list()}
	p.expect("done")
}

// simple reads assignments, words and redirections.
func (p *parser) simple(c *command) {
	start := p.pos
	for {
		p.blanks(false)
		if p.pos >= len(p.src) || strings.IndexByte(";&|\n()", p.peek()) >= 0 {
			break
		}
		if p.redirection(c) {
			continue
		}
		if name := p.assignment(); name != "" && len(c.words) == 0 {
			p.pos += len(name) + 1
			c.assigns = append(c.assigns, assign{name, p.word()})
			continue
		}
		c.words = append(c.words, p.mustWord())
		if len(c.words) == 1 && p.take("()") {
			p.function(c)
			return
		}
	}
	if p.pos == start {
		if p.pos < len(p.src) {
			p.fail("%q unexpected", p.src[p.pos:p.pos+1])
		}
		p.fail("end of file unexpected")
	}
}

// function reads the body after NAME().
func (p *parser) function(c *command) {
	p.enter()
	defer func() { p.depth-- }()
	c.kind, c.name, c.words = "function", c.words[0].literal(), nil
	p.blanks(true)
	c.bodies = []list{{{links: []link{{pipe: pipeline{cmds: []command{p.command()}}}}}}}
}

// literal is a word's text without what would be expanded.
func (w word) literal() string {
	var b strings.Builder
	for _, pc := range w {
		if !pc.isVar && !pc.isRun {
			b.WriteString(pc.text)
		}
	}
	return b.String()
}

// assignment returns NAME when NAME= stands here.
func (p *parser) assignment() string {
	n := nameLen(p.src[p.pos:])
	if n > 0 && p.pos+n < len(p.src) && p.src[p.pos+n] == '=' {
		return p.src[p.pos : p.pos+n]
	}
	return ""
}

func nameLen(s string) int {
	n := 0
	for n < len(s) && (s[n] == '_' || 'a' <= s[n]|0x20 && s[n]|0x20 <= 'z' || n > 0 && '0' <= s[n] && s[n] <= '9') {
		n++
	}
	return n
}

// redirection reads one, such as 2>&1 or >>file.
func (p *parser) redirection(c *command) bool {
	at, fd := p.pos, -1
	if d := p.peek(); '0' <= d && d <= '2' && p.pos+1 < len(p.src) && strings.IndexByte("<>", p.src[p.pos+1]) >= 0 {
		fd = int(d - '0')
		p.pos++
	}
	r := redir{fd: 1}
	switch {
	case p.take("<<"):
		p.fail("here-documents are not simulated")
	case p.take(">>"):
		r.op = ">>"
	case p.take(">&"):
		r.op = ">&"
	case p.take(">|"), p.take(">"):
		r.op = ">"
	case p.take("<"):
		r.op, r.fd = "<", 0
	default:
		p.pos = at
		return false
	}
	if fd >= 0 {
		r.fd = fd
	}
	p.blanks(false)
	r.target = p.mustWord()
	c.redirs = append(c.redirs, r)
	return true
}
