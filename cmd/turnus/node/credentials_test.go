package node

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/core/queue/queuetest"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/playbooks"
)

// trap is a machine of an attacker: an SSH server that takes every password and key, and keeps what
// it got, also the input of commands.
type trap struct {
	t    *testing.T
	l    net.Listener
	pin  string
	mu   sync.Mutex
	got  []string
	done sync.WaitGroup
}

func newTrap(t *testing.T, ip string) *trap {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	s := &trap{t: t, pin: servers.AuthorizedKey(signer.PublicKey())}
	if s.l, err = net.Listen("tcp", net.JoinHostPort(ip, "0")); err != nil {
		t.Fatal(err)
	}
	cfg := &ssh.ServerConfig{
		PasswordCallback: func(_ ssh.ConnMetadata, b []byte) (*ssh.Permissions, error) { s.keep(string(b)); return nil, nil },
		PublicKeyCallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
			s.keep(servers.AuthorizedKey(k))
			return nil, nil
		},
	}
	cfg.AddHostKey(signer)
	s.done.Go(func() {
		for {
			c, err := s.l.Accept()
			if err != nil {
				return
			}
			s.done.Go(func() { s.serve(c, cfg) })
		}
	})
	t.Cleanup(func() { _ = s.l.Close(); s.done.Wait() })
	return s
}

func (s *trap) keep(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, what)
}

// stolen is all that the trap got.
func (s *trap) stolen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.got, "\n")
}

func (s *trap) serve(c net.Conn, cfg *ssh.ServerConfig) {
	defer c.Close()
	_, chans, reqs, err := ssh.NewServerConn(c, cfg)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(reqs)
	for nc := range chans {
		ch, asked, err := nc.Accept()
		if err != nil {
			return
		}
		s.done.Go(func() {
			for r := range asked {
				_ = r.Reply(r.Type == "exec", nil)
				if r.Type == "exec" {
					input, _ := io.ReadAll(ch)
					s.keep(string(r.Payload) + string(input))
					_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ S uint32 }{}))
					_ = ch.Close()
				}
			}
		})
	}
}

// host is the JSON of a host at the trap, as a queue holds it; more are further keys of its ssh.
func (s *trap) host(more string) string {
	a := s.l.Addr().(*net.TCPAddr)
	return fmt.Sprintf(`{"name":"h","address":%q,"ssh":{"user":"root","port":%d,"host_keys":[%q]%s}}`, a.IP, a.Port, s.pin, more)
}

// attack has a worker with this file of its own work on a job as the queue holds it, and returns
// how the job ended.
func attack(t *testing.T, own, host, steps string, refs map[string]secrets.Ref) core.Result {
	t.Helper()
	return attackNode(t, &Flags{secrets: SecretFlags{File: own}}, ByCredentials, nil, host, steps, refs)
}

func attackNode(t *testing.T, f *Flags, by LoginMode, inv *inventory.Inventory, host, steps string, refs map[string]secrets.Ref) core.Result {
	t.Helper()
	f.Concurrency, f.SSH = 1, SSHFlags{knownHosts: []string{"/dev/null"}, ConnectTimeout: time.Minute}
	a := console.New(strings.NewReader(""), io.Discard, io.Discard)
	n, err := f.Reach(t.Context(), by, func() *inventory.Inventory { return inv }, a.Logger(false))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	}()
	opts := PlaybookOptions(n.Plugins, nil)
	p, err := playbooks.Parse("p.yaml", []byte("playbook: p\ntargets: \"true\"\nsteps: ["+steps+"]\n"), opts)
	if err != nil {
		t.Fatal(err)
	}
	l, err := launch.Prepare(p, []core.Host{{Name: "h"}}, launch.Options{Types: opts.Types})
	if err != nil {
		t.Fatal(err)
	}
	l.Run.Targets[0].Data = []byte(host)
	if l.Snapshot.Secrets = refs; refs != nil {
		if l.Run.Payload, err = l.Snapshot.Encode(); err != nil {
			t.Fatal(err)
		}
	}
	q := memory.New(memory.Options{})
	defer q.Shutdown()
	if err := n.Work(f, WorkOptions{Queue: q}, a.Logger(false)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var ended core.Result
	if _, err := queuetest.Drive(ctx, q, l, queuetest.DriveOptions{OnRecord: func(r core.Result) { ended = r }}); err != nil {
		t.Fatal(err)
	}
	return ended
}

const pingStep = `{uses: command, with: {run: "true"}}`

// A person who may write jobs into the queue gets neither a command run on a worker nor its
// password, whatever is in the job: it is judged by a marker, and by what the attacker's machine
// got.
func TestFaultS1ForgedJobsGetNoLogin(t *testing.T) {
	s := newTrap(t, "127.34.0.1")
	marker := filepath.Join(t.TempDir(), "marker")
	command := fmt.Sprintf("[sh, -c, 'touch %s; echo hunter2']", marker)
	// The worker has a password for other addresses.
	own := writeText(t, "own.yaml", "credentials:\n  default: {password: {command: "+command+"}, addresses: [192.0.2.0/24]}\n"+
		"  tenant: {password: {command: "+command+"}, tenants: [acme], addresses: [127.0.0.0/8]}\n", 0o600)
	t.Setenv("TEST_S1", "hunter2")
	for name, tt := range map[string]struct{ more, says string }{
		"a command":              {fmt.Sprintf(`,"password_command":["touch",%q]`, marker), "password_command"},
		"a variable":             {`,"password_env":"TEST_S1"`, "password_env"},
		"a key file":             {`,"identity_files":["` + own + `"]`, "identity_files"},
		"a certificate":          {`,"certificate_file":"/dev/zero"`, "certificate_file"},
		"no credential":          {"", "must not be offered to or through 127.34.0.1"},
		"the default credential": {`,"credential":"default"`, "must not be offered to or through 127.34.0.1"},
		"that of a tenant":       {`,"credential":"tenant"`, "not for hosts of no tenant"},
		"one that is not there":  {`,"credential":"root"`, `names credential "root"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := attack(t, own, s.host(tt.more), pingStep, nil)
			if r.Outcome == core.Changed || !strings.Contains(r.Reason, tt.says) {
				t.Errorf("got %s: %s, expected %q", r.Outcome, r.Reason, tt.says)
			}
		})
	}
	if got := s.stolen(); got != "" {
		t.Errorf("the attacker's machine got %q", got)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a command ran on the worker")
	}
	// The control: where the settings of the worker list the address, the same attack gets all.
	open := writeText(t, "open.yaml", "credentials: {default: {password: {command: "+command+"}, addresses: [127.34.0.1]}}\n", 0o600)
	r := attack(t, open, s.host(""), pingStep, nil)
	if _, err := os.Stat(marker); err != nil || !strings.Contains(s.stolen(), "hunter2") {
		t.Errorf("negative control: %s %s; stolen %q, marker %v", r.Outcome, r.Reason, s.stolen(), err)
	}
}

// A job's references to secrets are never of the kinds that read a worker's environment and files,
// or run a program there. The control is the same value by a name of the worker's own file.
func TestFaultS1ForgedSecretsGetNothing(t *testing.T) {
	s := newTrap(t, "127.34.0.2")
	key, _ := servers.NewSSHKey(t)
	marker := filepath.Join(t.TempDir(), "marker")
	t.Setenv("TEST_S1", "hunter2")
	file := writeText(t, "secret", "hunter2", 0o600)
	login := "credentials: {default: {identity_file: " + key + ", addresses: [127.34.0.2]}}\n"
	own := writeText(t, "own.yaml", login, 0o600)
	step := `{uses: command, secrets: [x], with: {run: cat, stdin: "${{ secrets.x }}"}}`
	for name, ref := range map[string]secrets.Ref{
		"env": {Env: "TEST_S1"}, "file": {File: file}, "command": {Command: "touch " + marker + "; echo hunter2"}, "argv": {Argv: []string{"touch", marker}},
	} {
		r := attack(t, own, s.host(""), step, map[string]secrets.Ref{"x": ref})
		if r.Outcome == core.Changed || !strings.Contains(r.Reason, "only vault and age may come with a run") {
			t.Errorf("%s: got %s: %s", name, r.Outcome, r.Reason)
		}
	}
	if _, err := os.Stat(marker); err == nil || strings.Contains(s.stolen(), "hunter2") {
		t.Errorf("stolen: %q, marker: %v", s.stolen(), err)
	}
	open := writeText(t, "open.yaml", login+"secrets: {x: {env: TEST_S1}}\n", 0o600)
	r := attack(t, open, s.host(""), step, map[string]secrets.Ref{})
	if !strings.Contains(s.stolen(), "hunter2") {
		t.Errorf("negative control: %s: %s; stolen %q", r.Outcome, r.Reason, s.stolen())
	}
}

// A person's own run gets the logins of that person's inventory, in that process alone.
func TestOwnInventorySaysWhatToLogInWith(t *testing.T) {
	s := newTrap(t, "127.34.0.3")
	marker := filepath.Join(t.TempDir(), "marker")
	file := writeText(t, "hosts.yaml", fmt.Sprintf("hosts:\n  h: {password_command: [sh, -c, 'touch %s; echo hunter2']}\n", marker), 0o600)
	inv, err := inventory.Load(t.Context(), []string{file})
	if err != nil {
		t.Fatal(err)
	}
	f := &Flags{Login: UserLoginFlags{Keys: []string{}, Agent: "none"}}
	r := attackNode(t, f, ByUserLogins, inv, s.host(""), pingStep, nil)
	if _, err := os.Stat(marker); err != nil || !strings.Contains(s.stolen(), "hunter2") {
		t.Errorf("%s: %s; stolen %q, marker %v", r.Outcome, r.Reason, s.stolen(), err)
	}
}

// A credential that could not be used is tried again, also if none of its files has changed.
func TestCredentialIsTriedAgain(t *testing.T) {
	passphrase := filepath.Join(t.TempDir(), "passphrase")
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	//nolint:staticcheck // the old format: its public key is encrypted too
	block, err := x509.EncryptPEMBlock(rand.Reader, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(private), []byte("open sesame"), x509.PEMCipherAES256)
	if err != nil {
		t.Fatal(err)
	}
	key := writeText(t, "id", string(pem.EncodeToMemory(block)), 0o600)
	own := writeText(t, "own.yaml", "credentials: {default: {identity_file: "+key+", passphrase: {file: "+passphrase+"}, addresses: [127.0.0.1]}}\n", 0o600)
	synctest.Test(t, func(t *testing.T) {
		store, err := secrets.Open(secrets.Config{File: own})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		c := NewCredentials(store)
		if _, err := c.of(core.Host{Name: "h"}); err == nil || !strings.Contains(err.Error(), "there is no file "+passphrase) {
			t.Errorf("got %v, expected that there is no passphrase", err)
		}
		if err := os.WriteFile(passphrase, []byte("open sesame"), 0o600); err != nil {
			t.Fatal(err)
		}
		<-time.After(securefile.MaxAge)
		if cred, err := c.of(core.Host{Name: "h"}); err != nil || cred.Name != "default" {
			t.Errorf("got %v, %v", cred, err)
		}
	})
}

// A node's own files may lie among those that playbooks send; what its flags and its credentials
// name stays there.
func TestFaultS1OwnFilesAreWithheld(t *testing.T) {
	file := filepath.Join(t.TempDir(), "logins.yaml")
	if err := os.WriteFile(file, []byte("credentials: {default: {identity_file: /k/id, ca_key: /k/ca, addresses: [127.0.0.1]}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var f Flags
	c := &cobra.Command{}
	f.Add(c)
	if err := c.ParseFlags([]string{"--secrets", file}); err != nil {
		t.Fatal(err)
	}
	store, err := f.secrets.Open(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := c.ParseFlags([]string{"--secrets-identity", "worker.age"}); err != nil {
		t.Fatal(err)
	}
	got := (&Node{Secrets: store}).own(f.all, "turnus-data")
	if slices.Sort(got); !slices.Equal(got, []string{"/k/ca", "/k/id", "turnus-data", "worker.age"}) {
		t.Errorf("withheld: %q", got)
	}
}
