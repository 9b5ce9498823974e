package fleet

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"

	"github.com/pkg/sftp"
)

func TestTransfer(t *testing.T) {
	f := start(t, Config{Hosts: 2})
	c := mustDial(t, f, f.Hosts()[0])
	files, err := sftp.NewClient(c, sftp.UseConcurrentWrites(true))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = files.Close() }()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	w, err := files.OpenFile("/tmp/x.part", os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.ReadFrom(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Chmod(0o750), w.Close(), files.PosixRename("/tmp/x.part", "/tmp/x")); err != nil {
		t.Fatal(err)
	}
	st, err := files.Stat("/tmp/x")
	if err != nil || st.Size() != int64(len(data)) || st.Mode() != 0o750 {
		t.Errorf("%v, %v", st, err)
	}
	if _, err := files.Stat("/tmp/x.part"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the partial file: %v", err)
	}
	r, err := files.Open("/tmp/x")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %d of %d bytes, %v", len(got), len(data), err)
	}
	_ = r.Close()
	if out, _, _, _ := run(t, c, "wc -c < /tmp/x", ""); out != "1048576\n" {
		t.Errorf("the shell sees %q bytes", out)
	}
	list, err := files.ReadDir("/tmp")
	if err != nil || len(list) != 1 || list[0].Name() != "x" {
		t.Errorf("%v, %v", list, err)
	}
	for what, err := range map[string]error{
		"a missing folder": func() error { _, err := files.Create("/nowhere/x"); return err }(),
		"rename over":      errors.Join(files.Mkdir("/tmp/d"), files.Rename("/tmp/x", "/etc/hostname")),
		"a full folder":    errors.Join(files.PosixRename("/tmp/x", "/tmp/d/x"), files.RemoveDirectory("/tmp/d")),
	} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if err := files.Remove("/tmp/d/x"); err != nil {
		t.Error(err)
	}
	other, err := sftp.NewClient(mustDial(t, f, f.Hosts()[1]))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if _, err := other.Stat("/tmp/d"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("hosts share files: %v", err)
	}
}

// Disk full is an error of the transfer, not of the fleet.
func TestHostStorageIsBounded(t *testing.T) {
	f := start(t, Config{Hosts: 1})
	files, err := sftp.NewClient(mustDial(t, f, f.Hosts()[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = files.Close() }()
	w, err := files.Create("/tmp/big")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	if _, err := w.WriteAt([]byte("x"), maxHostBytes); err == nil {
		t.Error("wrote beyond the bound")
	}
	if err := w.Truncate(maxHostBytes + 1); err == nil {
		t.Error("grew beyond the bound")
	}
}
