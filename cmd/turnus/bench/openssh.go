package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core"
)

// realBench are the flags of bench fanout --openssh.
type realBench struct {
	on        bool
	addresses int
	noAnsible bool
}

func (r *realBench) add(c *cobra.Command) {
	c.Flags().BoolVar(&r.on, "openssh", false, "against one real sshd on loopback, a bare SSH loop and Ansible beside it")
	c.Flags().IntVar(&r.addresses, "addresses", 500, "with --openssh: addresses of that sshd")
	c.Flags().BoolVar(&r.noAnsible, "no-ansible", false, "with --openssh: leave Ansible out")
}

// opensshReport is the -o json document of bench fanout --openssh.
type opensshReport struct {
	Addresses int          `json:"addresses"`
	Rows      []opensshRow `json:"rows"`
}

type opensshRow struct {
	What       string  `json:"what"`
	Seconds    float64 `json:"seconds"`
	HostsPerS  float64 `json:"hosts_per_s"`
	CPUPerHost float64 `json:"client_cpu_per_host_seconds"`
}

// namespaceEnv marks the re-executed benchmark as the one in a network of its own. There sshd may
// listen on all addresses, and nobody else can reach it.
const namespaceEnv = "TURNUS_BENCH_NETWORK"

// sshServer is a private sshd that answers on all of 127.0.0.0/8.
type sshServer struct {
	dir, hostKey, userKey string
	port                  int
	cmd                   *exec.Cmd
}

func benchOpenSSH(ctx context.Context, con *console.Console, r realBench, concurrency int) (err error) {
	if r.addresses < 1 || r.addresses > 5000 {
		return console.Invalid("--addresses %d: expected 1 to 5000", r.addresses)
	}
	if os.Getenv(namespaceEnv) == "" {
		return inOwnNetwork(ctx, con)
	}
	if out, err := exec.CommandContext(ctx, "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("ip link set lo up: %w: %s\nhint: apt-get install iproute2", err, out)
	}
	s, err := startSSHD(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	out := opensshReport{Addresses: r.addresses}
	add := func(what string, wall, cpu time.Duration) {
		n := float64(r.addresses)
		out.Rows = append(out.Rows, opensshRow{what, wall.Seconds(), n / wall.Seconds(), cpu.Seconds() / n})
	}
	wall, cpu, err := s.bareLoop(ctx, r.addresses, 50)
	if err != nil {
		return fmt.Errorf("bare loop: %w", err)
	}
	add("bare x/crypto/ssh loop, 50 at a time", wall, cpu)
	hosts := s.hosts(r.addresses)
	bench, err := startFanout(ctx, con, hosts, node.Flags{Concurrency: concurrency, Login: node.UserLoginFlags{Keys: []string{s.userKey}, Agent: "none"}, SSH: node.SSHFlags{ConnectTimeout: time.Minute}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bench.stop()) }()
	children := childrenCPU()
	for _, what := range []string{"turnus, new connections", "turnus, pooled connections"} {
		row, _, err := bench.round(ctx)
		if err != nil {
			return err
		}
		now := childrenCPU()
		add(what, row.Took.Duration(), row.ClientCPU.Duration()+now-children)
		children = now
	}
	if err := bench.stop(); err != nil {
		return err
	}
	if err := s.ansibleRows(ctx, con, r, add); err != nil {
		return err
	}
	if con.Output == "json" {
		return console.PrintJSON(con.Out, out)
	}
	rows := [][]string{{"WHAT", "SECONDS", "HOSTS/S", "CLIENT CPU MS/HOST"}}
	for _, row := range out.Rows {
		rows = append(rows, []string{row.What, fmt.Sprintf("%.2f", row.Seconds), fmt.Sprintf("%.1f", row.HostsPerS), fmt.Sprintf("%.2f", 1000*row.CPUPerHost)})
	}
	console.Table(con.Out, rows)
	return nil
}

func startSSHD(ctx context.Context) (_ *sshServer, err error) {
	sshd, err := findProgram("sshd")
	if err != nil {
		return nil, fmt.Errorf("%w\nhint: apt-get install openssh-server", err)
	}
	dir, err := os.MkdirTemp("", "turnus-bench-sshd-")
	if err != nil {
		return nil, err
	}
	s := &sshServer{dir: dir, hostKey: filepath.Join(dir, "host"), userKey: filepath.Join(dir, "user")}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	for _, key := range []string{s.hostKey, s.userKey} {
		if out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil { //nolint:gosec // fixed arguments
			return nil, fmt.Errorf("ssh-keygen: %w: %s", err, out)
		}
	}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`ListenAddress 0.0.0.0
Port %d
HostKey %s
AuthorizedKeysFile %s.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
MaxStartups 1000:30:2000
LogLevel ERROR
SetEnv SHLVL=2
Subsystem sftp internal-sftp
`, s.port, s.hostKey, s.userKey)
	file := filepath.Join(dir, "sshd_config")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil && os.Getuid() == 0 { //nolint:gosec // sshd wants this very mode
		return nil, err
	}
	s.cmd = exec.CommandContext(ctx, sshd, "-D", "-e", "-f", file) //nolint:gosec // our own configuration
	var said bytes.Buffer
	s.cmd.Stderr = &said
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if err := s.ready(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s", err, said.String()), s.stop())
	}
	return s, nil
}

// ready waits until the server answers with its key.
func (s *sshServer) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.login(ctx, s.address(0))
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("sshd does not answer: %w", err)
		case <-tick.C:
		}
	}
}

func (s *sshServer) stop() error {
	var err error
	if s.cmd != nil && s.cmd.Process != nil {
		err = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // reports only that it was killed
		s.cmd = nil
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// address is the n-th of the server's loopback addresses.
func (s *sshServer) address(n int) string {
	return net.JoinHostPort(fmt.Sprintf("127.1.%d.%d", n/250, n%250+1), strconv.Itoa(s.port))
}

func (s *sshServer) hosts(n int) []core.Host {
	pin, err := os.ReadFile(s.hostKey + ".pub")
	if err != nil {
		return nil // the run then refuses every host key, and reports it
	}
	me, _ := user.Current()
	hosts := make([]core.Host, n)
	for i := range hosts {
		address, _, _ := net.SplitHostPort(s.address(i))
		hosts[i] = core.Host{Name: fmt.Sprintf("sshd-%04d", i), Address: address,
			SSH: core.SSH{User: me.Username, Port: s.port, HostKeys: []string{strings.TrimSpace(string(pin))}}}
	}
	return hosts
}

// login runs hostname over a new connection, as plainly as x/crypto/ssh can.
func (s *sshServer) login(ctx context.Context, address string) error {
	pem, err := os.ReadFile(s.userKey)
	if err != nil {
		return err
	}
	key, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		return err
	}
	pin, err := os.ReadFile(s.hostKey + ".pub")
	if err != nil {
		return err
	}
	hostKey, _, _, _, err := ssh.ParseAuthorizedKey(pin)
	if err != nil {
		return err
	}
	me, err := user.Current()
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	c, chans, reqs, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{User: me.Username,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(hostKey), HostKeyAlgorithms: []string{hostKey.Type()}})
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	client := ssh.NewClient(c, chans, reqs)
	defer func() { _ = client.Close() }()
	session, err := client.NewSession()
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }() // returns EOF after the command
	_, err = session.Output("hostname")
	return err
}

// bareLoop is the least that a Go client can do: n addresses, so many at the same time.
func (s *sshServer) bareLoop(ctx context.Context, n, atOnce int) (wall, cpu time.Duration, err error) {
	start, before := time.Now(), processCPU()
	errs := make([]error, n)
	concurrency := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range n {
		concurrency <- struct{}{}
		wg.Go(func() {
			defer func() { <-concurrency }()
			errs[i] = s.login(ctx, s.address(i))
		})
	}
	wg.Wait()
	return time.Since(start), processCPU() - before, errors.Join(errs...)
}

// ansibleRows times Ansible on the same addresses, where it is installed.
func (s *sshServer) ansibleRows(ctx context.Context, con *console.Console, r realBench, add func(string, time.Duration, time.Duration)) error {
	if r.noAnsible {
		return nil
	}
	ansible, err := findProgram("ansible")
	if err != nil {
		con.Message("ansible is not installed: its rows are left out (apt-get install ansible-core)")
		return nil //nolint:nilerr // the message says it; the other rows stand
	}
	var inventory strings.Builder
	for i := range r.addresses {
		address, _, _ := net.SplitHostPort(s.address(i))
		fmt.Fprintf(&inventory, "sshd-%04d ansible_host=%s ansible_port=%d ansible_ssh_private_key_file=%s\n", i, address, s.port, s.userKey)
	}
	file := filepath.Join(s.dir, "hosts.ini")
	if err := os.WriteFile(file, []byte(inventory.String()), 0o600); err != nil {
		return err
	}
	for _, module := range []string{"raw", "command"} {
		cmd := exec.CommandContext(ctx, ansible, "all", "-i", file, "-f", "50", "-m", module, "-a", "hostname", "-o") //nolint:gosec // fixed arguments
		cmd.Env = append(os.Environ(), "ANSIBLE_PIPELINING=1", "ANSIBLE_HOST_KEY_CHECKING=False", "ANSIBLE_HOME="+s.dir, "ANSIBLE_PYTHON_INTERPRETER=/usr/bin/python3", "ANSIBLE_SSH_ARGS=-o ControlMaster=auto -o ControlPersist=2s")
		start := time.Now()
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("ansible -m %s: %w: %s", module, err, console.CutText(string(out), 400))
		}
		add("ansible "+module+", 50 forks, pipelining", time.Since(start), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
	return nil
}

// findProgram also searches the folders in which servers are installed.
func findProgram(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	return exec.LookPath("/usr/sbin/" + name)
}

// freePort is a port that nobody listens on now.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns immediately
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
