package transport

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
)

// identity is one private key file, with the certificate beside it.
type identity struct {
	file   string
	signer ssh.Signer
	cert   *ssh.Certificate
	locked *lockedSigner // the signer, when the file is encrypted
}

// Keys reads key files, each once. Safe for concurrent use.
type Keys struct {
	passphrase func(file string) ([]byte, error)

	mu     sync.Mutex
	loaded map[string]func() (*identity, error)
}

const maxKeyFile = 1 << 20

// NewKeys makes one without a file. passphrase is called once for each encrypted file, when a
// server wants its key; again after an error that wraps core.ErrUnavailable. nil if there is none.
func NewKeys(passphrase func(file string) ([]byte, error)) *Keys {
	return &Keys{passphrase: passphrase, loaded: map[string]func() (*identity, error){}}
}

// Usual returns the key files of this process's user that can be read: ~/.ssh/id_*.
func (k *Keys) Usual(log *slog.Logger) []string {
	var files []string
	for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
		file := homeFile(name)
		if _, err := os.Stat(file); file == "" || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := k.Check(file); err != nil { // nobody asked for this key
			log.Warn("default key is not usable", "error", err)
			continue
		}
		files = append(files, file)
	}
	return files
}

// Check reads a key file, and returns why it cannot be used.
func (k *Keys) Check(file string) error {
	if _, err := k.load(expandHome(file)); err != nil {
		return fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	return nil
}

// CheckCertificate reads a certificate file, and returns why it cannot be used.
func CheckCertificate(file string) error {
	if _, err := readCertificate(expandHome(file)); err != nil {
		return fmt.Errorf("%w: %w", core.ErrInvalid, err)
	}
	return nil
}

// load returns file's key, reading it the first time.
func (k *Keys) load(file string) (*identity, error) {
	k.mu.Lock()
	get := k.loaded[file]
	if get == nil {
		get = sync.OnceValues(func() (*identity, error) { return k.read(file) })
		k.loaded[file] = get
	}
	k.mu.Unlock()
	return get()
}

func (k *Keys) read(file string) (*identity, error) {
	text, err := securefile.Read(file, securefile.Rule{Most: maxKeyFile, Shut: 0o077, Pipes: true})
	if open, ok := errors.AsType[*securefile.ModeError](err); ok {
		return nil, fmt.Errorf("key file %s: mode %04o lets others read it: chmod 600 %s", file, open.Mode, file)
	}
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	id := &identity{file: file}
	var locked *ssh.PassphraseMissingError
	switch id.signer, err = ssh.ParsePrivateKey(text); {
	case errors.As(err, &locked):
		id.locked = &lockedSigner{file: file, text: text, public: locked.PublicKey, passphrase: k.passphrase}
		id.signer = id.locked
		if locked.PublicKey == nil { // the old PEM format hides it: ask immediately
			if !id.locked.usable() {
				return nil, fmt.Errorf("key file %s is encrypted and there is no passphrase: give one, or load the key into ssh-agent", file)
			}
			if id.signer, err = id.locked.unlock(); err != nil {
				return nil, err
			}
			id.locked = nil
		}
	case err != nil:
		return nil, fmt.Errorf("key file %s: %w", file, err)
	}
	if cert, err := readCertificate(file + "-cert.pub"); err == nil {
		id.cert = cert
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return id, nil
}

// lockedSigner is an encrypted key whose passphrase is asked for at its first signature. Safe for
// concurrent use; asks again only if the passphrase was unavailable.
type lockedSigner struct {
	file       string
	text       []byte
	public     ssh.PublicKey
	passphrase func(file string) ([]byte, error)

	mu     sync.Mutex
	signer ssh.AlgorithmSigner
	err    error // of the last try
}

func (s *lockedSigner) usable() bool { return s.passphrase != nil }

func (s *lockedSigner) unlock() (ssh.AlgorithmSigner, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signer == nil && (s.err == nil || errors.Is(s.err, core.ErrUnavailable)) {
		s.signer, s.err = s.decrypt()
	}
	return s.signer, s.err
}

// failed returns why the last try to decrypt the key failed; nil if there was none.
func (s *lockedSigner) failed() error { return core.Locked(&s.mu, &s.err) }

func (s *lockedSigner) decrypt() (ssh.AlgorithmSigner, error) {
	passphrase, err := s.passphrase(s.file)
	if err != nil {
		return nil, fmt.Errorf("passphrase of %s: %w", s.file, err)
	}
	signer, err := ssh.ParsePrivateKeyWithPassphrase(s.text, passphrase)
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", s.file, err)
	}
	as, ok := signer.(ssh.AlgorithmSigner)
	if !ok {
		return nil, fmt.Errorf("key file %s: %s keys cannot be used", s.file, signer.PublicKey().Type())
	}
	return as, nil
}

func (s *lockedSigner) PublicKey() ssh.PublicKey { return s.public }

func (s *lockedSigner) Sign(r io.Reader, data []byte) (*ssh.Signature, error) {
	as, err := s.unlock()
	if err != nil {
		return nil, err
	}
	return as.Sign(r, data)
}

func (s *lockedSigner) SignWithAlgorithm(r io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	as, err := s.unlock()
	if err != nil {
		return nil, err
	}
	return as.SignWithAlgorithm(r, data, algorithm)
}
