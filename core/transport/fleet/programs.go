package fleet

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/expand"
)

// program finds what a simulated host has installed; nil when it has not.
func program(name string) func(context.Context, *call) int {
	switch name {
	case "echo", "printf":
		return printText
	case "cat", "tee", "head", "tail", "sort", "wc", "grep", "sha256sum", "flood", "yes", "seq":
		return stream
	case "sleep":
		return sleepFor
	case "uname", "uptime", "date", "whoami", "pwd", "nproc", "df", "free", "printenv", "which", "basename",
		"dirname", "systemctl", "nginx", "fwctl":
		return facts
	case "test", "[":
		return testExpr
	case "ls":
		return ls
	case "stat":
		return statFile
	case "chmod", "chown", "chgrp":
		return change
	case "apk":
		return apk
	case "kill":
		return kill
	case "reboot", "shutdown":
		return func(_ context.Context, c *call) int {
			c.sh.host.reboot(c.sh.pid)
			return 0
		}
	}
	if t := toolOf(name); t != nil {
		return t.start
	}
	return nil
}

var errLarge = errors.New("larger than 1 MiB, the limit of a simulated host")

// slurp reads all of r, or as much as there is before the client leaves. It fails for more than
// maxCommand bytes.
func slurp(r io.Reader) (string, error) {
	b, _ := io.ReadAll(io.LimitReader(r, maxCommand+1)) // what could be read before the client left
	if len(b) > maxCommand {
		return string(b[:maxCommand]), errLarge
	}
	return string(b), nil
}

func printText(_ context.Context, c *call) int {
	text := ""
	switch {
	case c.name == "echo" && len(c.args) > 0 && c.args[0] == "-n":
		text = strings.Join(c.args[1:], " ")
	case c.name == "echo":
		text = strings.Join(c.args, " ") + "\n"
	case len(c.args) > 0:
		for args, used := c.args[1:], 1; used > 0; {
			s, n, err := expand.Format(&expand.Config{Env: variables{c.sh}}, c.args[0], args)
			if err != nil {
				return c.fail(1, "%v", err)
			}
			text, args = text+s, args[n:]
			if used = n; len(args) == 0 {
				break
			}
		}
	}
	_, err := io.WriteString(c.out, text)
	return c.wrote(err, 1)
}

// wrote is the exit code after writing: lost if the reader is gone.
func (c *call) wrote(err error, lost int) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EINVAL):
		return c.fail(1, "write error: %s", reason(err))
	case errors.Is(err, errLarge):
		return c.fail(1, "%v", err)
	}
	return lost
}

func sleepFor(ctx context.Context, c *call) int {
	if len(c.args) == 0 {
		return c.fail(1, "missing operand")
	}
	d, err := seconds(c.args[0])
	if err != nil {
		return c.fail(1, "invalid time interval '%s'", c.args[0])
	}
	if !wait(ctx, d) {
		return 143
	}
	return 0
}

// stream runs programs that read their arguments as files, or stdin.
func stream(ctx context.Context, c *call) int {
	switch c.name {
	case "flood":
		if floodTo(ctx, c.out, int64(c.number(1<<20))) != nil {
			return 141
		}
		return 0
	case "yes":
		for ctx.Err() == nil {
			if _, err := io.WriteString(c.out, strings.Repeat("y\n", 1024)); err != nil {
				return 141
			}
		}
		return 143
	case "seq":
		for i := range c.number(0) {
			if _, err := fmt.Fprintln(c.out, i+1); err != nil || ctx.Err() != nil {
				return 141
			}
		}
		return 0
	case "tee":
		return tee(c)
	case "head":
		return head(ctx, c)
	case "tail", "sort":
		return lines(c)
	case "grep":
		return grep(ctx, c)
	}
	flags := c.flags("bclwn")
	names, code := c.args, 0
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		r, err := c.open(name)
		if err != nil {
			code = c.fail(1, "%s: %s", name, reason(err))
			continue
		}
		if err := c.consume(r, name, flags); err != nil {
			return c.wrote(err, 141)
		}
	}
	return code
}

// open opens a file by name, or stdin by "-".
func (c *call) open(name string) (io.Reader, error) {
	if name == "-" {
		return c.in, nil
	}
	return c.sh.open(name)
}

// open opens a file by name, or an endless device.
func (sh *shell) open(name string) (io.Reader, error) {
	if name == "/dev/zero" {
		return zeros{}, nil
	}
	p := sh.abs(name)
	if n, err := sh.host.fs.stat(p); err == nil && !sh.reads(&n) {
		return nil, perr("open", p, syscall.EACCES)
	}
	f, err := sh.host.fs.open(p)
	if err != nil {
		return nil, err
	}
	return f.reader(), nil
}

// reads reports whether the shell's user may read a file. Writing is everybody's.
func (sh *shell) reads(n *node) bool {
	return sh.uid == 0 || n.mode&0o004 != 0 || sh.uid == n.uid && n.mode&0o400 != 0 || sh.gid == n.gid && n.mode&0o040 != 0
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func (c *call) consume(r io.Reader, name, flags string) error {
	switch c.name {
	case "sha256sum":
		sum := sha256.New()
		if _, err := io.Copy(sum, r); err != nil {
			return err
		}
		_, err := fmt.Fprintf(c.out, "%s  %s\n", hex.EncodeToString(sum.Sum(nil)), name)
		return err
	case "wc":
		b, err := slurp(r)
		if err != nil {
			return err
		}
		var out []string
		if flags == "" || strings.Contains(flags, "l") {
			out = append(out, itoa(strings.Count(b, "\n")))
		}
		if flags == "" || strings.Contains(flags, "w") {
			out = append(out, itoa(len(strings.Fields(b))))
		}
		if flags == "" || strings.Contains(flags, "c") {
			out = append(out, itoa(len(b)))
		}
		if name != "-" {
			out = append(out, name)
		}
		_, err = fmt.Fprintln(c.out, strings.Join(out, " "))
		return err
	}
	_, err := io.Copy(c.out, r)
	return err
}

func tee(c *call) int {
	appends := strings.Contains(c.flags("a"), "a")
	out := []io.Writer{c.out}
	for _, name := range c.args {
		f, err := c.fs().create(c.sh.abs(name), !appends, false, 0o666, c.sh.actor())
		if err != nil {
			return c.fail(1, "%s: %s", name, reason(err))
		}
		if appends {
			f.seekEnd()
		}
		out = append(out, f)
	}
	_, err := io.Copy(io.MultiWriter(out...), c.in)
	return c.wrote(err, 1)
}

// lines prints the last lines of a file or of stdin, or all of them in order.
func lines(c *call) int {
	count := 10
	if len(c.args) > 1 && c.name == "tail" && c.args[0] == "-n" {
		n, err := strconv.Atoi(c.args[1])
		if err != nil || n < 0 {
			return c.fail(1, "invalid number of lines: '%s'", c.args[1])
		}
		count, c.args = n, c.args[2:]
	}
	flags := c.flags("ruV")
	name := "-"
	if len(c.args) > 0 {
		name = c.args[0]
	}
	r, err := c.open(name)
	if err != nil {
		return c.fail(1, "cannot open '%s' for reading: %s", name, reason(err))
	}
	text, err := slurp(r)
	if err != nil {
		return c.fail(1, "%s: %v", name, err)
	}
	all := slices.Collect(strings.Lines(text))
	if c.name == "tail" {
		all = all[max(len(all)-count, 0):]
	} else {
		slices.Sort(all)
		if strings.Contains(flags, "u") {
			all = slices.Compact(all)
		}
		if strings.Contains(flags, "r") {
			slices.Reverse(all)
		}
	}
	_, err = io.WriteString(c.out, strings.Join(all, ""))
	return c.wrote(err, 141)
}

func head(ctx context.Context, c *call) int {
	lines, count := int64(10), int64(-1)
	for len(c.args) > 1 && (c.args[0] == "-n" || c.args[0] == "-c") {
		n, err := strconv.ParseInt(c.args[1], 10, 64)
		if err != nil || n < 0 {
			return c.fail(1, "invalid number: '%s'", c.args[1])
		}
		if c.args[0] == "-c" {
			count = n
		} else {
			lines = n
		}
		c.args = c.args[2:]
	}
	name := "-"
	if len(c.args) > 0 {
		name = c.args[0]
	}
	r, err := c.open(name)
	if err != nil {
		return c.fail(1, "cannot open '%s' for reading: %s", name, reason(err))
	}
	if count >= 0 {
		if _, err := io.Copy(c.out, io.LimitReader(ctxReader{ctx, r}, count)); err != nil {
			return 141
		}
		return 0
	}
	br := bufio.NewReader(r)
	for ; lines > 0; lines-- {
		line, err := br.ReadString('\n')
		if _, werr := io.WriteString(c.out, line); werr != nil || err != nil {
			break
		}
	}
	return 0
}

// ctxReader ends an endless input with its command.
type ctxReader struct {
	ctx context.Context //nolint:containedctx // io.Reader's method has none
	r   io.Reader
}

func (r ctxReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(b)
}

// grep finds expressions, or with -F text.
func grep(ctx context.Context, c *call) int {
	flags := c.flags("qFxviEsc")
	if len(c.args) == 0 {
		return c.fail(2, "missing pattern")
	}
	want, names, found := c.args[0], c.args[1:], 0
	if strings.Contains(flags, "F") {
		want = regexp.QuoteMeta(want)
	}
	if strings.Contains(flags, "x") {
		want = "^" + want + "$"
	}
	if strings.Contains(flags, "i") {
		want = strings.ToLower(want)
	}
	re, err := expression(want, strings.ContainsAny(flags, "EF"))
	if err != nil {
		return c.fail(2, "%v", err)
	}
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		r, err := c.open(name)
		if err != nil && strings.Contains(flags, "s") {
			continue
		}
		if err != nil {
			return c.fail(2, "%s: %s", name, reason(err))
		}
		for line := range linesOf(ctxReader{ctx, r}) {
			text := strings.TrimSuffix(line, "\n")
			subject := text
			if strings.Contains(flags, "i") {
				subject = strings.ToLower(text)
			}
			if re.MatchString(subject) == strings.Contains(flags, "v") {
				continue
			}
			if found++; strings.Contains(flags, "q") {
				return 0
			}
			if strings.Trim(flags, "FxviEs") == "" {
				fmt.Fprintln(c.out, text)
			}
		}
	}
	if strings.Contains(flags, "c") {
		fmt.Fprintln(c.out, found)
	}
	if found == 0 {
		return 1
	}
	return 0
}

func kill(_ context.Context, c *call) int {
	name, code := "TERM", 0
	for i, a := range c.args {
		if i > 0 && c.args[i-1] == "-s" {
			name = strings.TrimPrefix(a, "SIG")
			continue
		}
		if a == "-s" {
			continue
		}
		if s, ok := strings.CutPrefix(a, "-"); ok && a != "--" {
			if pid, err := strconv.Atoi(s); err != nil || pid < 100 { // else a process group
				name = strings.TrimPrefix(s, "SIG")
				switch name {
				case "9":
					name = "KILL"
				case "15":
					name = "TERM"
				}
				continue
			}
			a = s
		}
		pid, err := strconv.Atoi(a)
		if err != nil {
			continue
		}
		p := c.sh.host.process(pid)
		if p == nil {
			code = c.fail(1, "(%d) - No such process", pid)
			continue
		}
		if name != "0" {
			c.sh.host.deliver(p, name)
		}
	}
	return code
}
