package ansible

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

var (
	safeWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`) })
	holder   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[\x{E000}-\x{F8FF}]`) })
	literals = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`'[^']*'`) })
	environ  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$[A-Za-z_{]`) })
	begin    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_.]*`) })
)

// A value of an expression becomes a variable of the command's environment: the shell reads it as
// data, whatever -e or the inventory gives. Until the end of the translation each expression is a
// character for private use.
type line struct {
	*draft
	terms []term
	words string // literal text of the line, which may hold names of variables
}

// flat returns a text with a character for each of its expressions.
func (l *line) flat(text string) (string, *doubt) {
	parts, d := l.scope.parts(text)
	if d != nil {
		return "", d
	}
	if holder().MatchString(text) || len(l.terms)+len(parts) > 1000 {
		return "", doubtf("the command holds characters for private use")
	}
	var b strings.Builder
	for _, p := range parts {
		if p.expr == nil {
			b.WriteString(p.text)
			continue
		}
		b.WriteRune(rune(0xE000 + len(l.terms)))
		l.terms = append(l.terms, *p.expr)
	}
	l.words += b.String()
	return b.String(), nil
}

// term returns the expression of a character.
func (l *line) term(r rune) (t term, ok bool) {
	if i := int(r) - 0xE000; i >= 0 && i < len(l.terms) {
		return l.terms[i], true
	}
	return term{}, false
}

// variable returns the environment variable that has the value of an expression. Its prefix keeps
// it apart from PATH and the like.
func (l *line) variable(t term) (string, *doubt) {
	value, d := rendered([]part{{expr: &t}})
	if d != nil {
		return "", d
	}
	for _, f := range l.values {
		if f.value == value {
			return f.key, nil
		}
	}
	short := strings.TrimPrefix(strings.TrimPrefix(begin().FindString(t.text), "host.vars."), "vars.")
	base := "VAR_" + strings.ToUpper(strings.ReplaceAll(short[:min(len(short), 40)], ".", "_"))
	name := base
	for i := 2; l.taken(name); i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	l.values.add(name, value)
	return name, nil
}

func (l *line) taken(name string) bool {
	for _, n := range l.env {
		if child(n, name) != nil {
			return true
		}
	}
	return l.values.get(name) != nil || strings.Contains(l.words, name)
}

// commandLine translates a command that Ansible splits into words, values included.
func (t *draft) commandLine(text string) (string, *doubt) {
	l := &line{draft: t}
	flat, d := l.flat(text)
	if d != nil {
		return "", d
	}
	words, ok := splitWords(flat)
	if !ok {
		return "", doubtf("a quote in the command is not closed")
	}
	return l.command(words, func(v string) bool { return safeWord().MatchString(v) })
}

// argv translates a command that is given as a list of words.
func (t *draft) argv(items []string) (string, *doubt) {
	l := &line{draft: t}
	var words []string
	for _, item := range items {
		word, d := l.flat(item)
		if d != nil {
			return "", d
		}
		words = append(words, word)
	}
	return l.command(words, func(v string) bool { return !expands(v) })
}

// expands reports whether Ansible puts a variable or a home directory into a word.
func expands(word string) bool {
	return environ().MatchString(word) || strings.HasPrefix(word, "~")
}

// builtins of a shell, which are not programs.
var builtins = strings.Fields("cd exit export set unset exec eval source . ulimit umask wait type alias read trap return shift times break continue let declare typeset " +
	"if then else elif fi for while until do done case esac in { } ! time function select")

// echoDiffers reports whether a shell's echo may print other words than the program: it interprets
// backslashes, and -e may be a word.
func (l *line) echoDiffers(words []string) bool {
	for i, word := range words {
		for _, v := range l.known(word) {
			if strings.Contains(v, `\`) || i == 0 && strings.HasPrefix(v, "-") {
				return true
			}
		}
	}
	return false
}

// known returns the texts that a word may be: itself without its expressions, and the known values
// of the first expression in it.
func (l *line) known(word string) []string {
	out := []string{holder().ReplaceAllString(word, "")}
	if h := holder().FindString(word); h != "" {
		t, _ := l.term([]rune(h)[0])
		for _, v := range t.vals {
			out = append(out, strings.Replace(word, h, shown(v), 1))
		}
	}
	return out
}

// command is a line of the shell that runs the words as they are.
func (l *line) command(words []string, allowed func(string) bool) (string, *doubt) {
	if len(words) == 0 {
		return "", doubtf("the command is empty")
	}
	for _, first := range l.known(words[0]) {
		if slices.Contains(builtins, first) || first == "echo" && l.echoDiffers(words[1:]) {
			return "", doubtf("%s means something else in a shell", first)
		}
	}
	if d := indirectDoubt(strings.Join(words, " ")); d != nil {
		return "", d
	}
	out := make([]string, len(words))
	for i, word := range words {
		plain := holder().ReplaceAllString(word, "")
		if expands(plain) || plain != word && strings.Contains(plain, "$") {
			return "", doubtf("%s is expanded by Ansible", clip(plain)).hint("uses: command, whose line is given to a shell")
		}
		if holder().MatchString(word) {
			if d := codeDoubt(words[:i], word); d != nil {
				return "", d
			}
		}
		text, d := l.word(word, i == 0, allowed)
		if d != nil {
			return "", d
		}
		out[i] = text
	}
	return strings.Join(out, " "), nil
}

// word quotes a word for a shell. first is the command, where a=b would be a variable.
func (l *line) word(word string, first bool, allowed func(string) bool) (string, *doubt) {
	var b, literal strings.Builder
	flush := func() {
		text := literal.String()
		if text != "" && (!safeWord().MatchString(text) || first && strings.Contains(text, "=")) {
			text = "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
		}
		b.WriteString(text)
		literal.Reset()
	}
	for _, r := range word {
		t, ok := l.term(r)
		if !ok {
			literal.WriteRune(r)
			continue
		}
		if t.asked {
			l.oneText(&t, "characters")
		}
		if d := t.safe(allowed); d != nil {
			return "", d
		}
		name, d := l.variable(t)
		if d != nil {
			return "", d
		}
		flush()
		b.WriteString(`"$` + name + `"`)
	}
	flush()
	if word == "" {
		return "''", nil
	}
	return b.String(), nil
}

// safe refuses a term whose value a shell of Ansible may read as more than text.
func (t term) safe(allowed func(string) bool) *doubt {
	if d := t.printable(); d != nil {
		return d
	}
	if !t.known && t.kinds != kindInt {
		return doubtf("%s may hold characters that a shell interprets", t.text).hint("env: {VALUE: ${{ %s }}}, and \"$VALUE\" in run", t.text)
	}
	for _, v := range t.vals {
		if !allowed(shown(v)) {
			return doubtf("%s may hold %s, which a shell reads differently", t.text, clip(quoted(shown(v)))).hint("env: {VALUE: ${{ %s }}}, and \"$VALUE\" in run", t.text)
		}
	}
	return nil
}

// readers are programs that read an argument as code: behind the option of this letter, the first
// argument ("1"), or any ("").
var readers = map[string]string{
	"sh": "c", "bash": "c", "dash": "c", "ash": "c", "ksh": "c", "zsh": "c", "su": "c", "runuser": "c", "python": "c", "python3.": "c", "psql": "c",
	"perl": "[eE]", "ruby": "e", "node": "[ep]", "mysql": "e", "mariadb": "e", "php": "r", "awk": "1", "gawk": "1", "mawk": "1", "sed": "1", "trap": "1",
	"ssh": "", "watch": "", "eval": "", "source": "", ".": "", "let": "", "declare": "", "typeset": "", "unset": "", "read": "", "alias": "", "scp": "", "env": "S",
	"sqlite": "", "xargs": "", "parallel": "", "vi": "", "vim": "", "nvim": "", "ex": "", "printf": "v", "test": "v", "[": "v",
}

// harmless programs have no option that takes code. Behind -c or -e of others a value may be code.
var harmless = strings.Fields("grep egrep fgrep ping head tail curl wc test [ echo printf ls cut useradd usermod chown chmod stat date cat")

// filters read their input as data only.
var filters = strings.Fields("cat tee grep sort uniq head tail tr cut wc base64 md5sum sha1sum sha256sum sha512sum chpasswd passwd")

// program returns the name of the program that a command runs: what is before it is skipped.
func program(words []string) string {
	for _, w := range words {
		if !assigns().MatchString(w) && !slices.Contains(builtins, w) && !slices.Contains([]string{"sudo", "env"}, path.Base(w)) {
			return path.Base(w)
		}
	}
	return ""
}

// stdinDoubt refuses an expression in the input of a line that may run more than a filter.
func (t *draft) stdinDoubt(run string) *doubt {
	n := t.args.node("stdin")
	if n == nil {
		return nil
	}
	parts, d := t.scope.parts(n.Value)
	if d != nil || !slices.ContainsFunc(parts, func(p part) bool { return p.expr != nil }) {
		return d
	}
	name := program(strings.Fields(run))
	if slices.Contains(filters, name) && !strings.ContainsAny(run, ";|&()`\n") {
		return nil
	}
	return doubtf("%s may read its input as code, and a value of an expression is in stdin", clip(name)).hint("uses: script, with the values as args")
}

// codeDoubt refuses an expression in a word that a program reads as code: there its value is no
// data, however it is passed.
func codeDoubt(before []string, word string) *doubt {
	if codeVariable().MatchString(word) {
		return doubtf("a shell reads %s as code", word[:strings.IndexByte(word, '=')]).hint("uses: script, with the values as args")
	}
	for i, program := range before {
		flag, ok := readers[strings.TrimRight(path.Base(program), "0123456789")]
		if slices.Contains(builtins, program) {
			flag, ok = readers[program]
			ok = ok && !slices.ContainsFunc(before[:i], func(w string) bool { return !slices.Contains(builtins, w) })
		} else if program == "" || program[len(program)-1] == '.' {
			continue
		}
		between := before[i+1:]
		isOption := func(w string) bool { return strings.HasPrefix(w, "-") }
		switch {
		case !ok:
			continue
		case flag == "":
		case flag == "1":
			if slices.ContainsFunc(between, func(w string) bool { return !isOption(w) }) && !isOption(before[len(before)-1]) {
				continue
			}
		default:
			option := regexp.MustCompile(`^(-[A-Za-z0-9]*` + flag + `|--(command|execute|eval)\b)`) // flag is a letter or a class
			if !slices.ContainsFunc(append(slices.Clone(between), word), option.MatchString) {
				continue
			}
		}
		return doubtf("%s reads the value of an expression as code", path.Base(program)).hint("uses: script, with the values as args")
	}
	if len(before) > 0 && !slices.Contains(harmless, program(before)) &&
		(codeOption().MatchString(before[len(before)-1]) || codeOptionIn().MatchString(word)) {
		return doubtf("%s may read the value of an expression as code", clip(holder().ReplaceAllString(program(before), "{{ }}"))).
			hint("uses: script, with the values as args")
	}
	return nil
}

var (
	// Places of an expression where a variable means something else than its value.
	odd = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:^|[\s;|&(])\w*[\x{E000}-\x{F8FF}][\w\x{E000}-\x{F8FF}]*(?:\+?=|\s*\()|[\x{E000}-\x{F8FF}][<>]|\b(?:for|select|function)\s+[\x{E000}-\x{F8FF}]|(?:[\\~]|\$(?:[A-Za-z_]\w*)?)[\x{E000}-\x{F8FF}]|[\w$]\[(?:[^\]]*|\S*)[\x{E000}-\x{F8FF}]`)
	})
	// Parts of the shell's language that the import does not follow.
	unknown = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile("<<|`|\\(\\(|\\[\\[(?:[^:]|$)|\\$\\{[^}]*[\\x{E000}-\\x{F8FF}]|\\besac\\b|\\$\\{(?:!|\\w+(?:\\[[^@*]|:[\\w$ ]))|\\w\\[[^\\]]*\\$")
	})
	breaks = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("[;|&\n]+|\\$?\\(|\\)") })
	joins  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[<>]&|&>|\\\n`) }) // no end of a command
	// A program that reads its input as code, behind a pipe.
	piped = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\|&?[\s({\\]*(?:(?:\S*/)?(?:sudo|doas|env|nohup|exec|command|nice|timeout|chroot|\w+=\S*)\s(?:[^|;&\n]*\s)?)?` +
			`(?:\S*/)?((?:ba|da|a|k|z)?sh|python[0-9.]*|perl|ruby|php|node|psql|mysql|mariadb|sqlite3?|crontab|at|batch|ssh|gdb|ed|ex|["']?\$\S+)(?:[\s;|&)"']|$)`)
	})
	// Words that run what other words of the line, or its input, hold.
	indirect = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?:^|[\s;|&({'"\\])(?:\S*/)?(eval|xargs|parallel|source)(?:[\s;"']|$)`)
	})
	// A line where a variable may get the value of an expression.
	keeping      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\w=|\b(?:for|read|set|mapfile)\b`) })
	codeVariable = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:(?:BASH_)?ENV|PS4|RSYNC_RSH|\w*(?:_COMMAND|PAGER|EDITOR))=`)
	})
	codeOption = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:-[A-Za-z0-9]{0,2}[cexI]|--?(?:` + codeOptions + `)[\w-]*)$`)
	})
	codeOptionIn = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:-[a-z]{0,2}[cexI]|--?(?:` + codeOptions + `)|[\w.-]*[Cc]ommand=)`)
	})
	assigns = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_]\w*=`) })
)

const codeOptions = "ev|exec|expr|command|split-s|to-c|checkp|use-c|rsh|rsync-p"

// indirectDoubt refuses a line with a word that runs what other words hold.
func indirectDoubt(flat string) *doubt {
	m := indirect().FindStringSubmatch(flat)
	if m == nil || !holder().MatchString(flat) {
		return nil
	}
	return doubtf("%s reads the value of an expression as code", m[1]).hint("uses: script, with the values as args")
}

// shellText translates a text for a shell. An expression becomes its variable, quoted as its place
// needs. Where Ansible's shell would read a value as more than text, there is a doubt or a note.
func (t *draft) shellText(text string) (string, *doubt) {
	l := &line{draft: t}
	flat, d := l.flat(text)
	if d != nil || len(l.terms) == 0 {
		return flat, d
	}
	if m := unknown().FindString(flat); m != "" {
		return "", doubtf("the command has %s, and the import does not know how a shell reads the expressions in it", clip(holder().ReplaceAllString(m, "{{ }}"))).
			hint("env: for the values, and \"$VALUE\" in run")
	}
	if m := piped().FindStringSubmatch(flat); m != nil {
		return "", doubtf("%s reads its input as code, and a value of an expression may be in it", m[1]).hint("uses: script, with the values as args")
	}
	if d := indirectDoubt(flat); d != nil {
		return "", d
	}
	if odd().MatchString(flat) {
		return "", doubtf("an expression is a part of the shell's language, not a value").hint("env: for the values, and \"$VALUE\" in run")
	}
	out, code, d := l.quoted([]rune(flat))
	if d != nil {
		return "", d
	}
	words, ok := splitWords(breaks().ReplaceAllString(joins().ReplaceAllString(code, ""), " ; "))
	if !ok {
		return "", doubtf("a quote in the command is not closed")
	}
	begin, keeps := 0, keeping().MatchString(flat)
	for i, word := range words {
		if word == ";" {
			begin = i + 1
		} else if holder().MatchString(word) || keeps && environ().MatchString(word) {
			if d := codeDoubt(words[begin:i], word); d != nil {
				return "", d
			}
		}
	}
	return out, nil
}

// quoted writes the variables of a text for a shell in the quotes around them. code is the text
// without its comments.
func (l *line) quoted(text []rune) (out, code string, d *doubt) {
	var b, bare strings.Builder
	open := []rune{'('} // what is open: ( of a command, or a quote
	last := '\n'
	for i := 0; i < len(text); i++ {
		r, top, before := text[i], open[len(open)-1], last
		last = r
		begins := strings.ContainsRune(" \t\n;|&(", before)
		if t, ok := l.term(r); ok {
			word, d := l.inQuotes(t, top, begins)
			if d != nil {
				return "", "", d
			}
			b.WriteString(word)
			bare.WriteRune(r)
			continue
		}
		b.WriteRune(r)
		bare.WriteRune(r)
		switch {
		case r == '\'' && top == '(' && before == '$':
			return "", "", doubtf("$'…' is no text of /bin/sh on every host").hint("printf, or uses: script")
		case r == '\\' && top != '\'' && i+1 < len(text):
			i++
			b.WriteRune(text[i])
			bare.WriteRune(text[i])
			last = 0 // an escaped character begins nothing
		case top == '\'' && r != '\'':
		case r == top && top != '(', r == ')' && top == '(' && len(open) > 1:
			open = open[:len(open)-1]
		case r == '"', r == '\'' && top == '(', r == '(' && (top == '(' || before == '$'):
			open = append(open, r)
		case r == '#' && top == '(' && begins:
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
				b.WriteRune(text[i])
			}
		}
	}
	return holder().ReplaceAllString(b.String(), "…"), bare.String(), nil // those in comments
}

// oneText accepts a value that only a run knows, with a note.
func (l *line) oneText(t *term, special string) {
	l.note("the value of %s is one text, whatever it holds; Ansible interprets %s in it", t.text, special)
	t.known = true
}

// inQuotes is the variable of an expression within a quote, or outside of quotes.
func (l *line) inQuotes(t term, quote rune, begins bool) (string, *doubt) {
	name, d := l.variable(t)
	if d != nil {
		return "", d
	}
	special := map[rune]string{'"': "\"$`\\", '\'': "'"}[quote]
	if t.asked || special != "" && !t.known && t.kinds == kindText {
		l.oneText(&t, cmpText(special, "characters"))
	}
	d = t.safe(func(v string) bool {
		switch {
		case strings.Contains(v, "%") && l.module == "cron":
			return false
		case special != "":
			return !strings.ContainsAny(v, special)
		case begins && (assigns().MatchString(v) || slices.Contains(builtins, v)):
			return false
		}
		return safeWord().MatchString(v)
	})
	return map[rune]string{'(': `"$` + name + `"`, '"': "${" + name + "}", '\'': `'"$` + name + `"'`}[quote], d
}
