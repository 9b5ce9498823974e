package fleet

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// one starts a fleet of a single host with one fault.
func one(t *testing.T, p Profile) *Fleet {
	t.Helper()
	return start(t, Config{Hosts: 1, Profile: All(p)})
}

func TestProfileFail(t *testing.T) {
	f := one(t, Fail(3, "no space left\n"))
	_, stderr, code, _ := run(t, mustDial(t, f, f.Hosts()[0]), "true", "")
	if code != 3 || stderr != "no space left\n" {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}
}

func TestProfileSlow(t *testing.T) {
	const d = 50 * time.Millisecond
	f := one(t, Slow(d))
	c := mustDial(t, f, f.Hosts()[0])
	began := time.Now()
	if out, _, code, _ := run(t, c, "echo late", ""); out != "late\n" || code != 0 {
		t.Errorf("%q, exit %d", out, code)
	}
	if took := time.Since(began); took < d {
		t.Errorf("took %v, at least %v wanted", took, d)
	}
}

func TestProfileSlowKex(t *testing.T) {
	const d = 50 * time.Millisecond
	f := one(t, SlowKex(d))
	began := time.Now()
	mustDial(t, f, f.Hosts()[0])
	if took := time.Since(began); took < d {
		t.Errorf("took %v, at least %v wanted", took, d)
	}
}

func TestProfileHangEndsBySignal(t *testing.T) {
	f := one(t, Hang())
	c := mustDial(t, f, f.Hosts()[0])
	for _, sig := range []ssh.Signal{ssh.SIGTERM, ssh.SIGKILL} {
		if got := startAndSignal(t, c, "true", sig); got != string(sig) {
			t.Errorf("%s: ended by %q", sig, got)
		}
	}
}

// startAndSignal returns the signal that ended the command.
func startAndSignal(t *testing.T, c *ssh.Client, cmd string, sigs ...ssh.Signal) string {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.Start(cmd); err != nil {
		t.Fatal(err)
	}
	for _, sig := range sigs {
		if err := s.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	var exit *ssh.ExitError
	if err := s.Wait(); !errors.As(err, &exit) {
		t.Fatalf("%s: %v", cmd, err)
	}
	return exit.Signal()
}

func TestProfileIgnoreTerm(t *testing.T) {
	f := one(t, Profile{Hang: true, IgnoreTerm: true})
	if got := startAndSignal(t, mustDial(t, f, f.Hosts()[0]), "true", ssh.SIGTERM, ssh.SIGKILL); got != "KILL" {
		t.Errorf("ended by %q", got)
	}
}

func TestSignalEndsWhateverIsStuck(t *testing.T) {
	f := one(t, OK())
	c := mustDial(t, f, f.Hosts()[0])
	for _, cmd := range []string{"sleep 1000", "yes", "yes | cat", "while true; do sleep 0.001; done", "sleep 1000 | sleep 1000"} {
		if got := startAndSignal(t, c, cmd, ssh.SIGTERM); got != "TERM" {
			t.Errorf("%s: ended by %q", cmd, got)
		}
	}
	s, err := c.NewSession() // waits for input that never comes
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Start("cat"), s.Signal(ssh.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	var exit *ssh.ExitError
	if err := s.Wait(); !errors.As(err, &exit) || exit.Signal() != "TERM" {
		t.Errorf("cat: %v", err)
	}
}

func TestClosingTheChannelEndsTheCommand(t *testing.T) {
	f := one(t, Hang())
	c := mustDial(t, f, f.Hosts()[0])
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("true"); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	h := f.hosts[0]
	eventually(t, "the command is gone", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.procs) == 0
	})
}

func TestKillFromAnotherSession(t *testing.T) {
	f := one(t, OK())
	c := mustDial(t, f, f.Hosts()[0])
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("echo $$; exec sleep 1000"); err != nil {
		t.Fatal(err)
	}
	pid := make([]byte, 16)
	n, err := out.Read(pid)
	if err != nil {
		t.Fatal(err)
	}
	if _, stderr, code, _ := run(t, c, "kill -TERM -- -"+string(bytes.TrimSpace(pid[:n])), ""); code != 0 {
		t.Fatalf("kill: exit %d, %s", code, stderr)
	}
	var exit *ssh.ExitError
	if err := s.Wait(); !errors.As(err, &exit) || exit.Signal() != "TERM" {
		t.Errorf("ended with %v", err)
	}
	if _, _, code, _ := run(t, c, "kill 99", ""); code != 1 {
		t.Errorf("killing nobody: exit %d", code)
	}
}

func TestProfileSilent(t *testing.T) {
	f := one(t, Silent())
	h := f.Hosts()[0]
	c, err := net.Dial("tcp", net.JoinHostPort(h.Address, strconv.Itoa(h.SSH.Port)))
	if err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	var timeout net.Error
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a silent host sent %d bytes: %v", n, err)
	}
	_ = c.Close()
}

func TestProfilesThatLoseTheConnection(t *testing.T) {
	for _, p := range []Profile{Reset(), Cut()} {
		t.Run(p.Kind, func(t *testing.T) {
			f := one(t, p)
			_, _, code, err := run(t, mustDial(t, f, f.Hosts()[0]), "true", "")
			var missing *ssh.ExitMissingError
			if code != -1 || err == nil || p.Kind == "cut" && !errors.As(err, &missing) {
				t.Errorf("exit %d: %v", code, err)
			}
		})
	}
}

func TestProfileRefuseAuth(t *testing.T) {
	f := one(t, RefuseAuth())
	if _, err := dial(t, f, f.Hosts()[0]); err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
		t.Errorf("got %v", err)
	}
}

func TestProfileChangedKey(t *testing.T) {
	f := one(t, ChangedKey())
	if _, err := dial(t, f, f.Hosts()[0]); err == nil || !strings.Contains(err.Error(), "host key mismatch") {
		t.Errorf("got %v", err)
	}
	if err := f.SetProfile(f.Hosts()[0].Name, OK()); err != nil {
		t.Fatal(err)
	}
	mustDial(t, f, f.Hosts()[0]) // negative control: without the fault the pin fits
}

func TestMaxSessions(t *testing.T) {
	for _, tc := range []struct {
		p    Profile
		want int
	}{{MaxSessions(2), 2}, {OK(), 10}} {
		f := one(t, tc.p)
		c := mustDial(t, f, f.Hosts()[0])
		var open []*ssh.Session
		for {
			s, err := c.NewSession()
			if err != nil {
				var refused *ssh.OpenChannelError
				if !errors.As(err, &refused) || refused.Message != "open failed" {
					t.Errorf("refused with %v", err)
				}
				break
			}
			open = append(open, s)
		}
		if len(open) != tc.want {
			t.Errorf("%s: %d sessions, want %d", tc.p.Kind, len(open), tc.want)
		}
		_ = open[0].Close()
		eventually(t, "a closed session makes room", func() bool {
			s, err := c.NewSession()
			if err == nil {
				_ = s.Close()
			}
			return err == nil
		})
	}
}

func TestProfileMaxStartups(t *testing.T) {
	f := one(t, MaxStartups(2))
	h := f.Hosts()[0]
	address := net.JoinHostPort(h.Address, strconv.Itoa(h.SSH.Port))
	var waiting []net.Conn
	for range 2 { // sends nothing, so it stays unauthenticated
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, c)
	}
	if _, err := dial(t, f, h); err == nil {
		t.Error("a third one was admitted")
	}
	if s := f.Stats(); s.Dropped != 1 {
		t.Errorf("stats: %+v", s)
	}
	for _, c := range waiting {
		_ = c.Close()
	}
	eventually(t, "it admits again", func() bool {
		c, err := dial(t, f, h)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func TestProfileBan(t *testing.T) {
	in := func(f *Fleet) bool {
		c, err := dial(t, f, f.Hosts()[0])
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}
	banned := func(d time.Duration) *Fleet {
		f := one(t, Ban(2, d))
		bad := f.Hosts()[0]
		bad.SSH.User = "root"
		for range 2 {
			if _, err := dial(t, f, bad); err == nil {
				t.Fatal("let in")
			}
		}
		eventually(t, "both are counted", func() bool { return f.Stats().AuthFailed == 2 })
		return f
	}
	if f := banned(time.Hour); in(f) || f.Stats().Dropped != 1 {
		t.Errorf("the source is not banned: %+v", f.Stats())
	}
	short := banned(100 * time.Millisecond) // it may be over already: the other one shows that it began
	eventually(t, "the ban ends", func() bool { return in(short) })
}

func TestProfileFlood(t *testing.T) {
	const n = 3 << 20
	f := one(t, Flood(n))
	out, _, code, _ := run(t, mustDial(t, f, f.Hosts()[0]), "echo end", "")
	if len(out) != n+4 || !strings.HasSuffix(out, "end\n") || code != 0 {
		t.Errorf("%d bytes, exit %d", len(out), code)
	}
}

func TestProfileBinary(t *testing.T) {
	f := one(t, Binary())
	out, _, _, _ := run(t, mustDial(t, f, f.Hosts()[0]), "true", "")
	if out != string(allBytes()) {
		t.Errorf("got %q", out)
	}
}

func TestReboot(t *testing.T) {
	f := one(t, Profile{BootTime: 20 * time.Millisecond})
	h := f.Hosts()[0]
	c := mustDial(t, f, h)
	const check = "cat /proc/sys/kernel/random/boot_id; test -e /tmp/x && echo tmp; test -e /opt/x && echo opt"
	before, _, code, err := run(t, c, "touch /tmp/x /opt/x && "+check, "")
	if code != 0 {
		t.Fatal(err)
	}
	if _, _, code, err := run(t, c, "reboot", ""); code != 0 {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil {
		t.Error("the connection ended without an error")
	}
	var after string
	eventually(t, "the host is back", func() bool {
		c, err := dial(t, f, h)
		if err != nil {
			return false
		}
		defer func() { _ = c.Close() }()
		after, _, code, _ = run(t, c, check, "")
		return code == 0
	})
	id, rest, _ := strings.Cut(before, "\n")
	newID, newRest, _ := strings.Cut(after, "\n")
	if id == newID || len(newID) != 36 || rest != "tmp\nopt\n" || newRest != "opt\n" {
		t.Errorf("before %q, after %q", before, after)
	}
}

func TestForwarding(t *testing.T) {
	f := start(t, Config{Hosts: 3, Profile: Only(map[int]Profile{0: {Forward: true}})})
	hs := f.Hosts()
	target := net.JoinHostPort(hs[2].Address, strconv.Itoa(hs[2].SSH.Port))
	var refused *ssh.OpenChannelError
	if _, err := mustDial(t, f, hs[1]).Dial("tcp", target); !errors.As(err, &refused) || refused.Reason != ssh.Prohibited {
		t.Errorf("a host without forwarding: %v", err)
	}
	bastion := mustDial(t, f, hs[0])
	if _, err := bastion.Dial("tcp", "127.0.0.1:22"); !errors.As(err, &refused) || refused.Reason != ssh.Prohibited {
		t.Errorf("an address outside the fleet: %v", err)
	}
	c, err := bastion.Dial("tcp", target)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 8)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "SSH-2.0-" {
		t.Errorf("through the bastion: %q, %v", b, err)
	}
	_ = c.Close()
}

func TestKeepAliveIsAnswered(t *testing.T) {
	f := one(t, OK())
	ok, _, err := mustDial(t, f, f.Hosts()[0]).SendRequest("keepalive@openssh.com", true, nil)
	if ok || err != nil {
		t.Errorf("got %v, %v; sshd answers with a refusal", ok, err)
	}
}

func TestDemoProfileShowsEveryFault(t *testing.T) {
	for seed := range uint64(20) {
		small, large := map[string]int{}, map[string]int{}
		p := DemoProfile(seed)
		for n := range 3000 {
			if n < 40 {
				small[p(n).Kind]++
			}
			large[p(n).Kind]++
		}
		if len(small) != 7 {
			t.Errorf("seed %d: 40 hosts show %v", seed, small)
		}
		if large["ok"] < 2880 || large["hang"] != 3 {
			t.Errorf("seed %d: 3000 hosts show %v", seed, large)
		}
	}
}
