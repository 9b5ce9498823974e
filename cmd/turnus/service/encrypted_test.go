package service

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/keyring"
)

// Only its process can read the queue of turnus up: a key is not retired before that process began
// with another one.
func TestAKeyStaysWhileAnOlderQueueMayBeEncryptedWithIt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ring.json")
	id, err := keyring.New(file)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.Open(file, keyring.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err := OpenData(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.OpenLedger(t.Context(), "", "", ring)
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	con, f := console.New(strings.NewReader(""), io.Discard, io.Discard), EncryptedPlaces{Data: d.Path, Keyring: KeyringFlags{File: file}}
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(d.Path, "lock")
	for began, fine := range map[time.Duration]bool{-time.Minute: false, time.Minute: true} { // from when the ledger was encrypted with the present key
		when := time.Now().Add(began)
		if err := os.Chtimes(lock, when, when); err != nil {
			t.Fatal(err)
		}
		if err := f.BegunSince(t.Context(), con, id); (err == nil) != fine || err != nil && !strings.Contains(err.Error(), "stop and start turnus up") {
			t.Errorf("began %v after: %v", began, err)
		}
	}
	// Closed while a child of this process, on its way to exec, has the file open.
	child, err := syscall.Dup(int(d.lock.Fd()))
	if err := errors.Join(err, os.Chtimes(lock, time.Time{}, time.Now().Add(-time.Minute)), d.Close()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Close(child) }()
	if err := f.BegunSince(t.Context(), con, id); err != nil { // nobody holds it any more
		t.Error(err)
	}
}
