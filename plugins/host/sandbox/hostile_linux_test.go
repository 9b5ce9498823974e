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
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The acts of hostile code.

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

func messageAttack(targets []string) error {
	var b message
	_, _, err := unix.Syscall6(unix.SYS_MSGRCV, uintptr(number(targets)), uintptr(unsafe.Pointer(&b)), unsafe.Sizeof(b.text), 0, ipcNoWait, 0)
	if err != 0 {
		return err
	}
	if string(b.text[:]) != secret {
		return errors.New("another one")
	}
	return nil
}

func semaphoreAttack(targets []string) error { return addToSemaphore(number(targets), -1) }

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

// environAttack reads the process that it is given, and all that it finds.
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

// outliveScript reads from a pipe of which it has both ends, so it ends only when it is killed.
const outliveScript = "echo; read x <&3"

func outliveAttack(targets []string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", outliveScript, targets[0])
	cmd.ExtraFiles = []*os.File{r, w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil { // nobody waits for it: it becomes the child of the first process
		return err
	}
	_, err = said.Read(make([]byte, 1)) // until then /proc may have no arguments of it
	return err
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

// setuidAttack starts a program of root's that has the setuid bit, and reads as whom it runs. It
// needs no patience: nobody waits for the process, so the kernel keeps its status.
func setuidAttack([]string) error {
	cmd := exec.Command("su", "-c", "true")
	if _, err := cmd.StdinPipe(); err != nil { // it may ask for a password
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	_ = cmd.Process.Kill()
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if users := strings.Fields(line); users[0] == "Uid:" && users[2] == "0" { // the effective one
			return nil
		}
	}
	return fmt.Errorf("it does not run as root: %s", status)
}

// forkAttack makes threads, which count as processes do. A program that gets no more of them dies
// of it.
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

// raise lifts one of its own limits, as far as it may.
func raise(what int, to uint64) {
	if syscall.Setrlimit(what, &syscall.Rlimit{Cur: to, Max: to}) != nil {
		most := hardLimit(what)
		_ = syscall.Setrlimit(what, &syscall.Rlimit{Cur: most, Max: most})
	}
}

func hardLimit(what int) uint64 {
	var now syscall.Rlimit
	if syscall.Getrlimit(what, &now) != nil {
		return 0
	}
	return now.Max
}

func filesAttack([]string) error {
	raise(unix.RLIMIT_NOFILE, 2*maxFiles)
	for range maxFiles {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
	}
	return nil // beside the three that it had
}

// coreAttack lets a child die; the kernel shows whether a core of it went anywhere: into a file, or
// to a program that collects them.
func coreAttack([]string) error {
	raise(unix.RLIMIT_CORE, unix.RLIM_INFINITY)
	cmd := exec.Command("/bin/sh", "-c", "kill -ABRT $$")
	cmd.Dir = os.Getenv("TMPDIR")
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.CoreDump() {
			return nil
		}
	}
	return fmt.Errorf("no core: %w", err)
}

// sharedMemoryAttack takes more than the bound of one process's data, as memory that it shares and
// in a file of memory.
func sharedMemoryAttack([]string) error {
	const size = testMemory + 64<<20
	fd, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, size); err != nil {
		return err
	}
	for _, kept := range []struct{ fd, flags int }{{fd, unix.MAP_SHARED}, {-1, unix.MAP_SHARED | unix.MAP_ANONYMOUS}} {
		b, err := unix.Mmap(kept.fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, kept.flags)
		if err != nil {
			return err
		}
		b[0], b[size-1] = 1, 1
	}
	return nil
}
