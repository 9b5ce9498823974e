package fleet

import (
	"bytes"
	"context"
	"path"
	"regexp"
	"slices"
	"strings"
)

// fields expands words and splits what was not quoted.
func (sh *shell) fields(ctx context.Context, ws []word, io stdio) []string {
	var out []string
	for _, w := range ws {
		var b strings.Builder
		open := false // b holds a field that goes on
		for _, pc := range w {
			if pc.isVar && pc.quoted && pc.text == "@" {
				open = open && (b.Len() > 0 || len(sh.args) > 0 || len(w) > 2) // "$@" without arguments is no word
				for i, a := range sh.args {
					if i > 0 {
						out = append(out, b.String())
						b.Reset()
					}
					b.WriteString(a)
					open = true
				}
				continue
			}
			v := sh.value(ctx, pc, io)
			if pc.quoted || !pc.isVar && !pc.isRun {
				b.WriteString(v)
				open = true
				continue
			}
			for i, part := range splitBlanks(v) {
				if i > 0 && open {
					out = append(out, b.String())
					b.Reset()
					open = false
				}
				if part != "" {
					b.WriteString(part)
					open = true
				}
			}
		}
		if open && globs(w) {
			out = append(out, sh.glob(ctx, w, b.String(), io)...)
		} else if open {
			out = append(out, b.String())
		}
	}
	return out
}

func globs(w word) bool {
	return slices.ContainsFunc(w, func(pc piece) bool { return !pc.quoted && !pc.isVar && !pc.isRun && strings.ContainsAny(pc.text, "*?") })
}

// glob lists the files that a word means; the last part of its path alone is a pattern. Where there is none it is the word.
func (sh *shell) glob(ctx context.Context, w word, text string, io stdio) []string {
	re, err := regexp.Compile("(?s)^(?:" + sh.pattern(ctx, w, io) + ")$")
	names, nameErr := sh.host.fs.names(sh.abs(path.Dir(text)))
	if err != nil || nameErr != nil {
		return []string{text}
	}
	folder, last := path.Split(text)
	var out []string
	for _, name := range names {
		if re.MatchString(folder+name) && (name[0] != '.' || strings.HasPrefix(last, ".")) {
			out = append(out, folder+name)
		}
	}
	if len(out) == 0 {
		return []string{text}
	}
	return out
}

// splitBlanks splits at runs of blanks. A blank at an end yields an empty part
// there, which ends the field before or begins a new one.
func splitBlanks(s string) []string {
	parts := strings.Fields(s)
	if s == "" || len(parts) == 0 {
		return parts
	}
	if strings.IndexByte(" \t\n", s[0]) >= 0 {
		parts = slices.Insert(parts, 0, "")
	}
	if strings.IndexByte(" \t\n", s[len(s)-1]) >= 0 {
		parts = append(parts, "")
	}
	return parts
}

// text expands a word without splitting.
func (sh *shell) text(ctx context.Context, w word, io stdio) string {
	var b strings.Builder
	for _, pc := range w {
		b.WriteString(sh.value(ctx, pc, io))
	}
	return b.String()
}

func (sh *shell) value(ctx context.Context, pc piece, io stdio) string {
	switch {
	case pc.isRun:
		var out bytes.Buffer
		io.out = &limitWriter{w: &out, left: maxCommand}
		sub := sh.fork()
		sub.list(ctx, pc.run, io)
		sh.status = sub.status
		return strings.TrimRight(out.String(), "\n")
	case !pc.isVar:
		return pc.text
	}
	v, set := sh.variable(pc.text)
	switch pc.op {
	case ":-":
		if v == "" {
			return sh.text(ctx, pc.alt, io)
		}
	case "-":
		if !set {
			return sh.text(ctx, pc.alt, io)
		}
	case ":+":
		if v == "" {
			return ""
		}
		return sh.text(ctx, pc.alt, io)
	case "+":
		if !set {
			return ""
		}
		return sh.text(ctx, pc.alt, io)
	case "%", "%%", "#", "##":
		return trimPattern(v, pc.op, sh.pattern(ctx, pc.alt, io))
	}
	return v
}

// pattern turns a word into a regular expression; what is quoted is literal.
func (sh *shell) pattern(ctx context.Context, w word, io stdio) string {
	var b strings.Builder
	for _, pc := range w {
		text := regexp.QuoteMeta(sh.value(ctx, pc, io))
		if !pc.quoted {
			text = strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(text)
		}
		b.WriteString(text)
	}
	return b.String()
}

// trimPattern takes the shortest or longest match off an end.
func trimPattern(v, op, pattern string) string {
	re, err := regexp.Compile("(?s)^(?:" + pattern + ")$")
	if err != nil || len(v) > 1<<16 {
		return v
	}
	for i := range len(v) + 1 {
		switch op {
		case "%": // the shortest tail is met first
			if at := len(v) - i; re.MatchString(v[at:]) {
				return v[:at]
			}
		case "%%":
			if re.MatchString(v[i:]) {
				return v[:i]
			}
		case "#":
			if re.MatchString(v[:i]) {
				return v[i:]
			}
		case "##":
			if at := len(v) - i; re.MatchString(v[:at]) {
				return v[at:]
			}
		}
	}
	return v
}

func (sh *shell) variable(name string) (string, bool) {
	switch name {
	case "?":
		return itoa(sh.status), true
	case "$":
		return itoa(sh.pid), true
	case "#":
		return itoa(len(sh.args)), true
	case "@", "*":
		return strings.Join(sh.args, " "), true
	case "0":
		return sh.zero, true
	case "-":
		return "", true
	}
	if d := name[0]; '1' <= d && d <= '9' {
		if i := int(d - '1'); i < len(sh.args) {
			return sh.args[i], true
		}
		return "", false
	}
	v, ok := sh.vars[name]
	return v, ok
}
