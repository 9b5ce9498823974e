package securefile_test

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnus/turnus/core/securefile"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEachChangeIsReportedOnce(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	put(t, one, "1")
	put(t, two, "2")
	when := time.Now().Add(-time.Hour)
	set := func(path string) {
		t.Helper()
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	set(one)
	set(two)
	w := securefile.NewWatch(one, two)
	for _, step := range []struct {
		what   string
		change func() error
		want   bool
	}{
		{"nothing", func() error { return nil }, false},
		{"another length", func() error { put(t, one, "11"); set(one); return nil }, true},
		{"another time", func() error { when = when.Add(time.Second); set(two); return nil }, true},
		{"another mode", func() error { return os.Chmod(two, 0o640) }, true},
		{"another file, alike", func() error {
			put(t, one+".new", "22")
			when = when.Add(-time.Second)
			set(one + ".new")
			return os.Rename(one+".new", one)
		}, true},
		{"gone", func() error { return os.Remove(two) }, true},
		{"still gone", func() error { return nil }, false},
		{"back", func() error { put(t, two, "2"); return nil }, true},
		{"read in vain", func() error { w.Again(); return nil }, true},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		if got := w.Changed(0); got != step.want {
			t.Errorf("%s: %v", step.what, got)
		}
		if w.Changed(0) {
			t.Errorf("%s: reported twice", step.what)
		}
	}
}

func TestACheckIsGoodForAWhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	put(t, path, "1")
	w := securefile.NewWatch(path)
	put(t, path, "22")
	if w.Due(time.Hour) || w.Changed(time.Hour) {
		t.Error("it looked again within the hour")
	}
	if !w.Due(0) || !w.Changed(0) { // negative control
		t.Error("it does not see the change")
	}
}

func TestOneOfManyHearsOfAChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	put(t, path, "1")
	w := securefile.NewWatch(path)
	put(t, path, "22")
	var reported atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 100 {
				if w.Changed(0) {
					reported.Add(1)
				}
			}
		})
	}
	all.Wait()
	if reported.Load() != 1 {
		t.Errorf("reported %d times", reported.Load())
	}
}
