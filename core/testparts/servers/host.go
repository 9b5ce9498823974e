//go:build linux

package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
)

// Host is one network namespace.
type Host struct {
	Name    string
	Address string // of the host
	Peer    string // of this machine, as the host sees it
}

// made is shared by all tests of a process, so that no two hosts meet.
var made atomic.Uint32

// NewHost makes a host. It ends with the test, and every process in it.
func NewHost(tb testing.TB) *Host {
	tb.Helper()
	ip := testparts.Need(tb, "ip", "iproute2")
	tb.TempDir() // cleanups run last in, first out: the test's folders go when no process of the host writes to them
	n := made.Add(1)
	block := blockOf(tb)
	at := func(i uint32) string {
		a := uint32(100<<24|96<<16) + block*4 + i
		return netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)}).String()
	}
	id := fmt.Sprintf("tl%x-%x", os.Getpid(), n)
	h := &Host{Name: id, Peer: at(1), Address: at(2)}
	tb.Cleanup(func() { h.remove(ip) })
	testparts.Able(tb, "network namespaces", run(ip, "netns", "add", h.Name))
	for _, line := range []string{
		"link add " + id + "h type veth peer name eth0 netns " + id,
		"addr add " + h.Peer + "/30 dev " + id + "h",
		"link set " + id + "h up",
		"-n " + id + " addr add " + h.Address + "/30 dev eth0",
		"-n " + id + " link set eth0 up",
		"-n " + id + " link set lo up",
	} {
		if err := run(ip, strings.Fields(line)...); err != nil {
			tb.Fatal(err)
		}
	}
	return h
}

// blockOf is a block of 4 addresses in 100.64.0.0/10, which nobody routes, that no other test has.
func blockOf(tb testing.TB) uint32 {
	tb.Helper()
	for range 100 {
		block := rand.Uint32N(1 << 16) //nolint:gosec // no secret
		if testparts.Reserve(tb, fmt.Sprintf("netlab-%d", block)) == nil {
			return block
		}
	}
	tb.Fatal("no free addresses in 100 tries")
	return 0
}

func run(program string, args ...string) error {
	out, err := exec.Command(program, args...).CombinedOutput() //nolint:noctx,gosec // our own words; it ends immediately
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Prefix is the beginning of a command line that runs in the host, in a mount namespace of its own.
// The program keeps its process id. This machine's systemd is out of sight: what it starts would
// run in this machine.
func (h *Host) Prefix() []string {
	return []string{"ip", "netns", "exec", h.Name, "/bin/sh", "-c", `[ ! -d /run/systemd ] || mount -t tmpfs none /run/systemd || exit 1; exec "$@"`, "sh"}
}

// Shell runs a line in the host, as root, and returns what it printed.
func (h *Host) Shell(line string) (string, error) {
	prefix := h.Prefix()
	cmd := exec.Command(prefix[0], append(prefix[1:], "/bin/sh", "-c", line)...) //nolint:noctx,gosec // a test's own words
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(string(exit.Stderr)))
	}
	return string(out), err
}

// Processes are the ids of all that runs in the host.
func (h *Host) Processes() []int {
	out, err := exec.Command("ip", "netns", "pids", h.Name).Output() //nolint:noctx,gosec // our own name
	if err != nil {
		return nil
	}
	var pids []int
	for word := range strings.FieldsSeq(string(out)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Kill ends the processes whose command line holds text; all of them for the empty text. It returns
// how many.
func (h *Host) Kill(text string) int {
	n := 0
	for _, pid := range h.Processes() {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(line), text) && h.holds(pid) && syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

// holds reports whether a process is in the host now: its id may have gone to another since it was
// listed.
func (h *Host) holds(pid int) bool {
	here, err := os.Stat("/run/netns/" + h.Name)
	there, gone := os.Stat(fmt.Sprintf("/proc/%d/ns/net", pid))
	return err == nil && gone == nil && os.SameFile(here, there)
}

func (h *Host) remove(ip string) {
	for range 100 { // what was just forked is not in the list yet
		if h.Kill("") == 0 {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	_ = run(ip, "link", "del", h.Name+"h") // with the host's end
	_ = run(ip, "netns", "del", h.Name)
}
