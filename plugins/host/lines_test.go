package host

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func newTestLines(gone chan struct{}) (*lines, *logs) {
	out := &logs{}
	return newLines(slog.New(slog.NewTextHandler(out, nil)), "stderr", gone), out
}

func TestLinesAreCutAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, out := newTestLines(nil)
		_, _ = fmt.Fprintf(l, "half ")
		_, _ = fmt.Fprintf(l, "a line\n\n%s\n", strings.Repeat("x", 3*maxLine))
		if s := out.String(); !strings.Contains(s, "half a line") || len(s) > 2*maxLine {
			t.Errorf("%d bytes logged", len(s))
		}
		for range 3 * lineBurst {
			_, _ = l.Write([]byte("again\n"))
		}
		if n := strings.Count(out.String(), "again"); n > lineBurst {
			t.Errorf("%d lines of a flood were logged, expected at most %d", n, lineBurst)
		}
		<-time.After(time.Second) // of the bubble
		_, _ = l.Write([]byte("later\n"))
		if s := out.String(); !strings.Contains(s, "lines_dropped=4") || !strings.Contains(s, "later") {
			t.Error("dropped lines are not reported")
		}
		_, _ = l.Write([]byte("no newline"))
		l.flush()
		if !strings.Contains(l.last(), "no newline") {
			t.Errorf("last words: %s", l.last())
		}
	})
}

// Fields of a plugin's log line never read as the worker's own, whatever their names.
func TestFieldsOfAPluginStayApart(t *testing.T) {
	out := &logs{}
	log := slog.New(slog.NewJSONHandler(out, nil)).With("plugin", "evil")
	_, _ = newLines(log, "stderr", nil).Write([]byte(`{"@message":"m","@level":"info","level":"ERROR","msg":"forged","plugin":"good","stream":"x","n":1}` + "\n"))
	var got map[string]any // the last of equal names
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"level": "INFO", "msg": "m", "plugin": "evil", "stream": "stderr"} {
		if got[key] != want {
			t.Errorf("%s is %v, expected %s: %s", key, got[key], want, out)
		}
	}
	if fields, _ := got["fields"].(map[string]any); fields["msg"] != `"forged"` || fields["n"] != "1" {
		t.Errorf("fields: %v", got["fields"])
	}
}

func TestFloodOfLinesIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := make(chan struct{})
		l, _ := newTestLines(gone)
		begin := time.Now()
		block := []byte(strings.Repeat("x", 1<<20))
		for range 14 {
			_, _ = l.Write(block)
		}
		if took := time.Since(begin); took < 9*time.Second {
			t.Errorf("14 MiB were read within %s, expected about 10 s: 4 immediately, then 1 a second", took)
		}
		close(gone)
		begin = time.Now()
		_, _ = l.Write(block)
		if took := time.Since(begin); took > 0 {
			t.Errorf("waited %s for an ended process", took)
		}
	})
}

func FuzzParseLine(f *testing.F) {
	for _, s := range []string{`{"@message":"m","@level":"warn","x":1}`, `{"@message":7}`, "panic: x", "{", "\xff"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(_ *testing.T, line []byte) {
		if len(line) > 0 {
			_, _, _ = parseLine(line)
		}
	})
}

func FuzzStdioData(f *testing.F) {
	f.Add([]byte{8, 1, 18, 1, 'x'})
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, data := stdioData(b); len(data) > len(b) {
			t.Error("more data than there is")
		}
	})
}
