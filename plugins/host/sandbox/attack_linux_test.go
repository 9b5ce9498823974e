package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/turnus/turnus/core/testparts"
)

// The test binary runs itself as the hostile program: "BINARY attack NAME TARGET…". It exits with 0
// when it got what it came for.
func TestMain(m *testing.M) {
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

// attack is an attempt of hostile code of a plugin.
type attack struct {
	prepare func(t *testing.T, s *scene) []string // the target; the arguments of do
	do      func(targets []string) error          // nil: it was reached
	reached func(t *testing.T, s *scene) bool     // seen from outside, after do returned nil; nil: the error of do counts

	needs func(level) bool // where the kernel's other means do not hold it; nil: all do
	root  bool             // only root can do it at all
	user  bool             // root has it already
	limit bool             // it is about bounds
	open  bool             // it has no bound, as in docs/security.md
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
		"read another's message queue":  {prepare: messageTarget, do: messageAttack, every: true},
		"change another's semaphore":    {prepare: semaphoreTarget, do: semaphoreAttack, every: true},
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
		"read a file of another user":   {prepare: foreignTarget, do: readAttack, root: true, every: true},
		"run a setuid program":          {do: setuidAttack, user: true, every: true},
		"fork without end":              {do: forkAttack, limit: true, needs: func(l level) bool { return l.User && (os.Geteuid() != 0 || l.PID && ownNumbers()) }},
		"open files without end":        {do: filesAttack, limit: true, needs: func(level) bool { return hardLimit(unix.RLIMIT_NOFILE) > maxFiles }},
		"leave a core":                  {do: coreAttack, limit: true, needs: func(level) bool { return hardLimit(unix.RLIMIT_CORE) > 1 }},
		"take memory that is shared":    {do: sharedMemoryAttack, open: true},
		"take all memory":               {do: memoryAttack, limit: true, needs: func(level) bool { return bounded }},
	}
}

// Bounds of the process under test.
const (
	testMemory = 1 << 30
	testTasks  = 320 // the least that may be set is 301
)

// TestAttacks tries each attack at each level that the kernel gives. Without the sandbox it must
// succeed, or it proves nothing.
func TestAttacks(t *testing.T) {
	for name, a := range attacks {
		if a.root && os.Geteuid() != 0 || a.user && os.Geteuid() == 0 {
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
				out, err := s.attack(t, sandboxOf(m), name, a)
				switch {
				case a.open:
					if err != nil {
						t.Errorf("%+v: it failed: %v: %s; docs/security.md lists it as not bounded", l, err, out)
					}
				case err == nil:
					t.Errorf("%+v: it succeeded", l)
				case strings.Contains(out, "sandbox:"):
					t.Errorf("%+v: it did not begin: %s", l, out)
				}
			}
		})
	}
}

// TestOldLandlock is a kernel before Linux 6.2, whose Landlock does not know of emptying files,
// where nothing else guards them.
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

// TestAttacksByAnotherUser is the same for a worker that is not root, with root's machine around
// it.
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
	cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "CI=" + os.Getenv("CI"), "TMPDIR=" + filepath.Join(dir, "tmp"), "GORACE=" + os.Getenv("GORACE")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if n := strings.Count(string(out), "--- PASS: TestAttacks/"); err != nil || n < 15 {
		t.Errorf("%v, %d attacks held off:\n%s", err, n, out)
	}
}

// available are the levels that work here. Where the first does not, the test reports that.
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
	env := []string{"PATH=/usr/bin:/bin", "TMPDIR=" + s.private, "GORACE=" + os.Getenv("GORACE")}
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
