package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// selfPath stays right when the binary is replaced on disk while it runs.
const selfPath = "/proc/self/exe"

// execFile runs exactly the opened file, whatever its path leads to since. The descriptor stays
// open in the child: a script's interpreter opens it again.
func execFile(f *os.File, argv []string) *exec.Cmd {
	return &exec.Cmd{Path: "/proc/self/fd/3", Args: argv, ExtraFiles: []*os.File{f}}
}

// isolate gives the process its own session, and its death with the worker's. In the worker's
// session it could write on the operator's terminal through /dev/tty, and join the process group of
// another plugin.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// openSocket opens a socket below dir by its name, following no link, and returns a path that leads
// to the same socket whatever happens in dir, while the file is open.
func openSocket(dir, rel string) (*os.File, string, error) {
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = unix.Close(at) }()
	fd, err := unix.Openat2(at, rel, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, "", err
	}
	f := os.NewFile(uintptr(fd), rel)
	if err := isSocket(f.Stat()); err != nil {
		return nil, "", errors.Join(err, f.Close())
	}
	return f, fmt.Sprintf("/proc/self/fd/%d", fd), nil
}

// noCore forbids core dumps, which would hold what the plugin held. A limit of 1 byte also keeps
// the kernel from handing one to a program, as systemd-coredump, where 0 would not (core(5)).
func noCore(pid int) { _ = unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}, nil) }

// awaitExit waits for the end of a child and leaves it unreaped, so that its group's
// number cannot be given to somebody else yet.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
