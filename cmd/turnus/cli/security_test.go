package cli

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/turnus/turnus/core/testparts"
)

// Commands that start a plugin only to ask it give it no network. The attack is a program in place
// of a plugin that connects to a listener of this machine; the control is the same program without
// a sandbox.
func TestPluginsThatAreOnlyAskedHaveNoNetwork(t *testing.T) {
	bash := testparts.Need(t, "bash", "bash")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var reached atomic.Int32
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			_ = conn.Close() // the program waits for this
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-accepting
	})
	const script = `#!%s
if (exec 3<>/dev/tcp/127.0.0.1/%d && cat <&3) 2>/dev/null; then echo connected >&2; else echo no network here >&2; fi
exit 1
`
	dir := t.TempDir()
	program := filepath.Join(dir, "snoop", "1.0.0", "plugin")
	playbook := filepath.Join(dir, "p.yaml")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		program:  fmt.Sprintf(script, bash, listener.Addr().(*net.TCPAddr).Port),
		playbook: "playbook: p\ntargets: true\nsteps: [{uses: snoop, with: {}}]\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if out, _ := exec.CommandContext(t.Context(), program).CombinedOutput(); reached.Load() != 1 || !strings.Contains(string(out), "connected") {
		t.Fatalf("the control shows nothing: %d connections, %s", reached.Load(), out)
	}
	reached.Store(0)
	for _, args := range [][]string{
		{"plugins", "docs", "--program", program},
		{"plugins", "docs", "--plugins", dir},
		{"plugins", "ls", "--plugins", dir},
		{"plugins", "install", filepath.Dir(program), "--plugins", filepath.Join(dir, "installed")},
		{"plugins", "lock", "--plugins", dir},
		{"validate", playbook, "--plugins", dir},
		{"plan", playbook, "--plugins", dir, "-i", "localhost,"},
	} {
		var out bytes.Buffer
		code := Main(args, strings.NewReader(""), &out, &out)
		if n := reached.Swap(0); n != 0 || code == 0 || !strings.Contains(out.String(), "no network here") {
			t.Errorf("turnus %s: exit code %d, %d connections: expected a program that started, and none\n%s", strings.Join(args, " "), code, n, out.String())
		}
	}
}
