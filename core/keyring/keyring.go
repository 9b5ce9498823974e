// Package keyring owns the keys that bytes are encrypted with before they leave a process: the file
// that holds them, encrypting and opening with AES-256-GCM (a Tink keyset), and what ties encrypted
// bytes to their place. A file that changes is read again: rotation needs no restart.
//
// It must not know what is encrypted, nor where encrypted bytes are kept.
package keyring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
)

// Why bytes cannot be opened.
var (
	// ErrNoKey: they are encrypted with a key that this process has not: it has no ring, or its ring
	// lacks the key. Another process, or this one once its file has the key, can open them.
	ErrNoKey = fmt.Errorf("its key is not here: %w", core.ErrUnavailable)
	// ErrPlain: they are not encrypted, and this process has a ring.
	ErrPlain = fmt.Errorf("it is not encrypted: %w", core.ErrInvalid)
	// ErrTampered: they were changed or cut, or were encrypted for another place.
	ErrTampered = fmt.Errorf("it is not what was encrypted for this place: %w", core.ErrInvalid)
)

// Encrypted bytes are a header, and behind it what Tink's AES-GCM writes: nonce, ciphertext, tag.
// The header's first byte begins no text in UTF-8, no zstd frame and none of the ledger's forms;
// the third, with the key's number behind it, is Tink's own prefix.
const (
	magic   = 0xf5
	version = 1
	tinkID  = 1

	// HeaderBytes is the length of the header that marks bytes as encrypted and names their key.
	HeaderBytes = 7
	// Overhead is how many bytes longer encrypted bytes are.
	Overhead = HeaderBytes + 12 + 16
)

// ID names a key. It is no secret: encrypted bytes begin with it.
type ID uint32

// String is eight hexadecimal digits.
func (id ID) String() string { return fmt.Sprintf("%08x", uint32(id)) }

// ParseID reads what String wrote. Errors wrap core.ErrInvalid.
func ParseID(s string) (ID, error) {
	var id uint32
	if n, err := fmt.Sscanf(s, "%08x", &id); n != 1 || err != nil || ID(id).String() != s {
		return 0, fmt.Errorf("key %q: expected eight hexadecimal digits, as keys ls shows them: %w", s, core.ErrInvalid)
	}
	return ID(id), nil
}

// Header returns the first bytes of all bytes that are encrypted with the key.
func (id ID) Header() []byte {
	return binary.BigEndian.AppendUint32([]byte{magic, version, tinkID}, uint32(id))
}

// KeyOf returns the key with which bytes are encrypted; ok is false for bytes that are not.
// HeaderBytes of them are enough.
func KeyOf(b []byte) (id ID, ok bool) {
	if len(b) < HeaderBytes || b[0] != magic || b[1] != version || b[2] != tinkID {
		return 0, false
	}
	return ID(binary.BigEndian.Uint32(b[3:])), true
}

// Context names the place that bytes are encrypted for: its parts, from the general to the
// particular. Another list of parts is another place.
func Context(parts ...string) []byte {
	n := 0
	for _, p := range parts {
		n += len(p) + 2
	}
	b := make([]byte, 0, n)
	for _, p := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return b
}

// Options guide Open. The zero value is right for a service at work.
type Options struct {
	// AcceptPlain opens bytes that are not encrypted as they are: while a service that had no ring
	// gets one.
	AcceptPlain bool
	// Reported gets a line when the file was read again; it may be nil. It must not block.
	Reported func(string)
	// Refused gets a line when the file was changed and cannot be used; nil is Reported. It must not
	// block.
	Refused func(string)
}

// Ring encrypts and opens. A nil Ring encrypts nothing: what it is given comes back as it is, and
// what is encrypted it cannot open. Methods are safe for concurrent use.
type Ring struct {
	path  string
	opt   Options
	keys  atomic.Pointer[keys]
	watch *securefile.Watch

	mu      sync.Mutex // of reading the file again
	refused string     // why it could not be used at the last reading
}

// keys are the keys from one reading of the file.
type keys struct {
	aead    tink.AEAD
	primary ID
	ids     []ID // that are enabled
}

// atOnce is how old the last check of the file may be when an unknown key is met.
const atOnce = 50 * time.Millisecond

// Open reads a ring's file, which others must not be able to read. Errors wrap core.ErrInvalid.
func Open(path string, o Options) (*Ring, error) {
	if o.Reported == nil {
		o.Reported = func(string) {}
	}
	if o.Refused == nil {
		o.Refused = o.Reported
	}
	r := &Ring{path: path, opt: o, watch: securefile.NewWatch(path)}
	k, err := load(path)
	if err != nil {
		return nil, err
	}
	r.keys.Store(k)
	return r, nil
}

func load(path string) (*keys, error) {
	h, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return newKeys(path, h)
}

func newKeys(path string, h *keyset.Handle) (*keys, error) {
	k := &keys{}
	var err error
	if k.aead, err = aead.New(h); err != nil {
		return nil, fmt.Errorf("key ring %s: its keys are not for AES-256-GCM: %w: %w", path, core.ErrInvalid, err)
	}
	for _, one := range describe(h) {
		k.ids = append(k.ids, one.ID)
		if one.Primary {
			k.primary = one.ID
		}
	}
	return k, nil
}

// maxFile bounds the file: some hundred keys.
const maxFile = 256 << 10

func readFile(path string) (*keyset.Handle, error) {
	data, err := securefile.Read(path, securefile.Rule{Most: maxFile, Shut: 0o077})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("key ring %s does not exist: %w\nhint: turnus admin keys new %s makes one", path, core.ErrInvalid, path)
	}
	if open, ok := errors.AsType[*securefile.ModeError](err); ok {
		return nil, fmt.Errorf("key ring %s: others may read or change it (mode %04o): %w\nhint: chmod 600 %s", path, open.Mode, core.ErrInvalid, path)
	}
	if err != nil {
		return nil, fmt.Errorf("key ring: %w: %w", core.ErrInvalid, err)
	}
	h, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(data)))
	if err != nil { // the error of a parser might quote the file
		return nil, fmt.Errorf("key ring %s is not a key ring: expected a keyset of Tink in JSON, as turnus admin keys new writes it: %w", path, core.ErrInvalid)
	}
	for i := range h.Len() {
		if e, err := h.Entry(i); err == nil && e.KeyStatus() == keyset.Enabled {
			if id, required := e.Key().IDRequirement(); !required || id != e.KeyID() {
				return nil, fmt.Errorf("key ring %s: key %s has no prefix of its own: %w", path, ID(e.KeyID()), core.ErrInvalid)
			}
		}
	}
	return h, nil
}

// current checks the file, if that was not done just now; now asks for a look in any case, but not
// more often than every 50 ms.
func (r *Ring) current(now bool) *keys {
	old := securefile.MaxAge
	if now {
		old = atOnce
	}
	if !r.watch.Due(old) { // encrypting asks each time: without a lock
		return r.keys.Load()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.watch.Changed(old) {
		return r.keys.Load()
	}
	k, err := load(r.path)
	if err == nil && !k.follows(r.keys.Load()) {
		err = fmt.Errorf("it is another key ring: it has none of the keys that were read before: %w", core.ErrInvalid)
	}
	if err != nil {
		r.watch.Again() // the cause may end without a change of the file, as a lack of descriptors
		if err.Error() != r.refused {
			r.opt.Refused("the key ring was changed and cannot be used; the keys that were read before stay: " + err.Error())
		}
		r.refused = err.Error()
		return r.keys.Load()
	}
	r.refused = ""
	if had := r.keys.Load(); had.primary != k.primary || !slices.Equal(had.ids, k.ids) {
		r.opt.Reported(fmt.Sprintf("the key ring was read again: it encrypts with key %s, and has %d", k.primary, len(k.ids)))
	}
	r.keys.Store(k)
	return k
}

// follows reports whether a ring may come after another while a process works: a rotation always
// keeps a key. With the ring of another service, new values could not be opened once the right file
// is back.
func (k *keys) follows(had *keys) bool {
	return slices.ContainsFunc(k.ids, func(id ID) bool { return slices.Contains(had.ids, id) })
}

// Encrypt encrypts bytes for a place. Encrypted twice, the same bytes are others.
func (r *Ring) Encrypt(plain, context []byte) []byte {
	if r == nil {
		return plain
	}
	text, err := r.current(false).aead.Encrypt(plain, context)
	if err != nil {
		panic(fmt.Sprintf("keyring: encrypt %d bytes: %v", len(plain), err)) // only more than AES-GCM can encrypt, 64 GiB, is refused
	}
	out := make([]byte, 0, len(text)+2)
	return append(append(out, magic, version), text...)
}

// Open opens bytes that were encrypted for the place. Errors wrap ErrNoKey, ErrPlain or
// ErrTampered.
func (r *Ring) Open(encrypted, context []byte) ([]byte, error) {
	id, ok := KeyOf(encrypted)
	switch {
	case !ok && r == nil:
		return encrypted, nil
	case !ok && r.opt.AcceptPlain && (len(encrypted) == 0 || encrypted[0] != magic):
		return encrypted, nil
	case !ok:
		return nil, ErrPlain
	case r == nil:
		return nil, fmt.Errorf("it is encrypted with key %s, and this process has no key ring (--keyring): %w", id, ErrNoKey)
	}
	k := r.current(false)
	if !slices.Contains(k.ids, id) {
		if k = r.current(true); !slices.Contains(k.ids, id) {
			return nil, fmt.Errorf("it is encrypted with key %s, which the key ring of this process (--keyring) lacks: %w", id, ErrNoKey)
		}
	}
	plain, err := k.aead.Decrypt(encrypted[2:], context)
	if err != nil {
		return nil, fmt.Errorf("opened with key %s: %w", id, ErrTampered)
	}
	if plain == nil {
		plain = []byte{}
	}
	return plain, nil
}

// AcceptsPlain reports whether bytes that are not encrypted are opened as they are. A nil Ring
// accepts nothing else.
func (r *Ring) AcceptsPlain() bool { return r == nil || r.opt.AcceptPlain }

// Primary is the key that is encrypted with now; ok is false for a nil Ring.
func (r *Ring) Primary() (id ID, ok bool) {
	if r == nil {
		return 0, false
	}
	return r.current(false).primary, true
}

// Find calls found for every header of encrypted bytes anywhere in b, as of values that are packed
// together. Random bytes look like one once in sixteen million: a key that nobody knows may be
// none.
func Find(b []byte, found func(ID)) {
	start := []byte{magic, version, tinkID}
	for {
		i := bytes.Index(b, start)
		if i < 0 || len(b) < i+HeaderBytes {
			return
		}
		id, _ := KeyOf(b[i:])
		found(id)
		b = b[i+len(start):]
	}
}
