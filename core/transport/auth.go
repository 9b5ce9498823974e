package transport

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
)

// sshd ends a connection at its sixth failure (MaxAuthTries 6). One password
// try is kept in reserve.
const (
	maxKeysOffered = 5
	maxPasswordLen = 4096
)

var errNoMoreAuth = errors.New("no way to log in is left")

// authState is one login. It is used by one handshake and not concurrently.
type authState struct {
	e   *endpoint
	ctx context.Context //nolint:containedctx // of the handshake: the callbacks of x/crypto/ssh pass none

	unverified func() bool // the host key was pinned at the first contact
	scan       string      // see proof

	mu        sync.Mutex // agentConn only: a handshake may be left behind with its jump host
	agentConn net.Conn
	locked    []*lockedSigner
	problems  []string // keys that could not be used, and why
	offered   []string // keys, as shown in errors
	allowed   []string // what the server would accept
	keysDone  bool
	passDone  bool
	abort     error
}

// next is the ssh.ClientAuthCallback: keys first, then the password once, by
// whichever of its two methods the server has. Never the same password twice:
// hosts lock accounts for that.
func (a *authState) next(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
	a.allowed = c.AllowedMethods
	if !a.keysDone && slices.Contains(c.AllowedMethods, "publickey") {
		a.keysDone = true
		if signers := a.signers(); len(signers) > 0 {
			return ssh.PublicKeys(signers...), nil
		}
	}
	byPassword := slices.Contains(c.AllowedMethods, "password")
	if !a.passDone && (byPassword || slices.Contains(c.AllowedMethods, "keyboard-interactive")) {
		a.passDone = true
		password, err := a.password()
		switch {
		case err != nil:
			a.abort = err
			return nil, err
		case password == "":
		case byPassword:
			a.offered = append(a.offered, "password")
			return ssh.Password(password), nil
		default:
			a.offered = append(a.offered, "password (keyboard-interactive)")
			return ssh.KeyboardInteractive(a.answerOnce(password)), nil
		}
	}
	return nil, errNoMoreAuth
}

// answerOnce answers one hidden question with the password, and no other.
func (a *authState) answerOnce(password string) ssh.KeyboardInteractiveChallenge {
	answered := false
	return func(_, _ string, questions []string, echos []bool) ([]string, error) {
		if len(questions) == 0 {
			return nil, nil
		}
		if answered || len(questions) != 1 || echos[0] {
			err := fmt.Errorf("server asks %q: only a password can be given", questions)
			a.problems = append(a.problems, err.Error())
			return nil, err
		}
		answered = true
		return []string{password}, nil
	}
}

// password asks the credential for it.
func (a *authState) password() (string, error) {
	if a.e.cred.Password == nil {
		return "", nil
	}
	password, err := a.e.cred.Password(a.ctx, a.e.host)
	if err == nil && len(password) > maxPasswordLen {
		err = fmt.Errorf("it has %d bytes, expected at most %d", len(password), maxPasswordLen)
	}
	if err != nil {
		return "", fmt.Errorf("password: %w", err)
	}
	if password != "" && a.unverified() {
		return "", a.e.noSecrets("authenticate", "the password", a.scan, core.ErrUnreachable)
	}
	return password, nil
}

// signers lists the keys to offer: the one that was certified for this login, the credential's
// first files, then the agent's keys and the other files unless only the first may be offered. Each
// key once, its certificate first.
func (a *authState) signers() []ssh.Signer {
	o := &offer{a: a, agent: a.agentSigners(), certs: a.certificates(), seen: map[[32]byte]bool{}}
	files := a.load(a.e.identityFiles)
	if s, err := a.e.cred.Signer.signerFor(a.ctx, a.e); err != nil {
		a.problems = append(a.problems, err.Error())
	} else if s != nil {
		o.add(s, "signed for this login")
	}
	for _, id := range files {
		o.file(id)
	}
	if !a.e.onlyIdentities || len(files) == 0 {
		for _, s := range o.agent {
			o.key(s, "agent")
		}
		for _, id := range a.load(a.e.cred.Others) {
			o.file(id)
		}
	}
	return o.list
}

// load reads key files, and notes those that cannot be used.
func (a *authState) load(files []string) (list []*identity) {
	for _, f := range files {
		id, err := a.e.cred.Keys.load(expandHome(f))
		if err != nil {
			a.problems = append(a.problems, err.Error())
			continue
		}
		list = append(list, id)
	}
	return list
}

// offer collects the keys of a login, each once and no more than sshd bears.
type offer struct {
	a     *authState // takes note of what is offered and what cannot be
	agent []ssh.Signer
	certs []*ssh.Certificate
	seen  map[[32]byte]bool
	list  []ssh.Signer
}

func (o *offer) add(s ssh.Signer, from string) {
	id := sha256.Sum256(s.PublicKey().Marshal())
	if o.seen[id] || len(o.list) == maxKeysOffered {
		return
	}
	o.seen[id] = true
	o.list = append(o.list, s)
	o.a.offered = append(o.a.offered, fmt.Sprintf("%s %s (%s)", s.PublicKey().Type(), ssh.FingerprintSHA256(s.PublicKey()), from))
}

// key adds a key, its certificates first.
func (o *offer) key(s ssh.Signer, from string) {
	for _, c := range o.certs {
		if string(c.Key.Marshal()) == string(s.PublicKey().Marshal()) {
			if cs, err := ssh.NewCertSigner(c, s); err == nil {
				o.add(cs, from+" with its certificate")
			}
		}
	}
	o.add(s, from)
}

// file adds the key of a file. An agent that holds the same key signs without asking for a
// passphrase.
func (o *offer) file(id *identity) {
	if id.locked != nil {
		if s := sameKey(o.agent, id.signer.PublicKey()); s != nil {
			o.key(s, id.file+", by the agent")
			return
		}
		if !id.locked.usable() {
			o.a.problems = append(o.a.problems, fmt.Sprintf("key file %s is encrypted and there is no passphrase: give one, or load the key into ssh-agent", id.file))
			return
		}
		o.a.locked = append(o.a.locked, id.locked)
	}
	if id.cert != nil {
		if cs, err := ssh.NewCertSigner(id.cert, id.signer); err == nil {
			o.add(cs, id.file+"-cert.pub")
		}
	}
	o.key(id.signer, id.file)
}

func sameKey(signers []ssh.Signer, key ssh.PublicKey) ssh.Signer {
	for _, s := range signers {
		if string(s.PublicKey().Marshal()) == string(key.Marshal()) {
			return s
		}
	}
	return nil
}

func (a *authState) certificates() (certs []*ssh.Certificate) {
	for _, f := range a.e.certFiles {
		c, err := readCertificate(expandHome(f))
		if err != nil {
			a.problems = append(a.problems, err.Error())
			continue
		}
		certs = append(certs, c)
	}
	return certs
}

func (a *authState) agentSigners() []ssh.Signer {
	socket := a.e.cred.Agent
	if socket == "" {
		return nil
	}
	var d net.Dialer
	c, err := d.DialContext(a.ctx, "unix", expandHome(socket))
	if err != nil {
		a.problems = append(a.problems, fmt.Sprintf("agent: %v", err))
		return nil
	}
	a.mu.Lock()
	a.agentConn = c
	a.mu.Unlock()
	stop := context.AfterFunc(a.ctx, func() { _ = c.Close() })
	defer stop()
	signers, err := agent.NewClient(c).Signers()
	if err != nil {
		a.problems = append(a.problems, fmt.Sprintf("agent %s: %v", socket, err))
	}
	return signers
}

// done ends the login's use of the agent.
func (a *authState) done() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.agentConn != nil {
		_ = a.agentConn.Close()
	}
}

// refused explains a failed login: what was tried, what the server wants.
func (a *authState) refused(e *endpoint, broken bool, err error) *Error {
	if own, ok := errors.AsType[*Error](a.abort); ok {
		return own
	}
	if a.abort != nil {
		return e.unreachable("authenticate", "", a.abort)
	}
	tried := "nothing: there is no key and no password for it"
	if len(a.offered) > 0 {
		tried = strings.Join(a.offered, ", ")
	}
	why := fmt.Sprintf("as user %q%s, tried %s.", e.user, e.by(), tried)
	if len(a.allowed) > 0 {
		why += " The server accepts " + strings.Join(a.allowed, ", ") + "."
	}
	for _, l := range a.locked {
		if err := l.failed(); err != nil {
			a.problems = append(a.problems, err.Error())
		}
	}
	if len(a.problems) > 0 {
		why += " Not usable: " + strings.Join(a.problems, "; ") + "."
	}
	switch {
	case broken:
		return e.unreachable("authenticate", why+" Too many tries (MaxAuthTries) or a ban may be why; see the host's log: journalctl -u ssh",
			fmt.Errorf("server closed the connection during login: %w", err))
	case errors.Is(err, errNoMoreAuth):
		if e.cred.Name == "" {
			why += " Another login: -u USER, --private-key FILE, or in the inventory."
		} else {
			why += " Another one: credential: NAME in the inventory (docs/secrets.md)."
		}
		return e.unreachable("authenticate", why, errors.New("login refused"))
	}
	return e.unreachable("authenticate", why+" The host's log has more: journalctl -u ssh", fmt.Errorf("login refused: %w", err))
}

// by names the credential of a login, where it has a name.
func (e *endpoint) by() string {
	if e.cred.Name == "" {
		return ""
	}
	return fmt.Sprintf(" by credential %q", e.cred.Name)
}

const maxCertificateFile = 1 << 20

func readCertificate(file string) (*ssh.Certificate, error) {
	text, err := securefile.Read(file, securefile.Rule{Most: maxCertificateFile})
	if err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", file, err)
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok || cert.CertType != ssh.UserCert {
		return nil, fmt.Errorf("certificate %s: holds a %s, expected a user certificate", file, key.Type())
	}
	return cert, nil
}
