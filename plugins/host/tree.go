package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnus/turnus/core"
)

const maxTreeFiles = 50_000

// Tree is the hash of all files of a plugin's folder, their names and whether they can be run: a
// hash of the program alone would miss the modules of a script.
func Tree(dir string) (string, error) { return hashTree(dir, "") }

// hashTree returns the hash of a folder's files. With a folder into, which is empty, it writes the
// bytes that it hashes there, so that the copy has that hash whatever happens in dir meanwhile.
func hashTree(dir, into string) (string, error) {
	sum := sha256.New()
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if n++; n > maxTreeFiles {
			return fmt.Errorf("%w: more than %d files", core.ErrInvalid, maxTreeFiles)
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		to := ""
		if into != "" {
			to = filepath.Join(into, rel)
		}
		if d.IsDir() {
			if into != "" && rel != "." {
				err = os.Mkdir(to, 0o700)
			}
			return err
		}
		line, err := treeLine(path, rel, d, to)
		if err == nil {
			_, err = fmt.Fprintf(sum, "%q %s\n", filepath.ToSlash(rel), line) // WalkDir goes in lexical order
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hash of the plugin folder %s: %w", dir, err)
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// treeLine describes what is at path, and copies it to the path to, if that is given.
func treeLine(path, rel string, d fs.DirEntry, to string) (string, error) {
	info, err := d.Info()
	if err != nil {
		return "", err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err == nil && (filepath.IsAbs(target) || !filepath.IsLocal(filepath.Join(filepath.Dir(rel), target))) {
			err = fmt.Errorf("%w: %s leads out of the folder, to %s", core.ErrInvalid, path, target)
		}
		if err == nil && to != "" {
			err = os.Symlink(target, to)
		}
		return fmt.Sprintf("link %q", target), err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%w: %s is neither file, folder nor link", core.ErrInvalid, path)
	}
	kind, mode := "file", fs.FileMode(0o444)
	if info.Mode().Perm()&0o111 != 0 {
		kind, mode = "program", 0o555
	}
	sum, err := sumAndCopy(path, to, mode)
	return kind + " " + sum, err
}

// sumAndCopy hashes a file, and writes what it hashes to a new file to, if that is given.
func sumAndCopy(path, to string, mode fs.FileMode) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	h := sha256.New()
	var w io.Writer = h
	var out *os.File
	if to != "" {
		if out, err = os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode); err != nil {
			return "", err
		}
		w = io.MultiWriter(h, out)
	}
	_, err = io.Copy(w, f)
	if out != nil {
		err = errors.Join(err, out.Chmod(mode), out.Close())
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// sameTree refuses a plugin whose files are not those that were loaded. got is their hash now.
func (p *Plugin) sameTree(got string) error {
	if got == p.Tree {
		return nil
	}
	return fmt.Errorf("%w: the files of %s changed since they were loaded: %s was, %s is; if that is intended, install it again: turnus plugins install --force",
		core.ErrInvalid, p.Dir, short(p.Tree), short(got))
}

// private returns the plugin as it is started: with a Tree, from a copy of its folder in root. Its
// files on disk must still be those that were loaded; a file that is exchanged after that check is
// not run.
func (p *Plugin) private(root *folder) (*Plugin, error) {
	if p.Tree == "" {
		return p, nil
	}
	dir, err := root.copyOf(p)
	if err != nil {
		return nil, err
	}
	own := *p
	own.Dir, own.Argv = dir, slices.Clone(p.Argv)
	for i, arg := range own.Argv {
		if rest, ok := strings.CutPrefix(arg, p.Dir); ok && (rest == "" || rest[0] == filepath.Separator) {
			own.Argv[i] = dir + rest
		}
	}
	return &own, nil
}

// short is a hash as people compare it.
func short(tree string) string {
	return tree[:min(len(tree), len("sha256:")+16)]
}

// everybodys reports whether a stranger may write to any file of the folder.
func everybodys(dir string) (found string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		if info, err := d.Info(); err == nil && info.Mode().Perm()&0o002 != 0 && found == "" {
			found = strings.TrimSuffix(path, "/")
		}
		return nil
	})
	return found
}
