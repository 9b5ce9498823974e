package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host/sandbox"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// The traps of reference/plugins.md. Each test also shows that a bystander, another
// plugin with a call under way, is unharmed.

// bystander runs a call in a plugin of its own until the test ends, and then wants it to have gone
// well.
func bystander(t *testing.T, b *bench) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	other := open(t, &fleet{})
	wg.Go(func() {
		out, err := other.Run(ctx, call("wait", labParams{}))
		if err != nil || out.Reason != "as asked" {
			t.Errorf("bystander: %+v, %v", out, err)
		}
	})
	t.Cleanup(func() {
		other.must(t, call("echo", labParams{}))
		cancel()
		wg.Wait()
		_ = b
	})
}

// alive reports whether a process, other than a zombie, has this number.
func alive(pid int) bool {
	if runtime.GOOS == "linux" {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err == nil && !strings.Contains(string(stat), ") Z ")
	}
	return syscall.Kill(pid, 0) == nil
}

func number(t *testing.T, v any) int {
	t.Helper()
	n, err := strconv.Atoi(fmt.Sprint(v))
	if err != nil {
		t.Fatalf("%v is no number: %v", v, err)
	}
	return n
}

func TestTrapMalformedJSONLogsPanicTheWorker(t *testing.T) { // trap 1: go-plugin log_entry.go
	b := open(t, &fleet{})
	bystander(t, b)
	b.must(t, call("badlogs", labParams{}))
	until(t, "the well-formed line is logged", b.log.has("msg=fine"))
	if !strings.Contains(b.log.String(), "level=ERROR msg=fine") || !strings.Contains(b.log.String(), "n=1") {
		t.Error("level and fields of the well-formed line are lost")
	}
}

func TestTrapKillHangsOnAFrozenPlugin(t *testing.T) { // trap 2: Shutdown without a deadline
	b := open(t, &fleet{}, config(func(c *Config) { c.Grace = 200 * time.Millisecond }))
	bystander(t, b)
	pid := int(b.must(t, call("echo", labParams{}))["pid"].(float64))
	freeze(pid)
	if err := b.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if alive(pid) {
		t.Error("the frozen process lives on")
	}
}

// A process that stands still ends its calls, also those without a time limit, and is replaced.
func TestFrozenPluginIsReplacedThoughNoCallHasATimeLimit(t *testing.T) {
	b := open(t, &fleet{}, config(func(c *Config) { c.Grace = 200 * time.Millisecond }))
	b.pool().timing.inspect, b.pool().timing.silence = 20*time.Millisecond, 3*time.Second
	pid := int(b.must(t, call("echo", labParams{}))["pid"].(float64))
	freeze(pid)
	_, err := b.Run(t.Context(), call("echo", labParams{}))
	if !errors.Is(err, core.ErrPluginFailed) || !strings.Contains(err.Error(), "no answer for 3s") {
		t.Errorf("%v, expected ErrPluginFailed with the reason", err)
	}
	until(t, "the frozen process is dead", func() bool { return !alive(pid) })
	if again := int(b.must(t, call("echo", labParams{}))["pid"].(float64)); again == pid {
		t.Error("the frozen process was called again")
	}
}

func TestTrapGrandchildHoldsStderr(t *testing.T) { // trap 3: GP#136
	b := open(t, &fleet{}, config(func(c *Config) { c.Grace = 300 * time.Millisecond }))
	bystander(t, b)
	grandchild := number(t, b.must(t, call("fork", labParams{}))["pid"])
	if !alive(grandchild) {
		t.Fatal("negative control: the grandchild should run now")
	}
	if err := b.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	until(t, "the grandchild is dead", func() bool { return !alive(grandchild) })
}

func TestTrapGrandchildOfACrashedPlugin(t *testing.T) { // traps 3 and 12: orphans, dkron#1496
	b := open(t, &fleet{})
	bystander(t, b)
	grandchild := number(t, b.must(t, call("fork", labParams{}))["pid"])
	if _, err := b.Run(t.Context(), call("exit", labParams{})); !errors.Is(err, core.ErrPluginFailed) {
		t.Errorf("%v, expected ErrPluginFailed", err)
	}
	until(t, "the grandchild is dead", func() bool { return !alive(grandchild) })
}

func TestTrapGraceAbortsCallsInFlight(t *testing.T) { // trap 4: 2 s fixed; here DRAIN waits for the call
	t.Parallel()
	b := open(t, &fleet{}, config(func(c *Config) { c.Grace = 5 * time.Second }))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		out, err := b.Run(ctx, call("wait", labParams{}))
		if err != nil || out.Reason != "as asked" {
			t.Errorf("call in flight: %+v, %v", out, err)
		}
	})
	p := b.pool()
	until(t, "the call runs", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.live) == 1 && p.live[0].calls == 1 })
	p.mu.Lock()
	q := p.live[0]
	p.mu.Unlock()
	wg.Go(func() {
		if err := b.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	<-q.retire
	time.AfterFunc(6*time.Second, cancel) // over Grace, which must be ample for the answer to cancel
	wg.Wait()
}

func TestTrapStartTakesNoContext(t *testing.T) { // trap 5
	b := open(t, &fleet{}, mode("mute"))
	bystander(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	out, err := b.Run(ctx, call("echo", labParams{}))
	if err != nil || !out.TimedOut || out.Effects != EffectsNone {
		t.Errorf("%+v, %v; expected timed out without effects", out, err)
	}
	if err := b.Stop(t.Context()); err != nil { // gives the start up, long before its 20 s
		t.Error(err)
	}
}

func TestTrapHandshakeNeverComes(t *testing.T) { // trap 5
	b := open(t, &fleet{}, mode("mute"))
	b.pool().timing.start = 300 * time.Millisecond
	out, err := b.Run(t.Context(), call("echo", labParams{}))
	if !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "no handshake in time") || out.Effects != EffectsNone {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestTrapEnvironmentIsInherited(t *testing.T) { // trap 6
	t.Setenv("SSH_AUTH_SOCK", "/run/agent")
	t.Setenv("TURNUS_TEST_SECRET", "hunter2")
	var was syscall.Rlimit // the worker may dump; a plugin may not
	if err := syscall.Getrlimit(syscall.RLIMIT_CORE, &was); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{Cur: was.Max, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_CORE, &was) }()
	b := open(t, &fleet{})
	got := b.must(t, call("env", labParams{}))
	allowed := map[string]bool{"PATH": true, "LANG": true, "HOME": true, "TMPDIR": true, wire.HostSocketEnv: true, wire.CookieKey: true}
	for _, v := range got["env"].([]any) {
		name, value, _ := strings.Cut(v.(string), "=")
		if !allowed[name] && !strings.HasPrefix(name, "PLUGIN_") && name != "PWD" {
			t.Errorf("the plugin sees %s", name)
		}
		if name == "HOME" && value == os.Getenv("HOME") {
			t.Error("the plugin's home is the worker's")
		}
	}
	if got["stdin"] != 0.0 || got["stdin_err"] != "<nil>" {
		t.Errorf("stdin: %v bytes, %v; expected it empty", got["stdin"], got["stdin_err"])
	}
	first := got["pid"] // of the group and the session: the process, or the first one of its tree
	if b.tree {
		first = 1.0
	}
	if first != got["group"] {
		t.Errorf("process %v is in group %v, expected one of its own", first, got["group"])
	}
	// A session of its own: no /dev/tty of the operator's, and no joining of another plugin's group,
	// which is what its host services let in.
	if first != got["session"] {
		t.Errorf("process %v is in session %v, expected one of its own", first, got["session"])
	}
	if runtime.GOOS == "linux" && got["core"] != float64(min(1, was.Max)) { // less than any core has; at 0 a collecting program would get one
		t.Errorf("core dumps up to %v bytes", got["core"])
	}
}

func TestTrapChecksumOfAPath(t *testing.T) { // trap 7: what was hashed is what runs
	dir := t.TempDir()
	program := filepath.Join(dir, "plugin")
	script := "#!/bin/sh\necho first >&2\n"
	write(t, program, script, 0o755)
	sum, err := vet(dir, program)
	if err != nil {
		t.Fatal(err)
	}
	f, err := openProgram(program, sum)
	if err != nil {
		t.Fatalf("negative control: %v", err)
	}
	defer func() { _ = f.Close() }()
	write(t, program+".new", "#!/bin/sh\necho second\n", 0o755)
	if err := os.Rename(program+".new", program); err != nil {
		t.Fatal(err)
	}
	if _, err := openProgram(program, sum); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "changed since") {
		t.Errorf("exchanged program: %v, expected it refused", err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	cmd := execFile(f, []string{program}) // exchanged between the hash and the start
	out, err := cmd.CombinedOutput()
	if string(out) != "first\n" {
		t.Errorf("ran %q, %v; expected the file that was hashed", out, err)
	}
}

func TestTrapNoDeathCallback(t *testing.T) { // traps 9 and 13: GP#92, GP#305, dkron#647
	b := open(t, &fleet{})
	bystander(t, b)
	first := b.must(t, call("echo", labParams{}))["pid"]
	if err := syscall.Kill(int(first.(float64)), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the death is noticed without a call", b.log.has("plugin process died"))
	if again := b.must(t, call("echo", labParams{}))["pid"]; again == first {
		t.Error("no new process")
	}
}

func TestTrapPrintingBeforeTheHandshake(t *testing.T) { // traps 10 and 17: GP#164, GP#199
	b := open(t, &fleet{}, mode("early"))
	bystander(t, b)
	b.must(t, call("echo", labParams{}))
	if !strings.Contains(b.log.String(), "hello from main") {
		t.Error("what was printed is lost")
	}
}

// Red with the whole line passed on: go-plugin panics, and with it the worker.
func TestTrapCertificateInTheHandshake(t *testing.T) {
	b := open(t, &fleet{}, mode("certified"))
	bystander(t, b)
	b.must(t, call("echo", labParams{}))
}

func TestTrapFloodBeforeTheHandshake(t *testing.T) { // trap 10
	b := open(t, &fleet{}, mode("deluge"))
	_, err := b.Run(t.Context(), call("echo", labParams{}))
	if !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), `"noise"`) {
		t.Errorf("%v; expected an error that shows the obstacle", err)
	}
}

func TestTrapLongStdoutLineStopsTheScanner(t *testing.T) { // trap 10: later a line over 64 KiB
	b := open(t, &fleet{})
	bystander(t, b)
	b.must(t, call("noise", labParams{N: 20}))
	b.must(t, call("echo", labParams{}))
	if n := len(b.log.String()); n > 2<<20 {
		t.Errorf("the log has %d bytes: lines are not cut", n)
	}
}

func TestTrapPrintlnBlocks(t *testing.T) { // go-plugin redirects os.Stdout to a pipe that somebody must read
	b := open(t, &fleet{})
	b.must(t, call("println", labParams{N: 1000}))
	until(t, "it is logged", func() bool {
		return strings.Contains(b.log.String(), "yyyy") && strings.Contains(b.log.String(), "zzzz")
	})
}

func TestTrapFloodOfOutput(t *testing.T) { // a slow sink holds the plugin back; nothing piles up
	b := open(t, &fleet{})
	bystander(t, b)
	live := func() uint64 { // garbage does not count
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := live()
	c := call("flood", labParams{N: 1600}) // 100 MiB
	var most uint64
	n := 0
	c.Sink = func(e Event) {
		n += len(e.Stdout)
		if n%(8<<20) == 0 {
			most = max(most, live())
		}
	}
	b.must(t, c)
	if n != 1600*wire.ChunkSize {
		t.Errorf("%d bytes came", n)
	}
	if grown := int64(most) - int64(before); grown > 32<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}

func TestTrapOrphansOutliveTheWorker(t *testing.T) { // trap 12: the parent-death signal follows the thread, golang/go#27505
	if runtime.GOOS != "linux" {
		return // there is no such signal; see isolate
	}
	b := open(t, &fleet{})
	first := b.must(t, call("echo", labParams{}))["pid"]
	// Threads come and go; the process must not die with one of them.
	for range 50 {
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			runtime.LockOSThread() // never unlocked: the thread ends
		}()
		<-gone
	}
	if again := b.must(t, call("echo", labParams{}))["pid"]; again != first {
		t.Error("the process died with a thread of the worker")
	}
}

func TestTrapWorkerIsKilled(t *testing.T) { // trap 12: dkron#1496
	if runtime.GOOS != "linux" {
		return // there is no such signal; see isolate
	}
	for _, mode := range []sandbox.Mode{sandbox.Off, sandbox.Auto} {
		t.Run(string(mode), func(t *testing.T) { killWorker(t, mode) })
	}
}

func killWorker(t *testing.T, mode sandbox.Mode) {
	t.Helper()
	worker := exec.Command(self(t), "worker", string(mode))
	worker.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // nobody cleans up after it
	stdin, err := worker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	pid := number(t, strings.TrimSpace(line))
	if err != nil || !alive(pid) {
		t.Fatalf("negative control: plugin %d should run: %v", pid, err)
	}
	_ = worker.Process.Kill()
	_ = worker.Wait()
	until(t, "the plugin of a killed worker is dead", func() bool { return !alive(pid) })
}

func TestTrapStrangersUseTheSocket(t *testing.T) { // trap 14, turned round: only the plugin may connect
	b := open(t, &fleet{})
	b.must(t, call("echo", labParams{}))
	b.pool().mu.Lock()
	socket := filepath.Join(b.pool().live[0].dir, "h")
	b.pool().mu.Unlock()
	info, err := os.Stat(filepath.Dir(socket))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder of the socket: %v, %v; expected 0700", info.Mode(), err)
	}
	if runtime.GOOS != "linux" {
		return
	}
	conn, err := net.Dial("unix", socket) // our user, but not the plugin's group
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(deadline))
	if n, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d bytes, %v; expected the connection closed", n, err)
	}
	until(t, "it is logged", b.log.has("connection to host services refused"))
}

func TestTrapBigUploads(t *testing.T) { // traps 11 and 15: tflint#2544, packer#5360: no broker, no yamux
	b := open(t, &fleet{})
	got := b.must(t, call("op", labParams{Op: "put", Path: "/big", N: 1600}))
	if got["code"] != "OK" || got["text"] != fmt.Sprint(1600*wire.ChunkSize) {
		t.Errorf("100 MiB: %v", got)
	}
}

func TestTrapHalfLoadedPlugins(t *testing.T) { // trap 18: all or nothing, all errors together
	dir := t.TempDir()
	good, bad := labManifest(), labManifest()
	good.Name, bad.Name = "good", "bad"
	bad.Protocol = 9
	plant(t, dir, good)
	plant(t, dir, bad)
	ugly := plant(t, dir, Manifest{Name: "ugly", Version: "1"})
	write(t, filepath.Join(ugly, "manifest.json"), "{", 0o644)
	sockets := t.TempDir()
	_, err := New(Config{Dirs: []string{dir}, Socket: sockets})
	for _, want := range []string{"protocol 9", filepath.Join("ugly", "1", "manifest.json")} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; expected it to name %q", err, want)
		}
	}
	if left, _ := os.ReadDir(sockets); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestTrapPluginListensElsewhere(t *testing.T) {
	for _, m := range []string{"tcp", "elsewhere"} {
		b := open(t, &fleet{}, mode(m))
		if _, err := b.Run(t.Context(), call("echo", labParams{})); err == nil || !strings.Contains(err.Error(), "listens on") {
			t.Errorf("%s: %v", m, err)
		}
	}
}

// A plugin that answers the handshake with a link to another socket of the worker's user has the
// worker talk to that, with all that a call carries. Red with the address taken as it is: the
// victim is connected to.
func TestFaultS14HandshakeSocketIsNoLink(t *testing.T) {
	victim, err := net.Listen("unix", filepath.Join(t.TempDir(), "victim"))
	if err != nil {
		t.Fatal(err)
	}
	var met atomic.Int64
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := victim.Accept()
			if err != nil {
				return
			}
			met.Add(1)
			_ = c.Close()
		}
	}()
	b := open(t, &fleet{}, mode("planted:"+victim.Addr().String()))
	if _, err := b.Run(t.Context(), call("echo", labParams{})); err == nil || !strings.Contains(err.Error(), "not a link to one") {
		t.Errorf("%v; expected the link to be refused", err)
	}
	if n := met.Load(); n > 0 {
		t.Errorf("the worker connected to another's socket %d times", n)
	}
	link := filepath.Join(t.TempDir(), "link") // the control: a client that takes the address as it is connects to the victim
	err = os.Symlink(victim.Addr().String(), link)
	if err == nil {
		var c net.Conn
		if c, err = net.Dial("unix", link); err == nil {
			_, err = c.Read(make([]byte, 1)) // until the victim has closed it
			_ = c.Close()
		}
	}
	if n := met.Load(); n != 1 {
		t.Errorf("negative control: %d connections, %v", n, err)
	}
	_ = victim.Close()
	<-served
}
