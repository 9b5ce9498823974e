package conformance

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// apart gives the process an empty network of its own.
func apart(attr *syscall.SysProcAttr) {
	attr.Cloneflags |= syscall.CLONE_NEWNET
	if os.Geteuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	}
}

// attempts counts what the kernel refused or sent in the process's own network: without a route
// nothing gets out.
func attempts(pid int) (n int, err error) {
	for _, file := range []string{"snmp", "snmp6"} {
		raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "net", file))
		if err != nil {
			return 0, err
		}
		for _, name := range []string{"OutNoRoutes", "ActiveOpens", "OutDatagrams"} {
			n += counter(string(raw), name)
		}
	}
	return n, nil
}

// counter reads both forms of the kernel's tables: a line of names above a line of numbers, and a
// pair a line.
func counter(table, name string) (n int) {
	lines := strings.Split(table, "\n")
	for i, line := range lines {
		words := strings.Fields(line)
		if len(words) == 2 && (words[0] == "Ip6"+name || words[0] == "Udp6"+name) {
			v, _ := strconv.Atoi(words[1])
			n += v
		}
		if len(words) < 3 || i+1 == len(lines) {
			continue
		}
		values := strings.Fields(lines[i+1])
		for j, word := range words {
			if word == name && j < len(values) && values[0] == words[0] {
				v, _ := strconv.Atoi(values[j])
				n += v
			}
		}
	}
	return n
}

// canMeasure reports whether the figures of a process can be read.
const canMeasure = true

// peak is the most memory, in bytes, that the process held.
func peak(pid int) int64 { return memoryOf(pid, "VmHWM:") }

// resident is the memory, in bytes, that the process holds.
func resident(pid int) int64 { return memoryOf(pid, "VmRSS:") }

func memoryOf(pid int, field string) int64 {
	raw, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	_, rest, _ := strings.Cut(string(raw), field)
	words := strings.Fields(rest)
	if len(words) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(words[0], 10, 64)
	return kib << 10
}

// descendants are the processes that carry the socket in their environment, as "NAME (PID)".
func descendants(socket string) []string {
	var all []string
	for _, pid := range marked(socket) {
		name, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
		all = append(all, fmt.Sprintf("%s (%d)", bytes.TrimSpace(name), pid))
	}
	return all
}

func endDescendants(socket string) {
	for _, pid := range marked(socket) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

func marked(socket string) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	mark := []byte(wire.HostSocketEnv + "=" + socket + "\x00")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ")); err == nil && bytes.Contains(env, mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}
