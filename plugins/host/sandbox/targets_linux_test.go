package sandbox

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The targets of attacks.

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

// Objects of System V beside memory: the kernel's structures, for which the library has no calls.
type message struct {
	kind int
	text [len(secret)]byte
}

const (
	ipcNoWait = 0o4000 // IPC_NOWAIT
	ipcRemove = 0      // IPC_RMID
)

// messageTarget is a message queue of this user with one message.
func messageTarget(t *testing.T, _ *scene) []string {
	t.Helper()
	id, _, err := unix.Syscall(unix.SYS_MSGGET, unix.IPC_PRIVATE, unix.IPC_CREAT|0o600, 0)
	if err != 0 {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = unix.Syscall(unix.SYS_MSGCTL, id, ipcRemove, 0) })
	b := message{kind: 1, text: [len(secret)]byte([]byte(secret))}
	if _, _, err := unix.Syscall6(unix.SYS_MSGSND, id, uintptr(unsafe.Pointer(&b)), unsafe.Sizeof(b.text), 0, 0, 0); err != 0 {
		t.Fatal(err)
	}
	return []string{strconv.Itoa(int(id))}
}

// semaphoreTarget is a semaphore of this user that one may take.
func semaphoreTarget(t *testing.T, _ *scene) []string {
	t.Helper()
	id, _, err := unix.Syscall(unix.SYS_SEMGET, unix.IPC_PRIVATE, 1, unix.IPC_CREAT|0o600)
	if err != 0 {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = unix.Syscall(unix.SYS_SEMCTL, id, 0, ipcRemove) })
	if err := addToSemaphore(int(id), 1); err != nil {
		t.Fatal(err)
	}
	return []string{strconv.Itoa(int(id))}
}

// addToSemaphore does not wait.
func addToSemaphore(id int, n int16) error {
	b := struct{ at, n, flags int16 }{0, n, ipcNoWait}
	if _, _, err := unix.Syscall(unix.SYS_SEMOP, uintptr(id), uintptr(unsafe.Pointer(&b)), 1); err != 0 {
		return err
	}
	return nil
}

// foreignTarget is a file of another user in a folder that the program may read.
func foreignTarget(t *testing.T, s *scene) []string {
	t.Helper()
	path := filepath.Join(s.plugin, "foreign")
	put(t, path, 0o600)
	if err := os.Chown(path, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

func folderTarget(t *testing.T, s *scene) []string {
	t.Helper()
	return []string{filepath.Join(s.dir, "cron.d"), s.private}
}

func markTarget(_ *testing.T, s *scene) []string { return []string{s.mark} }

// victim is another process of the worker's user, which lets anybody trace it as far as it can
// allow that.
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

// inheritedTarget is a file that the worker, or a library of its own, forgot to keep from its
// children.
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

// outlived needs no patience: the kernel reaps a whole tree before its first process has ended.
func outlived(t *testing.T, s *scene) bool {
	t.Helper()
	pid := marked(s.mark)
	if pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return pid != 0
}

// marked finds the process with the mark in its arguments.
func marked(mark string) int {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if args, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline")); strings.HasPrefix(string(args), "/bin/sh\x00-c\x00"+outliveScript+"\x00"+mark) {
			return pid
		}
	}
	return 0
}
