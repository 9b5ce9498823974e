package cli

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// On a terminal, up prints a link that logs one browser in, once, as the first admin. Control:
// without a terminal it prints none, because logs are kept.
func TestUpPrintsALoginLink(t *testing.T) {
	up := func(out *os.File) func() {
		t.Helper()
		dir := t.TempDir()
		cmd := turnusProcess(t, "up", "--data", dir+"/data", "--listen", "127.0.0.1:0", "--context", "", "--config-dir=")
		cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), "HOME="+dir), out, out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return func() {
			t.Helper()
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
	const message = "log one browser in, once, within 10 minutes: "
	person, program := terminal(t)
	stop := up(program)
	s := watchTerminal(t, person)
	s.until(t, message)
	s.until(t, "\n")
	find := regexp.MustCompile(regexp.QuoteMeta(message) + `(http://127\.0\.0\.1:[0-9]+/\S+)\s`)
	var link string
	for link == "" {
		if found := find.FindStringSubmatch(s.all.String()); found != nil {
			link = found[1]
			continue
		}
		text, more := <-s.lines
		if !more {
			t.Fatalf("no link: %s", s.all.String())
		}
		s.all.WriteString(text)
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var text []byte // of the last answer
	ask := func(to string, cookies ...*http.Cookie) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cookies {
			req.AddCookie(c)
		}
		resp, err := browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	first := ask(link)
	if first.StatusCode != http.StatusSeeOther || len(first.Cookies()) != 1 || !strings.HasPrefix(first.Cookies()[0].Name, "__Host-") || !first.Cookies()[0].HttpOnly {
		t.Fatalf("%s: %d %v", link, first.StatusCode, first.Header)
	}
	at := link[:strings.Index(link[len("http://"):], "/")+len("http://")]
	if resp := ask(at+"/tokens", first.Cookies()...); resp.StatusCode != http.StatusOK { // the page of admins
		t.Errorf("the session is not an admin's: %d", resp.StatusCode)
	}
	if ask(at+"/settings", first.Cookies()...); !regexp.MustCompile(`<code>listen</code></td><td>127\.0\.0\.1:0</td><td>127\.0\.0\.1:8470</td><td>flag<`).Match(text) {
		t.Errorf("the page of settings lacks those of the process: %s", text)
	}
	if again := ask(link); again.StatusCode != http.StatusUnauthorized || len(again.Cookies()) != 0 {
		t.Errorf("a second browser: %d %v", again.StatusCode, again.Header)
	}
	stop()

	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	stop = up(write)
	_ = write.Close()
	s = watchTerminal(t, read)
	s.until(t, "listening on ")
	stop()
	for text := range s.lines {
		s.all.WriteString(text)
	}
	if text := s.all.String(); strings.Contains(text, message) || strings.Contains(text, "/login/") {
		t.Errorf("without a terminal it prints a link: %s", text)
	}
}
