package backup

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
)

// place is where backups are. A missing file is core.ErrNotFound.
type place interface {
	// create makes a file; it is there, whole and durable, when keep has returned.
	create(ctx context.Context, name string) (file, error)
	open(ctx context.Context, name string) (io.ReadCloser, error)
	size(ctx context.Context, name string) (int64, error)
	// folders lists what begins like the id of a backup, sorted.
	folders(ctx context.Context) ([]string, error)
	// close ends the use of it; done reports that all that was begun is complete.
	close(done bool) error
}

// file is one that is being written. One of keep and drop must be called.
type file interface {
	io.Writer
	keep() error
	drop()
}

// folder is a place on disk, which others cannot read.
type folder struct{ root *os.Root }

func openFolder(dir string, make bool) (*folder, error) {
	if make {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("folder of backups: %w", err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("folder of backups: %w", missing(err))
	}
	return &folder{root}, nil
}

// missing gives a missing file the word that all places have for it.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", core.ErrNotFound, err)
	}
	return err
}

type diskFile struct {
	*os.File
	in         *folder
	temp, name string
}

func (p *folder) create(_ context.Context, name string) (file, error) {
	if err := p.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return nil, err
	}
	temp := path.Dir(name) + "/.part-" + random(6)
	f, err := p.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &diskFile{f, p, temp, name}, nil
}

func (f *diskFile) keep() error {
	err := f.Sync()
	err = errors.Join(err, f.Close())
	if err == nil {
		err = f.in.root.Rename(f.temp, f.name)
	}
	if err != nil {
		_ = f.in.root.Remove(f.temp)
		return err
	}
	return f.in.sync(path.Dir(f.name))
}

// sync makes the names in a folder, and its own, durable.
func (p *folder) sync(dir string) error {
	for ; ; dir = path.Dir(dir) {
		d, err := p.root.Open(dir)
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil || dir == "." {
			return err
		}
	}
}

func (f *diskFile) drop() {
	_ = f.Close()
	_ = f.in.root.Remove(f.temp)
}

func (p *folder) open(_ context.Context, name string) (io.ReadCloser, error) {
	f, err := p.root.Open(name)
	if err != nil {
		return nil, missing(err)
	}
	return f, nil
}

func (p *folder) size(_ context.Context, name string) (int64, error) {
	info, err := p.root.Stat(name)
	if err != nil {
		return 0, missing(err)
	}
	return info.Size(), nil
}

func (p *folder) folders(context.Context) ([]string, error) {
	entries, err := fs.ReadDir(p.root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		if idForm().MatchString(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

func (p *folder) close(bool) error { return p.root.Close() }

// openPlace opens the place of backups, also before the first one.
func openPlace(ctx context.Context, where string, write bool) (place, error) {
	switch {
	case where == "":
		return nil, fmt.Errorf("expected a folder, a .zip file or s3://BUCKET: %w", core.ErrInvalid)
	case strings.Contains(where, "://"):
		return openBucket(ctx, where)
	case strings.HasSuffix(where, ".zip") && write:
		return createZip(where)
	case strings.HasSuffix(where, ".zip"):
		return openZip(where)
	}
	return openFolder(filepath.Clean(where), write)
}

// whole lists the backups of a place that are complete, oldest first.
func whole(ctx context.Context, p place) ([]string, error) {
	ids, err := p.folders(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(ids)
	list := ids[:0]
	for _, id := range ids {
		switch _, err := p.size(ctx, id+"/"+manifestName); {
		case err == nil:
			list = append(list, id)
		case !errors.Is(err, core.ErrNotFound):
			return nil, err
		}
	}
	return list, nil
}

func random(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails, see crypto/rand
	return hex.EncodeToString(b)
}
