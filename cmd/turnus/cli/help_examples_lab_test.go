//go:build labs

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
)

// typist types the rows of a chapter, one after the other, in a folder of its own.
type typist struct {
	t       *testing.T
	home    string
	dir     string // where lines are typed
	env     []string
	values  []string // placeholders of the help, each with its value
	serving []serving
}

// serving is a line that runs until Ctrl-C, and its exit code then.
type serving struct {
	*testparts.Process
	row helpRow
}

// TestLabExamplesOfTheHelp types every example of the help into a shell: against the hosts of
// turnus lab, a project, and services over it. A chapter of the table has a fixture of its own.
func TestLabExamplesOfTheHelp(t *testing.T) {
	t.Parallel()
	for program, in := range map[string]string{"git": "git", "jq": "jq", "man": "man-db", "openssl": "openssl"} {
		testparts.Need(t, program, in)
	}
	table, files := readHelpTable(t)
	for _, chapter := range table {
		t.Run(chapter.name, func(t *testing.T) {
			t.Parallel()
			p := newTypist(t, files)
			p.fixture(chapter.name)
			for _, row := range chapter.rows {
				if err := p.types(row); err != nil {
					t.Errorf("%s: %v", row.place, err)
				}
			}
			for len(p.serving) > 0 {
				if err := p.stop(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Run("control", func(t *testing.T) {
		t.Parallel()
		p := newTypist(t, nil)
		for _, row := range []helpRow{{how: "code", line: "turnus run nosuch.yaml"}, {how: "code", code: 1, line: "turnus version"}, {how: "do", line: "false"}} {
			if p.types(row) == nil {
				t.Errorf("%q is taken for %d", row.line, row.code)
			}
		}
	})
}

// fixture starts what a chapter has beside its rows.
func (p *typist) fixture(chapter string) {
	p.t.Helper()
	switch chapter {
	case "service":
		p.value("http://issuer.example.net", servers.StartOIDC(p.t).Issuer)
		p.value("RECEIVER", receiver(p.t))
	case "shared":
		pg := servers.StartPostgres(p.t)
		server := "127.0.0.1:" + strconv.Itoa(testparts.FreePort(p.t))
		p.value("rediss://queue:6379/0", servers.StartRedis(p.t).URL())
		p.value("redis://127.0.0.1:6379/9", servers.StartRedis(p.t).URL())
		p.value("postgres://turnus@db/turnus", pg.Database(p.t))
		p.value("'postgres:///bench?host=/run/postgresql'", pg.Database(p.t))
		p.value("postgres:///bench", pg.Database(p.t))
		p.value("https://turnus.example.net:8470", "http://"+server)
		p.value("server:8470", server)
		p.value("0.0.0.0:8470", "127.0.0.1:0")
		p.value("127.0.0.1:9470", "127.0.0.1:"+strconv.Itoa(testparts.FreePort(p.t)))
	}
}

// end has no process of a chapter outlive it, however it went.
func (p *typist) end() {
	down := p.command(context.WithoutCancel(p.t.Context()), "turnus lab down")
	if out, err := down.CombinedOutput(); err != nil {
		p.t.Errorf("turnus lab down: %v\n%s", err, out)
	}
}

// receiver takes the notifications that are sent to it, except those to /gone.
func receiver(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func newTypist(t *testing.T, files []txtar.File) *typist {
	t.Helper()
	home, err := os.MkdirTemp("", "ex") //nolint:usetesting // the path of t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	for _, f := range files {
		name, mode := filepath.Join(home, f.Name), os.FileMode(0o600)
		if bytes.HasPrefix(f.Data, []byte("#!")) {
			mode = 0o700
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, f.Data, mode)); err != nil {
			t.Fatal(err)
		}
	}
	bin := home + "/.local/bin" // man finds the pages of programs that are there
	program, err := os.Readlink(turnusProcess(t).Path)
	if err == nil {
		err = os.MkdirAll(bin, 0o700)
	}
	for _, name := range []string{"turnus", "xdg-open"} {
		if err == nil {
			err = os.Symlink(program, filepath.Join(bin, name))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	checkout, err := filepath.Abs(repo)
	if err != nil {
		t.Fatal(err)
	}
	p := &typist{t: t, home: home, dir: home}
	p.env = append(os.Environ(), "HOME="+home, "TURNUS_STATE="+home+"/state", "TURNUS_SDK="+checkout, "SSH_AUTH_SOCK=", "PATH="+bin+":"+os.Getenv("PATH"))
	t.Cleanup(p.end)
	p.value("2026-12", strconv.Itoa(time.Now().Year()+1)+"-12") // to come, whenever this runs
	for _, folder := range []string{"/etc/turnus", "/var/lib/turnus", "/var/backups/turnus", "/srv/playbooks"} {
		p.value(folder, home+folder)
	}
	return p
}

// value has a placeholder of the help stand for something of this machine.
func (p *typist) value(placeholder, value string) {
	p.values = append([]string{placeholder, value}, p.values...) // the newest wins
}

// filled is a line with the values of its placeholders, which a shell takes as they are.
func (p *typist) filled(line string, shell bool) string {
	values := slices.Clone(p.values)
	for i := 1; shell && i < len(values); i += 2 {
		if strings.ContainsAny(values[i], "?&;*$ ") {
			values[i] = "'" + values[i] + "'"
		}
	}
	return strings.NewReplacer(values...).Replace(line)
}

// types types a row, and returns how it went wrong.
func (p *typist) types(row helpRow) error {
	p.t.Helper()
	line := p.filled(row.line, row.how != "env")
	switch {
	case row.how == "never":
		return nil
	case row.how == "env":
		p.env = append(p.env, os.Expand(line, func(string) string { return p.home }))
		return nil
	case row.how == "in":
		p.dir = filepath.Join(p.home, line)
		return nil
	case row.how == "stop":
		return p.stop()
	case row.how == "until":
		return p.until(line)
	case row.shows != "":
		p.serve(line, row)
		return nil
	}
	code, stdout, all := p.shell(line, row.stdin)
	if code != row.code {
		return fmt.Errorf("%s: exit code %d, expected %d\n%s", line, code, row.code, all)
	}
	if row.how == "is" {
		p.value(row.of, strings.TrimSpace(stdout))
	}
	return nil
}

// until types a line again and again until it succeeds.
func (p *typist) until(line string) error {
	for end := time.Now().Add(2 * time.Minute); ; <-time.After(200 * time.Millisecond) { // the command takes a core meanwhile
		code, _, all := p.shell(line, "")
		switch {
		case code == 0:
			return nil
		case time.Now().After(end):
			return fmt.Errorf("%s: still exit code %d\n%s", line, code, all)
		}
	}
}

func (p *typist) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = p.dir, p.env
	return cmd
}

func (p *typist) shell(line, stdin string) (code int, stdout, all string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute) // of one that hangs
	defer cancel()
	cmd := p.command(ctx, line)
	var out, err bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &err
	began := time.Now()
	failed := cmd.Run()
	p.t.Logf("%5.2fs %s", time.Since(began).Seconds(), line)
	if _, exited := errors.AsType[*exec.ExitError](failed); failed != nil && !exited {
		p.t.Fatalf("%s: %v", line, failed)
	}
	return cmd.ProcessState.ExitCode(), out.String(), out.String() + err.String()
}

// serve types a line that runs until Ctrl-C, and waits until it shows a text.
func (p *typist) serve(line string, row helpRow) {
	p.t.Helper()
	s := testparts.Run(p.t, p.command(context.WithoutCancel(p.t.Context()), "exec "+line))
	p.serving = append(p.serving, serving{s, row})
	s.Wait(p.t, row.shows, func() error {
		if !strings.Contains(s.Log(), row.shows) {
			return fmt.Errorf("%s: no %q yet", line, row.shows)
		}
		return nil
	})
}

// stop types Ctrl-C into the line that serves since it was typed last.
func (p *typist) stop() error {
	p.t.Helper()
	last := p.serving[len(p.serving)-1]
	p.serving = p.serving[:len(p.serving)-1]
	if code := last.Interrupt(p.t); code != last.row.code {
		return fmt.Errorf("%s: %s: exit code %d after Ctrl-C, expected %d\n%s", last.row.place, last.row.line, code, last.row.code, last.Log())
	}
	return nil
}
