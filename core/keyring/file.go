package keyring

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
)

// Key describes one key of a ring, without the key itself.
type Key struct {
	ID      ID
	Primary bool // it is encrypted with; the others only open
}

// describe lists the keys that are enabled.
func describe(h *keyset.Handle) []Key {
	var all []Key
	for i := range h.Len() {
		if e, err := h.Entry(i); err == nil && e.KeyStatus() == keyset.Enabled {
			all = append(all, Key{ID: ID(e.KeyID()), Primary: e.IsPrimary()})
		}
	}
	return all
}

// Keys lists the keys of a ring's file, oldest first. Errors wrap core.ErrInvalid.
func Keys(path string) ([]Key, error) {
	h, err := readFile(path)
	if err != nil {
		return nil, err
	}
	return describe(h), nil
}

// New makes a ring's file with one key, and returns that. A file that is there is core.ErrConflict:
// what was encrypted with its keys could never be opened again.
func New(path string) (ID, error) {
	m := keyset.NewManager()
	id, err := m.Add(aead.AES256GCMKeyTemplate())
	if err == nil {
		err = m.SetPrimary(id)
	}
	if err != nil {
		return 0, fmt.Errorf("make a key: %w", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("key ring %s is there already: %w\nhint: turnus admin keys add %s adds a key to it", path, core.ErrConflict, path)
	}
	return ID(id), write(path, m)
}

// Add adds a key that opens only: one that every process is to have before Promote.
func Add(path string) (ID, error) {
	var id uint32
	err := change(path, func(m *keyset.Manager) (err error) {
		id, err = m.Add(aead.AES256GCMKeyTemplate())
		return err
	})
	return ID(id), err
}

// Promote makes a key the one that is encrypted with. A key that the ring has not is
// core.ErrNotFound.
func Promote(path string, id ID) error {
	return change(path, func(m *keyset.Manager) error {
		if err := m.SetPrimary(uint32(id)); err != nil {
			return fmt.Errorf("there is no key %s in the ring: %w", id, core.ErrNotFound)
		}
		return nil
	})
}

// Retire takes a key out of the ring: what is encrypted with it can then not be opened. The key
// that is encrypted with is core.ErrConflict, one that the ring has not core.ErrNotFound.
func Retire(path string, id ID) error {
	keys, err := Keys(path)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if k.ID == id && k.Primary {
			return fmt.Errorf("key %s is the one that encrypts: %w\nhint: first make another key the one that encrypts: turnus admin keys promote", id, core.ErrConflict)
		}
	}
	return change(path, func(m *keyset.Manager) error {
		if err := m.Delete(uint32(id)); err != nil {
			return fmt.Errorf("there is no key %s in the ring: %w", id, core.ErrNotFound)
		}
		return nil
	})
}

// change puts a changed ring in the place of a file. The caller must prevent two changes at the
// same time: the last one stays.
func change(path string, do func(*keyset.Manager) error) error {
	h, err := readFile(path)
	if err != nil {
		return err
	}
	m := keyset.NewManagerFromHandle(h)
	if err := do(m); err != nil {
		return fmt.Errorf("key ring %s: %w", path, err)
	}
	return write(path, m)
}

func write(path string, m *keyset.Manager) error {
	h, err := m.Handle()
	if err != nil {
		return fmt.Errorf("key ring: %w", err)
	}
	var text bytes.Buffer
	if err := insecurecleartextkeyset.Write(h, keyset.NewJSONWriter(&text)); err != nil {
		return fmt.Errorf("key ring: %w", err)
	}
	text.WriteByte('\n')
	if err := securefile.Replace(path, text.Bytes(), 0o600); err != nil {
		return fmt.Errorf("key ring: %w", err)
	}
	return nil
}
