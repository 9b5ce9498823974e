package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/turnus/turnus/core/testparts"
)

// The test binary runs itself as the hostile program: "BINARY attack NAME TARGET…". It exits with 0 when it got what it came for.
func TestMain(m *testing.M) {
	Enter()
	if len(os.Args) > 2 && os.Args[1] == "attack" {
		if err := attacks[os.Args[2]].do(os.Args[3:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

const secret = "hunter2"

// attack is what hostile code of a plugin tries.
type attack struct {
	prepare func(t *testing.T, s *scene) []string // what is to be reached; the arguments of do
	do      func(targets []string) error          // nil: it was reached
	reached func(t *testing.T, s *scene) bool     // seen from outside, after do said nil; nil: what do says counts

	needs func(level) bool // where the kernel's other means do not hold it; nil: all do
	root  bool             // only root can do it at all
	limit bool             // it is about bounds
	every bool             // tried at every level; else only at the first and the last, which lean on different means
}

// scene is a machine with a worker on it.
type scene struct {
	dir     string // the worker's
	private string // of the process
	plugin  string // folder of the plugin
	mark    string
}

func own(l level) bool  { return l.Mount }
func tree(l level) bool { return l.PID }

var attacks map[string]attack

func init() { // the table refers to functions that refer to it
	attacks = map[string]attack{
		"open a TCP connection":         {prepare: tcpTarget, do: dialAttack("tcp")},
		"send a datagram, as DNS does":  {prepare: udpTarget, do: dialAttack("udp")},
		"read keys and tokens":          {prepare: keyTargets, do: readAttack},
		"use another plugin's socket":   {prepare: socketTarget("other/h"), do: dialAttack("unix"), needs: own},
		"use the SSH agent":             {prepare: socketTarget("agent.1"), do: dialAttack("unix"), needs: own},
		"use an abstract socket":        {prepare: abstractTarget, do: dialAttack("unix")},
		"read another environment":      {prepare: victim, do: environAttack, every: true},
		"trace another process":         {prepare: victim, do: traceAttack},
		"kill another process":          {prepare: victim, do: killAttack, every: true},
		"change its limits":             {prepare: victim, do: limitAttack},
		"slow another process down":     {prepare: victim, do: slowAttack, every: true},
		"map another's shared memory":   {prepare: sharedTarget, do: sharedAttack, every: true},
		"empty a file":                  {prepare: emptyTargets, do: emptyAttack},
		"replace a program":             {prepare: programTarget, do: replaceAttack},
		"plant a file for cron":         {prepare: folderTarget, do: plantAttack},
		"open a guarded file to others": {prepare: keyTargets, do: modeAttack, every: true},
		"link a key into its folder":    {prepare: keyTargets, do: linkAttack},
		"put a link in its place":       {prepare: folderTarget, do: swapAttack},
		"find an inherited file":        {prepare: inheritedTarget, do: inheritedAttack},
		"outlive the job":               {prepare: markTarget, do: outliveAttack, reached: outlived, needs: tree},
		"become root in a namespace":    {do: namespaceAttack},
		"change the kernel's settings":  {do: settingAttack, root: true, every: true},
		"mount a file system":           {do: mountAttack, root: true, every: true},
		"fork without end":              {do: forkAttack, limit: true, needs: func(l level) bool { return l.User && (os.Geteuid() != 0 || l.PID && ownNumbers()) }},
		"take all memory":               {do: memoryAttack, limit: true, needs: func(level) bool { return bounded }},
	}
}

// Bounds of the process under test.
const (
	testMemory = 1 << 30
	testTasks  = 320 // the least that may be set is 301
)

// TestAttacks tries each attack at each level that the kernel gives. Without the sandbox it must succeed, or it proves nothing.
func TestAttacks(t *testing.T) {
	for name, a := range attacks {
		if a.root && os.Geteuid() != 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if a.needs == nil || !a.limit || a.needs(levels()[0]) { // what cannot be bounded here at all is not let loose
				s := newScene(t)
				if out, err := s.attack(t, nil, name, a); err != nil {
					t.Fatalf("negative control: without the sandbox it should succeed: %v: %s", err, out)
				}
			}
			all := available(t)
			for i, l := range all {
				if a.needs != nil && !a.needs(l) || !a.every && i > 0 && i < len(all)-1 {
					continue
				}
				m := means{level: l, landlock: landlockABI()}
				s := newScene(t)
				if out, err := s.attack(t, sandboxOf(m), name, a); err == nil {
					t.Errorf("%+v: it succeeded", l)
				} else if strings.Contains(out, "sandbox:") {
					t.Errorf("%+v: it did not begin: %s", l, out)
				}
			}
		})
	}
}

// TestOldLandlock is a kernel before Linux 6.2, whose Landlock does not know of emptying files, where nothing else guards them.
func TestOldLandlock(t *testing.T) {
	const name = "empty a file"
	if landlockABI() == 0 {
		testparts.Able(t, "Landlock for a sandbox", errors.New("the kernel has none"))
	}
	if out, err := newScene(t).attack(t, nil, name, attacks[name]); err != nil {
		t.Fatalf("negative control: without the sandbox it should succeed: %v: %s", err, out)
	}
	m := means{landlock: min(2, landlockABI())}
	if out, err := newScene(t).attack(t, sandboxOf(m), name, attacks[name]); err == nil {
		t.Error("it succeeded")
	} else if strings.Contains(out, "sandbox:") {
		t.Errorf("it did not begin: %s", out)
	}
}

// TestAttacksByAnotherUser is the same for a worker that is not root, with root's machine around it.
func TestAttacksByAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // TestAttacks was that
	}
	dir, err := os.MkdirTemp("", "nobody") //nolint:usetesting // every folder above must let the user in
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary := filepath.Join(dir, "test")
	raw, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = errors.Join(os.WriteFile(binary, raw, 0o755), os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(dir, "tmp"), 0o755), os.Chown(filepath.Join(dir, "tmp"), 65534, 65534))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^(TestAttacks|TestOldLandlock|TestGoodProgramsWork)$", "-test.v")
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "CI=" + os.Getenv("CI"), "TMPDIR=" + filepath.Join(dir, "tmp")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if n := strings.Count(string(out), "--- PASS: TestAttacks/"); err != nil || n < 15 {
		t.Errorf("%v, %d attacks held off:\n%s", err, n, out)
	}
}

// available are the levels that work here. Where the first does not, the test says so.
func available(t *testing.T) []level {
	t.Helper()
	all, err := tried()
	testparts.Able(t, "namespaces for a sandbox", err)
	if landlockABI() == 0 {
		testparts.Able(t, "Landlock for a sandbox", errors.New("the kernel has none"))
	}
	return all
}

// tried are the levels that work, and why the first does not.
var tried = sync.OnceValues(func() (all []level, first error) {
	for i, l := range levels() {
		err := means{level: l, landlock: landlockABI()}.try()
		if i == 0 {
			first = err
		}
		if err == nil {
			all = append(all, l)
		}
	}
	return all, first
})

func sandboxOf(m means) *Sandbox {
	return &Sandbox{memory: testMemory, processes: testTasks, found: func() (means, error) { return m, nil }}
}

func newScene(t *testing.T) *scene {
	t.Helper()
	dir := t.TempDir()
	s := &scene{dir: dir, private: filepath.Join(dir, "private"), plugin: filepath.Join(dir, "plugins", "p"), mark: fmt.Sprintf("98765.%d", time.Now().UnixNano())}
	for _, folder := range []string{s.private, s.plugin, filepath.Join(dir, "other"), filepath.Join(dir, "cron.d")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// attack runs the hostile program; nil is that it got what it came for.
func (s *scene) attack(t *testing.T, box *Sandbox, name string, a attack) (string, error) {
	t.Helper()
	argv := []string{selfPath(t), "attack", name}
	if a.prepare != nil {
		argv = append(argv, a.prepare(t, s)...)
	}
	out, err := s.run(t, box, selfPath(t), argv)
	if err == nil && a.reached != nil && !a.reached(t, s) {
		err = errors.New("not seen from outside")
	}
	return out, err
}

// run starts a program as a plugin's process is started.
func (s *scene) run(t *testing.T, box *Sandbox, path string, argv []string) (string, error) {
	t.Helper()
	program, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	env := []string{"PATH=/usr/bin:/bin", "TMPDIR=" + s.private}
	cmd := &exec.Cmd{Path: "/proc/self/fd/3", Args: argv, Env: env, ExtraFiles: []*os.File{program}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	confined, err := box.Confine(program, argv, env, Profile{Dir: s.private, Read: []string{s.plugin}})
	if err != nil {
		t.Fatal(err)
	}
	if confined != nil {
		defer func() { _ = confined.Close() }()
		cmd = confined.Command()
	}
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.private, &out, &out
	cmd.WaitDelay = time.Second
	runtime.LockOSThread() // its death would be the process's
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	return out.String(), err
}

func selfPath(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// What is to be reached.

func greet(t *testing.T, l net.Listener) {
	t.Helper()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "hello")
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	greet(t, l)
	return l
}

func tcpTarget(t *testing.T, _ *scene) []string {
	t.Helper()
	return []string{listen(t, "tcp", "127.0.0.1:0").Addr().String()}
}

func udpTarget(t *testing.T, _ *scene) []string {
	t.Helper()
	c, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		b := make([]byte, 64)
		for {
			_, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = c.WriteTo([]byte("hello"), from)
		}
	}()
	return []string{c.LocalAddr().String()}
}

func socketTarget(name string) func(*testing.T, *scene) []string {
	return func(t *testing.T, s *scene) []string {
		t.Helper()
		dir, err := os.MkdirTemp("", "s") //nolint:usetesting // a socket's path is short
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		path := filepath.Join(dir, filepath.Base(name))
		return []string{listen(t, "unix", path).Addr().String()}
	}
}

func abstractTarget(t *testing.T, s *scene) []string {
	t.Helper()
	return []string{listen(t, "unix", "@turnus-"+s.mark).Addr().String()}
}

func keyTargets(t *testing.T, s *scene) []string {
	t.Helper()
	var all []string
	for _, name := range []string{"id_ed25519", "known_hosts", "data/admin.token", "data/ledger.db", "other/secret"} {
		path := filepath.Join(s.dir, name)
		put(t, path, 0o600)
		all = append(all, path)
	}
	return all
}

func put(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(secret), mode)); err != nil {
		t.Fatal(err)
	}
}

func programTarget(t *testing.T, s *scene) []string {
	t.Helper()
	mine, other := filepath.Join(s.plugin, "plugin"), filepath.Join(s.dir, "plugins", "other")
	put(t, mine, 0o700)
	put(t, other, 0o700)
	return []string{mine, other}
}

// emptyTargets are files of the worker, and one that the program may read.
func emptyTargets(t *testing.T, s *scene) []string {
	t.Helper()
	return append(keyTargets(t, s), programTarget(t, s)...)
}

// sharedTarget is System V memory of this user, which has a number and no path.
func sharedTarget(t *testing.T, _ *scene) []string {
	t.Helper()
	id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	b, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	copy(b, secret)
	if err := unix.SysvShmDetach(b); err != nil {
		t.Fatal(err)
	}
	return []string{strconv.Itoa(id)}
}

func folderTarget(t *testing.T, s *scene) []string {
	t.Helper()
	return []string{filepath.Join(s.dir, "cron.d"), s.private}
}

func markTarget(_ *testing.T, s *scene) []string { return []string{s.mark} }

// victim is another process of the worker's user, which lets anybody trace it as far as it can say so.
func victim(t *testing.T, s *scene) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sleep", "600")
	cmd.Env = []string{"SECRET=" + secret}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return []string{strconv.Itoa(cmd.Process.Pid)}
}

// inheritedTarget is a file that the worker, or a library of its own, forgot to keep from its children.
func inheritedTarget(t *testing.T, s *scene) []string {
	t.Helper()
	path := filepath.Join(s.dir, "forgotten")
	put(t, path, 0o600)
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return nil
}

func outlived(t *testing.T, s *scene) bool {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); time.Since(begin) < 300*time.Millisecond; <-tick.C { // a process that ends takes a moment
		if marked(s.mark) == 0 {
			return false
		}
	}
	if pid := marked(s.mark); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return true
}

// marked finds the process with the mark in its arguments.
func marked(mark string) int {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if args, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")); strings.HasPrefix(string(args), "/bin/sleep\x00"+mark) {
			return pid
		}
	}
	return 0
}

// What hostile code does.

func dialAttack(network string) func([]string) error {
	return func(targets []string) error {
		c, err := net.DialTimeout(network, targets[0], 5*time.Second)
		if err != nil {
			return err
		}
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		if network == "udp" {
			if _, err := c.Write([]byte("?")); err != nil {
				return err
			}
		}
		b := make([]byte, 5)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
			return fmt.Errorf("%q, %w", b, err)
		}
		return nil
	}
}

// firstOf is nil when one of them went well.
func firstOf(targets []string, try func(string) error) (err error) {
	for _, target := range targets {
		one := try(target)
		if one == nil {
			return nil
		}
		err = errors.Join(err, one)
	}
	return err
}

func readAttack(targets []string) error {
	return firstOf(targets, func(path string) error { _, err := os.ReadFile(path); return err })
}

func modeAttack(targets []string) error {
	return firstOf(targets, func(path string) error { return os.Chmod(path, 0o666) })
}

func linkAttack(targets []string) error {
	return firstOf(targets, func(path string) error {
		name := filepath.Join(os.Getenv("TMPDIR"), filepath.Base(path))
		if os.Link(path, name) != nil {
			if err := os.Symlink(path, name); err != nil {
				return err
			}
		}
		_, err := os.ReadFile(name)
		return err
	})
}

func replaceAttack(targets []string) error {
	return firstOf(targets, func(path string) error {
		if os.WriteFile(path, []byte("evil"), 0) == nil || os.Remove(path) == nil {
			return nil
		}
		return os.Rename(path, path+".old")
	})
}

func emptyAttack(targets []string) error {
	return firstOf(targets, func(path string) error {
		if unix.Truncate(path, 0) == nil {
			return nil
		}
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_TRUNC, 0) // the right to read may do
		if err == nil {
			_ = unix.Close(fd)
		}
		return err
	})
}

func sharedAttack(targets []string) error {
	b, err := unix.SysvShmAttach(number(targets), 0, unix.SHM_RDONLY)
	if err == nil && string(b[:len(secret)]) != secret {
		err = errors.New("another one")
	}
	return err
}

func slowAttack(targets []string) error {
	var one unix.CPUSet
	one.Set(0)
	if unix.Setpriority(unix.PRIO_PROCESS, number(targets), 19) == nil {
		return nil
	}
	return unix.SchedSetaffinity(number(targets), &one)
}

func plantAttack(targets []string) error {
	return os.WriteFile(filepath.Join(targets[0], "evil"), []byte("* * * * * root evil\n"), 0o600)
}

// swapAttack puts a link where the worker will clean up: what it leads to would go.
func swapAttack(targets []string) error {
	if err := os.Rename(targets[1], targets[1]+".old"); err != nil {
		return err
	}
	return os.Symlink(targets[0], targets[1])
}

// environAttack looks at the process that it is told, and at all that it finds.
func environAttack(targets []string) error {
	found, _ := filepath.Glob("/proc/[0-9]*/environ")
	return firstOf(append(found, "/proc/"+targets[0]+"/environ"), func(path string) error {
		raw, err := os.ReadFile(path)
		if err == nil && !bytes.Contains(raw, []byte(secret)) {
			err = errors.New("another one")
		}
		return err
	})
}

func number(targets []string) int {
	pid, _ := strconv.Atoi(targets[0])
	return pid
}

func traceAttack(targets []string) error {
	runtime.LockOSThread()
	if err := syscall.PtraceAttach(number(targets)); err == nil {
		return nil
	}
	// Where only a parent may trace, there is one.
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	return cmd.Start() //nolint:wrapcheck // of a test
}

func killAttack(targets []string) error {
	return syscall.Kill(number(targets), syscall.SIGKILL)
}

func limitAttack(targets []string) error {
	return unix.Prlimit(number(targets), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 4, Max: 4}, nil)
}

func inheritedAttack([]string) error {
	found, _ := filepath.Glob("/proc/self/fd/*")
	all, _ := filepath.Glob("/proc/1/fd/*")
	return firstOf(append(found, all...), func(path string) error {
		fd, err := strconv.Atoi(filepath.Base(path))
		if err != nil || fd < 3 {
			return errors.New("a standard file")
		}
		b := make([]byte, len(secret))
		var n int
		if strings.HasPrefix(path, "/proc/self") {
			n, err = unix.Pread(fd, b, 0)
		} else {
			var raw []byte
			raw, err = os.ReadFile(path)
			n = copy(b, raw)
		}
		if err == nil && string(b[:n]) != secret {
			err = errors.New("another file")
		}
		return err
	})
}

func outliveAttack(targets []string) error {
	cmd := exec.Command("/bin/sleep", targets[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start() // nobody waits for it: it becomes the child of the first process
}

func namespaceAttack([]string) error {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	return cmd.Run()
}

func settingAttack([]string) error {
	f, err := os.OpenFile("/proc/sys/kernel/core_pattern", os.O_WRONLY, 0)
	if err == nil {
		_ = f.Close()
	}
	return err
}

func mountAttack([]string) error {
	at := os.Getenv("TMPDIR")
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, ""); err != nil {
		return err
	}
	return unix.Unmount(at, unix.MNT_DETACH)
}

// forkAttack makes threads, which count as processes do. A program that gets no more of them dies of it.
func forkAttack([]string) error {
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		return err
	}
	var started sync.WaitGroup
	for range testTasks + 50 {
		started.Add(1)
		go func() {
			runtime.LockOSThread()
			started.Done()
			_, _ = syscall.Read(fds[0], make([]byte, 1)) // the thread waits in the kernel, and is no other goroutine's
		}()
	}
	started.Wait()
	return nil
}

func memoryAttack([]string) error {
	const size = testMemory + 64<<20
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	b[0], b[size-1] = 1, 1 // what is reserved is what is bounded: no need to use it all
	return nil
}
