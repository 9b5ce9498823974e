// Package sshdtest owns real OpenSSH servers for tests: each listens on loopback
// addresses of its own (127.0.0.0/8), on a port that the kernel picked, with its
// own host key, and ends with its test.
//
// It must not know what the tests are about.
package sshdtest

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

// Server is one running sshd, or several that act as one host when it has more
// than 16 addresses.
type Server struct {
	Addresses []string // IP addresses
	Port      int
	User      string // who may log in: the user of the test process
	HostKey   ssh.PublicKey
	Dir       string // holds keys and configuration; removed after the test

	mu  sync.Mutex // guards log
	log strings.Builder

	running sync.Mutex // guards daemons
	daemons []*daemon
}

type daemon struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and its log was read
}

type options struct {
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

// Option changes how a Server is made.
type Option func(*options)

// Addresses makes the server listen on n loopback addresses instead of one.
func Addresses(n int) Option {
	return func(o *options) { o.addresses = nextAddresses(n) }
}

// Address makes the server listen on this loopback address.
func Address(ip string) Option { return func(o *options) { o.addresses = []string{ip} } }

// Config adds lines to sshd_config, before the server's own: the first value
// counts. LogLevel alone is fixed.
func Config(lines ...string) Option {
	return func(o *options) { o.config = append(o.config, lines...) }
}

// Authorize lets these keys log in.
func Authorize(keys ...ssh.PublicKey) Option {
	return func(o *options) { o.authorized = append(o.authorized, keys...) }
}

// Inside makes the server listen on this port, started by the command line prefix, as in another
// network namespace: its addresses need not be this machine's.
func Inside(port int, prefix ...string) Option {
	return func(o *options) { o.port, o.prefix = port, prefix }
}

// HostKey sets the host key, as for a server that comes back, or an impostor.
func HostKey(key ed25519.PrivateKey) Option { return func(o *options) { o.hostKey = key } }

// HostCertificate has ca sign the host key for the principals.
func HostCertificate(ca ssh.Signer, principals ...string) Option {
	return func(o *options) { o.hostCA, o.principals = ca, principals }
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

// Start runs a server until the test ends.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	program := testparts.Need(tb, "sshd", "openssh-server")
	o := options{}
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
	s := &Server{Addresses: o.addresses, User: cmp.Or(o.user, me.Username), Dir: tb.TempDir()}
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

func (s *Server) writeKeys(tb testing.TB, o *options) {
	tb.Helper()
	if o.hostKey == nil {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		must(tb, err)
		o.hostKey = key
	}
	signer, err := ssh.NewSignerFromKey(o.hostKey)
	must(tb, err)
	s.HostKey = signer.PublicKey()
	WriteKey(tb, s.path("host_key"), o.hostKey)
	if o.hostCA != nil {
		cert := &ssh.Certificate{
			Key: s.HostKey, CertType: ssh.HostCert, ValidPrincipals: o.principals, KeyId: "sshdtest",
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

func (s *Server) path(name string) string { return filepath.Join(s.Dir, name) }

func (s *Server) config(o *options, addresses []string) string {
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

// start runs the daemons and waits until each says that it listens. It connects
// to none: newer servers ban sources that connect and say nothing.
func (s *Server) start(tb testing.TB, program string, o *options) error {
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
		d := &daemon{cmd: cmd, done: make(chan struct{})}
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

func (s *Server) read(lines *bufio.Scanner, listeners int, ready chan<- struct{}) {
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
func (s *Server) Stop() { s.stop() }

func (s *Server) stop() {
	s.running.Lock()
	defer s.running.Unlock()
	for _, d := range s.daemons {
		// The eldest first: a session that outlived its command would still tell how that ended.
		all := children(d.cmd.Process.Pid)
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

// children lists all descendants of a process, each before its own.
func children(pid int) []int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var list []int
	for f := range strings.FieldsSeq(string(text)) {
		if child, err := strconv.Atoi(f); err == nil {
			list = append(append(list, child), children(child)...)
		}
	}
	return list
}

// Log is the output of the server so far.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// Addr is host:port of the first address.
func (s *Server) Addr() string { return net.JoinHostPort(s.Addresses[0], strconv.Itoa(s.Port)) }

// Host describes the server's first address for a pool, its key pinned.
func (s *Server) Host(name string) core.Host { return s.HostAt(0, name) }

// HostAt describes the server's i-th address.
func (s *Server) HostAt(i int, name string) core.Host {
	return core.Host{
		Name: name, Address: s.Addresses[i],
		SSH: core.SSH{User: s.User, Port: s.Port, HostKeys: []string{Line(s.HostKey)}},
	}
}

// Line is a public key as inventories and authorized_keys hold it.
func Line(key ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) }

// NewKey makes a key pair and a file with its private half.
func NewKey(tb testing.TB) (file string, public ssh.PublicKey) {
	tb.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(tb, err)
	signer, err := ssh.NewSignerFromKey(key)
	must(tb, err)
	file = filepath.Join(tb.TempDir(), "id_ed25519")
	WriteKey(tb, file, key)
	return file, signer.PublicKey()
}

// WriteKey writes a private key as ssh-keygen does.
func WriteKey(tb testing.TB, file string, key ed25519.PrivateKey) {
	tb.Helper()
	block, err := ssh.MarshalPrivateKey(key, "sshdtest")
	must(tb, err)
	must(tb, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
