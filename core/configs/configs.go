// Package configs owns the kept versions of hosts' configurations: files by host in a bare git
// repository, a commit for each host whose configuration differs from the version kept before.
//
// The repository is written by one process at a time, over a file lock; what many jobs keep at the
// same time is written together. A version is there whole or not at all, whenever a process is
// killed. The package must not know jobs, playbooks or how a configuration was fetched.
package configs

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
)

// Bounds of one change.
const (
	MaxFiles = 64
	MaxBytes = 64 << 20 // of all its files
)

// File is one file of a host's configuration.
type File struct {
	Name    string // one path element; see CheckName
	Content []byte
	Gone    bool // the host has it no more
}

// Change is the configuration files that a job fetched. Files that it does not name stay as they
// are.
type Change struct {
	Host                string
	Files               []File
	Author              string // who launched the run
	At                  time.Time
	Playbook, Run, Step string
}

// Kept is the result of a change.
type Kept struct {
	Version string   // the commit; empty when nothing differed
	Changed []string // names of the files that did
}

// Repo is the repository at one folder. It makes nothing before the first change is kept. It is
// safe for concurrent use, also by several processes.
type Repo struct {
	dir string
	git git

	writes, reads batcher
	closing       sync.Mutex
	wrote         bool // under closing
}

// New makes a Repo of the folder; nothing is touched. Close must follow.
func New(dir string) (*Repo, error) {
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("repository of configurations: %w", err)
	}
	r := &Repo{dir: path, git: git{dir: path}}
	r.writes.most, r.reads.most = 256, 256
	return r, nil
}

// Dir is the folder.
func (r *Repo) Dir() string { return r.dir }

var (
	nameRule  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`) })
	plainHost = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`) })
)

const maxName = 128

// CheckName reports whether a file may have the name. The error wraps core.ErrInvalid.
func CheckName(name string) error {
	if len(name) > maxName || !nameRule().MatchString(name) {
		return fmt.Errorf("%w name %q of a configuration file: expected a letter or digit, then letters, digits, dots, dashes and underscores, %d in all", core.ErrInvalid, name, maxName)
	}
	return nil
}

// maxFolder is the longest path element that file systems and git take.
const maxFolder = 255

// folder is the host's folder in the tree. Bytes that are not plain become %XX, so two hosts never
// share one, and none is "..", ".git" or what another file system takes for it.
func folder(host string) (string, error) {
	dir := host
	if !plainHost().MatchString(host) || strings.HasSuffix(host, ".") || strings.HasPrefix(strings.ToLower(host), "git~") {
		var b strings.Builder
		for i := range len(host) {
			c := host[i]
			plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' && i > 0
			if plain || c == '.' && i > 0 && i < len(host)-1 {
				b.WriteByte(c)
			} else {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
		dir = b.String()
	}
	if host == "" || len(dir) > maxFolder {
		return "", fmt.Errorf("%w host name %q: it cannot name a folder of configurations", core.ErrInvalid, head(host))
	}
	return dir, nil
}

// hostOf is the host of a folder.
func hostOf(dir string) string {
	var b strings.Builder
	for i := 0; i < len(dir); i++ {
		var c byte
		if dir[i] == '%' && i+2 < len(dir) {
			if n, err := fmt.Sscanf(dir[i+1:i+3], "%02X", &c); err == nil && n == 1 {
				b.WriteByte(c)
				i += 2
				continue
			}
		}
		b.WriteByte(dir[i])
	}
	return b.String()
}

// check refuses what cannot be kept, before it meets what others keep.
func (c *Change) check() error {
	if _, err := folder(c.Host); err != nil {
		return err
	}
	if len(c.Files) == 0 || len(c.Files) > MaxFiles {
		return fmt.Errorf("%w change of host %s: it has %d files; expected 1 to %d", core.ErrInvalid, c.Host, len(c.Files), MaxFiles)
	}
	size, seen := 0, map[string]bool{}
	for _, f := range c.Files {
		if err := CheckName(f.Name); err != nil {
			return err
		}
		if seen[f.Name] {
			return fmt.Errorf("%w change of host %s: the file %s is there twice", core.ErrInvalid, c.Host, f.Name)
		}
		seen[f.Name] = true
		size += len(f.Content)
	}
	if size > MaxBytes {
		return fmt.Errorf("%w change of host %s: it has %d bytes; at most %d can be kept at a time", core.ErrInvalid, c.Host, size, MaxBytes)
	}
	return nil
}

// line makes text one line of a commit's message, or a person in it.
func line(text string) string {
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
	return head(strings.TrimSpace(text))
}

// person is a name as git takes it.
func person(name string) string {
	name = strings.Trim(line(strings.NewReplacer("<", "", ">", "").Replace(name)), ` .,:;"'`)
	return cmp.Or(name, "turnus")
}

func head(text string) string {
	const most = 200
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}
