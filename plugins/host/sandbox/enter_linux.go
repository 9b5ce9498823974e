//go:build amd64 || arm64

package sandbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// verb is how the program is started to confine itself and become a plugin. It is not for people.
const verb = "__sandbox"

// Files that the process has open before it confines itself, beside its standard files.
const (
	programFD = 3
	orderFD   = 4
)

const exitRefused = 126 // it could not be confined, or not be started

// init is where a process that was started to be confined ends: it confines itself, and becomes the
// program of its order. It is no function that main calls: most packages of the program come behind
// this one, and making them ready is half of such a start.
func init() {
	if len(os.Args) != 2 || os.Args[1] != verb {
		return
	}
	runtime.LockOSThread() // rights, filters and what is started belong to a thread
	code, err := enter()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		code = exitRefused
	}
	os.Exit(code)
}

func enter() (int, error) {
	o, err := readOrder()
	if err != nil {
		return 0, err
	}
	if o.Level.User {
		if err := o.takeUser(); err != nil {
			return 0, err
		}
	}
	program := programFD
	if o.Level.Mount {
		if err := o.newRoot(); err != nil {
			return 0, err
		}
		program = o.reopen()
	}
	if err := o.bound(); err != nil {
		return 0, err
	}
	if err := o.confine(program); err != nil {
		return 0, err
	}
	switch {
	case o.Trial:
		return 0, nil
	case o.Level.PID:
		return o.watch(program)
	}
	return 0, o.become(program)
}

func readOrder() (*order, error) {
	f := os.NewFile(orderFD, "order")
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.NewSectionReader(f, 0, math.MaxInt32))
	if err != nil {
		return nil, fmt.Errorf("order: %w", err)
	}
	o := &order{}
	if err := json.Unmarshal(raw, o); err != nil {
		return nil, fmt.Errorf("order: %w", err)
	}
	return o, nil
}

// takeUser gives the user its own number within the user namespace. The worker cannot do it: only
// root may write there for a process whose memory is that of one that is hardened.
func (o *order) takeUser() error {
	for _, f := range []struct{ file, text string }{
		{"setgroups", "deny"},
		{"uid_map", fmt.Sprintf("%d %d 1", o.UID, o.UID)},
		{"gid_map", fmt.Sprintf("%d %d 1", o.GID, o.GID)},
	} {
		if err := os.WriteFile("/proc/self/"+f.file, []byte(f.text), 0); err != nil {
			return fmt.Errorf("user namespace: %w", err)
		}
	}
	return nil
}

// bound sets the limits that hold for every process.
func (o *order) bound() error {
	limit := func(what int, most uint64) error {
		var now syscall.Rlimit
		if err := syscall.Getrlimit(what, &now); err != nil {
			return err
		}
		most = min(most, now.Max)
		return syscall.Setrlimit(what, &syscall.Rlimit{Cur: most, Max: most})
	}
	// At 0 the kernel still hands a core to a program, as systemd-coredump; at 1 byte to nobody
	// (core(5)).
	err := errors.Join(limit(unix.RLIMIT_CORE, 1), limit(unix.RLIMIT_NOFILE, maxFiles))
	if o.Memory > 0 && bounded {
		err = errors.Join(err, limit(unix.RLIMIT_DATA, uint64(o.Memory)))
	}
	if o.Level.User && o.UID != 0 { // else it counts all of the user's processes; root it never stops
		err = errors.Join(err, limit(unix.RLIMIT_NPROC, uint64(o.Tasks)))
	}
	if err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	unix.Umask(0o077)
	return nil
}

// confine takes the thread's rights away. Processes that it starts later have none either.
func (o *order) confine(program int) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if err := o.landlock(program); err != nil {
		return err
	}
	return o.filter()
}

func dropCapabilities() error {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var now, none [2]unix.CapUserData
	if err := unix.Capget(&head, &now[0]); err != nil {
		return err
	}
	for c := range uintptr(64) {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); errors.Is(err, unix.EINVAL) {
			break // the kernel has no more
		} else if err != nil && !errors.Is(err, unix.EPERM) { // without the right to drop there is none to lose: no new privileges
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	if now == none { // a hardened unit lets nobody even ask
		return nil
	}
	return unix.Capset(&head, &none[0])
}

// become is the end of this program: it continues as the other one.
func (o *order) become(program int) error {
	// The signal is a thread's, and this may not be the one that was started with it.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("signal of the worker's death: %w", err)
	}
	if os.Getppid() != o.Parent {
		return errors.New("the worker is gone")
	}
	// Descriptors that the worker, or a library of its own, forgot to close.
	if err := unix.CloseRange(orderFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close files: %w", err)
	}
	if err := placeProgram(program); err != nil {
		return err
	}
	err := unlessBusy(func() error { return unix.Exec("/proc/self/fd/"+strconv.Itoa(programFD), o.Argv, o.Env) })
	return fmt.Errorf("start %s: %w", o.Argv[0], err)
}

// unlessBusy tries again for a moment while a fork elsewhere holds a fresh program open for writing
// (golang/go#22315).
func unlessBusy(start func() error) error {
	err := start()
	for i := 0; i < 20 && errors.Is(err, unix.ETXTBSY); i++ {
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // 20 times at most
		err = start()
	}
	return err
}

// placeProgram gives the program its number: the interpreter of a script opens it again by that.
func placeProgram(program int) error {
	if program == programFD {
		return nil
	}
	if err := unix.Dup3(program, programFD, 0); err != nil {
		return fmt.Errorf("program: %w", err)
	}
	return nil
}

// watch starts the program, and is the first process of its tree until it ends: all others end with
// it.
func (o *order) watch(program int) (int, error) {
	// Signals go to the whole group. The program obeys them; this process must not die before it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if err := unix.CloseRange(orderFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return 0, fmt.Errorf("close files: %w", err)
	}
	file := os.NewFile(uintptr(program), "program")
	var p *os.Process
	err := unlessBusy(func() (err error) {
		p, err = os.StartProcess("/proc/self/fd/"+strconv.Itoa(programFD), o.Argv, &os.ProcAttr{
			Dir: o.Dir, Env: o.Env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, file},
		})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("start %s: %w", o.Argv[0], err)
	}
	_ = file.Close()
	for { // and reap what the program leaves to us
		var how unix.WaitStatus
		pid, err := unix.Wait4(-1, &how, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR), err == nil && pid != p.Pid:
			continue
		case err != nil:
			return 0, fmt.Errorf("wait: %w", err)
		case how.Signaled():
			return 128 + int(how.Signal()), nil
		}
		return how.ExitStatus(), nil
	}
}

const old = "/.old" // where the machine's file system is while the new root is made

// newRoot makes a file system with only the paths that the order allows, and leaves the machine's.
func (o *order) newRoot() error {
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"keep mounts to itself", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"new root", func() error {
			return unix.Mount("tmpfs", o.Dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m")
		}},
		{"new root", func() error { return os.Mkdir(o.Dir+old, 0o700) }},
		{"new root", func() error { return unix.PivotRoot(o.Dir, o.Dir+old) }},
		{"new root", func() error { return unix.Chdir("/") }},
		{"show", o.show},
		{"leave the old root", func() error { return unix.Unmount(old, unix.MNT_DETACH) }},
		{"leave the old root", func() error { return os.Remove(old) }},
		{"new root", func() error { return readOnly("/", false) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("file system: %s: %w", step.what, err)
		}
	}
	if o.Trial {
		return nil
	}
	return unix.Chdir(o.Dir)
}

func (o *order) show() error {
	for _, p := range o.Paths {
		from := cmp.Or(p.From, p.At)
		var err error
		switch p.Kind {
		case link:
			if err = makeFolder(filepath.Dir(p.At)); err == nil {
				err = os.Symlink(from, p.At)
			}
		case process:
			err = o.showProcesses()
		default:
			err = bind(from, p.At, p.Kind == readable)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.At, err)
		}
	}
	if o.Trial {
		return nil
	}
	if err := o.showProgram(); err != nil {
		return fmt.Errorf("%s: %w", o.Argv[0], err)
	}
	return nil
}

// showProgram shows the program at its path, if it is not shown already and still is the one that
// was opened.
func (o *order) showProgram() error {
	at := filepath.Clean(o.Argv[0])
	if !filepath.IsAbs(at) || same(at) || !same(old+at) {
		return nil
	}
	return bind(at, at, true)
}

// same reports whether a path leads to the program that was opened.
func same(at string) bool {
	var one, other unix.Stat_t
	return unix.Fstat(programFD, &one) == nil && unix.Stat(at, &other) == nil && one.Dev == other.Dev && one.Ino == other.Ino
}

// reopen opens the program where it is shown, so that it knows its own path. The file that runs is
// in any case the one that the worker opened.
func (o *order) reopen() int {
	if o.Trial {
		return programFD
	}
	fd, err := unix.Open(filepath.Clean(o.Argv[0]), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return programFD
	}
	if !same("/proc/self/fd/" + strconv.Itoa(fd)) {
		_ = unix.Close(fd)
		return programFD
	}
	return fd
}

// showProcesses shows /proc: that of the new tree, or the machine's where there is none.
func (o *order) showProcesses() error {
	if !o.Level.PID {
		return bind("/proc", "/proc", true)
	}
	if err := makeFolder("/proc"); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if ownNumbers() {
		if err := os.WriteFile("/proc/sys/kernel/pid_max", []byte(strconv.Itoa(o.Tasks)), 0); err != nil {
			return err
		}
	}
	return readOnly("/proc", false)
}

// ownNumbers reports whether how many processes there may be is counted by tree: before Linux 6.14
// it would be the machine's number that is set.
func ownNumbers() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var major, minor int
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	return err == nil && (major > 6 || major == 6 && minor >= 14)
}

// bind shows something of the old root at a path of the new one. A path that does not exist is left
// out.
func bind(from, at string, still bool) error {
	from = old + from
	var st unix.Stat_t
	if err := unix.Stat(from, &st); err != nil {
		return nil //nolint:nilerr // not there, or not for this user
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		if err := makeFolder(at); err != nil {
			return err
		}
	} else if _, err := os.Lstat(at); err != nil {
		if err := makeFolder(filepath.Dir(at)); err != nil {
			return err
		}
		if err := os.WriteFile(at, nil, 0o600); err != nil {
			return err
		}
	}
	if err := unix.Mount(from, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if still {
		return readOnly(at, true)
	}
	return nil
}

// makeFolder makes a folder of the new root, which only the program sees.
func makeFolder(at string) error { return os.MkdirAll(at, 0o755) } //nolint:gosec // see above

// readOnly makes a mount read-only, with all mounts below it.
func readOnly(at string, deep bool) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	var flags uint
	if deep {
		flags = unix.AT_RECURSIVE
	}
	return unix.MountSetattr(unix.AT_FDCWD, at, flags, &attr)
}
