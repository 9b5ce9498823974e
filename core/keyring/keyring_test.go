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

func TestEncryptedBytesAreOpenedInTheirPlaceOnly(t *testing.T) {
	path, id := newFile(t)
	r := open(t, path, keyring.Options{})
	encrypted := r.Encrypt(plain, here)
	if bytes.Contains(encrypted, []byte("hunter2")) || len(encrypted) != len(plain)+keyring.Overhead {
		t.Fatalf("encrypted: %q, %d bytes, expected %d", encrypted, len(encrypted), len(plain)+keyring.Overhead)
	}
	if bytes.Equal(encrypted, r.Encrypt(plain, here)) {
		t.Error("encrypted twice, the same bytes are the same: nonces repeat")
	}
	if got, ok := keyring.KeyOf(encrypted); !ok || got != id || !bytes.HasPrefix(encrypted, id.Header()) {
		t.Errorf("encrypted with key %v, %t, expected %v", got, ok, id)
	}
	got, err := r.Open(encrypted, here)
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
		if got, err := r.Open(encrypted, place); !errors.Is(err, keyring.ErrTampered) || got != nil {
			t.Errorf("%s: opened %q, %v", name, got, err)
		}
	}
	if got, err := r.Open(r.Encrypt(nil, here), here); err != nil || got == nil || len(got) != 0 {
		t.Errorf("nothing, encrypted: %q, %v", got, err)
	}
}

func TestChangedBytesAreNotOpened(t *testing.T) {
	path, _ := newFile(t)
	r := open(t, path, keyring.Options{})
	encrypted := r.Encrypt(plain, here)
	for i := range encrypted {
		b := bytes.Clone(encrypted)
		b[i] ^= 0x20
		if got, err := r.Open(b, here); err == nil {
			t.Errorf("byte %d changed: opened %q", i, got)
		}
		if got, err := r.Open(encrypted[:i], here); err == nil {
			t.Errorf("cut to %d bytes: opened %q", i, got)
		}
	}
	if got, err := r.Open(append(bytes.Clone(encrypted), 0), here); !errors.Is(err, keyring.ErrTampered) {
		t.Errorf("made longer: opened %q, %v", got, err)
	}
}

func TestWhatIsEncryptedLooksLikeNothingElse(t *testing.T) {
	path, id := newFile(t)
	encrypted := open(t, path, keyring.Options{}).Encrypt(plain, here)
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	if json.Valid(encrypted) || encrypted[0] == enc.EncodeAll(plain, nil)[0] || encrypted[0] <= 1 {
		t.Errorf("it begins with %x", encrypted[:4])
	}
	n := 0
	keyring.Find(bytes.Join([][]byte{[]byte("x"), encrypted, {0xf5}, encrypted, {0xf5, 1}}, nil), func(got keyring.ID) {
		if got == id {
			n++
		}
	})
	if n != 2 {
		t.Errorf("%d headers were found, expected 2", n)
	}
}

func TestWithoutARingNothingIsEncryptedAndNothingEncryptedIsOpened(t *testing.T) {
	var none *keyring.Ring
	if got := none.Encrypt(plain, here); !bytes.Equal(got, plain) {
		t.Errorf("encrypted: %q", got)
	}
	if got, err := none.Open(plain, here); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("opened: %q, %v", got, err)
	}
	path, id := newFile(t)
	_, err := none.Open(open(t, path, keyring.Options{}).Encrypt(plain, here), here)
	if !errors.Is(err, keyring.ErrNoKey) || !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), id.String()) || !strings.Contains(err.Error(), "--keyring") {
		t.Errorf("encrypted bytes: %v", err)
	}
}

// With the negative control: the switch for migrations takes what is not encrypted.
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
		var reported []string
		r := open(t, path, keyring.Options{Reported: func(s string) { mu.Lock(); defer mu.Unlock(); reported = append(reported, s) }})
		old := r.Encrypt(plain, here)
		second, err := keyring.Add(path)
		if err != nil {
			t.Fatal(err)
		}
		other := open(t, path, keyring.Options{}) // a process that started later
		if err := keyring.Promote(path, second); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		early := other.Encrypt(plain, here)
		if id, _ := keyring.KeyOf(early); id != second {
			t.Fatalf("encrypted with %v, expected %v", id, second)
		}
		// This process meets the new key before it would read its file again.
		if _, err := r.Open(early, here); err != nil {
			t.Fatal(err)
		}
		for _, b := range [][]byte{old, early, r.Encrypt(plain, here)} {
			for _, ring := range []*keyring.Ring{r, other} {
				if got, err := ring.Open(b, here); err != nil || !bytes.Equal(got, plain) {
					t.Errorf("opened %q, %v", got, err)
				}
			}
		}
		if err := keyring.Retire(path, second); !errors.Is(err, core.ErrConflict) {
			t.Errorf("retire the key that encrypts: %v", err)
		}
		if err := keyring.Retire(path, first); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Second)
		r.Encrypt(plain, here)
		if _, err := r.Open(old, here); !errors.Is(err, keyring.ErrNoKey) || !strings.Contains(err.Error(), first.String()) || !strings.Contains(err.Error(), "--keyring") || strings.Contains(err.Error(), path) {
			t.Errorf("encrypted with a key that is retired: %v", err)
		}
		if len(reported) != 2 {
			t.Errorf("reported: %q", reported)
		}
	})
}

func TestAFileThatCannotBeUsedLeavesTheKeysThatWereRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, first := newFile(t)
		var reported []string
		r := open(t, path, keyring.Options{Reported: func(s string) { reported = append(reported, s) }})
		foreign, _ := newFile(t)
		for _, spoil := range []func() error{
			func() error { return os.WriteFile(path, []byte("{"), 0o600) },
			func() error { return os.Remove(path) },
			func() error { return os.Rename(foreign, path) }, // a good ring, of another service
		} {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			<-time.After(2 * time.Second)
			encrypted := r.Encrypt(plain, here)
			if id, _ := keyring.KeyOf(encrypted); id != first {
				t.Errorf("encrypted with %v, expected %v", id, first)
			}
			if got, err := r.Open(encrypted, here); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("opened %q, %v", got, err)
			}
		}
		if len(reported) != 3 || !strings.Contains(reported[0], "stay") || !strings.Contains(reported[2], "another key ring") {
			t.Errorf("reported: %q", reported)
		}
	})
}

// A ring that could not be read is read as soon as it can, though the file stays the same: the
// cause may be a lack of descriptors. Each cause is reported once.
func TestARingIsReadAgainWhenItsCauseHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, _ := newFile(t)
		var refused []string
		r := open(t, path, keyring.Options{Reported: func(string) {}, Refused: func(s string) { refused = append(refused, s) }})
		second, err := keyring.Add(path)
		if err = errors.Join(err, keyring.Promote(path, second)); err != nil {
			t.Fatal(err)
		}
		away := path + ".away"
		for _, step := range []func() error{
			func() error { return os.Rename(path, away) },
			func() error { return nil }, // still away
			func() error { return os.Rename(away, path) },
		} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
			<-time.After(2 * time.Second)
			r.Encrypt(plain, here)
		}
		if primary, _ := r.Primary(); primary != second || len(refused) != 1 {
			t.Errorf("it encrypts with %v, expected %v; refused %q", primary, second, refused)
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

// span reads a part of an encrypted object as a bucket would give it.
func span(k keyring.ObjectKey, encrypted []byte, size, offset, length int64) ([]byte, error) {
	from, n := keyring.Span(size, offset, length)
	if from > int64(len(encrypted)) {
		return nil, io.ErrUnexpectedEOF
	}
	part := encrypted[from:min(from+n, int64(len(encrypted)))]
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
		encrypted, err := io.ReadAll(k.Encrypt(bytes.NewReader(data)))
		if err != nil || int64(len(encrypted)) != keyring.EncryptedSize(size) {
			t.Fatalf("%d bytes are encrypted as %d, expected %d: %v", size, len(encrypted), keyring.EncryptedSize(size), err)
		}
		for _, offset := range []int64{0, 1, segment - 1, segment, segment + 1, 2*segment + 5, size - 1, size} {
			for _, length := range []int64{0, 1, 16, segment, segment + 2, size} {
				if offset < 0 || offset+length > size {
					continue
				}
				got, err := span(k, encrypted, size, offset, length)
				if err != nil || !bytes.Equal(got, data[offset:offset+length]) {
					t.Errorf("%d of %d bytes from %d: %d bytes, %v", length, size, offset, len(got), err)
				}
			}
		}
	}
}

func TestAnObjectThatWasChangedIsNotRead(t *testing.T) {
	const segment, encryptedSegment = keyring.ObjectSegment, keyring.ObjectSegment + 16
	size := int64(3*segment + 100)
	data := bytes.Repeat([]byte("0123456789abcdef"), int(size)/16+1)[:size]
	k := keyring.NewObjectKey()
	encrypted, _ := io.ReadAll(k.Encrypt(bytes.NewReader(data)))
	other, _ := io.ReadAll(keyring.NewObjectKey().Encrypt(bytes.NewReader(data)))
	swapped := bytes.Clone(encrypted)
	copy(swapped, encrypted[encryptedSegment:2*encryptedSegment])
	copy(swapped[encryptedSegment:], encrypted[:encryptedSegment])
	flipped := bytes.Clone(encrypted)
	flipped[2*encryptedSegment+5] ^= 1
	for name, b := range map[string][]byte{
		"segments swapped":      swapped,
		"a byte changed":        flipped,
		"cut between segments":  encrypted[:3*encryptedSegment],
		"cut within a segment":  encrypted[:3*encryptedSegment-9],
		"of another object":     append(bytes.Clone(other[:encryptedSegment]), encrypted[encryptedSegment:]...),
		"a segment left out":    append(bytes.Clone(encrypted[:encryptedSegment]), encrypted[2*encryptedSegment:]...),
		"nothing":               {},
		"another object's last": append(bytes.Clone(encrypted[:3*encryptedSegment]), other[3*encryptedSegment:]...),
	} {
		if got, err := span(k, b, size, 0, size); !errors.Is(err, keyring.ErrTampered) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	// It also ends earlier by its row: the segment that is then the last one is not encrypted as such.
	if _, err := span(k, encrypted, 2*segment, 0, 2*segment); !errors.Is(err, keyring.ErrTampered) {
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

func TestEncryptingAnObjectReportsThatItsSourceFailed(t *testing.T) {
	for _, after := range []int{0, 10, keyring.ObjectSegment, 3 * keyring.ObjectSegment} {
		if _, err := io.ReadAll(keyring.NewObjectKey().Encrypt(&failing{after})); err == nil || err.Error() != "gone" {
			t.Errorf("after %d bytes: %v", after, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	path, _ := newFile(f)
	r := open(f, path, keyring.Options{})
	f.Add(r.Encrypt(plain, here))
	f.Add([]byte{0xf5, 1, 1})
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, err := r.Open(b, here); err == nil && !bytes.Equal(got, plain) { // of the seeds one can be opened
			t.Errorf("%x is opened as %q", b, got)
		}
		keyring.Find(b, func(keyring.ID) {})
	})
}

func BenchmarkEncryptAndOpen(b *testing.B) {
	path, _ := newFile(b)
	r := open(b, path, keyring.Options{})
	data := bytes.Repeat([]byte("x"), 512)
	for b.Loop() {
		if _, err := r.Open(r.Encrypt(data, here), here); err != nil {
			b.Fatal(err)
		}
	}
}
