package definitions

import (
	"bytes"
	"cmp"
	"io/fs"
	"path"
	"slices"
	"time"
)

// docFS shows documents as files, none of which may be run.
type docFS map[string]*docNode

type docNode struct {
	name string
	dir  bool
	data []byte
	in   []fs.DirEntry // of a folder, by name
}

func newDocFS(docs []Document) docFS {
	f := docFS{".": {name: ".", dir: true}}
	for _, d := range docs {
		f.add(d.Path, &docNode{name: path.Base(d.Path), data: d.Data})
	}
	for _, n := range f {
		slices.SortFunc(n.in, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	}
	return f
}

func (f docFS) add(p string, n *docNode) {
	if f[p] != nil {
		return
	}
	f[p] = n
	dir := path.Dir(p)
	f.add(dir, &docNode{name: path.Base(dir), dir: true})
	f[dir].in = append(f[dir].in, fs.FileInfoToDirEntry(n))
}

// Open opens a file or folder.
func (f docFS) Open(name string) (fs.File, error) {
	n := f[name]
	if n == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &docFile{n, bytes.NewReader(n.data)}, nil
}

// ReadDir lists a folder.
func (f docFS) ReadDir(name string) ([]fs.DirEntry, error) {
	n := f[name]
	if n == nil || !n.dir {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	return n.in, nil
}

func (n *docNode) Name() string       { return n.name }
func (n *docNode) Size() int64        { return int64(len(n.data)) }
func (n *docNode) ModTime() time.Time { return time.Time{} }
func (n *docNode) IsDir() bool        { return n.dir }
func (n *docNode) Sys() any           { return nil }
func (n *docNode) Mode() fs.FileMode {
	if n.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

type docFile struct {
	n *docNode
	*bytes.Reader
}

func (f *docFile) Stat() (fs.FileInfo, error) { return f.n, nil }
func (f *docFile) Close() error               { return nil }
