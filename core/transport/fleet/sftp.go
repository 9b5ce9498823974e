package fleet

import (
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/pkg/sftp"
)

// sftpFiles serves a host's files to the sftp subsystem.
type sftpFiles struct{ fs *memFS }

// Fileread implements sftp.FileReader.
func (s *sftpFiles) Fileread(r *sftp.Request) (io.ReaderAt, error) {
	return s.fs.open(r.Filepath)
}

// Filewrite implements sftp.FileWriter.
func (s *sftpFiles) Filewrite(r *sftp.Request) (io.WriterAt, error) { return s.open(r) }

// OpenFile implements sftp.OpenFileWriter.
func (s *sftpFiles) OpenFile(r *sftp.Request) (sftp.WriterAtReaderAt, error) { return s.open(r) }

func (s *sftpFiles) open(r *sftp.Request) (*memFile, error) {
	flags := r.Pflags()
	if !flags.Creat {
		if _, err := s.fs.stat(r.Filepath); err != nil {
			return nil, err
		}
	}
	mode := fs.FileMode(0o644)
	if r.AttrFlags().Permissions {
		mode = r.Attributes().FileMode().Perm()
	}
	by := login()
	by.umask = 0
	return s.fs.create(r.Filepath, flags.Trunc, flags.Creat && flags.Excl, mode, by)
}

// Filecmd implements sftp.FileCmder.
func (s *sftpFiles) Filecmd(r *sftp.Request) error {
	switch r.Method {
	case "Setstat":
		return s.setstat(r)
	case "Rename":
		if _, err := s.fs.stat(r.Target); err == nil { // SFTP's own rename never replaces
			return os.ErrExist
		}
		return s.fs.rename(r.Filepath, r.Target)
	case "Remove", "Rmdir":
		return s.fs.remove(r.Filepath, false)
	case "Mkdir":
		return s.fs.mkdir(r.Filepath, false, 0o777, login())
	}
	return sftp.ErrSSHFxOpUnsupported
}

// PosixRename implements sftp.PosixRenameFileCmder.
func (s *sftpFiles) PosixRename(r *sftp.Request) error { return s.fs.rename(r.Filepath, r.Target) }

func (s *sftpFiles) setstat(r *sftp.Request) error {
	flags, attrs := r.AttrFlags(), r.Attributes()
	if flags.Size && attrs.Size > maxHostBytes {
		return syscall.ENOSPC
	}
	return s.fs.change(r.Filepath, true, func(n *node) {
		if flags.Permissions {
			n.mode = attrs.FileMode().Perm()
		}
		if flags.Acmodtime {
			n.mtime = time.Unix(int64(attrs.Mtime), 0)
		}
		if flags.Size {
			data := make([]byte, attrs.Size)
			copy(data, n.data)
			n.data = data
		}
	})
}

// Filelist implements sftp.FileLister.
func (s *sftpFiles) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	if r.Method != "List" {
		n, err := s.fs.stat(r.Filepath)
		if err != nil {
			return nil, err
		}
		return lister{info{path.Base(r.Filepath), n}}, nil
	}
	names, err := s.fs.names(r.Filepath)
	if err != nil {
		return nil, err
	}
	list := make(lister, 0, len(names))
	for _, name := range names {
		if n, err := s.fs.stat(path.Join(r.Filepath, name)); err == nil { // else removed meanwhile
			list = append(list, info{name, n})
		}
	}
	return list, nil
}

type lister []os.FileInfo

func (l lister) ListAt(out []os.FileInfo, off int64) (int, error) {
	if off >= int64(len(l)) {
		return 0, io.EOF
	}
	n := copy(out, l[off:])
	if n < len(out) {
		return n, io.EOF
	}
	return n, nil
}

// info describes a node as os.FileInfo.
type info struct {
	name string
	node node
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return int64(len(i.node.data)) }
func (i info) ModTime() time.Time { return i.node.mtime }
func (i info) IsDir() bool        { return i.node.dir }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	switch {
	case i.node.dir:
		return i.node.mode.Perm() | fs.ModeDir
	case i.node.link:
		return i.node.mode.Perm() | fs.ModeSymlink
	}
	return i.node.mode.Perm()
}
