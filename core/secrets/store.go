package secrets

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/yamlread"
)

// Config holds what a node resolves secrets with. The zero value resolves nothing.
type Config struct {
	File       string   // the node's own file of secrets and of its Vault; "" is none
	Identities []string // files with age identities, or SSH private keys, that open encrypted secrets

	// Selector compiles hosts: of a secret. Nil refuses secrets that have it.
	Selector func(expression string) (func(core.Host) (bool, error), error)

	Keep    time.Duration // how long a value stays in memory; a minute when zero, not at all when negative
	Timeout time.Duration // of fetching one value; 15 s when zero
	Log     *slog.Logger  // discarded when nil
}

// Store resolves references on the node that uses them, when a step needs them. Its methods are
// safe for concurrent use.
type Store struct {
	cfg        Config
	identities identities
	watch      *securefile.Watch // nil without a file of its own
	reading    sync.Mutex        // held while the file is read again
	refused    string            // why it could not be used the last time; guarded by reading
	own        atomic.Pointer[ownFile]
	vault      *vaultClient // nil: this node has none
	values     *cache
}

// Open reads the node's own file and its identities, and starts to keep its Vault token alive.
// Errors wrap core.ErrInvalid, and name the file and the place in it. Vault need not answer yet.
func Open(cfg Config) (*Store, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 15 * time.Second
	}
	cfg.Keep = cmp.Or(cfg.Keep, time.Minute)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	s := &Store{cfg: cfg, values: newCache(cfg.Keep)}
	var err error
	if s.identities, err = readIdentities(cfg.Identities); err != nil {
		return nil, err
	}
	if cfg.File == "" {
		s.own.Store(&ownFile{})
		return s, nil
	}
	s.watch = securefile.NewWatch(cfg.File)
	o, err := s.readOwn()
	if err != nil {
		return nil, err
	}
	s.own.Store(o)
	if v := o.vault; v != nil {
		if s.vault, err = newVaultClient(*v, cfg.Log); err != nil {
			return nil, yamlread.Problems{{File: cfg.File, Line: v.line, Col: v.col, Fault: yamlread.Fault{Message: "vault: " + err.Error()}}}
		}
		s.vault.start()
	}
	return s, nil
}

// ownFile is the content of the node's own file. It never changes.
type ownFile struct {
	entries     map[string]Entry
	credentials map[string]*Credential
	vault       *Vault
}

func (s *Store) readOwn() (*ownFile, error) {
	data, err := readTrusted(s.cfg.File, MaxFile, writableByOthers)
	if err != nil {
		return nil, fmt.Errorf("secrets of this node: %w", err)
	}
	file, err := ParseOwn(s.cfg.File, data)
	if err != nil {
		return nil, err
	}
	o := &ownFile{entries: map[string]Entry{}, credentials: map[string]*Credential{}, vault: file.Vault}
	for _, e := range file.Entries {
		if err := s.checkOwn(e); err != nil {
			return nil, err
		}
		o.entries[e.Name] = e
	}
	for _, c := range file.Credentials {
		if c.CAVault != "" {
			if _, err := ParseSSHRole(c.CAVault); err != nil || file.Vault == nil {
				return nil, yamlread.Problems{{File: c.In, Line: c.Line, Col: c.Col, Fault: yamlread.Fault{Message: fmt.Sprintf("credential %q: ca_vault: expected MOUNT/ROLE, such as ssh/turnus, and vault: in this file", c.Name)}}}
			}
		}
		o.credentials[c.Name] = c
	}
	return o, nil
}

// current returns the present contents of the node's own file. A file that cannot be used changes
// nothing.
func (s *Store) current() *ownFile {
	if s.watch == nil || !s.watch.Due(securefile.MaxAge) {
		return s.own.Load()
	}
	s.reading.Lock()
	defer s.reading.Unlock()
	if !s.watch.Changed(securefile.MaxAge) {
		return s.own.Load()
	}
	old := s.own.Load()
	o, err := s.readOwn()
	if err != nil {
		s.watch.Again()
		if err.Error() != s.refused {
			s.cfg.Log.Error("the file of secrets cannot be used, its last good version stays in use", "error", err)
		}
		s.refused = err.Error()
		return old
	}
	s.refused = ""
	if !o.vault.same(old.vault) {
		s.cfg.Log.Warn("vault: has changed, which takes a restart; the rest of the file is in use", "file", s.cfg.File)
		o.vault = old.vault
	}
	s.own.Store(o)
	return o
}

// checkOwn finds at start what would else be found in the night.
func (s *Store) checkOwn(e Entry) error {
	if e.Hosts == "" || s.cfg.Selector == nil {
		return nil
	}
	if _, err := s.cfg.Selector(e.Hosts); err != nil {
		return yamlread.Problems{{File: e.In, Line: e.Line, Col: e.Col, Fault: yamlread.Fault{Message: fmt.Sprintf("secret %q: hosts: %v", e.Name, err)}}}
	}
	return nil
}

// Close forgets all values, gives the Vault token back where this node got it by logging in, and
// waits for what runs. The store must not be used afterwards.
func (s *Store) Close() {
	if s.vault != nil {
		s.vault.stop()
	}
	s.values.close()
}

// Names are the names of the node's own file, sorted, with where each value is.
func (s *Store) Names() []Entry {
	entries := s.current().entries
	out := make([]Entry, 0, len(entries))
	for _, e := range entries {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b Entry) int { return compare(a.Name, b.Name) })
	return out
}

// Resolve returns the value of a secret for a job: 1 to MaxValue bytes that are the caller's, who
// should clear them after use. A name of the node's own file takes precedence over one that the run
// brought.
//
// Errors name the secret, the host and what to do, never a value or a backend's text. A name that
// nobody has is core.ErrNotFound. A use that is not allowed, or a reference that is wrong here, is
// core.ErrInvalid. core.ErrUnavailable means that a later try may succeed.
func (s *Store) Resolve(ctx context.Context, a Ask) ([]byte, error) {
	value, err := s.resolve(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("secret %q of host %s: %w", yamlread.Clip(a.Name), yamlread.Clip(a.Host.Name), err)
	}
	return value, nil
}

func (s *Store) resolve(ctx context.Context, a Ask) ([]byte, error) {
	e, err := s.find(a)
	if err != nil {
		return nil, err
	}
	if err := s.allowed(e, a); err != nil {
		return nil, err
	}
	return s.value(ctx, e, a)
}

// value is that of a secret that may be used.
func (s *Store) value(ctx context.Context, e Entry, a Ask) ([]byte, error) {
	from, err := s.source(e, a)
	if err != nil {
		return nil, e.explain(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, fmt.Errorf("no value came within %v: %w", s.cfg.Timeout, core.ErrUnavailable))
	defer cancel()
	value, err := s.values.get(ctx, from.key, func(ctx context.Context) ([]byte, error) {
		value, err := from.fetch(ctx)
		return bounded(value, err)
	})
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if err != nil {
		return nil, e.explain(err)
	}
	return value, nil
}

// encryptedPlace takes the role of a file's place, for references that a run brought.
const encryptedPlace = "the run's project"

// find looks a name up: in the node's own file, then in what the run brought.
func (s *Store) find(a Ask) (Entry, error) {
	if !ValidName(a.Name) {
		return Entry{}, fmt.Errorf("this is no name of a secret: %w", core.ErrInvalid)
	}
	if e, ok := s.current().entries[a.Name]; ok {
		return e, nil
	}
	ref, ok := a.Encrypted[a.Name]
	if !ok {
		where := "this worker has no file of its own (--secrets)"
		if s.cfg.File != "" {
			where = s.cfg.File + " of this worker has none of this name"
		}
		return Entry{}, fmt.Errorf("%w: the run brought none of this name, and %s", core.ErrNotFound, where)
	}
	e := Entry{Name: a.Name, Ref: ref}
	switch {
	case e.kinds() != 1 || !ref.Travels():
		// The guard of ParseTree once more: what is in the queue may come from elsewhere.
		return Entry{}, fmt.Errorf("the run brought a reference of the kind %q, and only vault and age may come with a run: "+
			"name the secret in this worker's own file (--secrets): %w", ref.Kind(), core.ErrInvalid)
	case len(ref.Age) > MaxEncrypted:
		return Entry{}, fmt.Errorf("its ciphertext is longer than %d KiB: %w", MaxEncrypted>>10, core.ErrInvalid)
	}
	return e, nil
}

func (e Entry) where() string {
	if e.In == "" {
		return encryptedPlace
	}
	return e.Place()
}

// explain adds the place of the reference that does not work.
func (e Entry) explain(err error) error { return fmt.Errorf("%s, %s: %w", e.where(), e.Kind(), err) }

// allowed enforces the limits of a secret.
func (s *Store) allowed(e Entry, a Ask) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s: %w", e.where(), fmt.Sprintf(format, args...), core.ErrInvalid)
	}
	if len(e.Tenants) > 0 && !slices.Contains(e.Tenants, a.Tenant) {
		who := fmt.Sprintf("tenant %q", yamlread.Clip(a.Tenant))
		if a.Tenant == "" {
			who = "a run of no tenant"
		}
		return refuse("%s may not use it: add the tenant to its tenants: if that is meant", who)
	}
	if len(e.Playbooks) > 0 && !slices.Contains(e.Playbooks, a.Playbook) {
		return refuse("playbook %q may not use it: add the playbook to its playbooks: if that is meant", yamlread.Clip(a.Playbook))
	}
	if e.Hosts == "" {
		return nil
	}
	if s.cfg.Selector == nil {
		return refuse("it is limited by hosts:, which this node cannot evaluate")
	}
	match, err := s.cfg.Selector(e.Hosts)
	if err != nil {
		return refuse("hosts: %v", err)
	}
	switch ok, err := match(a.Host); {
	case err != nil:
		return refuse("hosts: %v", err)
	case !ok:
		return refuse("its hosts: is not true for this host: widen it if that is meant")
	}
	return nil
}

// source is where one value comes from. Equal keys are the same value.
type source struct {
	key   string
	fetch func(ctx context.Context) ([]byte, error)
}

func (s *Store) source(e Entry, a Ask) (source, error) {
	key := func(parts ...string) string { return fmt.Sprintf("%q", append([]string{e.Kind()}, parts...)) }
	switch e.Kind() {
	case kindEnv:
		return source{key(e.Env), func(context.Context) ([]byte, error) { return fromEnv(e.Env) }}, nil
	case kindFile:
		path := beside(s.cfg.File, e.File)
		return source{key(path), func(context.Context) ([]byte, error) { return fromFile(path) }}, nil
	case kindCommand:
		argv := e.Argv
		if e.Command != "" {
			argv = []string{"/bin/sh", "-c", e.Command}
		}
		return source{key(argv...), func(ctx context.Context) ([]byte, error) { return fromCommand(ctx, argv) }}, nil
	case kindAge:
		return source{key(digest(e.Age)), func(context.Context) ([]byte, error) { return s.identities.open(e.Age) }}, nil
	case kindVault:
		if s.vault == nil {
			return source{}, fmt.Errorf("this node has no Vault: give vault: in its own file (--secrets): %w", core.ErrInvalid)
		}
		p, err := s.vault.locate(e, a)
		if err != nil {
			return source{}, err
		}
		return source{key(p.path, p.field), func(ctx context.Context) ([]byte, error) { return s.vault.read(ctx, p) }}, nil
	}
	return source{}, fmt.Errorf("its value has no place: %w", core.ErrInvalid)
}

// bounded refuses values that are none, or too long.
func bounded(value []byte, err error) ([]byte, error) {
	switch {
	case err != nil:
		clear(value)
		return nil, err
	case len(value) == 0:
		return nil, fmt.Errorf("its value is empty: %w", core.ErrInvalid)
	case len(value) > MaxValue:
		clear(value)
		return nil, fmt.Errorf("its value is longer than %d KiB: %w", MaxValue>>10, core.ErrInvalid)
	}
	return value, nil
}

// CheckShort refuses a value that is too short for steps: redaction could not find it in output.
// Errors wrap core.ErrInvalid.
func CheckShort(value []byte) error {
	if n := len(bytes.TrimSpace(value)); n < MinValue {
		return fmt.Errorf("a value of %d bytes, the white space around it left out: expected at least %d, for a shorter one could not be kept out of output: %w", n, MinValue, core.ErrInvalid)
	}
	return nil
}

// readAtMost reads most+1 bytes at most, so that a caller sees what is too long.
func readAtMost(r io.Reader, most int) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, int64(most)+1))
}

// Try fetches the value of a reference and forgets it. It does not check Limits, but replaces
// {tenant} and {playbook} in a path by the first that they name. Errors are as those of Resolve.
func (s *Store) Try(ctx context.Context, e Entry) error {
	a := Ask{Name: e.Name}
	if len(e.Tenants) > 0 {
		a.Tenant = e.Tenants[0]
	}
	if len(e.Playbooks) > 0 {
		a.Playbook = e.Playbooks[0]
	}
	if err := s.checkOwn(e); err != nil {
		return err
	}
	if _, own := s.current().entries[e.Name]; !own && e.In != s.cfg.File {
		e.In = "" // what a run would bring
	}
	from, err := s.source(e, a)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	value, err := bounded(from.fetch(ctx))
	if err == nil {
		err = CheckShort(value)
	}
	clear(value)
	return err
}
