package transport

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport/fleet"
)

// shellOf is a real server whose commands run in this shell.
func shellOf(t *testing.T, shell string) (core.Host, *Pool) {
	t.Helper()
	s, p := startSSHD(t, servers.SSHDConfig(`ForceCommand case $SSH_ORIGINAL_COMMAND in "exec /bin/sh -c "*) eval "exec `+shell+` -c ${SSH_ORIGINAL_COMMAND#exec /bin/sh -c }";; esac; exit 99`))
	return s.Host("web1"), p
}

func shells(t *testing.T) []string {
	return []string{"/bin/dash", testparts.Need(t, "busybox", "busybox") + " sh", "/bin/bash"}
}

// crash begins a command under the fence, as a worker that is killed does: its connection ends
// without a word. It returns when the command is under way, with its process.
func crash(t *testing.T, h core.Host, p *Pool, f Fence, command string) (pid int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(testContext(t))
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := p.Run(ctx, h, Exec{Command: "echo $$ >" + file + ".new; mv " + file + ".new " + file + "; " + command, Fence: f})
		t.Logf("%+v: %s: %v", f, command, err)
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	eventually(t, "the command runs", func() bool {
		text, err := os.ReadFile(file)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	})
	t.Cleanup(func() { _ = exec.Command("/bin/kill", "-s", "KILL", "--", "-"+strconv.Itoa(pid)).Run() })
	return pid
}

func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// A command outlives its worker. The next lease of the host ends it before its own first command.
// Other commands on the host, of the same lease, of another queue or of another host's name,
// continue. Control: without fences the old one continues.
func TestFaultR3NewerFenceEndsWhatAnOlderOneLeft(t *testing.T) {
	t.Parallel()
	for _, shell := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			h, p := shellOf(t, shell)
			queue := "queue-" + newExecID()
			other := h
			other.Name = "web2"
			long := "sleep 1000; true"
			for name, c := range map[string]struct {
				host    core.Host
				left    Fence
				command string
				ends    bool
			}{
				"left":               {h, Fence{Queue: queue, Count: 7}, long, true},
				"left, as exec":      {h, Fence{Queue: queue, Count: 7}, "exec sleep 1000", true},
				"left, ignores TERM": {h, Fence{Queue: queue, Count: 7}, "trap '' TERM; " + long, true},
				"same lease":         {h, Fence{Queue: queue, Count: 8}, long, false},
				"another queue":      {h, Fence{Queue: queue + "x", Count: 7}, long, false},
				"another host":       {other, Fence{Queue: queue, Count: 7}, long, false},
				"without a fence":    {h, Fence{}, long, false},
			} {
				newer := Fence{Queue: queue + name, Count: 8}
				if c.left.Queue != "" {
					c.left.Queue += name // each case has a queue of its own, whose name is data
				}
				pid := crash(t, c.host, p, c.left, c.command)
				var out strings.Builder
				probe := "kill -0 " + strconv.Itoa(pid) + " 2>/dev/null && echo runs || echo gone"
				exit, err := p.Run(testContext(t), h, Exec{Command: probe, Fence: newer, Stdout: &out})
				if want := map[bool]string{true: "gone\n", false: "runs\n"}[c.ends]; err != nil || exit.Code != 0 || out.String() != want {
					t.Errorf("%s: %+v, %v: the command of the newer lease saw %q, expected %q", name, exit, err, out.String(), want)
				}
				if alive(pid) == c.ends {
					t.Errorf("%s: alive is %v", name, alive(pid))
				}
			}
		})
	}
}

// A worker that slept comes back with a lease that another one has now.
func TestFaultR3HostRefusesAnOlderFence(t *testing.T) {
	t.Parallel()
	for _, shell := range shells(t) {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			h, p := shellOf(t, shell)
			dir := t.TempDir()
			queue := "queue-" + newExecID()
			touch := func(f Fence, name string) error {
				exit, err := p.Run(testContext(t), h, Exec{Command: "touch " + filepath.Join(dir, name), Fence: f})
				if err == nil && exit.Code != 0 {
					t.Errorf("%+v: %+v", f, exit)
				}
				return err
			}
			for i, c := range []struct {
				fence Fence
				stale bool
			}{
				{Fence{queue, 9}, false}, {Fence{queue, 8}, true}, {Fence{queue, 9}, false}, {Fence{queue, 10}, false}, {Fence{queue, 9}, true},
				{Fence{queue, 1<<26 + 1}, false}, {Fence{queue, 11}, true}, {Fence{queue + "2", 1}, false}, {Fence{}, false},
			} {
				name := strconv.Itoa(i)
				var e *Error
				if err := touch(c.fence, name); c.stale != errors.Is(err, ErrStaleFence) || !c.stale && err != nil || c.stale && (!errors.As(err, &e) || !e.Before) {
					t.Errorf("%d: %+v: %v, expected stale %v", i, c.fence, err, c.stale)
				}
				if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) == c.stale {
					t.Errorf("%d: %+v: the host did it: %v", i, c.fence, err == nil)
				}
			}
			put := Put{Path: filepath.Join(dir, "file"), Size: 1, Fence: Fence{queue, 12}}
			if _, err := p.Put(testContext(t), h, put, strings.NewReader("x")); !errors.Is(err, ErrStaleFence) {
				t.Errorf("put: %v", err)
			}
			if left, _ := filepath.Glob(put.Path + "*"); len(left) > 0 {
				t.Errorf("put left %q", left)
			}
			put.Fence = Fence{queue, 1<<26 + 1}
			if _, err := p.Put(testContext(t), h, put, strings.NewReader("x")); err != nil {
				t.Errorf("put: %v", err)
			}
		})
	}
}

// Records are bounded, the newest stays, and a daemon that a finished command started is left
// alone.
func TestRecordsOfFencesAreCleared(t *testing.T) {
	s, p := startSSHD(t)
	h := s.Host("web1")
	f := Fence{Queue: "queue-" + newExecID()}
	count := func() int {
		_, rest, _ := strings.Cut(f.script(h.Name, false), `"$turnus_d"/`)
		key, _, _ := strings.Cut(rest, "_")
		list, err := filepath.Glob("/run/turnus/" + key + "_*")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	var out strings.Builder
	f.Count = 1
	if _, err := p.Run(testContext(t), h, Exec{Command: "sleep 1000 >/dev/null 2>&1 & echo $!", Fence: f, Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	daemon, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = exec.Command("/bin/kill", strconv.Itoa(daemon)).Run() }()
	most := 0
	for i := range 60 {
		if i%3 > 0 {
			f.Count++
		}
		if _, err := p.Run(testContext(t), h, Exec{Command: "true", Fence: f}); err != nil {
			t.Fatal(err)
		}
		most = max(most, count())
	}
	if most > 18 || most < 10 {
		t.Errorf("up to %d records of commands that have ended", most)
	}
	if !alive(daemon) {
		t.Error("a process that a finished command left in the background was ended")
	}
	f.Count--
	if _, err := p.Run(testContext(t), h, Exec{Command: "true", Fence: f}); !errors.Is(err, ErrStaleFence) {
		t.Errorf("after the records were cleared: %v", err)
	}
}

// A stranger's folder, a link, or none: commands run without fences, and nothing is written through
// what was planted.
func TestFenceWithoutASafeFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		testparts.Able(t, "a folder that a stranger plants", syscall.EPERM)
	}
	setpriv := testparts.Need(t, "setpriv", "util-linux")
	f := Fence{Queue: "queue-" + newExecID(), Count: 1}
	for name, c := range map[string]struct {
		plant   string
		records int
	}{
		"none is there":                     {"true", 1},
		"a stranger's":                      {"mkdir -m 777 .turnus && chown 65533:65533 .turnus", 0},
		"a link":                            {"mkdir -m 700 own && chown 65534:65534 own && ln -s own .turnus", 0},
		"a file":                            {"echo x >.turnus", 0},
		"a home that may not be written to": {"chown 0:0 . && chmod 755 .", 0},
	} {
		t.Run(name, func(t *testing.T) {
			home, err := os.MkdirTemp("/tmp", "fence") //nolint:usetesting // a stranger must reach it
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(home) }()
			if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "cd "+home+" && chown 65534:65534 . && "+c.plant).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			line, err := commandLine(f.script("web1", false), "echo did it; ls -A "+home+"/.turnus | grep -c _; exit 0", nil, "0123456789abcdef", nil, false)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), setpriv, "--reuid", "65534", "--regid", "65534", "--clear-groups", "/bin/sh", "-c", line)
			cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + home}
			var errs strings.Builder
			cmd.Stderr = &errs
			out, err := cmd.Output()
			if want := "turnus:0123456789abcdef\ndid it\n" + strconv.Itoa(c.records) + "\n"; err != nil || string(out) != want {
				t.Errorf("%v: %q, expected %q; %s", err, out, want, errs.String())
			}
			if name != "a file" && errs.Len() > 0 && !strings.Contains(errs.String(), "ls:") {
				t.Errorf("stderr: %s", errs.String())
			}
		})
	}
}

// Two leases' commands that begin at the same time: never do both run. In any order, the older one
// is refused or ended.
func TestFencesRace(t *testing.T) {
	s, p := startSSHD(t)
	h := s.Host("web1")
	for round := range 20 {
		queue := "queue-" + newExecID()
		dir := t.TempDir()
		older := make(chan error, 1)
		ctx, cancel := context.WithTimeout(testContext(t), time.Minute)
		go func() {
			_, err := p.Run(ctx, h, Exec{Command: "echo $$ >" + dir + "/pid; exec sleep 1000", Fence: Fence{queue, 1}, Stdout: io.Discard})
			older <- err
		}()
		var out strings.Builder
		_, err := p.Run(testContext(t), h, Exec{Command: "read p <" + dir + "/pid && grep -q sleep /proc/$p/cmdline && echo both; true", Fence: Fence{queue, 2}, Stdout: &out})
		if err != nil || out.String() != "" {
			t.Errorf("round %d: %v, %q", round, err, out.String())
		}
		if err := <-older; ctx.Err() != nil || err != nil && !errors.Is(err, ErrStaleFence) {
			t.Errorf("round %d: the older command: %v", round, err)
		}
		cancel()
	}
}

// Simulated hosts understand what every command begins with, and the scripts of transfers.
func TestSimulatedHostsKeepFences(t *testing.T) {
	f, err := fleet.Start(testContext(t), fleet.Config{Hosts: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	p, h := newPool(t, func(c *Config) { offers(c).Identities = []string{f.IdentityFile()} }), f.Hosts()[0]
	fence := Fence{Queue: "queue"}
	for i, c := range []struct {
		count uint64
		stale bool
	}{{9, false}, {8, true}, {9, false}, {10, false}, {9, true}} {
		fence.Count = c.count
		var out, errs strings.Builder
		exit, err := p.Run(testContext(t), h, Exec{Command: "echo $#; env | grep -c turnus_", Fence: fence, Stdout: &out, Stderr: &errs})
		if c.stale != errors.Is(err, ErrStaleFence) || !c.stale && (err != nil || exit.Code != 1 || out.String() != "0\n0\n") || errs.String() != "" {
			t.Errorf("%d: %+v, %v, %q, %q", i, exit, err, out.String(), errs.String())
		}
		for _, path := range []string{"/etc/file", "/tmp/file"} { // only in /tmp may others give names
			if _, err := p.Put(testContext(t), h, Put{Path: path, Size: 3, Mode: 0o640, Backup: ".old", Fence: fence}, strings.NewReader("new")); c.stale != errors.Is(err, ErrStaleFence) || !c.stale && err != nil {
				t.Errorf("%d: %s: %v", i, path, err)
			}
		}
	}
	for range 40 {
		fence.Count++
		if _, err := p.Run(testContext(t), h, Exec{Command: "true", Fence: fence}); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if _, err := p.Run(testContext(t), h, Exec{Command: "ls /run/turnus | wc -l; ls /etc /tmp", Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(out.String())
	if n, err := strconv.Atoi(lines[0]); err != nil || n < 1 || n > 20 || strings.Contains(out.String(), ".part") || strings.Count(out.String(), "file.old") != 2 {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// A worker that slept while another one has its host's lease: commands that still run under the
// older lease are also ended there.
func TestSimulatedHostsEndLeftovers(t *testing.T) {
	f, err := fleet.Start(testContext(t), fleet.Config{Hosts: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	p, h := newPool(t, func(c *Config) { offers(c).Identities = []string{f.IdentityFile()} }), f.Hosts()[0]
	ended := make(chan error, 1)
	begun, begin := io.Pipe()
	go func() {
		_, err := p.Run(testContext(t), h, Exec{Command: "echo on; sleep 1000", Fence: Fence{"queue", 1}, Stdout: begin})
		_ = begin.CloseWithError(err)
		ended <- err
	}()
	if _, err := begun.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Run(testContext(t), h, Exec{Command: "true", Fence: Fence{"queue", 2}}); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the older command continues")
	}
}
