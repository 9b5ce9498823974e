package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host"
)

// outputShelf is where a test keeps outputs.
type outputShelf struct {
	mu    sync.Mutex
	kept  map[string]string
	times int
	err   error
}

func (s *outputShelf) keep(_ context.Context, job core.JobID, name string, open func() (io.Reader, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times++
	if s.err != nil {
		return s.err
	}
	for range 2 { // a client sends it again where no answer came
		from, err := open()
		if err != nil {
			return err
		}
		text, err := io.ReadAll(from)
		if err != nil {
			return err
		}
		s.kept[fmt.Sprint(job.Index, "/", name)] = string(text)
	}
	return nil
}

// writes is a step that writes lines to stdout, more in each attempt, and fails in those before the
// last.
func writes(attempts, lines int) func(context.Context, host.Call) (host.Outcome, error) {
	return func(_ context.Context, c host.Call) (host.Outcome, error) {
		for i := range lines {
			c.Sink(host.Event{Stdout: fmt.Appendf(nil, "attempt %d, line %d \x1b ü\n", c.Attempt, i)})
		}
		c.Sink(host.Event{Stderr: []byte("little\n")})
		return host.Outcome{Failed: c.Attempt < attempts, Reason: "not yet"}, nil
	}
}

func expected(attempt, lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "attempt %d, line %d \\x1b ü\n", attempt, i)
	}
	return b.String()
}

// An output that does not fit into a result is kept whole, once, of the last attempt, as results
// write it. An output that fits is not.
func TestLongOutputsAreKeptWhole(t *testing.T) {
	const lines = 20_000
	for _, c := range []struct {
		name, steps string
		lines       int
		want        map[string]int // name → attempt
	}{
		{"one step", oneStep, lines, map[string]int{"0/0/stdout": 1}},
		{"what fits", oneStep, 100, nil},
		{"the last attempt", "steps: [{name: a, uses: file, with: {path: /x}, retry: {attempts: 3, interval: 1s}}]", lines, map[string]int{"0/0/stdout": 3}},
		{"items", "steps: [{name: a, uses: command, when: \"false\", with: {run: x}}, {name: b, uses: command, foreach: \"[1, 2]\", with: {run: x}}]", lines, map[string]int{"0/1/stdout-1": 1, "0/1/stdout-2": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				attempts := 1
				for _, n := range c.want {
					attempts = max(attempts, n)
				}
				l.plugins.do = writes(attempts, c.lines)
				s := &outputShelf{kept: map[string]string{}}
				la := l.submit("r", 1, c.steps)
				cfg := l.config()
				cfg.KeepOutput = s.keep
				n := l.start(cfg)
				res := l.results(la)
				n.drain()
				if len(s.kept) != len(c.want) || s.times != len(c.want) {
					t.Errorf("%d outputs were kept in %d calls, expected %d", len(s.kept), s.times, len(c.want))
				}
				for name, attempt := range c.want {
					if got := s.kept[name]; got != expected(attempt, c.lines) {
						t.Errorf("%s has %d bytes: %.80q", name, len(got), got)
					}
				}
				last := res[0].Steps[len(res[0].Steps)-1]
				if last.Truncated != (len(c.want) > 0) {
					t.Errorf("truncated: %v", last.Truncated)
				}
				if used := n.spooled.Load(); used != 0 {
					t.Errorf("%d bytes are still in files", used)
				}
			})
		})
	}
}

// A store that is away costs only the middle of the output.
func TestLongOutputWithoutAStore(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = writes(1, 20_000)
		la := l.submit("r", 2, oneStep)
		cfg := l.config()
		cfg.KeepOutput = (&outputShelf{err: errors.New("away")}).keep
		n := l.start(cfg)
		res := l.results(la)
		n.drain()
		for _, r := range res {
			if r.Outcome != core.Unchanged || !r.Steps[0].Truncated || !strings.Contains(r.Steps[0].Stdout, "bytes cut") {
				t.Errorf("%s, %v", r.Outcome, r.Steps[0].Truncated)
			}
		}
	})
}

func TestSpoolIsBounded(t *testing.T) {
	t.Parallel()
	var used atomic.Int64
	used.Store(spoolNode - 100)
	s := spool{used: &used}
	s.write([]byte(strings.Repeat("x", 60)))
	s.write([]byte(strings.Repeat("y", 60))) // over what the node may have
	s.write([]byte("z"))                     // a hole is not continued behind
	from, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(from)
	if err != nil || string(text) != strings.Repeat("x", 60)+"\n[… 61 bytes cut …]\n" {
		t.Errorf("%q, %v", text, err)
	}
	s.close()
	if used.Load() != spoolNode-100 {
		t.Errorf("%d are used", used.Load())
	}
}

// The reader that escapes does so whatever the pieces are in which it reads.
func TestEscapingInPieces(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a\x1b\xffü€😀\n", 3000) + "\xf0\x9f"
	for name, from := range map[string]io.Reader{"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text)), "halves": iotest.HalfReader(strings.NewReader(text))} {
		got, err := io.ReadAll(&escaping{from: from})
		if err != nil || string(got) != escape(text) {
			t.Errorf("%s: %d bytes, expected %d; %v", name, len(got), len(escape(text)), err)
		}
	}
}
