package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// call is one command about to run.
type call struct {
	sh   *shell
	name string
	args []string // without the name
	stdio
}

// fail writes a message as the program would, and returns code.
func (c *call) fail(code int, format string, args ...any) int {
	fmt.Fprintf(c.err, c.name+": "+format+"\n", args...)
	return code
}

func (c *call) fs() *memFS { return &c.sh.host.fs }

// flags takes leading options that are letters out of allowed, and returns them.
func (c *call) flags(allowed string) string {
	var got strings.Builder
	for len(c.args) > 0 && len(c.args[0]) > 1 && c.args[0][0] == '-' {
		if c.args[0] == "--" {
			c.args = c.args[1:]
			break
		}
		letters := c.args[0][1:]
		if strings.Trim(letters, allowed) != "" {
			break
		}
		got.WriteString(letters)
		c.args = c.args[1:]
	}
	return got.String()
}

// reason is an error in a shell's words.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "No such file or directory"
	case errors.Is(err, syscall.EISDIR):
		return "Is a directory"
	case errors.Is(err, syscall.ENOTDIR):
		return "Not a directory"
	case errors.Is(err, syscall.ENOTEMPTY):
		return "Directory not empty"
	case errors.Is(err, fs.ErrExist):
		return "File exists"
	case errors.Is(err, syscall.EPERM):
		return "Operation not permitted"
	case errors.Is(err, fs.ErrPermission):
		return "Permission denied"
	case errors.Is(err, syscall.ENOSPC):
		return "No space left on device"
	case errors.Is(err, syscall.EINVAL):
		return "Invalid argument"
	}
	return err.Error()
}

// run executes one command by name: a function, what changes the shell itself, what runs other
// commands, or a program.
func (sh *shell) run(ctx context.Context, args []string) int {
	c := &call{sh: sh, name: args[0], args: args[1:], stdio: sh.stdio}
	if strings.HasPrefix(c.name, "/") {
		c.name = path.Base(c.name) // /bin/echo and /usr/bin/echo are echo
	} else if body, ok := sh.funcs[c.name]; ok {
		return sh.invoke(ctx, body, c.args)
	}
	if b := c.builtin(c.name); b != nil {
		return b(ctx)
	}
	if code, ok := c.wrapper(ctx); ok {
		return code
	}
	if p := program(c.name); p != nil {
		return p(ctx, c)
	}
	fmt.Fprintf(c.err, "sh: 1: %s: not found on a simulated host (turnus lab --help)\n", args[0])
	return 127
}

// builtin finds what changes the shell itself; nil for other names.
func (c *call) builtin(name string) func(context.Context) int {
	switch name {
	case ":", "true", "sync", "ulimit":
		return func(context.Context) int { return 0 }
	case "umask":
		return c.umask
	case "false":
		return func(context.Context) int { return 1 }
	case "exit", "return":
		return c.exit
	case "break", "continue":
		return c.leaveLoops
	case "cd":
		return c.cd
	case "export", "readonly", "local":
		return c.declare
	case "unset":
		return c.unset
	case "set":
		return c.set
	case "shift":
		return c.shift
	case "read":
		return c.read
	case "trap":
		return c.trap
	case "wait":
		return c.wait
	case "exec":
		return c.exec
	case "eval":
		return func(ctx context.Context) int { return c.sh.script(ctx, strings.Join(c.args, " ")) }
	case ".":
		return c.source
	}
	return nil
}

func (c *call) umask(context.Context) int {
	if len(c.args) == 0 {
		return c.print(fmt.Sprintf("%04o\n", c.sh.umask))
	}
	m, err := strconv.ParseUint(c.args[0], 8, 9)
	if err != nil {
		return c.fail(2, "Illegal number: %s", c.args[0])
	}
	c.sh.umask = fs.FileMode(m)
	return 0
}

func (c *call) exit(context.Context) int {
	sh := c.sh
	sh.done, sh.leave = true, c.name == "return"
	sh.status = c.number(sh.status) & 0xff
	return sh.status
}

func (c *call) leaveLoops(context.Context) int {
	c.sh.breaks, c.sh.again = min(max(c.number(1), 1), c.sh.loops), c.name == "continue"
	return 0
}

func (c *call) exec(ctx context.Context) int {
	if len(c.args) == 0 {
		c.sh.keep = true
		return 0
	}
	c.sh.status = c.sh.run(ctx, c.args)
	c.sh.done = true
	return c.sh.status
}

// source runs a file in this shell.
func (c *call) source(ctx context.Context) int {
	if len(c.args) == 0 {
		return c.fail(2, "missing operand")
	}
	f, err := c.sh.open(c.args[0])
	if err != nil {
		return c.sh.fail(".: cannot open %s: %s", c.args[0], reason(err))
	}
	text, err := slurp(f)
	if err != nil {
		return c.sh.fail(".: %s: %v", c.args[0], err)
	}
	status := c.sh.script(ctx, text)
	if c.sh.leave {
		c.sh.done, c.sh.leave = false, false
	}
	return status
}

func (c *call) declare(context.Context) int {
	sh := c.sh
	c.flags("p")
	for _, kv := range c.args {
		k, text, set := strings.Cut(kv, "=")
		v, known := sh.vars[k]
		if _, hidden := sh.locals[k]; c.name == "local" && sh.locals != nil && !hidden {
			sh.locals[k] = v
		}
		if set {
			v.text, v.set = text, true
		}
		v.exported = v.exported || c.name == "export"
		if set || known || v.exported {
			sh.vars[k] = v
		}
	}
	return 0
}

func (c *call) unset(context.Context) int {
	functions := c.flags("fv") == "f"
	for _, k := range c.args {
		if functions {
			delete(c.sh.funcs, k)
		} else {
			delete(c.sh.vars, k)
		}
	}
	return 0
}

func (c *call) shift(context.Context) int {
	n := c.number(1)
	if n < 0 || n > len(c.sh.args) {
		return c.sh.fail("shift: can't shift that many")
	}
	c.sh.args = c.sh.args[n:]
	return 0
}

// trap keeps the command to run at the shell's end. A signal ends a simulated command immediately.
func (c *call) trap(context.Context) int {
	c.flags("")
	for i, signal := range c.args {
		if i == 0 || signal != "EXIT" && signal != "0" {
			continue
		}
		if c.sh.atExit = c.args[0]; c.sh.atExit == "-" {
			c.sh.atExit = ""
		}
	}
	return 0
}

// wait waits for background commands of this shell: for all, or for those that are named.
func (c *call) wait(ctx context.Context) int {
	status := 0
	if len(c.args) > 0 {
		status = 127
	}
	for _, j := range c.sh.jobs {
		named := slices.Contains(c.args, itoa(j.pid))
		if len(c.args) > 0 && !named {
			continue
		}
		select {
		case <-j.done:
		case <-ctx.Done():
			return 143
		}
		if named {
			status = j.status
		}
	}
	return status
}

// number is the first argument as an integer.
func (c *call) number(fallback int) int {
	if len(c.args) == 0 {
		return fallback
	}
	n, err := strconv.Atoi(c.args[0])
	if err != nil {
		return fallback
	}
	return n
}

func (c *call) cd(context.Context) int {
	to := c.sh.vars["HOME"].text
	physical := c.flags("PL") == "P"
	if len(c.args) > 0 {
		to = c.args[0]
	}
	if to == "-" {
		to = c.sh.vars["OLDPWD"].text
	}
	p := c.sh.abs(to)
	if n, err := c.fs().stat(p); err != nil || !n.dir {
		return c.fail(2, "can't cd to %s", to)
	}
	c.sh.assign("OLDPWD", c.sh.cwd)
	if c.sh.cwd = c.fs().real(p); physical {
		p = c.sh.cwd
	}
	c.sh.assign("PWD", p)
	return 0
}

func (c *call) set(context.Context) int {
	letters := map[string]string{"errexit": "e", "nounset": "u", "noglob": "f", "noclobber": "C", "allexport": "a"}
	for i, a := range c.args {
		switch {
		case a == "--":
			c.sh.args = c.args[i+1:]
			return 0
		case i > 0 && strings.HasSuffix(c.args[i-1], "o") && letters[a] != "":
			c.sh.option(letters[a], c.args[i-1][0] == '-')
		case strings.HasPrefix(a, "-"), strings.HasPrefix(a, "+"):
			c.sh.option(a[1:], a[0] == '-')
		}
	}
	return 0
}

// option turns what the shell knows of the letters on or off.
func (sh *shell) option(letters string, on bool) {
	for _, l := range letters {
		sh.flags = strings.ReplaceAll(sh.flags, string(l), "")
		if on && strings.ContainsRune("aeufC", l) {
			sh.flags += string(l)
		}
	}
}

// read takes one line of the input, a byte at a time: the rest is for the next reader.
func (c *call) read(context.Context) int {
	raw := c.flags("r") != ""
	names := c.args
	if len(names) == 0 {
		names = []string{"REPLY"}
	}
	var line []byte
	status := 1
	for b := make([]byte, 1); len(line) < maxCommand; {
		n, err := c.in.Read(b)
		if n == 1 && b[0] == '\n' {
			if !raw && bytes.HasSuffix(line, []byte(`\`)) {
				line = line[:len(line)-1]
				continue
			}
			status = 0
			break
		}
		line = append(line, b[:n]...)
		if err != nil {
			break
		}
	}
	values := c.sh.split(string(line), len(names), raw)
	for i, name := range names {
		value := ""
		if i < len(values) {
			value = values[i]
		}
		c.sh.assign(name, value)
	}
	return status
}

// split cuts a line into at most n fields, of which the last takes the rest. The library's own
// leaves out empty ones.
func (sh *shell) split(line string, n int, raw bool) []string {
	ifs := " \t\n"
	if v := sh.vars["IFS"]; v.set {
		ifs = v.text
	}
	var text []byte
	var quoted []bool
	for i := 0; i < len(line); i++ {
		escaped := !raw && line[i] == '\\' && i+1 < len(line)
		if escaped {
			i++
		}
		text, quoted = append(text, line[i]), append(quoted, escaped)
	}
	ends := func(i int) bool { return !quoted[i] && strings.IndexByte(ifs, text[i]) >= 0 }
	space := func(i int) bool { return ends(i) && strings.IndexByte(" \t\n", text[i]) >= 0 }
	at := 0
	skip := func() {
		for at < len(text) && space(at) {
			at++
		}
	}
	skip()
	var fields []string
	for len(fields) < n && at < len(text) {
		start := at
		for at < len(text) && !ends(at) {
			at++
		}
		end := at
		if skip(); at < len(text) && ends(at) {
			at++
			skip()
		}
		if len(fields) == n-1 && at < len(text) {
			for end = len(text); end > start && space(end-1); {
				end--
			}
		}
		fields = append(fields, string(text[start:end]))
	}
	return fields
}

// wrapper handles programs that run another one.
func (c *call) wrapper(ctx context.Context) (int, bool) {
	switch c.name {
	case "sh", "bash", "dash":
		return c.subshell(ctx), true
	case "env":
		return c.env(ctx), true
	case "command":
		if len(c.args) > 1 && c.args[0] == "-v" {
			return c.which(c.args[1]), true
		}
	case "nohup", "setsid":
		c.flags("fw")
	case "sudo", "doas":
		return c.become(ctx), true
	case "nice", "ionice":
		if len(c.args) > 1 && c.args[0] == "-n" {
			c.args = c.args[2:]
		}
	case "timeout":
		return c.timeout(ctx), true
	default:
		return 0, false
	}
	if len(c.args) == 0 {
		return c.fail(125, "missing operand"), true
	}
	return c.sh.run(ctx, c.args), true
}

func (c *call) subshell(ctx context.Context) int {
	sub := c.sh.child()
	flags := c.flags("ceuxls")
	sub.option(flags, true)
	in := c.in
	switch {
	case strings.Contains(flags, "c") && len(c.args) > 0:
		if len(c.args) > 1 {
			sub.zero, sub.args = c.args[1], c.args[2:]
		}
		return sub.main(ctx, c.args[0])
	case len(c.args) > 0 && !strings.Contains(flags, "s"):
		f, err := c.sh.open(c.args[0])
		if err != nil {
			return c.fail(127, "0: cannot open %s: %s", c.args[0], reason(err))
		}
		c.sh.host.describe(c.sh.pid, strings.Join(append([]string{c.name}, c.args...), "\x00"))
		sub.zero, sub.args, in = c.args[0], c.args[1:], f
	default:
		sub.args = c.args
	}
	text, err := slurp(in)
	if err != nil {
		return c.fail(2, "%s: %v", sub.zero, err)
	}
	return sub.main(ctx, text)
}

func (c *call) env(ctx context.Context) int {
	sub := c.sh.child()
	if c.flags("i") != "" {
		clear(sub.vars)
	}
	for len(c.args) > 0 {
		k, v, ok := strings.Cut(c.args[0], "=")
		if !ok {
			return sub.run(ctx, c.args)
		}
		sub.export(k, v)
		c.args = c.args[1:]
	}
	for _, k := range slices.Sorted(maps.Keys(sub.vars)) {
		if v := sub.vars[k]; v.set {
			fmt.Fprintf(c.out, "%s=%s\n", k, v.text)
		}
	}
	return 0
}

// which reports where a command is: 127 when the host has none of the name.
func (c *call) which(name string) int {
	switch {
	case c.builtin(name) != nil, c.sh.funcs[name] != nil:
		fmt.Fprintln(c.out, name)
	case program(name) != nil, slices.Contains([]string{"sudo", "doas", "sh", "env", "timeout", "nohup"}, name):
		fmt.Fprintf(c.out, "/usr/bin/%s\n", name)
	default:
		return 127
	}
	return 0
}

func (c *call) timeout(ctx context.Context) int {
	if len(c.args) < 2 {
		return c.fail(125, "missing operand")
	}
	d, err := seconds(c.args[0])
	if err != nil {
		return c.fail(125, "invalid time interval '%s'", c.args[0])
	}
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	code := c.sh.run(limited, c.args[1:])
	if limited.Err() != nil && ctx.Err() == nil {
		return 124
	}
	return code
}

// seconds reads a duration as sleep does: 2, 0.5, 3m.
func seconds(s string) (time.Duration, error) {
	unit := time.Second
	switch {
	case strings.HasSuffix(s, "s"):
		s = s[:len(s)-1]
	case strings.HasSuffix(s, "m"):
		s, unit = s[:len(s)-1], time.Minute
	case strings.HasSuffix(s, "h"):
		s, unit = s[:len(s)-1], time.Hour
	case s == "infinity":
		return 1 << 62, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f < 0 || f > 1e9 {
		return 0, fmt.Errorf("not a duration: %q", s)
	}
	return min(time.Duration(f*float64(unit)), 1<<62), nil
}
