package servers

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// postgresData is the output of initdb. That starts PostgreSQL three times, so it runs once for all
// servers of a test binary.
type postgresData struct {
	once  sync.Once
	parts []postgresPart
}

// postgresPart is a folder or a file of it.
type postgresPart struct {
	path string // below the folder of the data
	mode fs.FileMode
	size int64
	data []byte // without the zeros at the end, which a segment of the log has in millions
}

var initialData postgresData

// write makes the folder of a new server's data.
func (d *postgresData) write(tb testing.TB, bin, data string, attributes *syscall.SysProcAttr) {
	tb.Helper()
	d.once.Do(func() { d.parts = initialize(tb, bin) })
	if len(d.parts) == 0 {
		tb.Fatal("initdb failed, see the test that ran it")
	}
	for _, p := range d.parts {
		path := filepath.Join(data, p.path)
		if p.mode.IsDir() {
			must(tb, os.Mkdir(path, p.mode.Perm()))
		} else {
			must(tb, os.WriteFile(path, p.data, p.mode.Perm()))
			must(tb, os.Truncate(path, p.size))
		}
		if who := attributes.Credential; who != nil {
			must(tb, os.Chown(path, int(who.Uid), int(who.Gid)))
		}
	}
}

// initialize runs initdb, and reads what it writes.
func initialize(tb testing.TB, bin string) (parts []postgresPart) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // PostgreSQL runs as another user, who may not enter tb.TempDir
	must(tb, err)
	defer func() { _ = os.RemoveAll(dir) }()
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(tb.Context(), filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions") //nolint:gosec // the test's own program
	initdb.SysProcAttr, initdb.Dir = asUser(tb, dir), dir
	if out, err := initdb.CombinedOutput(); err != nil {
		tb.Fatalf("initdb: %v: %s", err, out)
	}
	root, err := os.OpenRoot(data)
	must(tb, err)
	defer func() { _ = root.Close() }()
	must(tb, fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := e.Info()
		if err != nil {
			return err
		}
		p := postgresPart{path: path, mode: i.Mode(), size: i.Size()}
		if !e.IsDir() {
			if p.data, err = root.ReadFile(path); err == nil {
				p.data = bytes.Clone(bytes.TrimRight(p.data, "\x00"))
			}
		}
		parts = append(parts, p)
		return err
	}))
	return parts
}
