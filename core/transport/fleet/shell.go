package fleet

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// stdio holds the streams of a command.
type stdio struct {
	in       io.Reader
	out, err io.Writer
	more     map[string]descriptor // by their number; never changed, only replaced
}

// descriptor is an open file: for reading, for writing, or a folder.
type descriptor struct {
	in     io.Reader
	out    io.Writer
	folder string
}

// get returns an open file by its number. "-" is one that gives and takes nothing.
func (s *stdio) get(number string) (descriptor, bool) {
	switch number {
	case "-":
		return descriptor{in: strings.NewReader(""), out: io.Discard}, true
	case "0":
		return descriptor{in: s.in}, true
	case "1":
		return descriptor{out: s.out}, true
	case "2":
		return descriptor{out: s.err}, true
	}
	d, ok := s.more[number]
	return d, ok
}

// set opens a file under a number. Of the first three each has one direction, and set reports
// false for a file of the other one.
func (s *stdio) set(number string, d descriptor) bool {
	switch number {
	case "0":
		if d.in == nil {
			return false
		}
		s.in = d.in
	case "1", "2":
		if d.out == nil {
			return false
		}
		if number == "1" {
			s.out = d.out
		} else {
			s.err = d.out
		}
	default:
		if s.more = maps.Clone(s.more); s.more == nil {
			s.more = map[string]descriptor{}
		}
		s.more[number] = d
	}
	return true
}

// maxDepth bounds how deep scripts, functions and subshells call each other.
const maxDepth = 64

// shell runs scripts on one host: the syntax and the expansion of words are mvdan.cc/sh's, the
// world that they act on is the host. A subshell is a copy.
type shell struct {
	stdio
	host *host
	vars map[string]variable
	cwd  string
	zero string   // $0
	args []string // $1 …
	pid  int

	uid, gid uint32 // whose commands it runs
	umask    fs.FileMode

	status int    // $?
	output int    // status of the last command substitution
	flags  string // of set: of e, u, f and C those that are on
	tested bool   // a condition runs: its failure does not end a strict script
	keep   bool   // exec without a command ran: its redirections stay
	done   bool   // exit, exec or return was called
	leave  bool   // it was return
	loops  int    // loops around this command
	breaks int    // loops that break or continue leaves
	again  bool   // the last of them continues

	funcs  map[string]*syntax.Stmt
	locals map[string]variable // what local hides until the function ends
	jobs   []*job              // in the background
	atExit string              // trap … EXIT
	depth  int
}

// variable is one of a shell. The zero value is not set.
type variable struct {
	text     string
	set      bool
	exported bool
}

// job is a background command.
type job struct {
	pid    int
	done   chan struct{} // closed after status was set
	status int
}

func newShell(h *host, env map[string]string, pid int, std stdio) *shell {
	sh := &shell{stdio: std, host: h, vars: make(map[string]variable, 8+len(env)), cwd: "/home/" + User, zero: "sh", pid: pid, uid: userID, gid: userID, umask: 0o022}
	for _, v := range [...][2]string{
		{"HOME", "/home/" + User}, {"USER", User}, {"LOGNAME", User}, {"SHELL", "/bin/sh"}, {"PWD", "/home/" + User},
		{"PATH", "/usr/local/bin:/usr/bin:/bin"},
	} {
		sh.export(v[0], v[1])
	}
	for k, v := range env {
		sh.export(k, v)
	}
	return sh
}

func (sh *shell) fork() *shell {
	c := *sh
	c.vars = maps.Clone(sh.vars)
	c.funcs = maps.Clone(sh.funcs)
	c.jobs, c.atExit = nil, ""
	c.depth++
	return &c
}

// child is another program's shell: of this one it has the environment alone.
func (sh *shell) child() *shell {
	c := &shell{stdio: sh.stdio, host: sh.host, vars: make(map[string]variable, len(sh.vars)), cwd: sh.cwd, zero: "sh", pid: sh.pid, uid: sh.uid, gid: sh.gid, umask: sh.umask, depth: sh.depth + 1}
	for k, v := range sh.vars {
		if v.exported {
			c.vars[k] = v
		}
	}
	return c
}

// abs makes a path absolute and clean. One that begins with an open folder is the folder's.
func (sh *shell) abs(p string) string {
	if below, ok := strings.CutPrefix(p, "/proc/self/fd/"); ok {
		number, rest, _ := strings.Cut(below, "/")
		if d := sh.more[number]; d.folder != "" {
			return path.Join(d.folder, rest)
		}
	}
	if !path.IsAbs(p) {
		p = path.Join(sh.cwd, p)
	}
	return path.Clean(p)
}

// fail ends the shell with a message.
func (sh *shell) fail(format string, args ...any) int {
	fmt.Fprintf(sh.err, "sh: 1: "+format+"\n", args...)
	sh.done, sh.status = true, 2
	return 2
}

// main runs a script and then what it has to be run at its end.
func (sh *shell) main(ctx context.Context, src string) int {
	status := sh.script(ctx, src)
	if end := sh.atExit; end != "" && ctx.Err() == nil {
		sh.atExit, sh.done, sh.leave = "", false, false
		if sh.script(ctx, end); sh.done {
			status = sh.status
		}
	}
	return status
}

// script runs source text and returns its exit code.
func (sh *shell) script(ctx context.Context, src string) int {
	sh.depth++
	defer func() { sh.depth-- }()
	if sh.depth > maxDepth {
		return sh.fail("%v", errNested)
	}
	return sh.tree(ctx, sh.host.fleet.scripts.parse, src)
}

// tree runs source text that parse reads.
func (sh *shell) tree(ctx context.Context, parse func(string) (*syntax.File, error), src string) int {
	f, err := parse(src)
	if err != nil {
		fmt.Fprintf(sh.err, "sh: %v\n", err)
		return 2
	}
	if len(f.Stmts) == 0 {
		return 0
	}
	return sh.statements(ctx, f.Stmts)
}

// stopped reports whether the commands that follow are not to run.
func (sh *shell) stopped(ctx context.Context) bool {
	return sh.done || sh.breaks > 0 || ctx.Err() != nil
}

func (sh *shell) statements(ctx context.Context, list []*syntax.Stmt) int {
	for _, st := range list {
		if sh.stopped(ctx) {
			break
		}
		sh.statement(ctx, st)
	}
	return sh.status
}

func (sh *shell) statement(ctx context.Context, st *syntax.Stmt) int {
	if st.Background {
		sh.background(st)
		return sh.status
	}
	tested, before := sh.tested, sh.stdio
	sh.tested = tested || st.Negated
	if c, ok := st.Cmd.(*syntax.CallExpr); ok {
		sh.status = sh.simple(ctx, c, st.Redirs)
	} else if sh.redirect(ctx, st.Redirs) {
		sh.status = sh.command(ctx, st.Cmd)
	}
	sh.tested = tested
	if !sh.keep && len(st.Redirs) > 0 {
		sh.stdio = before
	}
	sh.keep = false
	if st.Negated {
		sh.status = status(sh.status != 0)
	}
	if sh.status != 0 && sh.has('e') && !tested && !st.Negated && !andOr(st.Cmd) {
		sh.done = true
	}
	return sh.status
}

func (sh *shell) has(flag byte) bool { return strings.IndexByte(sh.flags, flag) >= 0 }

// andOr reports a list whose failure its last command has judged itself.
func andOr(c syntax.Command) bool {
	b, ok := c.(*syntax.BinaryCmd)
	return ok && b.Op != syntax.Pipe
}

// background runs a statement that outlives its command, as nohup … & does. The
// fleet owns it.
func (sh *shell) background(st *syntax.Stmt) {
	f, c, own := sh.host.fleet, sh.fork(), *st
	own.Background = false
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	ctx, kill := context.WithCancelCause(f.ctx)
	c.pid = sh.host.begin(kill, "")
	j := &job{pid: c.pid, done: make(chan struct{})}
	sh.jobs = append(sh.jobs, j)
	sh.status = 0
	c.in = strings.NewReader("")
	f.wg.Go(func() {
		defer kill(nil)
		defer close(j.done)
		defer sh.host.end(c.pid)
		j.status = c.statement(ctx, &own)
	})
}

// pipe connects two commands; its status is the second one's.
func (sh *shell) pipe(ctx context.Context, left, right *syntax.Stmt) int {
	var wg sync.WaitGroup
	r, w := io.Pipe()
	from, to := sh.fork(), sh.fork()
	from.out, to.in = w, r
	wg.Go(func() {
		from.statement(ctx, left)
		_ = w.Close() // never fails
	})
	status := to.statement(ctx, right)
	_ = r.Close() // ends the left one with a broken pipe
	wg.Wait()
	return status
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
