package fleet

import "strings"

func (p *parser) mustWord() word {
	at := p.pos
	w := p.word()
	if p.pos == at {
		if p.pos < len(p.src) {
			p.fail("%q unexpected", p.src[p.pos:p.pos+1])
		}
		p.fail("end of file unexpected")
	}
	return w
}

// word reads one word; it is empty where a blank or an operator stands.
func (p *parser) word() word {
	var w word
	var lit strings.Builder
	flush := func() {
		if lit.Len() > 0 {
			w = append(w, piece{text: lit.String()})
			lit.Reset()
		}
	}
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; c {
		case ' ', '\t', '\r', '\n', ';', '&', '|', '(', ')', '<', '>':
			flush()
			return w
		case '\'':
			flush()
			end := strings.IndexByte(p.src[p.pos+1:], '\'')
			if end < 0 {
				p.fail("unterminated quoted string")
			}
			w = append(w, piece{text: p.src[p.pos+1 : p.pos+1+end], quoted: true})
			p.pos += end + 2
		case '"':
			flush()
			w = append(w, p.doubleQuoted()...)
		case '\\':
			p.pos++
			if p.pos < len(p.src) {
				if p.src[p.pos] != '\n' {
					flush()
					w = append(w, piece{text: p.src[p.pos : p.pos+1], quoted: true})
				}
				p.pos++
			}
		case '`':
			p.fail("backquotes are not simulated: use $(…)")
		case '$':
			if pc, ok := p.dollar(false); ok {
				flush()
				w = append(w, pc)
				continue
			}
			lit.WriteByte('$')
		case '}':
			if p.brace {
				flush()
				return w
			}
			lit.WriteByte(c)
			p.pos++
		default:
			lit.WriteByte(c)
			p.pos++
		}
	}
	flush()
	return w
}

func (p *parser) doubleQuoted() word {
	p.pos++
	w := word{{quoted: true}} // so that "" is a word
	var lit strings.Builder
	flush := func() {
		if lit.Len() > 0 {
			w = append(w, piece{text: lit.String(), quoted: true})
			lit.Reset()
		}
	}
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; c {
		case '"':
			p.pos++
			flush()
			return w
		case '\\':
			p.pos++
			if p.pos >= len(p.src) {
				continue
			}
			if n := p.src[p.pos]; strings.IndexByte("$`\"\\", n) >= 0 {
				lit.WriteByte(n)
			} else if n != '\n' {
				lit.WriteByte('\\')
				lit.WriteByte(n)
			}
			p.pos++
		case '`':
			p.fail("backquotes are not simulated: use $(…)")
		case '$':
			if pc, ok := p.dollar(true); ok {
				flush()
				w = append(w, pc)
				continue
			}
			lit.WriteByte('$')
		default:
			lit.WriteByte(c)
			p.pos++
		}
	}
	p.fail("unterminated quoted string")
	return nil
}

// dollar reads what follows $; false when it is only a dollar sign.
func (p *parser) dollar(quoted bool) (piece, bool) {
	p.pos++
	rest := p.src[p.pos:]
	switch {
	case strings.HasPrefix(rest, "(("):
		p.fail("arithmetic is not simulated")
	case strings.HasPrefix(rest, "("):
		p.pos++
		brace := p.brace
		p.brace = false
		l := p.list()
		p.brace = brace
		if !p.take(")") {
			p.fail("unterminated $(")
		}
		return piece{isRun: true, run: l, quoted: quoted}, true
	case strings.HasPrefix(rest, "{"):
		p.pos++
		return p.parameter(quoted), true
	}
	n := nameLen(rest)
	if n == 0 && rest != "" && (strings.IndexByte("?$#@*!-", rest[0]) >= 0 || '0' <= rest[0] && rest[0] <= '9') {
		n = 1
	}
	if n == 0 {
		return piece{}, false
	}
	p.pos += n
	return piece{isVar: true, text: rest[:n], quoted: quoted}, true
}

// parameter reads ${NAME}, ${NAME:-word}, ${NAME-word}, ${NAME:+word}, ${NAME+word},
// ${NAME%pattern}, ${NAME%%pattern}, ${NAME#pattern} and ${NAME##pattern}.
func (p *parser) parameter(quoted bool) piece {
	rest := p.src[p.pos:]
	n := nameLen(rest)
	if n == 0 && rest != "" {
		n = 1
	}
	pc := piece{isVar: true, text: rest[:n], quoted: quoted}
	p.pos += n
	for _, op := range []string{":-", ":+", "%%", "##", "%", "#", "-", "+"} {
		if p.take(op) {
			pc.op = op
			p.enter()
			brace := p.brace
			p.brace = true
			for p.pos < len(p.src) && p.peek() != '}' {
				if w := p.word(); len(w) > 0 {
					pc.alt = append(pc.alt, w...)
					continue
				}
				if p.peek() != '}' && p.pos < len(p.src) {
					pc.alt = append(pc.alt, piece{text: p.src[p.pos : p.pos+1], quoted: true})
					p.pos++
				}
			}
			p.brace = brace
			p.depth--
			break
		}
	}
	if !p.take("}") {
		p.fail("bad substitution")
	}
	return pc
}
