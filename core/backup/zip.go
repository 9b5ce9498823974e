package backup

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// zipWriter is a place of one backup, in a file that has its name once all of it is there.
type zipWriter struct {
	path   string
	f      *os.File
	w      *zip.Writer
	broken bool // an entry was begun and dropped
}

func createZip(path string) (*zipWriter, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("%s is there already: give another name: %w", path, core.ErrInvalid)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".part-*.zip") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("file of the backup: %w", err)
	}
	return &zipWriter{path: path, f: f, w: zip.NewWriter(f)}, nil
}

type zipEntry struct {
	io.Writer
	in *zipWriter
}

// create begins an entry, which is not compressed: its content is already, or not worth it.
func (p *zipWriter) create(_ context.Context, name string) (file, error) {
	w, err := p.w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Modified: time.Now().UTC()})
	if err != nil {
		return nil, err
	}
	return &zipEntry{w, p}, nil
}

func (e *zipEntry) keep() error { return nil }
func (e *zipEntry) drop()       { e.in.broken = true }

func (p *zipWriter) open(_ context.Context, name string) (io.ReadCloser, error) {
	return nil, fmt.Errorf("%s: %w", name, core.ErrNotFound)
}
func (p *zipWriter) size(_ context.Context, name string) (int64, error) {
	return 0, fmt.Errorf("%s: %w", name, core.ErrNotFound)
}
func (p *zipWriter) folders(context.Context) ([]string, error) { return nil, nil }

func (p *zipWriter) close(done bool) error {
	defer func() { _ = os.Remove(p.f.Name()) }() // gone after the link
	if !done || p.broken {
		return p.f.Close()
	}
	err := p.w.Close()
	if err == nil {
		err = p.f.Sync()
	}
	if err = errors.Join(err, p.f.Close()); err != nil {
		return err
	}
	if err := os.Link(p.f.Name(), p.path); err != nil { // unlike a rename it never takes the place of another file
		return fmt.Errorf("file of the backup: %w", err)
	}
	dir, err := os.Open(filepath.Dir(p.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// zipReader is such a file.
type zipReader struct{ r *zip.ReadCloser }

func openZip(path string) (*zipReader, error) {
	r, err := zip.OpenReader(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no backup: %w: %w", core.ErrNotFound, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not a whole backup: %w: %w", path, core.ErrInvalid, err)
	}
	return &zipReader{r}, nil
}

func (p *zipReader) create(context.Context, string) (file, error) {
	return nil, fmt.Errorf("a file of a backup is not changed: %w", core.ErrInvalid)
}

func (p *zipReader) open(_ context.Context, name string) (io.ReadCloser, error) {
	f, err := p.r.Open(name)
	if err != nil {
		return nil, missing(err)
	}
	return f, nil
}

func (p *zipReader) size(_ context.Context, name string) (int64, error) {
	info, err := fs.Stat(p.r, name)
	if err != nil {
		return 0, missing(err)
	}
	return info.Size(), nil
}

func (p *zipReader) folders(context.Context) ([]string, error) {
	var ids []string
	for _, f := range p.r.File {
		if id, _, ok := strings.Cut(f.Name, "/"); ok && idForm().MatchString(id) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (p *zipReader) close(bool) error { return p.r.Close() }
