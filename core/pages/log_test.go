package pages

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// A log shows the last lines, and leads to older and newer ones, whose places in bytes stay. Each
// page is bounded, however large the output is.
func TestLogPages(t *testing.T) {
	f := newFake()
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	f.output = b.String()
	web, browser := site(t, f)
	logIn(t, web, browser, "good", "/")
	page := func(query string) string {
		t.Helper()
		resp, text := get(t, browser, web.URL+"/runs/r1/hosts/1"+query)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", query, resp.StatusCode, text)
		}
		if n := strings.Count(text, "<li id="); n > logLines {
			t.Errorf("%s: %d lines", query, n)
		}
		return text
	}
	at := func(line int) int { return strings.Index(f.output, fmt.Sprintf("line %d\n", line)) }
	text := page("")
	has(t, "the end", text, "<small>on lb1", "line 4999</span>", "line 4000</span>", "Older lines", fmt.Sprintf("before=%d", at(4000)), "stdout", "Download (")
	lacks(t, "the end", text, "line 3999</span>", "Newer lines")
	text = page(fmt.Sprintf("?out=1%%2Fstdout&before=%d", at(4000)))
	has(t, "older lines", text, "line 3999</span>", "line 3000</span>", fmt.Sprintf("at=%d", at(4000)))
	lacks(t, "older lines", text, "line 4000</span>")
	text = page(fmt.Sprintf("?out=1%%2Fstdout&at=%d", at(77)))
	has(t, "from a line on", text, fmt.Sprintf(`<li id="b%d">`, at(77)), "line 77</span>", "line 1076</span>", "Newer lines")
	lacks(t, "from a line on", text, "line 76</span>", "line 1077</span>")
	text = page("?out=1%2Fstdout&find=LINE+49")
	has(t, "found lines", text, "line 49</span>", "line 4999</span>", "111 lines with this text")
	lacks(t, "found lines", text, "line 50</span>")
	has(t, "beyond the end", page("?out=1%2Fstdout&at=99999999"), "Older lines")
}

// Output is text: as a file it is not for browsers to show, and hosts of others are not found.
func TestLogIsText(t *testing.T) {
	f := newFake()
	web, browser := site(t, f)
	logIn(t, web, browser, "good", "/")
	resp, text := get(t, browser, web.URL+"/runs/r1/hosts/1/outputs/1/stdout")
	if h := resp.Header; text != f.output || !strings.HasPrefix(h.Get("Content-Type"), "text/plain") || h.Get("Content-Disposition") != `attachment; filename="1-1-stdout.txt"` || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%v: %s", h, text)
	}
	for _, path := range []string{"/runs/r9/hosts/1", "/runs/r9/hosts/1/live", "/runs/r9/hosts/1/outputs/0/stdout", "/runs/r9/grid.json", "/runs/r9/timeline.svg", "/live?view=/runs/r9", "/live?view=/settings", "/live?view=//other.example/", "/runs/r1/hosts/x", "/runs/r1/hosts/-1", "/runs/r1/hosts/99999999999999999999/live"} {
		if resp, text := get(t, browser, web.URL+path); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
}

// The log of a host at work comes as events, in pieces of text, and reports when it ends.
func TestLiveLog(t *testing.T) {
	web, browser := site(t, newFake())
	logIn(t, web, browser, "good", "/")
	has(t, "the page", func() string { _, text := get(t, browser, web.URL+"/runs/r1/hosts/2"); return text }(), `data-live="/runs/r1/hosts/2/live"`, "&lt;script&gt;")
	resp, err := browser.Get(web.URL + "/runs/r1/hosts/2/live")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	has(t, "the stream", string(text), "event: begin\n", `{"l":[[{"t":"one"}],[{"t":"\u003c/td\u003e`, "ended: changed", "event: done\n")
	lacks(t, "the stream", string(text), "<script>")
	_, other := get(t, browser, web.URL+"/runs/r1/hosts/2/live?as="+who{Name: "bob", Tenant: "acme"}.Mark())
	has(t, "the stream of another person's page", other, "event: other\n")
	lacks(t, "the stream of another person's page", other, "event: log\n")
}

// A log without new lines is kept open: over HTTP/2 the write deadline of the last line ends it.
func TestALogWithoutLinesIsKeptOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, lines, ended := httptest.NewRecorder(), make(chan string), make(chan error, 1)
		go func() {
			lines <- "one"
			<-time.After(2*beatEvery + time.Second)
			ended <- nil
		}()
		if err := pass(newEvents(w), lines, ended); err != nil {
			t.Error(err)
		}
		if text := w.Body.String(); !strings.Contains(text, "data: one\n") || strings.Count(text, ": still here\n") != 2 {
			t.Errorf("%q", text)
		}
	})
}

func TestPiecesOf(t *testing.T) {
	for line, want := range map[string]string{
		"plain\n":                            "[{ plain}]",
		"":                                   "[]",
		"\x1b[31mred\x1b[0m no":              "[{a1 red} {  no}]",
		"\x1b[1;92mok\x1b[22m more\x1b[39m!": "[{a2 ab ok} {a2  more} { !}]",
		"\x1b[1mbold\x1b[m x":                "[{ab bold} {  x}]",
		"\x1b[38;5;196mx\x1b[48;2;1;2;3my":   "[{ x} { y}]",
		"\x1b[2J\x1b[Hclear":                 "[{ clear}]",
		"\x1b]0;title\x07a\x1b]8;;u\x1b\\b":  "[{ a} { b}]",
		"\x1b[31":                            "[]",
		"a\rb\x00\x08c\td\u009b31m":          "[{ abc\td31m}]",
		"<b>\x1b[99zx":                       "[{ <b>} { x}]",
		"end\x1b":                            "[{ end}]",
	} {
		if got := fmt.Sprint(piecesOf(line)); got != want {
			t.Errorf("%q: %s, expected %s", line, got, want)
		}
	}
	if got := piecesOf(strings.Repeat("ä", logLine)); len(got) != 1 || len(got[0].Text) > logLine+len("…") || !strings.HasSuffix(got[0].Text, "ä…") {
		t.Errorf("a long line has %d bytes", len(got[0].Text))
	}
}

func TestLogEvent(t *testing.T) {
	for _, c := range []struct {
		event api.Event
		want  string
	}{
		{api.Event{Event: "output", Stderr: "x\n"}, `{"s":"stderr","l":[[{"t":"x"}]]}`},
		{api.Event{Event: "step_started", Step: "look", Attempt: 2}, `{"h":"step look, attempt 2"}`},
		{api.Event{Event: "step_done", Detail: &api.StepResult{Name: "look", Outcome: core.Failed, Reason: "no"}}, `{"h":"step look: failed: no"}`},
		{api.Event{Event: "job_done", Result: &api.Result{Outcome: core.Changed}}, `{"h":"ended: changed"}`},
		{api.Event{Event: "progress"}, ""},
	} {
		if got := logEvent(c.event); got != c.want {
			t.Errorf("%s: %s, expected %s", c.event.Event, got, c.want)
		}
	}
}

// Lines of any output keep their places, and no byte is counted twice.
func FuzzLinesOf(f *testing.F) {
	f.Add([]byte("a\nb\x1b[31m\n\n"), int64(7))
	f.Fuzz(func(t *testing.T, data []byte, from int64) {
		lines, to := linesOf(data, from)
		if to-from != int64(len(data)) || len(lines) < bytes.Count(data, []byte("\n")) {
			t.Errorf("%d lines to %d of %d bytes", len(lines), to, len(data))
		}
		for _, l := range lines {
			for _, p := range l.Pieces {
				if strings.ContainsAny(p.Text, "\x1b\n\x00") {
					t.Errorf("%q", p.Text)
				}
			}
		}
	})
}
