package fleet

import (
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"strings"
	"sync"
)

// stdio is what a command reads and writes.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// shell runs scripts on one host. A subshell is a copy.
type shell struct {
	host   *host
	vars   map[string]string
	cwd    string
	zero   string   // $0
	args   []string // $1 …
	pid    int
	status int  // $?
	done   bool // exit, exec or return was called
	leave  bool // it was return
	funcs  map[string]list
	strict bool // set -e
	depth  int
}

func newShell(h *host, env map[string]string, pid int) *shell {
	vars := map[string]string{
		"HOME": "/home/" + User, "USER": User, "LOGNAME": User, "SHELL": "/bin/sh", "PWD": "/home/" + User,
		"PATH": "/usr/local/bin:/usr/bin:/bin",
	}
	maps.Copy(vars, env)
	return &shell{host: h, vars: vars, cwd: "/home/" + User, zero: "sh", pid: pid}
}

func (sh *shell) fork() *shell {
	c := *sh
	c.vars = maps.Clone(sh.vars)
	c.funcs = maps.Clone(sh.funcs)
	c.depth++
	return &c
}

// abs makes a path absolute and clean.
func (sh *shell) abs(p string) string {
	if !path.IsAbs(p) {
		p = path.Join(sh.cwd, p)
	}
	return path.Clean(p)
}

// script runs source text and returns its exit code.
func (sh *shell) script(ctx context.Context, src string, io stdio) int {
	sh.depth++
	defer func() { sh.depth-- }()
	if sh.depth > maxDepth {
		sh.done = true // unwinds at once
		fmt.Fprintln(io.err, "sh: 1: nested too deeply")
		sh.status = 2
		return 2
	}
	l, err := parse(src)
	if err != nil {
		fmt.Fprintf(io.err, "sh: 1: %v\n", err)
		return 2
	}
	return sh.list(ctx, l, io)
}

func (sh *shell) list(ctx context.Context, l list, io stdio) int {
	for _, st := range l {
		if sh.done || ctx.Err() != nil {
			break
		}
		if st.background {
			sh.background(st, io)
			continue
		}
		sh.statement(ctx, st, io)
	}
	return sh.status
}

// background runs a statement that outlives its command, as nohup … & does. The
// fleet owns it.
func (sh *shell) background(st statement, io stdio) {
	f, c := sh.host.fleet, sh.fork()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	ctx, kill := context.WithCancelCause(f.ctx)
	c.pid = sh.host.begin(kill, "")
	sh.vars["!"] = itoa(c.pid)
	sh.status = 0
	io.in = strings.NewReader("")
	f.wg.Go(func() {
		defer kill(nil)
		defer sh.host.end(c.pid)
		c.statement(ctx, st, io)
	})
}

func (sh *shell) statement(ctx context.Context, st statement, io stdio) {
	for i, ln := range st.links {
		if ln.op == "&&" && sh.status != 0 || ln.op == "||" && sh.status == 0 {
			continue
		}
		sh.status = sh.pipeline(ctx, ln.pipe, io)
		if sh.done || ctx.Err() != nil {
			return
		}
		if sh.strict && sh.status != 0 && i == len(st.links)-1 && !ln.pipe.negate {
			sh.done = true
			return
		}
	}
}

// pipeline connects commands; its status is the last one's.
func (sh *shell) pipeline(ctx context.Context, pl pipeline, std stdio) int {
	var status int
	if len(pl.cmds) == 1 {
		status = sh.command(ctx, pl.cmds[0], std)
	} else {
		status = sh.pipes(ctx, pl.cmds, std)
	}
	if !pl.negate {
		return status
	}
	if status == 0 {
		return 1
	}
	return 0
}

func (sh *shell) pipes(ctx context.Context, cmds []command, std stdio) int {
	var wg sync.WaitGroup
	var in *io.PipeReader
	reader := std.in
	for _, c := range cmds[:len(cmds)-1] {
		r, w := io.Pipe()
		from, stage, before := reader, sh.fork(), in
		wg.Go(func() {
			stage.command(ctx, c, stdio{in: from, out: w, err: std.err})
			_ = w.Close() // never fails
			if before != nil {
				_ = before.Close() // ends the stage before with a broken pipe
			}
		})
		in, reader = r, r
	}
	status := sh.fork().command(ctx, cmds[len(cmds)-1], stdio{in: reader, out: std.out, err: std.err})
	_ = in.Close() // ends the stage before with a broken pipe
	wg.Wait()
	return status
}

func (sh *shell) command(ctx context.Context, c command, io stdio) int {
	if c.kind == "" {
		return sh.simple(ctx, c, io)
	}
	io, err := sh.redirect(ctx, c.redirs, io)
	if err != nil {
		fmt.Fprintf(io.err, "sh: 1: %v\n", err)
		return 2
	}
	switch c.kind {
	case "function":
		if sh.funcs == nil {
			sh.funcs = map[string]list{}
		}
		sh.funcs[c.name] = c.bodies[0]
		return 0
	case "{":
		return sh.list(ctx, c.bodies[0], io)
	case "(":
		return sh.fork().list(ctx, c.bodies[0], io)
	case "if":
		return sh.ifElse(ctx, c, io)
	case "for":
		return sh.loopOver(ctx, c, io)
	case "case":
		return sh.choose(ctx, c, io)
	}
	status := 0
	for ctx.Err() == nil && !sh.done {
		if (sh.condition(ctx, c.cond[0], io) == 0) != (c.kind == "while") {
			break
		}
		status = sh.list(ctx, c.bodies[0], io)
	}
	return status
}

// invoke runs a function with arguments of its own.
func (sh *shell) invoke(ctx context.Context, body list, args []string, io stdio) int {
	if sh.depth >= maxDepth {
		fmt.Fprintln(io.err, "sh: 1: nested too deeply")
		sh.done, sh.status = true, 2
		return 2
	}
	outer := sh.args
	sh.args = args
	sh.depth++
	status := sh.list(ctx, body, io)
	sh.depth--
	sh.args = outer
	if sh.leave {
		sh.done, sh.leave = false, false
	}
	return status
}

// condition runs a list whose failure does not end a strict script.
func (sh *shell) condition(ctx context.Context, l list, io stdio) int {
	strict := sh.strict
	sh.strict = false
	defer func() { sh.strict = strict }()
	return sh.list(ctx, l, io)
}

func (sh *shell) ifElse(ctx context.Context, c command, io stdio) int {
	for i, cond := range c.cond {
		if sh.condition(ctx, cond, io) == 0 && !sh.done {
			return sh.list(ctx, c.bodies[i], io)
		}
		if sh.done {
			return sh.status
		}
	}
	if len(c.bodies) > len(c.cond) {
		return sh.list(ctx, c.bodies[len(c.cond)], io)
	}
	return 0
}

func (sh *shell) choose(ctx context.Context, c command, io stdio) int {
	subject := sh.text(ctx, c.words[0], io)
	for i, patterns := range c.choices {
		for _, w := range patterns {
			if re, err := regexp.Compile("(?s)^(?:" + sh.pattern(ctx, w, io) + ")$"); err == nil && re.MatchString(subject) {
				return sh.list(ctx, c.bodies[i], io)
			}
		}
	}
	return 0
}

func (sh *shell) loopOver(ctx context.Context, c command, io stdio) int {
	status := 0
	for _, v := range sh.fields(ctx, c.words, io) {
		if sh.done || ctx.Err() != nil {
			break
		}
		sh.vars[c.name] = v
		status = sh.list(ctx, c.bodies[0], io)
	}
	return status
}

func (sh *shell) simple(ctx context.Context, c command, io stdio) int {
	args := sh.fields(ctx, c.words, io)
	io, err := sh.redirect(ctx, c.redirs, io)
	if err != nil {
		fmt.Fprintf(io.err, "sh: 1: %v\n", err)
		return 2
	}
	if len(args) == 0 {
		for _, a := range c.assigns {
			sh.vars[a.name] = sh.text(ctx, a.value, io)
		}
		return 0
	}
	run := sh
	if len(c.assigns) > 0 {
		run = sh.fork()
		for _, a := range c.assigns {
			run.vars[a.name] = sh.text(ctx, a.value, io)
		}
	}
	return run.run(ctx, args, io)
}

// redirect applies redirections, from left to right.
func (sh *shell) redirect(ctx context.Context, rs []redir, io stdio) (stdio, error) {
	for _, r := range rs {
		target := sh.text(ctx, r.target, io)
		switch r.op {
		case ">&":
			switch {
			case r.fd == 2 && target == "1":
				io.err = io.out
			case r.fd == 1 && target == "2":
				io.out = io.err
			}
		case "<":
			f, err := sh.host.fs.open(sh.abs(target))
			if err != nil {
				return io, fmt.Errorf("cannot open %s: %s", target, reason(err))
			}
			io.in = f.reader()
		default:
			f, err := sh.host.fs.create(sh.abs(target), r.op == ">", false, 0o644)
			if err != nil {
				return io, fmt.Errorf("cannot create %s: %s", target, reason(err))
			}
			if r.op == ">>" {
				n, _ := sh.host.fs.stat(sh.abs(target)) // it was opened just now
				f.at = int64(len(n.data))
			}
			if r.fd == 2 {
				io.err = f
			} else {
				io.out = f
			}
		}
	}
	return io, nil
}

// limitWriter keeps the first bytes and swallows the rest.
type limitWriter struct {
	w    io.Writer
	left int
}

func (l *limitWriter) Write(b []byte) (int, error) {
	n := min(len(b), l.left)
	l.left -= n
	if _, err := l.w.Write(b[:n]); err != nil {
		return 0, err
	}
	return len(b), nil
}

// unwrap finds what a client wants to run within `export K='V'; exec /bin/sh -c '…'`,
// and the exported variables. A line of another form is returned as it is.
func unwrap(line string) (string, map[string]string) {
	env := map[string]string{}
	for range maxDepth {
		l, err := parse(line)
		if err != nil {
			return line, env
		}
		inner, rest := "", 0
		for i, st := range l {
			words := literal(st)
			if len(words) > 1 && words[0] == "export" {
				for _, kv := range words[1:] {
					k, v, _ := strings.Cut(kv, "=")
					env[k] = v
				}
				continue
			}
			if i == len(l)-1 && len(words) == 4 && words[0] == "exec" && words[1] == "/bin/sh" && words[2] == "-c" {
				inner = words[3]
			}
			rest = st.pos
			break
		}
		if inner == "" {
			return line[rest:], env
		}
		line = inner
	}
	return line, env
}

// literal returns the words of a plain command without expansions; nil for others.
func literal(st statement) []string {
	if len(st.links) != 1 || len(st.links[0].pipe.cmds) != 1 || st.background || st.links[0].pipe.negate {
		return nil
	}
	c := st.links[0].pipe.cmds[0]
	if c.kind != "" || len(c.assigns) > 0 || len(c.redirs) > 0 {
		return nil
	}
	words := make([]string, 0, len(c.words))
	for _, w := range c.words {
		var b strings.Builder
		for _, pc := range w {
			if pc.isVar || pc.isRun {
				return nil
			}
			b.WriteString(pc.text)
		}
		words = append(words, b.String())
	}
	return words
}
