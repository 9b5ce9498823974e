package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// A file that is no database, or half of one, is refused by its name, and left as it is.
func TestDamagedFileIsNamed(t *testing.T) {
	t.Parallel()
	sound := filepath.Join(t.TempDir(), "ledger.db")
	l, err := ledger.Open(t.Context(), "sqlite:"+sound, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(sound)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		data    []byte
		damaged bool
	}{
		"sound":          {whole, false}, // the control
		"garbage":        {bytes.Repeat([]byte("garbage\n"), 4096), true},
		"half":           {whole[:len(whole)/2], true},
		"a page of it":   {whole[:4096], true},
		"cut in a page":  {whole[:1000], true},
		"zeros":          {make([]byte, 8192), true},
		"schema damaged": {append(append([]byte{}, whole[:100]...), append(bytes.Repeat([]byte{0xff}, 3996), whole[4096:]...)...), true},
	} {
		file := filepath.Join(t.TempDir(), "ledger.db")
		if err := os.WriteFile(file, tc.data, 0o600); err != nil {
			t.Fatal(err)
		}
		for how, open := range map[string]func() error{
			"open": func() error {
				l, err := ledger.Open(t.Context(), "sqlite:"+file, ledger.Options{})
				if err == nil {
					err = l.Close()
				}
				return err
			},
			"ask": func() error { return ledger.Reachable(t.Context(), "sqlite:"+file) },
			"copy": func() error {
				return ledger.ReadCopy(t.Context(), "sqlite:"+file, func(context.Context, *ledger.Copy) error { return nil })
			},
		} {
			err := open()
			bad, ok := errors.AsType[*ledger.DamagedError](err)
			if ok != tc.damaged || !tc.damaged && err != nil {
				t.Errorf("%s, %s: %v", name, how, err)
				continue
			}
			if ok && (bad.File != file || !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), file)) {
				t.Errorf("%s, %s: %v", name, how, err)
			}
		}
		if now, err := os.ReadFile(file); tc.damaged && (err != nil || !bytes.Equal(now, tc.data)) {
			t.Errorf("%s: the file was changed: %v", name, err)
		}
	}
}
