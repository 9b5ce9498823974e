package fleet

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// sedCommand is one of s, d, p and q, or a block in braces, with the lines that it is for.
type sedCommand struct {
	from, to    int // 0: not given
	match       *regexp.Regexp
	does        byte
	find        *regexp.Regexp
	put         string
	all, prints bool
	block       []sedCommand
}

// sedParser reads a script from left to right.
type sedParser struct {
	rest     string
	extended bool
}

var errSed = errors.New("expected one of s, d, p, q and { on a simulated host")

// list reads commands up to the closing brace, or the end.
func (p *sedParser) list(nested bool) ([]sedCommand, error) {
	var out []sedCommand
	for {
		p.rest = strings.TrimLeft(p.rest, " \t\n;")
		switch {
		case p.rest == "" && nested:
			return nil, errors.New("unmatched `{'")
		case p.rest == "":
			return out, nil
		case nested && p.rest[0] == '}':
			p.rest = p.rest[1:]
			return out, nil
		}
		c, err := p.command()
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
}

func (p *sedParser) command() (c sedCommand, err error) {
	if c.from = p.line(); c.from > 0 && strings.HasPrefix(p.rest, ",") {
		p.rest = p.rest[1:]
		if c.to = p.line(); c.to == 0 {
			return c, errors.New("expected the number of a line after the comma")
		}
	}
	if c.from == 0 && strings.HasPrefix(p.rest, "/") {
		p.rest = p.rest[1:]
		if c.match, err = p.expression('/'); err != nil {
			return c, err
		}
	}
	p.rest = strings.TrimLeft(p.rest, " ")
	if p.rest == "" {
		return c, errors.New("missing command")
	}
	c.does, p.rest = p.rest[0], p.rest[1:]
	switch c.does {
	case 'd', 'p', 'q':
	case '{':
		c.block, err = p.list(true)
	case 's':
		err = p.substitution(&c)
	default:
		err = errSed
	}
	return c, err
}

// line reads the number of a line; 0 where there is none.
func (p *sedParser) line() int {
	end := strings.IndexFunc(p.rest, func(r rune) bool { return r < '0' || r > '9' })
	if end <= 0 {
		return 0
	}
	n, _ := strconv.Atoi(p.rest[:end])
	p.rest = p.rest[end:]
	return n
}

// part reads up to the next delimiter that no backslash precedes.
func (p *sedParser) part(delimiter byte) (string, error) {
	for i := 0; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '\\':
			i++
		case delimiter:
			text := strings.ReplaceAll(p.rest[:i], `\`+string(delimiter), string(delimiter))
			p.rest = p.rest[i+1:]
			return text, nil
		}
	}
	return "", errors.New("unterminated command")
}

func (p *sedParser) expression(delimiter byte) (*regexp.Regexp, error) {
	text, err := p.part(delimiter)
	if err != nil {
		return nil, err
	}
	return expression(text, p.extended)
}

func (p *sedParser) substitution(c *sedCommand) (err error) {
	if p.rest == "" {
		return errors.New("unterminated `s' command")
	}
	delimiter := p.rest[0]
	p.rest = p.rest[1:]
	if c.find, err = p.expression(delimiter); err != nil {
		return err
	}
	if c.put, err = p.part(delimiter); err != nil {
		return err
	}
	for ; p.rest != "" && strings.IndexByte("gp", p.rest[0]) >= 0; p.rest = p.rest[1:] {
		c.all, c.prints = c.all || p.rest[0] == 'g', c.prints || p.rest[0] == 'p'
	}
	if p.rest != "" && strings.IndexByte(" \t\n;}", p.rest[0]) < 0 {
		return errors.New("unknown option to `s'")
	}
	return nil
}

// replace returns the line with its matches replaced, and whether there was one.
func (c *sedCommand) replace(line string) (string, bool) {
	n := 1
	if c.all {
		n = -1
	}
	var b strings.Builder
	at := 0
	matches := c.find.FindAllStringSubmatchIndex(line, n)
	for _, m := range matches {
		b.WriteString(line[at:m[0]])
		for i := 0; i < len(c.put); i++ {
			group := -1
			switch ch := c.put[i]; {
			case ch == '&':
				group = 0
			case ch == '\\' && i+1 < len(c.put):
				i++
				switch d := c.put[i]; {
				case d >= '1' && d <= '9':
					group = int(d - '0')
				case d == 'n':
					b.WriteByte('\n')
				default:
					b.WriteByte(d)
				}
			default:
				b.WriteByte(ch)
			}
			if group >= 0 && 2*group+1 < len(m) && m[2*group] >= 0 {
				b.WriteString(line[m[2*group]:m[2*group+1]])
			}
		}
		at = m[1]
	}
	return b.String() + line[at:], len(matches) > 0
}

// sedRun is a script at work.
type sedRun struct {
	c              *call
	number         int
	line, end      string // end is "\n", or "" at the end of a file without one
	deleted, quits bool
}

func (r *sedRun) print() { r.c.print(r.line + r.end) }

func (r *sedRun) run(list []sedCommand) {
	for i := range list {
		c := &list[i]
		switch {
		case r.deleted || r.quits:
			return
		case c.from > 0 && c.to == 0 && r.number != c.from, c.to > 0 && (r.number < c.from || r.number > c.to),
			c.match != nil && !c.match.MatchString(r.line):
			continue
		}
		switch c.does {
		case '{':
			r.run(c.block)
		case 'd':
			r.deleted = true
		case 'p':
			r.print()
		case 'q':
			r.quits = true
		case 's':
			var changed bool
			if r.line, changed = c.replace(r.line); changed && c.prints {
				r.print()
			}
		}
	}
}

const sedUsage = "sed [-nE] [-e SCRIPT]... [SCRIPT] [FILE]..."

func sed(ctx context.Context, c *call, o options) int {
	script := o['e']
	if !o.has('e') {
		if len(c.args) == 0 {
			return c.misused(sedUsage)
		}
		script, c.args = c.args[0], c.args[1:]
	}
	p := sedParser{script, o.has('E')}
	list, err := p.list(false)
	if err != nil {
		return c.fail(1, "-e expression #1: %v: %q", err, script)
	}
	if len(c.args) == 0 {
		c.args = []string{"-"}
	}
	r, code := sedRun{c: c}, 0
	for _, name := range c.args {
		in, err := c.open(name)
		if err != nil {
			code = c.fail(2, "can't read %s: %s", name, reason(err))
			continue
		}
		for line := range linesOf(ctxReader{ctx, in}) {
			r.number, r.deleted = r.number+1, false
			r.line = strings.TrimSuffix(line, "\n")
			r.end = line[len(r.line):]
			if r.run(list); !r.deleted && !o.has('n') {
				r.print()
			}
			if r.quits {
				return code
			}
		}
	}
	return code
}
