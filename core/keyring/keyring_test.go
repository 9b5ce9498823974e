package keyring_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/keyring"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newFile(t testing.TB) (path string, id keyring.ID) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ring.json")
	id, err := keyring.New(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, id
}

func open(t testing.TB, path string, o keyring.Options) *keyring.Ring {
	t.Helper()
	r, err := keyring.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var (
	here  = keyring.Context("job.state", "run-1", "7")
	plain = []byte(`{"password": "hunter2"}`)
)

func TestSealedBytesAreOpenedInTheirPlaceOnly(t *testing.T) {
	path, id := newFile(t)
	r := open(t, path, keyring.Options{})
	sealed := r.Seal(plain, here)
	if bytes.Contains(sealed, []byte("hunter2")) || len(sealed) != len(plain)+keyring.Overhead {
		t.Fatalf("sealed: %q, %d bytes, expected %d", sealed, len(sealed), len(plain)+keyring.Overhead)
	}
	if bytes.Equal(sealed, r.Seal(plain, here)) {
		t.Error("sealed twice, the same bytes are the same: nonces repeat")
	}
	if got, ok := keyring.KeyOf(sealed); !ok || got != id || !bytes.HasPrefix(sealed, id.Header()) {
		t.Errorf("sealed with key %v, %t, expected %v", got, ok, id)
	}
	got, err := r.Open(sealed, here)
	if err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("opened %q, %v", got, err)
	}
	for name, place := range map[string][]byte{
		"another job":   keyring.Context("job.state", "run-1", "8"),
		"another run":   keyring.Context("job.state", "run-2", "7"),
		"another kind":  keyring.Context("job.data", "run-1", "7"),
		"parts joined":  keyring.Context("job.state", "run-17"),
		"parts shifted": keyring.Context("job.state", "run-", "17"),
		"no place":      nil,
	} {
		if got, err := r.Open(sealed, place); !errors.Is(err, keyring.ErrTampered) || got != nil {
			t.Errorf("%s: opened %q, %v", name, got, err)
		}
	}
	if got, err := r.Open(r.Seal(nil, here), here); err != nil || got == nil || len(got) != 0 {
		t.Errorf("nothing, sealed: %q, %v", got, err)
	}
}

func TestChangedBytesAreNotOpened(t *testing.T) {
	path, _ := newFile(t)
	r := open(t, path, keyring.Options{})
	sealed := r.Seal(plain, here)
	for i := range sealed {
		b := bytes.Clone(sealed)
		b[i] ^= 0x20
		if got, err := r.Open(b, here); err == nil {
			t.Errorf("byte %d changed: opened %q", i, got)
		}
		if got, err := r.Open(sealed[:i], here); err == nil {
			t.Errorf("cut to %d bytes: opened %q", i, got)
		}
	}
	if got, err := r.Open(append(bytes.Clone(sealed), 0), here); !errors.Is(err, keyring.ErrTampered) {
		t.Errorf("made longer: opened %q, %v", got, err)
	}
}

func TestWhatIsSealedLooksLikeNothingElse(t *testing.T) {
	path, id := newFile(t)
	sealed := open(t, path, keyring.Options{}).Seal(plain, here)
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	if json.Valid(sealed) || sealed[0] == enc.EncodeAll(plain, nil)[0] || sealed[0] <= 1 {
		t.Errorf("it begins with %x", sealed[:4])
	}
	n := 0
	keyring.Find(bytes.Join([][]byte{[]byte("x"), sealed, {0xf5}, sealed, {0xf5, 1}}, nil), func(got keyring.ID) {
		if got == id {
			n++
		}
	})
	if n != 2 {
		t.Errorf("%d headers were found, expected 2", n)
	}
}

func TestWithoutARingNothingIsSealedAndNothingSealedIsOpened(t *testing.T) {
	var none *keyring.Ring
	if got := none.Seal(plain, here); !bytes.Equal(got, plain) {
		t.Errorf("sealed: %q", got)
	}
	if got, err := none.Open(plain, here); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("opened: %q, %v", got, err)
	}
	path, id := newFile(t)
	_, err := none.Open(open(t, path, keyring.Options{}).Seal(plain, here), here)
	if !errors.Is(err, keyring.ErrNoKey) || !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), id.String()) || !strings.Contains(err.Error(), "--keyring") {
		t.Errorf("what is sealed: %v", err)
	}
}

// With the negative control: the switch for migrations takes what is not sealed.
func TestPlainBytesAreRefused(t *testing.T) {
	path, _ := newFile(t)
	if got, err := open(t, path, keyring.Options{}).Open(plain, here); !errors.Is(err, keyring.ErrPlain) {
		t.Errorf("opened %q, %v", got, err)
	}
	migrating := open(t, path, keyring.Options{AcceptPlain: true})
	if got, err := migrating.Open(plain, here); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("while migrating: %q, %v", got, err)
	}
	for _, b := range [][]byte{{0xf5}, {0xf5, 2, 1, 0, 0, 0, 0, 0}} { // cut, or of a later version
		if got, err := migrating.Open(b, here); err == nil {
			t.Errorf("%x is opened as %q", b, got)
		}
	}
}

func TestARotationNeedsNoRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, first := newFile(t)
		var mu sync.Mutex
		var told []string
		r := open(t, path, keyring.Options{Told: func(s string) { mu.Lock(); defer mu.Unlock(); told = append(told, s) }})
		old := r.Seal(plain, here)
		second, err := keyring.Add(path)
		if err != nil {
			t.Fatal(err)
		}
		other := open(t, path, keyring.Options{}) // a process that started later
		if err := keyring.Promote(path, second); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		early := other.Seal(plain, here)
		if id, _ := keyring.KeyOf(early); id != second {
			t.Fatalf("sealed with %v, expected %v", id, second)
		}
		// This process meets the new key before it would look at its file again.
		if _, err := r.Open(early, here); err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{old, early, r.Seal(plain, here)} {
			for _, ring := range []*keyring.Ring{r, other} {
				if got, err := ring.Open(b, here); err != nil || !bytes.Equal(got, plain) {
					t.Errorf("opened %q, %v", got, err)
				}
			}
		}
		if err := keyring.Retire(path, second); !errors.Is(err, core.ErrConflict) {
			t.Errorf("retire the key that is sealed with: %v", err)
		}
		if err := keyring.Retire(path, first); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		r.Seal(plain, here)
		if _, err := r.Open(old, here); !errors.Is(err, keyring.ErrNoKey) || !strings.Contains(err.Error(), first.String()) {
			t.Errorf("sealed with a key that is retired: %v", err)
		}
		if len(told) != 2 {
			t.Errorf("told: %q", told)
		}
	})
}

func TestAFileThatCannotBeUsedLeavesTheKeysThatWereRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, _ := newFile(t)
		var told []string
		r := open(t, path, keyring.Options{Told: func(s string) { told = append(told, s) }})
		for _, spoil := range []func() error{
			func() error { return os.WriteFile(path, []byte("{"), 0o600) },
			func() error { return os.Remove(path) },
		} {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			<-time.After(2 * time.Second)
			if got, err := r.Open(r.Seal(plain, here), here); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("opened %q, %v", got, err)
			}
		}
		if len(told) != 2 || !strings.Contains(told[0], "stay") {
			t.Errorf("told: %q", told)
		}
	})
}

func TestWrongFilesAreRefused(t *testing.T) {
	path, _ := newFile(t)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if _, err := keyring.New(path); !errors.Is(err, core.ErrConflict) {
		t.Errorf("a second ring in its place: %v", err)
	}
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		says string
	}{
		"readable by others": {string(good), 0o640, "chmod 600"},
		"no JSON":            {"key: abc", 0o600, "not a key ring"},
		"no keys":            {`{"primaryKeyId": 1, "key": []}`, 0o600, "not a key ring"},
		"a raw key":          {strings.ReplaceAll(string(good), `"TINK"`, `"RAW"`), 0o600, "prefix"},
		"too long":           {strings.Repeat(" ", 300<<10) + string(good), 0o600, "at most"},
	} {
		file := filepath.Join(t.TempDir(), "ring.json")
		if err := os.WriteFile(file, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := keyring.Open(file, keyring.Options{})
		if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := keyring.Open(filepath.Join(t.TempDir(), "none"), keyring.Options{}); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "keys new") {
		t.Errorf("no file: %v", err)
	}
	for _, id := range []string{"", "1", "0000000g", "000000001", "ABCDEF01"} {
		if got, err := keyring.ParseID(id); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("key %q is read as %v, %v", id, got, err)
		}
	}
}

// span reads a part of a sealed object as a bucket would give it.
func span(k keyring.ObjectKey, sealed []byte, size, offset, length int64) ([]byte, error) {
	from, n := keyring.Span(size, offset, length)
	if from > int64(len(sealed)) {
		return nil, io.ErrUnexpectedEOF
	}
	part := sealed[from:min(from+n, int64(len(sealed)))]
	return io.ReadAll(k.Open(io.NopCloser(bytes.NewReader(part)), size, offset, length))
}

func TestAnyPartOfAnObjectCanBeRead(t *testing.T) {
	const segment = keyring.ObjectSegment
	for _, size := range []int64{0, 1, segment - 1, segment, segment + 1, 2 * segment, 3*segment + 17} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i * 7 >> 3)
		}
		k := keyring.NewObjectKey()
		sealed, err := io.ReadAll(k.Seal(bytes.NewReader(data)))
		if err != nil || int64(len(sealed)) != keyring.SealedSize(size) {
			t.Fatalf("%d bytes are sealed as %d, expected %d: %v", size, len(sealed), keyring.SealedSize(size), err)
		}
		for _, offset := range []int64{0, 1, segment - 1, segment, segment + 1, 2*segment + 5, size - 1, size} {
			for _, length := range []int64{0, 1, 16, segment, segment + 2, size} {
				if offset < 0 || offset+length > size {
					continue
				}
				got, err := span(k, sealed, size, offset, length)
				if err != nil || !bytes.Equal(got, data[offset:offset+length]) {
					t.Errorf("%d of %d bytes from %d: %d bytes, %v", length, size, offset, len(got), err)
				}
			}
		}
	}
}

func TestAnObjectThatWasChangedIsNotRead(t *testing.T) {
	const segment, sealedSegment = keyring.ObjectSegment, keyring.ObjectSegment + 16
	size := int64(3*segment + 100)
	data := bytes.Repeat([]byte("0123456789abcdef"), int(size)/16+1)[:size]
	k := keyring.NewObjectKey()
	sealed, _ := io.ReadAll(k.Seal(bytes.NewReader(data)))
	other, _ := io.ReadAll(keyring.NewObjectKey().Seal(bytes.NewReader(data)))
	swapped := bytes.Clone(sealed)
	copy(swapped, sealed[sealedSegment:2*sealedSegment])
	copy(swapped[sealedSegment:], sealed[:sealedSegment])
	flipped := bytes.Clone(sealed)
	flipped[2*sealedSegment+5] ^= 1
	for name, b := range map[string][]byte{
		"segments swapped":      swapped,
		"a byte changed":        flipped,
		"cut between segments":  sealed[:3*sealedSegment],
		"cut within a segment":  sealed[:3*sealedSegment-9],
		"of another object":     append(bytes.Clone(other[:sealedSegment]), sealed[sealedSegment:]...),
		"a segment left out":    append(bytes.Clone(sealed[:sealedSegment]), sealed[2*sealedSegment:]...),
		"nothing":               {},
		"another object's last": append(bytes.Clone(sealed[:3*sealedSegment]), other[3*sealedSegment:]...),
	} {
		if got, err := span(k, b, size, 0, size); !errors.Is(err, keyring.ErrTampered) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	// It ends earlier by its row, too: the segment that is then the last one is not sealed as such.
	if _, err := span(k, sealed, 2*segment, 0, 2*segment); !errors.Is(err, keyring.ErrTampered) {
		t.Errorf("made shorter by its row: %v", err)
	}
}

type failing struct{ after int }

func (f *failing) Read(p []byte) (int, error) {
	if f.after <= 0 {
		return 0, errors.New("gone")
	}
	n := min(len(p), f.after)
	f.after -= n
	return n, nil
}

func TestSealingAnObjectTellsThatItsSourceFailed(t *testing.T) {
	for _, after := range []int{0, 10, keyring.ObjectSegment, 3 * keyring.ObjectSegment} {
		if _, err := io.ReadAll(keyring.NewObjectKey().Seal(&failing{after})); err == nil || err.Error() != "gone" {
			t.Errorf("after %d bytes: %v", after, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	path, _ := newFile(f)
	r := open(f, path, keyring.Options{})
	f.Add(r.Seal(plain, here))
	f.Add([]byte{0xf5, 1, 1})
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := r.Open(b, here); err == nil && !bytes.Equal(got, plain) { // of the seeds one can be opened
			t.Errorf("%x is opened as %q", b, got)
		}
		keyring.Find(b, func(keyring.ID) {})
	})
}

func BenchmarkSealAndOpen(b *testing.B) {
	path, _ := newFile(b)
	r := open(b, path, keyring.Options{})
	data := bytes.Repeat([]byte("x"), 512)
	for b.Loop() {
		if _, err := r.Open(r.Seal(data, here), here); err != nil {
			b.Fatal(err)
		}
	}
}
