package fleet

import (
	"go/parser"
	"go/token"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core/testparts"
)

const planted = "planted-secret"

// prey holds what a script must not reach: a folder of this machine, a variable, a process.
type prey struct {
	dir    string
	victim *exec.Cmd
	gone   chan error // the victim's end
}

func lay(t *testing.T) *prey {
	t.Helper()
	p := &prey{dir: t.TempDir(), victim: exec.Command("sleep", "1000"), gone: make(chan error, 1)}
	for name, text := range map[string]string{"file": planted + "\n", "script": "#!/bin/sh\necho " + planted + "\n"} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.victim.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.gone <- p.victim.Wait() }()
	t.Cleanup(func() {
		_ = p.victim.Process.Kill() // it may have ended
		<-p.gone
	})
	return p
}

// touched returns what of the prey has changed.
func (p *prey) touched(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(p.dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(p.dir, "file"))
	switch {
	case len(names) != 2:
		return "files: " + strings.Join(names, " ")
	case err != nil || string(text) != planted+"\n":
		return "the file: " + string(text)
	}
	return ""
}

// A script reaches its host alone. Each of these reaches something here when dash runs it.
func TestScriptsDoNotReachThisMachine(t *testing.T) {
	dash := testparts.Need(t, "dash", "dash")
	t.Setenv("TURNUS_PREY", planted)
	nobody, err := user.Lookup("daemon")
	if err != nil {
		t.Fatal(err) // every system has daemon: without it the control shows nothing
	}
	parent := "<" + strconv.Itoa(os.Getpid()) + ">"
	f := start(t, Config{Hosts: 1})
	for _, script := range []string{
		"cat DIR/file", "cat <DIR/file", "read x <DIR/file; echo $x", "echo $(cat DIR/file)", "cd DIR && cat file",
		"cat <<E\n$(cat DIR/file)\nE", "eval 'cat DIR/file'", "trap 'cat DIR/file' EXIT", "cp DIR/file DIR/copy", "grep planted DIR/file",
		"f() { cat DIR/file; }; f", "(cat DIR/file) & wait", "cat DIR/file | cat", "exec cat DIR/file", "head -n 1 DIR/file",
		"[ -f DIR/file ] && echo planted-secret", "test -x DIR/script && echo planted-secret", "cd DIR && echo planted-secret",
		"for x in DIR/f*; do [ \"$x\" = 'DIR/f*' ] || echo planted-secret; done", "ls DIR/file && echo planted-secret",
		"echo x >DIR/file", "echo x >>DIR/file", "echo x >DIR/new", ": >|DIR/new", "exec 2>DIR/new", "echo x | tee DIR/new", "touch DIR/new",
		"mkdir DIR/new", "rm DIR/file", "rm -rf DIR", "mv DIR/file DIR/new", "truncate -s 0 DIR/file", "cat >DIR/new <<E\nx\nE",
		"ln -s DIR/file /tmp/prey; cat /tmp/prey; rm -f /tmp/prey", "cd DIR && ln file l && cat l", "find DIR -name file -exec cat {} \\;", "sed -n p DIR/file",
		"printf 'DIR/file\\0' | xargs -0 cat", "exec 7<DIR/file; cat <&7", "exec 7>DIR/new; echo x >&7", "exec 7<DIR; cat /proc/self/fd/7/file", "umask 0; mkdir DIR/new",
		"DIR/script", "sh DIR/script", ". DIR/script", "exec DIR/script", "PATH=DIR; script", "/bin/sh -c DIR/script", "env DIR/script",
		"PATH=DIR; command -v script && echo planted-secret", "timeout 5 DIR/script", "nohup DIR/script", "sh <DIR/script",
		"echo $TURNUS_PREY", "env", "printenv TURNUS_PREY", "sh -c 'echo ${TURNUS_PREY}'", "export TURNUS_PREY; env", "set",
		"kill VICTIM", "kill -9 VICTIM", "kill -0 VICTIM && echo planted-secret", "sh -c 'kill -TERM VICTIM'", "echo \"<$PPID>\"", "grep -z PREY /proc/self/environ",
		"echo ~daemon", "x=~daemon; echo $x", "case ~daemon in USERHOME) echo planted-secret;; esac",
	} {
		try := func(run func(script string) string) string {
			p := lay(t)
			out := run(strings.NewReplacer("DIR", p.dir, "VICTIM", strconv.Itoa(p.victim.Process.Pid), "USERHOME", nobody.HomeDir).Replace(script))
			for _, secret := range []string{planted, parent, nobody.HomeDir + "\n"} {
				if strings.Contains(out, secret) {
					return "it shows " + secret
				}
			}
			if strings.Contains(script, "kill") {
				// A signal that was sent has ended the victim before this one does, which no shell has its
				// jobs ignore.
				_ = p.victim.Process.Signal(syscall.SIGUSR1)
				err := <-p.gone
				p.gone <- err
				if err == nil || err.Error() != "signal: user defined signal 1" {
					return "the process ended: " + err.Error()
				}
			}
			return p.touched(t)
		}
		if got := try(func(s string) string { out, _, _ := interpret(t, f.hosts[0], s, ""); return out }); got != "" {
			t.Errorf("%s: %s", script, got)
		}
		if try(func(s string) string { out, _ := exec.Command(dash, "-c", s).Output(); return string(out) }) == "" {
			t.Errorf("%s: dash reaches nothing either, so this shows nothing", script)
		}
	}
}

// Nor does a script open connections, as bash does for redirections from /dev/tcp.
func TestScriptsDoNotConnect(t *testing.T) {
	bash := testparts.Need(t, "bash", "bash")
	f := start(t, Config{Hosts: 1})
	connects := func(run func(script string)) bool {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		run("echo x >/dev/tcp/" + strings.ReplaceAll(l.Addr().String(), ":", "/"))
		ours, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ours.Close() }()
		first, err := l.Accept() // who came before us is accepted before us
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = first.Close() }()
		return first.RemoteAddr().String() != ours.LocalAddr().String()
	}
	if connects(func(s string) { interpret(t, f.hosts[0], s, "") }) {
		t.Error("the script connected")
	}
	if !connects(func(s string) { _ = exec.Command(bash, "-c", s).Run() }) {
		t.Error("bash does not connect either, so this shows nothing")
	}
}

// Packages that start processes, and the interpreter that asks the machine for its files, users and
// process ids, have no place here: see DECISIONS.md.
func TestNothingHereCanStartAProcess(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	inTests := false
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			switch i.Path.Value {
			case `"os/exec"`, `"mvdan.cc/sh/v3/interp"`:
				if strings.HasSuffix(name, "_test.go") {
					inTests = true
				} else {
					t.Errorf("%s imports %s", name, i.Path.Value)
				}
			}
		}
	}
	if !inTests {
		t.Error("not even the tests import os/exec, so this notices nothing")
	}
}
