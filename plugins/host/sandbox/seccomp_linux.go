//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/turnus/turnus/core"
)

// newest is the last system call that was checked: what a later kernel adds is refused as if it had
// none.
const newest = unix.SYS_RSEQ_SLICE_YIELD

// refused are system calls that no job type needs: those on other processes, on mounts and
// namespaces, on the kernel itself, and large ones that are often its weak point.
func refused() []uintptr {
	return append(machineRefused(),
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP,
		unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR, unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT,
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_LISTNS,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_FILE_SETATTR,
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN, unix.SYS_BPF,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT,
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
		// Objects of System V and POSIX that are found by a number or a name that anybody may guess.
		unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL,
		unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	)
}

// ownership are the calls on what a file is, rather than what is in it. Landlock does not know
// them: without a file system of its own, a process could take the guard off any file of its user.
func ownership() []uintptr {
	return append(machineOwnership(),
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
		unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT,
	)
}

// emptying are calls that empty a file by its path, which Landlock does not know before its
// version 3. Where it knows them, and where there is a file system of its own, they are let be.
func emptying() [][]bpf.Instruction {
	readAndEmpty := func(call uintptr, arg uint32) []bpf.Instruction { // its right to read would do
		return onArgument(call, arg, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: unix.O_ACCMODE | unix.O_TRUNC}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.O_TRUNC, SkipFalse: 1}, errno(unix.EPERM), allowed)
	}
	all := [][]bpf.Instruction{
		onCall(unix.SYS_TRUNCATE, errno(unix.EPERM)),
		onCall(unix.SYS_OPENAT2, errno(unix.ENOSYS)), // its flags are in memory
		readAndEmpty(unix.SYS_OPENAT, 2),
	}
	if oldOpen != 0 {
		all = append(all, readAndEmpty(oldOpen, 1))
	}
	return all
}

// ofOthers are the calls that slow other processes of this user down; the number of the one that is
// meant is an argument, and 0 stands for the caller. In a tree of its own a process finds no
// others.
func ofOthers() [][]bpf.Instruction {
	unlessSelf := func(call uintptr) []bpf.Instruction {
		return onArgument(call, 0, bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1}, errno(unix.EPERM), allowed)
	}
	const prioOfUser, ioOfUser = 2, 3 // PRIO_USER, IOPRIO_WHO_USER: all of this user's processes
	byKind := func(call uintptr, all uint32) []bpf.Instruction {
		return onArgument(call, 0, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: all, SkipTrue: 1}, errno(unix.EPERM),
			bpf.LoadAbsolute{Off: offsetArgs + 8, Size: 4}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1}, errno(unix.EPERM), allowed)
	}
	return [][]bpf.Instruction{
		byKind(unix.SYS_SETPRIORITY, prioOfUser), byKind(unix.SYS_IOPRIO_SET, ioOfUser),
		unlessSelf(unix.SYS_SCHED_SETAFFINITY), unlessSelf(unix.SYS_SCHED_SETSCHEDULER), unlessSelf(unix.SYS_SCHED_SETPARAM), unlessSelf(unix.SYS_SCHED_SETATTR),
	}
}

const newNamespace = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// Where the filter finds what it judges: struct seccomp_data, of little-endian machines.
const (
	offsetCall = 0
	offsetArch = 4
	offsetArgs = 16
)

func errno(e unix.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(e)}
}

var (
	allowed    bpf.Instruction = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	killed     bpf.Instruction = bpf.RetConstant{Val: unix.SECCOMP_RET_KILL_PROCESS}
	loadNumber bpf.Instruction = bpf.LoadAbsolute{Off: offsetCall, Size: 4}
)

// onCall judges a call by nothing else.
func onCall(call uintptr, judge bpf.Instruction) []bpf.Instruction {
	return []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(call), SkipTrue: 1}, judge}
}

// onArgument judges a call by the lower half of one argument.
func onArgument(call uintptr, arg uint32, judge ...bpf.Instruction) []bpf.Instruction {
	judge = append([]bpf.Instruction{bpf.LoadAbsolute{Off: offsetArgs + 8*arg, Size: 4}}, judge...)
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(call), SkipTrue: uint8(len(judge))}}, judge...)
}

// program is the filter of system calls.
func (o *order) program() []bpf.Instruction {
	p := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: architecture, SkipTrue: 1}, // numbers mean other calls in another one
		killed,
		loadNumber,
		bpf.JumpIf{Cond: bpf.JumpLessOrEqual, Val: newest, SkipTrue: 1}, // the calls of x32 are also above
		errno(unix.ENOSYS),
	}
	all := refused()
	if !o.Level.Mount {
		all = append(all, ownership()...)
	}
	for _, call := range all {
		p = append(p, onCall(call, errno(unix.EPERM))...)
	}
	if !o.Level.Mount && o.Landlock < 3 {
		p = append(p, slices.Concat(emptying()...)...)
	}
	if !o.Level.PID {
		p = append(p, slices.Concat(ofOthers()...)...)
	}
	// Its flags are in memory, which a filter cannot read; libraries then take the older one.
	p = append(p, onCall(unix.SYS_CLONE3, errno(unix.ENOSYS))...)
	p = append(p, onArgument(unix.SYS_CLONE, 0, bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: newNamespace, SkipTrue: 1}, errno(unix.EPERM), allowed)...)
	p = append(p, onArgument(unix.SYS_PERSONALITY, 0,
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 2}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0xffffffff, SkipTrue: 1}, errno(unix.EPERM), allowed)...)
	p = append(p, onArgument(unix.SYS_PRLIMIT64, 0, bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1}, errno(unix.EPERM), allowed)...)
	p = append(p, onArgument(unix.SYS_IOCTL, 1, // what types into a terminal, and what loads modules
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSTI, SkipTrue: 3}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCLINUX, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.TIOCSETD, SkipTrue: 1}, allowed, errno(unix.EPERM))...)
	p = append(p, onArgument(unix.SYS_SOCKETPAIR, 0, bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipTrue: 1}, errno(unix.EACCES), allowed)...)
	p = append(p, onArgument(unix.SYS_SOCKET, 0, o.families()...)...)
	return append(p, allowed)
}

// families lets sockets of the allowed kinds through; of netlink, of which most speaks to the
// kernel's depths, what lists addresses and routes.
func (o *order) families() []bpf.Instruction {
	if !o.Network {
		return []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipTrue: 1}, errno(unix.EACCES), allowed}
	}
	return []bpf.Instruction{
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_UNIX, SkipTrue: 6},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET, SkipTrue: 5},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET6, SkipTrue: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.AF_NETLINK, SkipTrue: 2},
		bpf.LoadAbsolute{Off: offsetArgs + 8*2, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.NETLINK_ROUTE, SkipTrue: 1},
		errno(unix.EACCES),
		allowed,
	}
}

// filter puts the filter on the calling thread, and on what it starts.
func (o *order) filter() error {
	raw, err := bpf.Assemble(o.program())
	if err != nil {
		return fmt.Errorf("filter of system calls: %w", err)
	}
	filter := core.Map(raw, func(r bpf.RawInstruction) unix.SockFilter {
		return unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	})
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil { //nolint:gosec // as the kernel takes it
		return fmt.Errorf("filter of system calls: %w", err)
	}
	return nil
}
