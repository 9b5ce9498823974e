//go:build linux && labs && ansible

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
)

// besideLab are machines with systemd and OpenSSH, each with files of its own, before either tool
// has seen them.
type besideLab struct {
	*lab
	machines []*servers.Machine
	servers  []*servers.SSHD
	known    string
	ini      string
}

// figures are those of a tool: its first run on new machines, and the next one.
type figures struct {
	took   [2]time.Duration
	cpu    [2]time.Duration // of the tool's own processes
	trips  [2]int           // commands that the hosts were asked to run, all hosts together
	states []string
}

// Turnus and Ansible bring new machines to the same state by the same twenty steps, and find
// nothing to do the second time. It has TURNUS_BENCH machines; the figures are in the log.
func TestLabBesideAnsible(t *testing.T) {
	ansible := testparts.Need(t, "ansible-playbook", "ansible-core")
	hosts, err := strconv.Atoi(os.Getenv("TURNUS_BENCH"))
	if err != nil || hosts < 1 {
		t.Fatalf("TURNUS_BENCH is %q, expected how many machines: make check-ansible HOSTS=2", os.Getenv("TURNUS_BENCH"))
	}
	project := t.TempDir()
	besideProject(t, project)
	var ours, theirs figures
	if !t.Run("turnus", func(t *testing.T) { l := newBesideLab(t, project, hosts); ours = l.measure(l.turnus) }) ||
		!t.Run("ansible", func(t *testing.T) {
			l := newBesideLab(t, project, hosts)
			theirs = l.measure(func(second bool) time.Duration { return l.ansible(ansible, second) })
		}) {
		return
	}
	for i := range hosts {
		if ours.states[i] != theirs.states[i] {
			t.Errorf("host %d: the states differ (- Ansible, + Turnus):\n%s", i, difference(t, theirs.states[i], ours.states[i]))
		}
	}
	for i, what := range []string{"first run", "second run"} {
		t.Logf("%s on %d hosts: Turnus %s; Ansible %s; Turnus is %.1f times as fast", what, hosts, ours.of(i, hosts), theirs.of(i, hosts), theirs.took[i].Seconds()/ours.took[i].Seconds())
	}
}

// of returns what a run took.
func (f *figures) of(run, hosts int) string {
	n := float64(hosts)
	return fmt.Sprintf("%.1f s, %.0f ms of client CPU and %.1f round trips a host", f.took[run].Seconds(), f.cpu[run].Seconds()*1000/n, float64(f.trips[run])/n)
}

// besideProject makes a folder with the playbooks, what they copy, and what each machine has
// before: a site of twelve pages, an archive, and the seed.
func besideProject(t *testing.T, dir string) {
	t.Helper()
	for program, pkg := range map[string]string{"dpkg-scanpackages": "dpkg-dev", "git": "git"} {
		testparts.Need(t, program, pkg)
	}
	if err := os.CopyFS(dir, os.DirFS("testdata/beside")); err != nil {
		t.Fatal(err)
	}
	for i := range 12 {
		name := filepath.Join(dir, fmt.Sprintf("files/www/part%d/page%d.html", i%3, i))
		if i == 0 {
			name = filepath.Join(dir, "files/www/index.html")
		}
		err := os.MkdirAll(filepath.Dir(name), 0o755)
		if err == nil {
			err = os.WriteFile(name, []byte(strings.Repeat(fmt.Sprintf("<p>page %d</p>\n", i), 100)), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{
		"tar -C files --owner=0 --group=0 --mode=go-w -czf files/tool.tar.gz www",
		"sh seed.sh \"$PWD/seed\"",
		"tar -C seed --owner=0 --group=0 -cf seed.tar .",
	} {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", line)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
}

func newBesideLab(t *testing.T, project string, hosts int) *besideLab {
	t.Helper()
	l := &besideLab{lab: &lab{t: t, dir: t.TempDir()}}
	key, public := servers.NewSSHKey(t)
	l.env = append(l.env, "TURNUS_SECRETS="+l.file("logins.yaml", login(key)))
	if err := os.CopyFS(l.dir, os.DirFS(project)); err != nil {
		t.Fatal(err)
	}
	seed, err := os.ReadFile(filepath.Join(l.dir, "seed.tar"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range hosts {
		l.machine(seed, public, fmt.Sprintf("h%02d", i), key)
	}
	l.known, l.ini = l.file("known_hosts", l.known), l.file("hosts.ini", l.ini)
	return l
}

func (l *besideLab) machine(seed []byte, public ssh.PublicKey, name, key string) {
	l.t.Helper()
	m := servers.StartMachine(l.t)
	const before = "rm -rf /etc/apt/sources.list.d/* /etc/apt/apt.conf.d/* /var/lib/apt/lists/* && touch -d yesterday /var/lib/apt/lists && mkdir -p /run/sshd && tar -C / -x"
	if stdout, stderr, code, err := m.Run(l.t.Context(), before, bytes.NewReader(seed)); err != nil || code != 0 {
		l.t.Fatalf("exit %d, %v: %s%s", code, err, stdout, stderr)
	}
	s := servers.StartSSHD(l.t, servers.Authorize(public), servers.Inside(0, m.Server()...))
	l.machines, l.servers = append(l.machines, m), append(l.servers, s)
	l.known += fmt.Sprintf("[%s]:%d %s\n", s.Addresses[0], s.Port, servers.AuthorizedKey(s.HostKey))
	l.ini += fmt.Sprintf("%s ansible_host=%s ansible_port=%d ansible_user=root ansible_ssh_private_key_file=%s ansible_python_interpreter=/usr/bin/python3\n", name, s.Addresses[0], s.Port, key)
}

// measure runs a tool twice, the second time to find nothing to do, and reads the state of the
// machines after it.
func (l *besideLab) measure(run func(second bool) time.Duration) figures {
	l.t.Helper()
	var f figures
	for i := range f.took {
		before, start := l.trips(), time.Now()
		f.cpu[i] = run(i == 1)
		f.took[i], f.trips[i] = time.Since(start), l.trips()-before
	}
	script, err := os.ReadFile(filepath.Join(l.dir, "state.sh"))
	if err != nil {
		l.t.Fatal(err)
	}
	for _, m := range l.machines {
		state := func() string {
			stdout, stderr, code, err := m.Run(l.t.Context(), string(script), nil)
			if err != nil || code != 0 || !strings.Contains(stdout, "/srv/www/part2/page2.html f 644 0:0") {
				l.t.Fatalf("the state of a machine: exit %d, %v: %s%s", code, err, tail(stdout), stderr)
			}
			return stdout
		}
		f.states = append(f.states, state())
		if len(f.states) == 1 {
			_, _, _, _ = m.Run(l.t.Context(), "chmod 0600 /srv/www/index.html", nil)
			if state() == f.states[0] {
				l.t.Error("negative control: another mode makes no difference")
			}
		}
	}
	return f
}

// trips is how many commands the machines were asked to run so far.
func (l *besideLab) trips() int {
	n := 0
	for _, s := range l.servers {
		n += strings.Count(s.Log(), "Starting session: ")
	}
	return n
}

func (l *besideLab) turnus(second bool) time.Duration {
	l.t.Helper()
	p := l.start("run", "turnus.yaml", "-i", l.ini, "--known-hosts", l.known, "-o", "json", "--cpu-limit", "0", "--memory-limit", "0")
	p.wants(0)
	outcome := map[bool]string{false: "changed", true: "unchanged"}[second]
	if !p.out.has(fmt.Sprintf(`"%s": %d`, outcome, len(l.machines))) {
		l.t.Fatalf("expected all hosts %s: %s", outcome, tail(p.out.String()))
	}
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// ansible runs ansible-playbook as those do who made it fast: with pipelining, connections that
// stay open, a fork for each host, and without facts.
func (l *besideLab) ansible(program string, second bool) time.Duration {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), program, "-i", l.ini, "-f", strconv.Itoa(len(l.machines)), "ansible.yaml")
	cmd.Dir = l.dir
	cmd.Env = append(os.Environ(), "ANSIBLE_HOME="+l.dir+"/ansible", "ANSIBLE_LOCAL_TEMP="+l.dir+"/ansible", "ANSIBLE_SSH_CONTROL_PATH_DIR="+l.dir+"/cp", "ANSIBLE_HOST_KEY_CHECKING=False", "ANSIBLE_PIPELINING=1", "ANSIBLE_SSH_ARGS=-o ControlMaster=auto -o ControlPersist=60s")
	out, err := cmd.CombinedOutput()
	if err != nil || second && strings.Count(string(out), "changed=0 ") != len(l.machines) {
		l.t.Fatalf("ansible-playbook: %v\n%s", err, tail(string(out)))
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// difference returns the output of diff for two texts.
func difference(t *testing.T, a, b string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a": a, "b": b} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "diff", "-U0", "a", "b")
	cmd.Dir = dir
	out, _ := cmd.Output() // exit code 1: they differ
	return string(out)
}
