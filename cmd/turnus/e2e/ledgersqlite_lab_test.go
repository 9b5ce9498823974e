//go:build linux && labs

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/transport/fleet"
)

// onDisk starts turnus up with a data folder on a disk that this shell command mounts, as $0, for
// the service alone; it returns where others see the folder.
func (l *lab) onDisk(mount string, unshare ...string) (s *sickLedger, inside string) {
	l.t.Helper()
	data := filepath.Join(l.dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		l.t.Fatal(err)
	}
	l.under = slices.Concat([]string{testparts.Need(l.t, "unshare", "util-linux")}, unshare, []string{"--mount", "sh", "-c", mount + ` && exec "$@"`, data})
	p := l.start(slices.Concat([]string{"up", "--data", data, "--definitions", filepath.Join(l.dir, "ops"), "--listen", "127.0.0.1:0", "--context", "", "-f", "4"}, l.pluginFlags())...)
	l.under = nil
	until(l.t, "the service to listen", func() bool { return p.err.has("listening on ") || !p.running() })
	inside = filepath.Join(fmt.Sprintf("/proc/%d/root", p.pid()), data)
	token, err := os.ReadFile(filepath.Join(inside, "admin.token"))
	if err != nil {
		l.t.Fatalf("%v; %s", err, p.err)
	}
	s = l.sickLedger(p, strings.TrimSpace(string(token)), "--ledger", "sqlite:"+data+"/ledger.db")
	s.beside = []string{testparts.Need(l.t, "nsenter", "util-linux"), "--target", strconv.Itoa(p.pid()), "--mount"}
	if slices.Contains(unshare, "--map-root-user") {
		s.beside = append(s.beside, "--user", "--preserve-credentials")
	}
	return s, inside
}

// The disk of the data folder is full to its last byte, and then is not.
func TestLabASQLiteLedgerThatIsFull(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1}).traced()
	l.sickOps()
	s, inside := l.onDisk(`mount -t tmpfs -o size=64m,mode=700 turnus "$0"`, "--map-root-user")
	s.underWay()
	filler := filepath.Join(inside, "filler")
	f, err := os.Create(filler)
	for page := make([]byte, 4096); err == nil; {
		_, err = f.Write(page)
	}
	_ = f.Close()
	s.refused("database or disk is full", "make room on the disk of the ledger")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.whole()
	if !s.server.err.has("the ledger answers again") {
		t.Errorf("the log does not report the end: %s", s.server.err)
	}
}

// The file system of the data folder meets an error and becomes read-only, as ext4 does. Nothing is
// doubled when it is repaired, and the service started again: what is not known to have run waits
// for a person.
func TestLabASQLiteLedgerThatIsReadOnly(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		testparts.Able(t, "a file system that becomes read-only (root)", syscall.EPERM)
	}
	l := newLab(t, fleet.Config{Hosts: 1}).traced()
	l.sickOps()
	image := l.file("image", "")
	command := func(name, pkg string, args ...string) {
		t.Helper()
		if out, err := exec.Command(testparts.Need(t, name, pkg), append(args, image)...).CombinedOutput(); err != nil && name != "e2fsck" {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	command("truncate", "coreutils", "--size=64M")
	command("mkfs.ext4", "e2fsprogs", "-q")
	mount := fmt.Sprintf(`mount -o loop,errors=remount-ro '%s' "$0" && chmod 700 "$0"`, image)
	s, inside := l.onDisk(mount, "--propagation=private")
	s.underWay()
	breakDisk(t, s.server.pid(), inside)
	s.refused("disk I/O error", "check the disk of the ledger and its file system")
	s.server.signal(syscall.SIGTERM)
	if s.server.wants(0); !s.server.err.has("not all outcomes were recorded in time") {
		t.Errorf("the service does not report what was lost: %s", s.server.err)
	}
	until(t, "the disk to be released", func() bool {
		files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
		return err == nil && !slices.ContainsFunc(files, func(f string) bool {
			text, err := os.ReadFile(f)
			return err == nil && strings.TrimSpace(string(text)) == image
		})
	})
	command("e2fsck", "e2fsprogs", "-fy")
	before := s
	s, _ = l.onDisk(mount, "--propagation=private")
	s.accepted, s.again, s.held = before.accepted, before.again, true
	s.whole()
}

// breakDisk has the ext4 that a process sees at a path meet an error.
func breakDisk(t *testing.T, pid int, inside string) {
	t.Helper()
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, data, _ := strings.Cut(inside, "/root")
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); f[1] == data {
			if err := os.WriteFile("/sys/fs/ext4/"+filepath.Base(f[0])+"/trigger_fs_error", []byte("x"), 0); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s is not mounted: %s", data, mounts)
}

// Each transaction takes 200 ms: everything works, and creates of one moment share transactions.
func TestLabASQLiteLedgerThatIsSlow(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1}).traced()
	l.sickOps()
	cut, err := cutBinary()
	if err != nil {
		t.Fatal(err)
	}
	commits := l.file("commits", "")
	plain := l.env
	l.under, l.env = []string{cut}, append(slices.Clone(plain), "CUT_COUNT="+commits, "CUT_SLOW=200ms")
	data := filepath.Join(l.dir, "data")
	p, _ := l.startUp(data, append([]string{"-f", "4"}, l.pluginFlags()...)...)
	l.under, l.env = nil, plain
	token, err := os.ReadFile(filepath.Join(data, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	s := l.sickLedger(p, strings.TrimSpace(string(token)), "--ledger", "sqlite:"+data+"/ledger.db")
	s.underWay()
	written := func() int {
		text, err := os.ReadFile(commits)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "\n")
	}
	before := written()
	s.manyCreates()
	if n := written() - before; n == 0 || n >= slowCreates {
		t.Errorf("%d transactions for %d creates", n, slowCreates)
	}
	s.whole()
}

// slowCreates is how many runs are created at the same time on a slow ledger.
const slowCreates = 100

// manyCreates has all of them accepted while the service reports that it is ready.
func (s *sickLedger) manyCreates() {
	s.t.Helper()
	var callers sync.WaitGroup
	for i := range slowCreates {
		callers.Go(func() {
			if status, said := s.create(fmt.Sprint("slow-", i), "short"); status != http.StatusCreated {
				s.t.Errorf("create %d: %d %+v", i, status, said)
			}
		})
	}
	if code, body := asked(s.t, address(s.server)+"/readyz"); code != http.StatusOK {
		s.t.Errorf("readyz %d: %s", code, body)
	}
	callers.Wait()
}
