package hostkeys

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/transport"
)

const (
	remembered = 24 * time.Hour
	maxPending = 256 << 20 // bytes
	maxKnown   = 64 << 20  // bytes of a known_hosts file
)

// Pending remembers the keys that scans saw until they are accepted, in a folder of the user.
type Pending struct{ folder string }

// OpenPending makes the folder if there is none. Only this user may have access to it.
func OpenPending(folder string) (*Pending, error) {
	if err := securefile.OwnFolder(folder); err != nil {
		return nil, fmt.Errorf("%w: folder of scanned host keys: %w", core.ErrInvalid, err)
	}
	return &Pending{folder}, nil
}

func (p *Pending) file() string { return filepath.Join(p.folder, "scanned.json") }

// sight is one host as a scan saw it.
type sight struct {
	Name string    `json:"known_hosts_name"`
	At   time.Time `json:"at"`
	Keys []string  `json:"keys"` // also certificates
}

// Add remembers the keys of hosts that showed some, in place of what an earlier scan saw.
func (p *Pending) Add(now time.Time, list []Result) error {
	unlock, err := securefile.LockFolder(p.folder)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := p.load(now)
	if err != nil {
		return err
	}
	for _, r := range list {
		if r.Err != nil {
			continue
		}
		s := sight{Name: r.Name, At: now}
		for _, key := range r.Shown {
			s.Keys = append(s.Keys, strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))))
		}
		all[r.Host.Name] = s
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return securefile.Replace(p.file(), text, 0o600)
}

// load returns what was seen in the last 24 hours, by host.
func (p *Pending) load(now time.Time) (map[string]sight, error) {
	all := map[string]sight{}
	text, err := securefile.Read(p.file(), securefile.Rule{Most: maxPending, Shut: 0o077, Owned: true})
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: scanned host keys: %s: %w\nhint: rm %[2]s, then scan again: turnus hostkeys scan", core.ErrInvalid, p.file(), err)
	}
	maps.DeleteFunc(all, func(_ string, s sight) bool { return now.Sub(s.At) > remembered || s.At.After(now) })
	return all, nil
}

// Results judges what was seen of hosts by what runs accept now. A host whose name in known_hosts
// is another one since, with another address, must be scanned again.
func (p *Pending) Results(now time.Time, pool *transport.Pool, hosts []core.Host) ([]Result, error) {
	all, err := p.load(now)
	if err != nil {
		return nil, err
	}
	var list []Result
	for _, h := range hosts {
		r := Result{Host: h}
		if r.HostKeys, r.Err = pool.Compare(h, nil); r.Err == nil {
			s, ok := all[h.Name]
			if !ok || s.Name != r.Name {
				r.Err = errors.New("not scanned in the last 24 hours: " + pool.ScanCommand(h.Name))
			} else if r.Shown, r.Err = s.parse(); r.Err == nil {
				r.HostKeys, r.Err = pool.Compare(h, r.Shown)
			}
		}
		list = append(list, r)
	}
	return list, nil
}

func (s sight) parse() ([]ssh.PublicKey, error) {
	var list []ssh.PublicKey
	for _, line := range s.Keys {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			return nil, fmt.Errorf("scanned host key %.60q: %w", line, err)
		}
		list = append(list, key)
	}
	return list, nil
}

// Write edits a known_hosts file, and makes it, with mode 0600, if there is none. Of several
// processes one writes at a time. It writes nothing if an edit would leave a key trusted that it
// drops.
func Write(file string, others []string, edits []Edit) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("known_hosts: %w", err)
	}
	if to, err := filepath.EvalSymlinks(file); err == nil {
		file = to
	} else if _, lerr := os.Lstat(file); lerr == nil {
		return fmt.Errorf("%w: known_hosts: %w", core.ErrInvalid, err) // a link to nothing
	}
	unlock, err := securefile.LockFolder(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer unlock()
	text, mode, err := readKnown(file)
	if err != nil {
		return err
	}
	if mode&0o200 == 0 {
		return fmt.Errorf("%w: known_hosts: %s is read-only\nhint: chmod u+w %s", core.ErrInvalid, file, file)
	}
	after := Apply(text, edits)
	if line, name := Left(after, edits); line > 0 {
		return stays(name, file, line)
	}
	for _, other := range others {
		if to, err := filepath.EvalSymlinks(other); err != nil || to == file {
			continue
		}
		more, _, err := readKnown(other)
		if err != nil {
			return err
		}
		if line, name := Left(more, edits); line > 0 {
			return stays(name, other, line)
		}
	}
	if err := securefile.Replace(file, after, mode); err != nil {
		return fmt.Errorf("known_hosts: %w", err)
	}
	return nil
}

func stays(name, file string, line int) error {
	return fmt.Errorf("%w: %s: line %d would still accept the old key of %s: edit it by hand", core.ErrInvalid, file, line, name)
}

func readKnown(file string) ([]byte, fs.FileMode, error) {
	st, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0o600, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("known_hosts: %w", err)
	}
	text, err := securefile.Read(file, securefile.Rule{Most: maxKnown})
	if err != nil {
		return nil, 0, fmt.Errorf("%w: known_hosts: %w", core.ErrInvalid, err)
	}
	return text, st.Mode().Perm(), nil
}
