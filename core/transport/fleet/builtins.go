package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	case errors.Is(err, fs.ErrPermission):
		return "Permission denied"
	}
	return err.Error()
}

// run executes one command by name: what changes the shell itself, then what
// runs other commands, then programs.
func (sh *shell) run(ctx context.Context, args []string, io stdio) int {
	c := &call{sh: sh, name: args[0], args: args[1:], stdio: io}
	if i := strings.LastIndexByte(c.name, '/'); i >= 0 && strings.HasPrefix(c.name, "/") {
		c.name = c.name[i+1:] // /bin/echo and /usr/bin/echo are echo
	}
	if body, ok := sh.funcs[c.name]; ok {
		return sh.invoke(ctx, body, c.args, io)
	}
	switch c.name {
	case ":", "true", "sync", "trap", "umask", "wait", "ulimit":
		return 0
	case "false":
		return 1
	case "exit", "return":
		sh.done, sh.leave = true, c.name == "return"
		sh.status = c.number(0, sh.status) & 0xff
		return sh.status
	case "cd":
		return c.cd()
	case "export", "readonly", "local":
		for _, kv := range c.args {
			if k, v, ok := strings.Cut(kv, "="); ok {
				sh.vars[k] = v
			}
		}
		return 0
	case "unset":
		for _, k := range c.args {
			delete(sh.vars, k)
		}
		return 0
	case "set":
		return c.set()
	case "read":
		return c.read()
	case "exec":
		if len(c.args) == 0 {
			return 0
		}
		sh.status = sh.run(ctx, c.args, io)
		sh.done = true
		return sh.status
	case "eval":
		return sh.script(ctx, strings.Join(c.args, " "), io)
	}
	if code, ok := c.wrapper(ctx); ok {
		return code
	}
	if p := program(c.name); p != nil {
		return p(ctx, c)
	}
	fmt.Fprintf(c.err, "sh: 1: %s: not found\n", args[0])
	return 127
}

// number is an argument as an integer.
func (c *call) number(i, fallback int) int {
	if i >= len(c.args) {
		return fallback
	}
	n, err := strconv.Atoi(c.args[i])
	if err != nil {
		return fallback
	}
	return n
}

func (c *call) cd() int {
	to := c.sh.vars["HOME"]
	c.flags("PL")
	if len(c.args) > 0 {
		to = c.args[0]
	}
	p := c.sh.abs(to)
	if n, err := c.fs().stat(p); err != nil || !n.dir {
		return c.fail(2, "can't cd to %s", to)
	}
	c.sh.cwd, c.sh.vars["PWD"] = p, p
	return 0
}

func (c *call) set() int {
	for i, a := range c.args {
		switch {
		case a == "--":
			c.sh.args = c.args[i+1:]
			return 0
		case strings.HasPrefix(a, "-") && strings.Contains(a, "e"):
			c.sh.strict = true
		case strings.HasPrefix(a, "+") && strings.Contains(a, "e"):
			c.sh.strict = false
		}
	}
	return 0
}

// read takes one line of the input, a byte at a time: what follows is for who reads next.
func (c *call) read() int {
	c.flags("r")
	name := "REPLY"
	if len(c.args) > 0 {
		name = c.args[0]
	}
	var line []byte
	status := 1
	for b := make([]byte, 1); len(line) < maxCommand; {
		n, err := c.in.Read(b)
		if n == 1 && b[0] == '\n' {
			status = 0
			break
		}
		line = append(line, b[:n]...)
		if err != nil {
			break
		}
	}
	c.sh.vars[name] = string(line)
	if _, set := c.sh.vars["IFS"]; !set {
		c.sh.vars[name] = strings.Trim(string(line), " \t")
	}
	return status
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
		c.flags("nEHS")
		if len(c.args) > 1 && c.args[0] == "-u" {
			c.args = c.args[2:]
		}
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
	return c.sh.run(ctx, c.args, c.stdio), true
}

func (c *call) subshell(ctx context.Context) int {
	sub := c.sh.fork()
	sub.args, sub.strict = nil, false
	flags := c.flags("ceuxl")
	sub.strict = strings.Contains(flags, "e")
	switch {
	case strings.Contains(flags, "c") && len(c.args) > 0:
		if len(c.args) > 1 {
			sub.zero, sub.args = c.args[1], c.args[2:]
		}
		return sub.script(ctx, c.args[0], c.stdio)
	case len(c.args) > 0:
		f, err := c.fs().open(c.sh.abs(c.args[0]))
		if err != nil {
			return c.fail(127, "0: cannot open %s: %s", c.args[0], reason(err))
		}
		sub.args = c.args[1:]
		return sub.script(ctx, slurp(f.reader()), c.stdio)
	}
	return sub.script(ctx, slurp(c.in), c.stdio)
}

func (c *call) env(ctx context.Context) int {
	sub := c.sh.fork()
	for len(c.args) > 0 {
		k, v, ok := strings.Cut(c.args[0], "=")
		if !ok {
			return sub.run(ctx, c.args, c.stdio)
		}
		sub.vars[k] = v
		c.args = c.args[1:]
	}
	for _, k := range slices.Sorted(maps.Keys(sub.vars)) {
		fmt.Fprintf(c.out, "%s=%s\n", k, sub.vars[k])
	}
	return 0
}

func (c *call) which(name string) int {
	if program(name) == nil {
		return 127
	}
	fmt.Fprintf(c.out, "/usr/bin/%s\n", name)
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
	code := c.sh.run(limited, c.args[1:], c.stdio)
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
