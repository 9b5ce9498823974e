package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/turnus/turnus/core"
)

// The needs of a good program work at each level.
func TestGoodProgramsWork(t *testing.T) {
	for _, l := range available(t) {
		s := newScene(t)
		box := sandboxOf(means{level: l, landlock: landlockABI()})
		put(t, filepath.Join(s.plugin, "data"), 0o600)
		script := filepath.Join(s.plugin, "plugin")
		if err := os.WriteFile(script, []byte(`#!/bin/sh
set -e
cat "$(dirname "$(readlink "$0")")/data"; echo
pwd
echo x >"$TMPDIR/own"; mkdir -p "$TMPDIR/d"; mv "$TMPDIR/own" "$TMPDIR/d/own"; cat "$TMPDIR/d/own"
echo hidden >/dev/null
echo "$(ls /etc/passwd)" | sed 's/^/found /'
cat /proc/self/comm
(exit 7) || echo "child $?"
grep 'core file' /proc/self/limits | tr -s ' '
cat <<END
here
END
exit "${1:-0}"
`), 0o700); err != nil {
			t.Fatal(err)
		}
		out, err := s.run(t, box, script, []string{script})
		core := fmt.Sprintf("Max core file size %[1]d %[1]d bytes ", min(1, coreLimit(t)))
		want := secret + "\n" + s.private + "\nx\nfound /etc/passwd\ncat\nchild 7\n" + core + "\nhere\n"
		if err != nil || out != want {
			t.Errorf("%+v: %v\n%s\nwant\n%s", l, err, out, want)
		}
		// If its path is not that of the program any more, as after an update, what was opened is run.
		if _, err := s.run(t, box, script, []string{filepath.Join(s.dir, "gone"), "9"}); exitCode(err) != 9 {
			t.Errorf("%+v: %v, expected exit code 9", l, err)
		}
		_, err = s.run(t, box, "/bin/sh", []string{"/bin/sh", "-c", "kill -KILL $$"})
		if l.PID && exitCode(err) != 128+9 || !l.PID && (err == nil || err.Error() != "signal: killed") {
			t.Errorf("%+v: %v, expected a report of signal 9", l, err)
		}
	}
}

// coreLimit is the most that this process may set.
func coreLimit(t *testing.T) uint64 {
	t.Helper()
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &now); err != nil {
		t.Fatal(err)
	}
	return now.Max
}

func exitCode(err error) int {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return -1
	}
	return exit.ExitCode()
}

func TestModes(t *testing.T) {
	if _, err := New(Config{Mode: "maybe"}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("an unknown mode: %v", err)
	}
	box, err := New(Config{Mode: Off})
	if box != nil || err != nil {
		t.Errorf("off: %v, %v", box, err)
	}
	if c, err := box.Confine(nil, nil, nil, Profile{}); c != nil || err != nil || box.Tree() {
		t.Errorf("off: %v, %v", c, err)
	}
	box, err = New(Config{Mode: Auto})
	if err != nil {
		t.Fatal(err)
	}
	missing, err := box.Missing()
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(Config{Mode: On})
	if whole := len(missing) == 0; whole != (err == nil) || err != nil && !strings.Contains(err.Error(), missing[0]) {
		t.Errorf("missing: %v; on: %v", missing, err)
	}
}

// Mode On refuses a kernel that lacks any part, whatever the machine of the test has; Auto takes
// it. The whole kernel is the control.
func TestOnRefusesWhatIsNotWhole(t *testing.T) {
	why := errors.New("not allowed")
	for name, row := range map[string]struct {
		found means
		want  string // in the refusal; "": none
	}{
		"whole":       {means{landlock: 6, level: level{User: true, Mount: true, PID: true}}, ""},
		"no Landlock": {means{level: level{User: true, Mount: true, PID: true}}, "the kernel has no Landlock"},
		"no tree":     {means{landlock: 6, level: level{User: true, Mount: true}}, "what a plugin leaves running may outlive it (not allowed)"},
		"no signals":  {means{landlock: 5, level: level{Mount: true}}, "it may signal this user's processes (not allowed)"},
		"no spaces":   {means{landlock: 6}, "no namespaces, so a plugin may connect to the Unix sockets"},
		"two parts":   {means{}, "the kernel has no Landlock; no namespaces"},
		"nothing":     {means{nothing: true}, "nothing works (not allowed)"},
	} {
		row.found.missing = row.found.lacks(why)
		probe := func() (means, error) { return row.found, nil }
		box, err := newBy(probe, Config{Mode: On})
		if row.want == "" {
			if box == nil || err != nil {
				t.Errorf("%s: on: %v, expected that it starts", name, err)
			}
			continue
		}
		if box != nil || !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "hint: --plugin-sandbox auto") {
			t.Errorf("%s: on: %v, expected a refusal with %q", name, err, row.want)
		}
		box, err = newBy(probe, Config{Mode: Auto})
		if err != nil {
			t.Errorf("%s: auto: %v", name, err)
			continue
		}
		if missing, err := box.Missing(); err != nil || !strings.Contains(strings.Join(missing, "; "), row.want) {
			t.Errorf("%s: auto reports %q, %v", name, missing, err)
		}
	}
	if _, err := newBy(func() (means, error) { return means{}, why }, Config{Mode: On}); !errors.Is(err, why) {
		t.Errorf("the probe fails: %v", err)
	}
}

// The filter, judged call by call. The interpreter of packets reads big-endian numbers, and so they
// are given to it.
func TestFilterOfSystemCalls(t *testing.T) {
	eperm, enosys, eacces := uint32(unix.SECCOMP_RET_ERRNO|unix.EPERM), uint32(unix.SECCOMP_RET_ERRNO|unix.ENOSYS), uint32(unix.SECCOMP_RET_ERRNO|unix.EACCES)
	inside, outside, old := order{Level: level{Mount: true, PID: true}}, order{Landlock: 3}, order{Landlock: 2}
	online := order{Network: true, Level: level{Mount: true, PID: true}}
	for _, row := range []struct {
		o    order
		arch uint32
		call uintptr
		args [3]uint32
		want uint32
	}{
		{inside, architecture, unix.SYS_READ, [3]uint32{}, unix.SECCOMP_RET_ALLOW},
		{inside, architecture + 1, unix.SYS_READ, [3]uint32{}, unix.SECCOMP_RET_KILL_PROCESS},
		{inside, architecture, 0x40000000 | unix.SYS_READ, [3]uint32{}, enosys},
		{inside, architecture, newest + 1, [3]uint32{}, enosys},
		{inside, architecture, unix.SYS_PTRACE, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_IO_URING_SETUP, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_PROCESS_VM_READV, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_PIDFD_GETFD, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_USERFAULTFD, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_PERF_EVENT_OPEN, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_BPF, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_ADD_KEY, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_KEYCTL, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_KEXEC_LOAD, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_FINIT_MODULE, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_SHMGET, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_SEMGET, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_SEMOP, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_MSGGET, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_MSGSND, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_CLONE3, [3]uint32{}, enosys},
		{inside, architecture, unix.SYS_CLONE, [3]uint32{uint32(unix.SIGCHLD)}, unix.SECCOMP_RET_ALLOW},
		{inside, architecture, unix.SYS_CLONE, [3]uint32{unix.CLONE_NEWUSER}, eperm},
		{inside, architecture, unix.SYS_CLONE, [3]uint32{unix.CLONE_NEWNET | uint32(unix.SIGCHLD)}, eperm},
		{inside, architecture, unix.SYS_PERSONALITY, [3]uint32{0}, unix.SECCOMP_RET_ALLOW},
		{inside, architecture, unix.SYS_PERSONALITY, [3]uint32{0xffffffff}, unix.SECCOMP_RET_ALLOW},
		{inside, architecture, unix.SYS_PERSONALITY, [3]uint32{0x40000}, eperm},
		{inside, architecture, unix.SYS_PRLIMIT64, [3]uint32{0}, unix.SECCOMP_RET_ALLOW},
		{inside, architecture, unix.SYS_PRLIMIT64, [3]uint32{1}, eperm},
		{inside, architecture, unix.SYS_IOCTL, [3]uint32{1, unix.TCGETS}, unix.SECCOMP_RET_ALLOW},
		{inside, architecture, unix.SYS_IOCTL, [3]uint32{1, unix.TIOCSTI}, eperm},
		{inside, architecture, unix.SYS_IOCTL, [3]uint32{1, unix.TIOCLINUX}, eperm},
		{inside, architecture, unix.SYS_IOCTL, [3]uint32{1, unix.TIOCSETD}, eperm},
		{inside, architecture, unix.SYS_SOCKET, [3]uint32{unix.AF_UNIX}, unix.SECCOMP_RET_ALLOW},
		{inside, architecture, unix.SYS_SOCKET, [3]uint32{unix.AF_INET}, eacces},
		{inside, architecture, unix.SYS_SOCKET, [3]uint32{unix.AF_NETLINK}, eacces},
		{online, architecture, unix.SYS_SOCKET, [3]uint32{unix.AF_INET6}, unix.SECCOMP_RET_ALLOW},
		{online, architecture, unix.SYS_SOCKET, [3]uint32{unix.AF_NETLINK}, unix.SECCOMP_RET_ALLOW},
		{online, architecture, unix.SYS_SOCKET, [3]uint32{unix.AF_VSOCK}, eacces},
		{online, architecture, unix.SYS_SOCKET, [3]uint32{unix.AF_PACKET}, eacces},
		{inside, architecture, unix.SYS_FCHMODAT, [3]uint32{}, unix.SECCOMP_RET_ALLOW},
		{outside, architecture, unix.SYS_FCHMODAT, [3]uint32{}, eperm},
		{outside, architecture, unix.SYS_READ, [3]uint32{}, unix.SECCOMP_RET_ALLOW},
		{online, architecture, unix.SYS_SOCKET, [3]uint32{unix.AF_INET}, unix.SECCOMP_RET_ALLOW},
		{online, architecture, unix.SYS_SOCKET, [3]uint32{unix.AF_UNIX}, unix.SECCOMP_RET_ALLOW},
		{online, architecture, unix.SYS_SOCKET, [3]uint32{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, eacces},
		{inside, architecture, unix.SYS_SOCKETPAIR, [3]uint32{unix.AF_UNIX}, unix.SECCOMP_RET_ALLOW},
		{online, architecture, unix.SYS_SOCKETPAIR, [3]uint32{unix.AF_TIPC}, eacces},
		{inside, architecture, unix.SYS_SHMAT, [3]uint32{1}, eperm},
		{inside, architecture, unix.SYS_MSGRCV, [3]uint32{1}, eperm},
		{inside, architecture, unix.SYS_MQ_OPEN, [3]uint32{}, eperm},
		{inside, architecture, unix.SYS_TRUNCATE, [3]uint32{}, unix.SECCOMP_RET_ALLOW},
		{outside, architecture, unix.SYS_TRUNCATE, [3]uint32{}, unix.SECCOMP_RET_ALLOW},
		{outside, architecture, unix.SYS_OPENAT, [3]uint32{0, 0, unix.O_TRUNC}, unix.SECCOMP_RET_ALLOW},
		{old, architecture, unix.SYS_TRUNCATE, [3]uint32{}, eperm},
		{old, architecture, unix.SYS_OPENAT2, [3]uint32{}, enosys},
		{old, architecture, unix.SYS_OPENAT, [3]uint32{0, 0, unix.O_TRUNC | unix.O_CLOEXEC}, eperm},
		{old, architecture, unix.SYS_OPENAT, [3]uint32{0, 0, unix.O_TRUNC | unix.O_WRONLY}, unix.SECCOMP_RET_ALLOW}, // which Landlock judges
		{old, architecture, unix.SYS_OPENAT, [3]uint32{0, 0, unix.O_CLOEXEC}, unix.SECCOMP_RET_ALLOW},
		{inside, architecture, unix.SYS_SETPRIORITY, [3]uint32{0, 77}, unix.SECCOMP_RET_ALLOW},
		{outside, architecture, unix.SYS_SETPRIORITY, [3]uint32{0, 0}, unix.SECCOMP_RET_ALLOW},
		{outside, architecture, unix.SYS_SETPRIORITY, [3]uint32{0, 77}, eperm},
		{outside, architecture, unix.SYS_SETPRIORITY, [3]uint32{2, 0}, eperm},
		{outside, architecture, unix.SYS_IOPRIO_SET, [3]uint32{1, 0}, unix.SECCOMP_RET_ALLOW},
		{outside, architecture, unix.SYS_IOPRIO_SET, [3]uint32{3, 0}, eperm},
		{outside, architecture, unix.SYS_SCHED_SETAFFINITY, [3]uint32{0}, unix.SECCOMP_RET_ALLOW},
		{outside, architecture, unix.SYS_SCHED_SETAFFINITY, [3]uint32{77}, eperm},
		{outside, architecture, unix.SYS_SCHED_SETSCHEDULER, [3]uint32{77}, eperm},
	} {
		vm, err := bpf.NewVM(row.o.program())
		if err != nil {
			t.Fatal(err)
		}
		data := make([]byte, 64)
		word := func(at int, v uint32) {
			data[at], data[at+1], data[at+2], data[at+3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
		}
		word(offsetCall, uint32(row.call))
		word(offsetArch, row.arch)
		word(offsetArgs, row.args[0])
		word(offsetArgs+8, row.args[1])
		word(offsetArgs+16, row.args[2])
		if got, err := vm.Run(data); err != nil || uint32(got) != row.want {
			t.Errorf("%+v call %d %v: %#x, %v; want %#x", row.o.Level, row.call, row.args, got, err, row.want)
		}
	}
}

// BenchmarkStart measures what confining adds to the start of a program.
func BenchmarkStart(b *testing.B) {
	for _, mode := range []Mode{Off, Auto} {
		b.Run(string(mode), func(b *testing.B) {
			box, err := New(Config{Mode: mode})
			if err != nil {
				b.Fatal(err)
			}
			dir := b.TempDir()
			for b.Loop() {
				program, err := os.Open("/bin/true")
				if err != nil {
					b.Fatal(err)
				}
				c, err := box.Confine(program, []string{"/bin/true"}, nil, Profile{Dir: dir})
				if err != nil {
					b.Fatal(err)
				}
				cmd := exec.Command("/proc/self/fd/3")
				cmd.ExtraFiles = []*os.File{program}
				if c != nil {
					cmd = c.Command()
				}
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatal(fmt.Errorf("%w: %s", err, out))
				}
				_, _ = program.Close(), c.Close()
			}
		})
	}
}
