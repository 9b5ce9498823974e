package plugintest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// RecordEnv is the variable that makes [Host.Golden] record.
const RecordEnv = "TURNUS_RECORD"

// Golden answers the commands that no rule answers from a recorded session: a text file, by custom
// under testdata. With TURNUS_RECORD=1 in the environment it asks real instead, a machine of that
// kind, and writes the file when the test ends. A command that was never recorded fails the test.
//
// Parts of a command or its input that the masks match are not compared, such as a random name.
// Equal commands get their answers in turn, and the last one from then on, because a job type may
// check more or less often.
//
// Read the recording before you commit it: it has all output of the machine.
//
//	== read-only
//	$ cat /proc/uptime
//	| 90000.12 1.0
//	= 0
func (h *Host) Golden(tb testing.TB, file string, real Handler, masks ...*regexp.Regexp) *Host {
	tb.Helper()
	g := &golden{tb: tb, file: file, masks: masks}
	if os.Getenv(RecordEnv) != "" {
		if real == nil {
			tb.Fatalf("%s: %s is set, and there is no machine to record", file, RecordEnv)
		}
		tb.Cleanup(g.write)
		return h.Handle(func(ctx context.Context, c Call) Reply { return g.record(c, real(ctx, c)) })
	}
	raw, err := os.ReadFile(file)
	if err == nil {
		g.exchanges, err = parseSession(string(raw))
	}
	if err != nil {
		tb.Fatalf("the recorded session %s: %v; set %s=1 to record one", file, err, RecordEnv)
	}
	return h.Handle(func(_ context.Context, c Call) Reply { return g.answer(c) })
}

// exchange is a command and its answer.
type exchange struct {
	call  Call
	reply Reply
	used  bool
}

type golden struct {
	tb    testing.TB
	file  string
	masks []*regexp.Regexp

	mu        sync.Mutex
	exchanges []exchange
}

func (g *golden) record(c Call, r Reply) Reply {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.exchanges = append(g.exchanges, exchange{call: c, reply: r})
	return r
}

func (g *golden) write() {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := os.MkdirAll(filepath.Dir(g.file), 0o755) //nolint:gosec // a folder of tests
	if err == nil {
		err = os.WriteFile(g.file, []byte(formatSession(g.exchanges)), 0o644) //nolint:gosec // a file of tests
	}
	if err != nil {
		g.tb.Errorf("recording a session: %v", err)
	}
}

func (g *golden) masked(text string) string {
	for _, m := range g.masks {
		text = m.ReplaceAllString(text, "<masked>")
	}
	return text
}

func (g *golden) answer(c Call) Reply {
	g.mu.Lock()
	defer g.mu.Unlock()
	command, stdin, last := g.masked(c.Command), g.masked(c.Stdin), -1
	for i := range g.exchanges {
		e := &g.exchanges[i]
		if g.masked(e.call.Command) != command || g.masked(e.call.Stdin) != stdin {
			continue
		}
		if !e.used {
			e.used = true
			return e.reply
		}
		last = i
	}
	if last >= 0 {
		return g.exchanges[last].reply
	}
	g.tb.Errorf("%s has no such command; set %s=1 to record it again:\n%s", g.file, RecordEnv, c.Command)
	return Reply{Code: 127, Stderr: "plugintest: not in the recorded session\n"}
}

// The session as text: each line begins with what it is; a text's last line without a newline has a
// ~.
const (
	ofCommand, ofStdin, ofStdout, ofStderr = "$", "<", "|", "!"
)

func formatSession(list []exchange) string {
	var b strings.Builder
	lines := func(mark, text string) {
		for line := range strings.Lines(text) {
			whole, ended := strings.CutSuffix(line, "\n")
			switch {
			case !ended:
				b.WriteString(mark + "~" + line + "\n")
			case whole == "": // a blank at the end of a line does not live long
				b.WriteString(mark + "\n")
			default:
				b.WriteString(mark + " " + line)
			}
		}
	}
	for _, e := range list {
		var flags []string
		for name, set := range map[string]bool{"read-only": e.call.ReadOnly, "fresh": e.call.Fresh} {
			if set {
				flags = append(flags, name)
			}
		}
		slices.Sort(flags)
		b.WriteString(strings.TrimSpace("== "+strings.Join(flags, " ")) + "\n")
		lines(ofCommand, e.call.Command)
		lines(ofStdin, e.call.Stdin)
		lines(ofStdout, e.reply.Stdout)
		lines(ofStderr, e.reply.Stderr)
		end := strconv.Itoa(e.reply.Code)
		switch {
		case e.reply.Err != nil:
			end = "unreachable"
		case e.reply.Signal != "":
			end += " " + e.reply.Signal
		}
		b.WriteString("= " + end + "\n\n")
	}
	return b.String()
}

var errSession = errors.New("is no recorded session")

func parseSession(text string) (list []exchange, err error) {
	open := false
	for n := 1; text != ""; n++ {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		wrong := func(what string) error { return fmt.Errorf("line %d: %s: %w", n, what, errSession) }
		mark, rest, _ := strings.Cut(line, " ")
		newline := "\n"
		if len(line) > 1 && line[1] == '~' {
			mark, rest, newline = line[:1], line[2:], ""
		}
		switch {
		case line == "":
			continue
		case mark == "==":
			list, open = append(list, exchange{}), true
			list[len(list)-1].call.ReadOnly = strings.Contains(rest, "read-only")
			list[len(list)-1].call.Fresh = strings.Contains(rest, "fresh")
			continue
		case !open:
			return nil, wrong("expected ==")
		}
		e := &list[len(list)-1]
		switch mark {
		case ofCommand:
			e.call.Command += rest + newline
		case ofStdin:
			e.call.Stdin += rest + newline
		case ofStdout:
			e.reply.Stdout += rest + newline
		case ofStderr:
			e.reply.Stderr += rest + newline
		case "=":
			open = false
			if rest == "unreachable" {
				e.reply.Err = Unreachable("recorded", false)
				continue
			}
			code, signal, _ := strings.Cut(rest, " ")
			e.reply.Signal = signal
			if e.reply.Code, err = strconv.Atoi(code); err != nil {
				return nil, wrong("expected an exit code")
			}
		default:
			return nil, wrong("expected one of == $ < | ! =")
		}
	}
	if open {
		return nil, fmt.Errorf("the last command has no end: %w", fs.ErrInvalid)
	}
	return list, nil
}
