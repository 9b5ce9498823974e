package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// expansion is how words of the shell are expanded: variables, files and commands are the host's.
func (sh *shell) expansion(ctx context.Context) *expand.Config {
	c := &expand.Config{Env: variables{sh}, NoUnset: sh.has('u')}
	c.CmdSubst = func(w io.Writer, s *syntax.CmdSubst) error {
		sub := sh.fork()
		sub.out = &limitWriter{w: w, left: maxCommand}
		sub.status = 0
		sh.output = sub.statements(ctx, s.Stmts)
		return nil
	}
	if !sh.has('f') {
		c.ReadDir2 = sh.entries
	}
	return c
}

// entries lists a folder for a pattern.
func (sh *shell) entries(dir string) ([]fs.DirEntry, error) {
	names, err := sh.host.fs.names(sh.abs(dir))
	if err != nil {
		return nil, err
	}
	list := make([]fs.DirEntry, 0, len(names))
	for _, name := range names {
		n, err := sh.host.fs.stat(path.Join(sh.abs(dir), name))
		if err != nil {
			n, err = sh.host.fs.lstat(path.Join(sh.abs(dir), name)) // a link to nothing
		}
		if err == nil { // else removed meanwhile
			list = append(list, fs.FileInfoToDirEntry(info{name, n}))
		}
	}
	return list, nil
}

// fields expands words and splits what was not quoted. After an error the shell ends.
func (sh *shell) fields(ctx context.Context, words []*syntax.Word) ([]string, bool) {
	out, err := expand.Fields(sh.expansion(ctx), words...)
	return out, sh.expanded(err)
}

// text expands a word without splitting.
func (sh *shell) text(ctx context.Context, w *syntax.Word) (string, bool) {
	out, err := expand.Literal(sh.expansion(ctx), w)
	return out, sh.expanded(err)
}

// pattern expands a word of which what is quoted is literal.
func (sh *shell) pattern(ctx context.Context, w *syntax.Word) string {
	out, err := expand.Pattern(sh.expansion(ctx), w)
	sh.expanded(err)
	return out
}

func (sh *shell) expanded(err error) bool {
	if err != nil {
		sh.fail("%v", err)
	}
	return err == nil
}

// variables gives a shell's variables and parameters to the expansion.
type variables struct{ sh *shell }

func (v variables) Get(name string) expand.Variable {
	sh := v.sh
	var text string
	switch name {
	case "@", "*":
		return expand.Variable{Set: true, Kind: expand.Indexed, List: sh.args}
	case "?":
		text = itoa(sh.status)
	case "$":
		text = itoa(sh.pid)
	case "#":
		text = itoa(len(sh.args))
	case "0":
		text = sh.zero
	case "-":
		text = sh.flags
	case "!":
		if len(sh.jobs) == 0 {
			return expand.Variable{}
		}
		text = itoa(sh.jobs[len(sh.jobs)-1].pid)
	default:
		var set bool
		if text, set = v.named(name); !set {
			return expand.Variable{}
		}
	}
	return expand.Variable{Set: true, Kind: expand.String, Str: text}
}

// named is a variable or one of $1 …. The home of another user, "HOME NAME", is always known: else
// the expansion would ask the machine for it.
func (v variables) named(name string) (string, bool) {
	if user, ok := strings.CutPrefix(name, "HOME "); ok {
		if row := v.sh.host.table(passwdFile).find(fieldName, user); row != nil {
			return row[fieldHome], true
		}
		return "/home/" + user, true
	}
	if i := number(name); i > 0 {
		if i > len(v.sh.args) {
			return "", false
		}
		return v.sh.args[i-1], true
	}
	got := v.sh.vars[name]
	return got.text, got.set
}

// number is a parameter's; 0 for other names.
func number(name string) int {
	n := 0
	for _, c := range []byte(name) {
		if c < '0' || c > '9' || n > maxCommand {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}

func (v variables) Each(yield func(string, expand.Variable) bool) {
	for name := range v.sh.vars {
		if !yield(name, v.Get(name)) {
			return
		}
	}
}

// Set is ${NAME:=word} and arithmetic.
func (v variables) Set(name string, to expand.Variable) error {
	v.sh.assign(name, to.String())
	return nil
}

// assign sets a variable, which stays exported if it was.
func (sh *shell) assign(name, text string) {
	sh.vars[name] = variable{text: text, set: true, exported: sh.vars[name].exported || sh.has('a')}
}

func (sh *shell) export(name, text string) {
	sh.vars[name] = variable{text: text, set: true, exported: true}
}

// simple runs assignments, or one command with them in its environment.
func (sh *shell) simple(ctx context.Context, c *syntax.CallExpr, redirs []*syntax.Redirect) int {
	sh.output = 0
	args, ok := sh.fields(ctx, c.Args)
	if !ok || !sh.redirect(ctx, redirs) {
		return sh.status
	}
	var before map[string]variable
	if len(c.Assigns) > 0 {
		before = make(map[string]variable, len(c.Assigns))
	}
	for _, a := range c.Assigns {
		text, ok := sh.text(ctx, a.Value)
		if !ok {
			return sh.status
		}
		if len(args) == 0 {
			sh.assign(a.Name.Value, text)
			continue
		}
		if _, ok := before[a.Name.Value]; !ok {
			before[a.Name.Value] = sh.vars[a.Name.Value]
		}
		sh.export(a.Name.Value, text)
	}
	if len(args) == 0 {
		return sh.output
	}
	status := sh.run(ctx, args)
	maps.Copy(sh.vars, before)
	return status
}

// redirect applies redirections, from left to right; on false the command is not to run.
func (sh *shell) redirect(ctx context.Context, list []*syntax.Redirect) bool {
	for _, r := range list {
		if err := sh.redirectOne(ctx, r); err != nil {
			fmt.Fprintf(sh.err, "sh: 1: %v\n", err)
			sh.status = 2
			return false
		}
	}
	return true
}

func (sh *shell) redirectOne(ctx context.Context, r *syntax.Redirect) error {
	if r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc {
		text, err := sh.document(ctx, r)
		sh.in = strings.NewReader(text)
		return err
	}
	target, ok := sh.text(ctx, r.Word)
	if !ok {
		return errors.New("no redirection")
	}
	number := "1"
	if r.Op == syntax.RdrIn || r.Op == syntax.DplIn {
		number = "0"
	}
	if r.N != nil {
		number = r.N.Value
	}
	var d descriptor
	switch r.Op {
	case syntax.RdrInOut:
		return fmt.Errorf("cannot open %s: a simulated host does not have <>", target)
	case syntax.RdrIn:
		p := sh.abs(target)
		if n, err := sh.host.fs.stat(p); err == nil && n.dir {
			d = descriptor{in: strings.NewReader(""), folder: p}
			break
		}
		in, err := sh.open(target)
		if err != nil {
			return fmt.Errorf("cannot open %s: %s", target, reason(err))
		}
		d.in, d.folder = in, p
	case syntax.DplIn, syntax.DplOut:
		if d, ok = sh.get(target); !ok {
			return fmt.Errorf("%s: Bad file descriptor", target)
		}
	default:
		f, err := sh.host.fs.create(sh.abs(target), r.Op != syntax.AppOut, r.Op == syntax.RdrOut && sh.has('C'), 0o666, sh.actor())
		if err != nil {
			return fmt.Errorf("cannot create %s: %s", target, reason(err))
		}
		if r.Op == syntax.AppOut {
			f.seekEnd()
		}
		d.out = f
	}
	if !sh.set(number, d) {
		return fmt.Errorf("%s: Bad file descriptor", target)
	}
	return nil
}

// document is the text of a here-document.
func (sh *shell) document(ctx context.Context, r *syntax.Redirect) (string, error) {
	if r.Hdoc == nil {
		return "", nil
	}
	text := r.Hdoc.Lit()
	if r.Word.Lit() != "" && !strings.Contains(r.Word.Lit(), `\`) {
		var err error
		if text, err = expand.Document(sh.expansion(ctx), r.Hdoc); err != nil {
			return "", err
		}
	}
	if r.Op == syntax.DashHdoc {
		lines := strings.SplitAfter(text, "\n")
		for i, l := range lines {
			lines[i] = strings.TrimLeft(l, "\t")
		}
		text = strings.Join(lines, "")
	}
	return text, nil
}
