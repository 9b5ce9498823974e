package servers

import (
	"bufio"
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts"
)

// perDaemon is how many addresses one sshd can listen on (MAX_LISTEN_SOCKS).
const perDaemon = 16

// readyTime bounds the start of a server on a loaded machine.
const readyTime = 60 * time.Second

// SSHD is one running sshd, or several that act as one host when it has more
// than 16 addresses.
type SSHD struct {
	Addresses []string // IP addresses
	Port      int
	User      string // who may log in: the user of the test process
	HostKey   ssh.PublicKey
	Dir       string // holds keys and configuration; removed after the test

	mu  sync.Mutex // guards log
	log strings.Builder

	running sync.Mutex // guards daemons
	daemons []*sshDaemon
}

type sshDaemon struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and its log was read
}

type sshdOptions struct {
	addresses  []string
	config     []string
	authorized []ssh.PublicKey
	hostKey    ed25519.PrivateKey
	hostCA     ssh.Signer
	principals []string
	port       int
	prefix     []string
	user       string
}

// SSHDOption changes how a server is made.
type SSHDOption func(*sshdOptions)

// SSHDAddresses makes the server listen on n loopback addresses instead of one.
func SSHDAddresses(n int) SSHDOption {
	return func(o *sshdOptions) { o.addresses = nextAddresses(n) }
}

// SSHDAddress makes the server listen on this loopback address.
func SSHDAddress(ip string) SSHDOption { return func(o *sshdOptions) { o.addresses = []string{ip} } }

// SSHDConfig adds lines to sshd_config, before the server's own: the first value
// counts. LogLevel alone is fixed.
func SSHDConfig(lines ...string) SSHDOption {
	return func(o *sshdOptions) { o.config = append(o.config, lines...) }
}

// Authorize lets these keys log in.
func Authorize(keys ...ssh.PublicKey) SSHDOption {
	return func(o *sshdOptions) { o.authorized = append(o.authorized, keys...) }
}

// Inside makes the server listen on this port, started by the command line prefix, as in another
// network namespace: its addresses need not be this machine's.
func Inside(port int, prefix ...string) SSHDOption {
	return func(o *sshdOptions) { o.port, o.prefix = port, prefix }
}

// HostKey sets the host key, as for a server that comes back, or an impostor.
func HostKey(key ed25519.PrivateKey) SSHDOption { return func(o *sshdOptions) { o.hostKey = key } }

// HostCertificate has ca sign the host key for the principals.
func HostCertificate(ca ssh.Signer, principals ...string) SSHDOption {
	return func(o *sshdOptions) { o.hostCA, o.principals = ca, principals }
}

// lastAddress is shared by all tests of a process, so that no two servers meet.
var lastAddress atomic.Uint32

func nextAddresses(n int) []string {
	list := make([]string, n)
	for i := range list {
		// 127.64.0.1 and up; other processes start elsewhere.
		a := (lastAddress.Add(1) + uint32(os.Getpid())*977) & 0x1fffff
		list[i] = net.IPv4(127, byte(64+a>>16), byte(a>>8), byte(a)).String()
	}
	return list
}

// StartSSHD runs a server until the test ends.
func StartSSHD(tb testing.TB, opts ...SSHDOption) *SSHD {
	tb.Helper()
	program := testparts.Need(tb, "sshd", "openssh-server")
	o := sshdOptions{}
	for _, opt := range opts {
		opt(&o)
	}
	if o.addresses == nil {
		o.addresses = nextAddresses(1)
	}
	if os.Geteuid() == 0 { // sshd wants its directory for privilege separation
		must(tb, os.MkdirAll("/run/sshd", 0o755)) //nolint:gosec // sshd wants this very mode
	}
	me, err := user.Current()
	must(tb, err)
	s := &SSHD{Addresses: o.addresses, User: cmp.Or(o.user, me.Username), Dir: tb.TempDir()}
	s.writeKeys(tb, &o)
	for try := range 10 { // somebody else may take the port in between
		if s.Port = o.port; s.Port == 0 {
			s.Port = testparts.FreePortOf(tb, o.addresses[0])
		}
		if err = s.start(tb, program, &o); err == nil {
			break
		}
		s.stop()
		if try == 9 {
			tb.Fatalf("sshd did not start: %v\n%s", err, s.Log())
		}
	}
	tb.Cleanup(s.stop)
	return s
}

func (s *SSHD) writeKeys(tb testing.TB, o *sshdOptions) {
	tb.Helper()
	if o.hostKey == nil {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		must(tb, err)
		o.hostKey = key
	}
	signer, err := ssh.NewSignerFromKey(o.hostKey)
	must(tb, err)
	s.HostKey = signer.PublicKey()
	WriteSSHKey(tb, s.path("host_key"), o.hostKey)
	if o.hostCA != nil {
		cert := &ssh.Certificate{
			Key: s.HostKey, CertType: ssh.HostCert, ValidPrincipals: o.principals, KeyId: "turnus-test",
			ValidAfter: uint64(time.Now().Add(-time.Hour).Unix()), ValidBefore: uint64(time.Now().Add(time.Hour).Unix()),
		}
		must(tb, cert.SignCert(rand.Reader, o.hostCA))
		must(tb, os.WriteFile(s.path("host_key-cert.pub"), ssh.MarshalAuthorizedKey(cert), 0o600))
	}
	var keys []byte
	for _, k := range o.authorized {
		keys = append(keys, ssh.MarshalAuthorizedKey(k)...)
	}
	must(tb, os.WriteFile(s.path("authorized_keys"), keys, 0o600))
}

func (s *SSHD) path(name string) string { return filepath.Join(s.Dir, name) }

func (s *SSHD) config(o *sshdOptions, addresses []string) string {
	lines := append([]string{"LogLevel VERBOSE"}, o.config...) // reports when it listens
	// SHLVL keeps bash from reading ~/.bashrc, which may take longer than a test.
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "SetEnv ") }); i >= 0 {
		lines[i] += " SHLVL=2"
	} else {
		lines = append(lines, "SetEnv SHLVL=2")
	}
	for _, a := range addresses {
		lines = append(lines, "ListenAddress "+a)
	}
	lines = append(lines,
		"Port "+strconv.Itoa(s.Port),
		"HostKey "+s.path("host_key"),
		"AuthorizedKeysFile "+s.path("authorized_keys"),
		"PidFile none",
		"StrictModes no", // the folder is a test's
		"UsePAM no",
		"PermitRootLogin yes",
		"PasswordAuthentication no",
		"KbdInteractiveAuthentication no",
		"UseDNS no",
		"PrintMotd no",
		"PrintLastLog no",
	)
	if !slices.ContainsFunc(o.config, func(l string) bool { return strings.HasPrefix(l, "Subsystem sftp ") }) { // may be there once
		lines = append(lines, "Subsystem sftp internal-sftp")
	}
	if o.hostCA != nil {
		lines = append(lines, "HostCertificate "+s.path("host_key-cert.pub"))
	}
	return strings.Join(lines, "\n") + "\n"
}

// start runs the daemons and waits until each reports that it listens. It connects to none: newer
// servers ban sources that connect and send nothing.
func (s *SSHD) start(tb testing.TB, program string, o *sshdOptions) error {
	tb.Helper()
	for list := range slices.Chunk(o.addresses, perDaemon) {
		file := s.path(fmt.Sprintf("sshd_config.%d", len(s.daemons)))
		must(tb, os.WriteFile(file, []byte(s.config(o, list)), 0o600))
		line := append(slices.Clone(o.prefix), program, "-D", "-e", "-f", file)
		cmd := exec.Command(line[0], line[1:]...) //nolint:noctx,gosec // it ends with stop, which reads its log to the end; our own configuration
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := cmd.StderrPipe()
		must(tb, err)
		must(tb, cmd.Start())
		d := &sshDaemon{cmd: cmd, done: make(chan struct{})}
		s.daemons = append(s.daemons, d)
		ready := make(chan struct{})
		go func() {
			defer close(d.done)
			s.read(bufio.NewScanner(out), len(list), ready)
			_ = cmd.Wait()
		}()
		limit := time.NewTimer(readyTime)
		select {
		case <-ready:
			limit.Stop()
		case <-d.done:
			limit.Stop()
			return fmt.Errorf("sshd ended immediately")
		case <-limit.C:
			return fmt.Errorf("sshd does not listen after %v", readyTime)
		}
	}
	return nil
}

func (s *SSHD) read(lines *bufio.Scanner, listeners int, ready chan<- struct{}) {
	for lines.Scan() {
		s.mu.Lock()
		if s.log.Len() < 4<<20 {
			s.log.WriteString(lines.Text() + "\n")
		}
		s.mu.Unlock()
		if strings.HasPrefix(lines.Text(), "Server listening on ") {
			if listeners--; listeners == 0 {
				close(ready)
			}
		}
	}
}

// Stop ends the listeners and every connection, as a crash of the host would.
// Safe to call twice, and concurrently with the end of the test.
func (s *SSHD) Stop() { s.stop() }

func (s *SSHD) stop() {
	s.running.Lock()
	defer s.running.Unlock()
	for _, d := range s.daemons {
		// The eldest first: a session that outlived its command would still report how that ended.
		all := childrenOf(d.cmd.Process.Pid)
		_ = d.cmd.Process.Kill()
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		// A session's own processes may hold the log open after their server.
		limit := time.NewTimer(10 * time.Second)
		select {
		case <-d.done:
		case <-limit.C:
		}
		limit.Stop()
	}
	s.daemons = nil
}

// childrenOf lists all descendants of a process, each before its own.
func childrenOf(pid int) []int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var list []int
	for f := range strings.FieldsSeq(string(text)) {
		if child, err := strconv.Atoi(f); err == nil {
			list = append(append(list, child), childrenOf(child)...)
		}
	}
	return list
}

// Log is the output of the server so far.
func (s *SSHD) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// Addr is host:port of the first address.
func (s *SSHD) Addr() string { return net.JoinHostPort(s.Addresses[0], strconv.Itoa(s.Port)) }

// Host describes the server's first address for a pool, its key pinned.
func (s *SSHD) Host(name string) core.Host { return s.HostAt(0, name) }

// HostAt describes the server's i-th address.
func (s *SSHD) HostAt(i int, name string) core.Host {
	return core.Host{
		Name: name, Address: s.Addresses[i],
		SSH: core.SSH{User: s.User, Port: s.Port, HostKeys: []string{AuthorizedKey(s.HostKey)}},
	}
}

// AuthorizedKey is a public key as inventories and authorized_keys hold it.
func AuthorizedKey(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// NewSSHKey makes a key pair and a file with its private half.
func NewSSHKey(tb testing.TB) (file string, public ssh.PublicKey) {
	tb.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(tb, err)
	signer, err := ssh.NewSignerFromKey(key)
	must(tb, err)
	file = filepath.Join(tb.TempDir(), "id_ed25519")
	WriteSSHKey(tb, file, key)
	return file, signer.PublicKey()
}

// WriteSSHKey writes a private key as ssh-keygen does.
func WriteSSHKey(tb testing.TB, file string, key ed25519.PrivateKey) {
	tb.Helper()
	block, err := ssh.MarshalPrivateKey(key, "turnus-test")
	must(tb, err)
	must(tb, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
}
