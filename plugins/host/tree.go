package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnus/turnus/core"
)

const maxTreeFiles = 50_000

// Tree is the hash of all files of a plugin's folder, their names and whether they can be run: a hash of the
// program alone would miss the modules of a script.
func Tree(dir string) (string, error) {
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
		if err != nil || d.IsDir() {
			return err
		}
		line, err := treeLine(path, rel, d)
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

func treeLine(path, rel string, d fs.DirEntry) (string, error) {
	info, err := d.Info()
	if err != nil {
		return "", err
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		if err == nil && (filepath.IsAbs(to) || !filepath.IsLocal(filepath.Join(filepath.Dir(rel), to))) {
			err = fmt.Errorf("%w: %s leads out of the folder, to %s", core.ErrInvalid, path, to)
		}
		return fmt.Sprintf("link %q", to), err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%w: %s is neither file, folder nor link", core.ErrInvalid, path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	sum, err := sumFile(f)
	kind := "file"
	if info.Mode().Perm()&0o111 != 0 {
		kind = "program"
	}
	return kind + " " + sum, err
}

// checkTree refuses a folder whose files are not those of want; "" is any.
func (p *Plugin) checkTree() error {
	if p.Tree == "" {
		return nil
	}
	got, err := Tree(p.Dir)
	if err == nil && got != p.Tree {
		err = fmt.Errorf("%w: the files of %s changed since they were loaded: %s was, %s is; start the worker again if that is intended",
			core.ErrInvalid, p.Dir, short(p.Tree), short(got))
	}
	return err
}

// short is a hash as people compare it.
func short(tree string) string {
	return tree[:min(len(tree), len("sha256:")+16)]
}

// everybodys tells whether a stranger may write to any file of the folder.
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
