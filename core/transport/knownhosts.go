package transport

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"sync"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
)

const maxKnownHosts = 64 << 20 // bytes a file

// knownHosts is the content of one list of known_hosts files. It never changes.
type knownHosts struct {
	db      *knownhosts.HostKeyDB
	revoked map[string]bool // keys of @revoked lines, whatever host they name
}

// readKnownHosts reads files. Lines that cannot be read are passed over with a
// warning, as ssh does: one foreign line must not make every host unknown.
func readKnownHosts(files []string, log *slog.Logger) (*knownHosts, error) {
	k := &knownHosts{revoked: map[string]bool{}}
	dir, err := os.MkdirTemp("", "turnus-known-hosts-")
	if err != nil {
		return nil, fmt.Errorf("known_hosts: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	clean := make([]string, 0, len(files))
	for i, file := range files {
		text, err := securefile.Read(file, securefile.Rule{Most: maxKnownHosts, Pipes: true})
		if err != nil {
			return nil, fmt.Errorf("%w: known_hosts: %w", core.ErrInvalid, err)
		}
		if !k.scan(file, text, log) {
			clean = append(clean, file)
			continue
		}
		copied := fmt.Sprintf("%s/%d", dir, i)
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			return nil, fmt.Errorf("known_hosts: %w", err)
		}
		clean = append(clean, copied)
	}
	if k.db, err = knownhosts.NewDB(clean...); err != nil {
		return nil, fmt.Errorf("%w: known_hosts: %w", core.ErrInvalid, err)
	}
	return k, nil
}

// scan collects revoked keys and blanks unreadable lines of text in place. It
// reports whether there were any.
func (k *knownHosts) scan(file string, text []byte, log *slog.Logger) (blanked bool) {
	for n, rest := 1, text; len(rest) > 0; n++ {
		line := rest
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			line, rest = rest[:i], rest[i+1:]
		} else {
			rest = nil
		}
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) == 0 || trimmed[0] == '#' {
			continue
		}
		marker, _, key, _, _, err := ssh.ParseKnownHosts(trimmed)
		if err != nil || (marker != "" && marker != "revoked" && marker != "cert-authority") {
			log.Warn("known_hosts line cannot be read and is passed over", "file", file, "line", n, "error", err)
			for i := range line {
				line[i] = ' '
			}
			blanked = true
			continue
		}
		if marker == "revoked" {
			k.revoked[string(key.Marshal())] = true
		}
	}
	return blanked
}

// keys lists what is known for a host, certificate CAs apart.
func (k *knownHosts) keys(addr string) (plain, CAs []ssh.PublicKey) {
	for _, key := range k.db.HostKeys(addr) {
		if key.Cert {
			CAs = append(CAs, key.PublicKey)
		} else {
			plain = append(plain, key.PublicKey)
		}
	}
	return plain, CAs
}

// trust holds all that can prove a host key. Safe for concurrent use.
type trust struct {
	log   *slog.Logger
	scan  string          // see proof
	CAs   map[string]bool // marshalled keys of Config.HostCAs
	leave []netip.Prefix  // Config.FirstContact
	own   string          // first of Config.KnownHosts, or the process's own; may not exist
	list  []string        // files of known
	known *knownHosts     // Config.KnownHosts

	mu     sync.Mutex
	perSet map[string]*knownHosts // files that ssh_config names for some hosts
}

func newTrust(cfg Config) (*trust, error) {
	t := &trust{log: cfg.Log, scan: "turnus hostkeys scan " + cmp.Or(cfg.Inventory, "-i INVENTORY"), CAs: map[string]bool{}, leave: cfg.FirstContact, perSet: map[string]*knownHosts{}}
	for _, line := range cfg.HostCAs {
		key, err := parsePin(line)
		if err != nil {
			return nil, fmt.Errorf("%w: host CA: %w", core.ErrInvalid, err)
		}
		t.CAs[string(key.Marshal())] = true
	}
	files, absent := cfg.KnownHosts, cfg.NewKnownHosts
	if len(files) == 0 {
		files, absent = []string{homeFile("known_hosts"), "/etc/ssh/ssh_known_hosts"}, true
	}
	t.own = files[0]
	for _, f := range files {
		if _, err := os.Stat(f); absent && (f == "" || errors.Is(err, fs.ErrNotExist)) {
			continue
		}
		t.list = append(t.list, f)
	}
	var err error
	t.known, err = readKnownHosts(t.list, cfg.Log)
	return t, err
}

// files returns the content of e's known_hosts files.
func (t *trust) files(e *endpoint) (*knownHosts, error) {
	if e.knownHosts == nil {
		return t.known, nil
	}
	set := strings.Join(e.knownHosts, "\x00")
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.perSet[set]; k != nil {
		return k, nil
	}
	k, err := readKnownHosts(e.knownHosts, t.log)
	if err == nil {
		t.perSet[set] = k
	}
	return k, err
}

// ownFile returns the known_hosts file where keys of e are added; "" if there is none.
func (t *trust) ownFile(e *endpoint) string {
	if e.knownHosts == nil {
		return t.own
	}
	return append(e.knownHosts, "")[0] // of ssh_config
}

// parsePin reads "TYPE BASE64 [COMMENT]", as inventories and ssh-keyscan have it.
func parsePin(line string) (ssh.PublicKey, error) {
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || len(options) > 0 || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("host key %.60q: expected one key such as %q", line, "ssh-ed25519 AAAAC3…")
	}
	return key, nil
}
