package configs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
)

// Version is one kept version of a host's configuration, as History lists them.
type Version struct {
	Version  string    `json:"version"`
	Parent   string    `json:"-"` // the commit before it, of any host; empty for the first
	Host     string    `json:"host"`
	At       time.Time `json:"at"`
	Author   string    `json:"author"`
	Playbook string    `json:"playbook"`
	Run      string    `json:"run"`
	Step     string    `json:"step"`
	Changed  []string  `json:"changed"`
	Gone     []string  `json:"gone,omitempty"`
}

// Query chooses versions. Zero fields choose all.
type Query struct {
	Host, File, Run string
	Since           time.Time
	Limit           int
}

// History lists versions, newest first.
func (r *Repo) History(ctx context.Context, q Query) ([]Version, error) {
	tip, err := r.newest(ctx)
	if err != nil || tip == "" {
		return nil, err
	}
	args := []string{"log", "-z", "--first-parent", "--no-color", "--encoding=UTF-8", "--format=%H%n%P%n%at%n%an%n%B", tip, "--"}
	if q.Host != "" || q.File != "" {
		path, err := place(q.Host, q.File)
		if err != nil {
			return nil, err
		}
		if path != "" {
			args = append(args, path)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read, write := io.Pipe()
	called := make(chan error, 1)
	go func() {
		err := r.git.call(ctx, nil, nil, write, args...)
		_ = write.CloseWithError(err)
		called <- err
	}()
	list, failed := q.parse(bufio.NewReader(read))
	_ = read.CloseWithError(io.ErrClosedPipe)
	enough := errors.Is(failed, errEnough)
	if enough {
		cancel()
	}
	switch err := <-called; {
	case enough: // git was ended
		return list, nil
	case err != nil:
		return nil, err
	}
	return list, failed
}

// place is the path of a host's file, of a host, or of everything.
func place(host, file string) (string, error) {
	if host == "" {
		return "", nil
	}
	path, err := folder(host)
	if err == nil && file != "" {
		err = CheckName(file)
		path += "/" + file
	}
	return path, err
}

var errEnough = errors.New("the limit is reached")

func (q *Query) parse(in *bufio.Reader) ([]Version, error) {
	var list []Version
	for {
		record, err := in.ReadString(0)
		if errors.Is(err, io.EOF) && record == "" {
			return list, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		v, err := parseVersion(strings.TrimSuffix(record, "\x00"))
		if err != nil {
			return nil, err
		}
		if !q.takes(v) {
			continue
		}
		if list = append(list, v); len(list) == q.Limit {
			return list, errEnough
		}
	}
}

func (q *Query) takes(v Version) bool {
	return (q.Run == "" || v.Run == q.Run) && !v.At.Before(q.Since) && (q.File == "" || slices.Contains(v.Changed, q.File) || slices.Contains(v.Gone, q.File))
}

func parseVersion(record string) (Version, error) {
	parts := strings.SplitN(record, "\n", 5)
	if len(parts) < 5 {
		return Version{}, fmt.Errorf("git log: %w record %q", core.ErrInvalid, head(record))
	}
	seconds, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return Version{}, fmt.Errorf("git log: %w time %q", core.ErrInvalid, head(parts[2]))
	}
	v := Version{Version: parts[0], Parent: parts[1], At: time.Unix(seconds, 0).UTC(), Author: line(parts[3]), Changed: []string{}}
	for l := range strings.Lines(parts[4]) {
		key, value, _ := strings.Cut(strings.TrimRight(l, "\n"), ": ")
		value = line(value)
		switch key {
		case "Host":
			v.Host = hostOf(value)
		case "Playbook":
			v.Playbook = value
		case "Run":
			v.Run = value
		case "Step":
			v.Step = value
		case "File":
			v.Changed = append(v.Changed, value)
		case "File-Gone":
			v.Gone = append(v.Gone, value)
		}
	}
	return v, nil
}

// Entry is a file of a version.
type Entry struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	id   string
}

var versionRule = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{4,40}$`) })

// Resolve is the whole name of a version; "" is the newest of all. core.ErrNotFound when there is
// none, core.ErrInvalid for what cannot be one.
func (r *Repo) Resolve(ctx context.Context, version string) (string, error) {
	if version != "" && !versionRule().MatchString(version) {
		return "", fmt.Errorf("%w version %q: expected 4 to 40 hexadecimal digits, as hosts config log shows them", core.ErrInvalid, head(version))
	}
	tip, err := r.newest(ctx)
	if err != nil {
		return "", err
	}
	if tip == "" {
		return "", fmt.Errorf("%w: no configuration was kept in %s yet: a step with uses: config.backup keeps them", core.ErrNotFound, r.dir)
	}
	if version == "" {
		return tip, nil
	}
	out, err := r.git.text(ctx, nil, 1<<10, "rev-parse", "--verify", "--quiet", "--end-of-options", version+"^{commit}")
	if err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		return "", fmt.Errorf("%w: there is no version %s in %s, or several begin so", core.ErrNotFound, version, r.dir)
	}
	return strings.TrimSpace(strings.TrimPrefix(out, "--end-of-options\n")), nil
}

// Hosts lists the hosts that a version has files of.
func (r *Repo) Hosts(ctx context.Context, version string) ([]string, error) {
	out, err := r.git.text(ctx, nil, 64<<20, "ls-tree", "-z", "-d", "--name-only", "--full-tree", version)
	if err != nil {
		return nil, err
	}
	var hosts []string
	for dir := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if dir != "" {
			hosts = append(hosts, hostOf(dir))
		}
	}
	slices.Sort(hosts)
	return hosts, nil
}

// Files lists a host's files at a version, by name. Version "" has none.
func (r *Repo) Files(ctx context.Context, host, version string) ([]Entry, error) {
	dir, err := folder(host)
	if err != nil || version == "" {
		return nil, err
	}
	out, err := r.git.text(ctx, nil, 1<<20, "ls-tree", "-z", "-l", "--full-tree", version, dir+"/")
	if err != nil {
		return nil, err
	}
	var list []Entry
	for record := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		meta, path, _ := strings.Cut(record, "\t")
		f := strings.Fields(meta)
		if len(f) != 4 || f[1] != "blob" {
			continue // not of our making
		}
		size, err := strconv.ParseInt(f[3], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("git ls-tree: %w size %q", core.ErrInvalid, head(f[3]))
		}
		list = append(list, Entry{Name: strings.TrimPrefix(path, dir+"/"), Size: size, id: f[2]})
	}
	slices.SortFunc(list, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// Content is a file of a host at a version. core.ErrNotFound when that has none.
func (r *Repo) Content(ctx context.Context, host, name, version string) (content []byte, err error) {
	path, err := place(host, name)
	if err != nil {
		return nil, err
	}
	have := false
	err = r.git.contents(ctx, nil, version, []string{path}, func(b []byte, found bool) { content, have = b, found })
	if err == nil && !have {
		err = fmt.Errorf("%w: version %.12s has no file %s of host %s", core.ErrNotFound, version, name, host)
	}
	return content, err
}

// Difference is a file that differs between two versions.
type Difference struct {
	Name          string
	Before, After []byte
	Was, Is       bool // the file is there before, after
}

// Differences compares a host's files of two versions; "" has none. file "" compares all.
func (r *Repo) Differences(ctx context.Context, host, file, from, to string) ([]Difference, error) {
	before, err := r.Files(ctx, host, from)
	if err != nil {
		return nil, err
	}
	after, err := r.Files(ctx, host, to)
	if err != nil {
		return nil, err
	}
	ids := func(list []Entry) map[string]string {
		m := make(map[string]string, len(list))
		for _, e := range list {
			m[e.Name] = e.id
		}
		return m
	}
	old, now := ids(before), ids(after)
	names := make([]string, 0, len(before)+len(after))
	for _, e := range append(before, after...) {
		if old[e.Name] != now[e.Name] && (file == "" || e.Name == file) {
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	var list []Difference
	for _, name := range slices.Compact(names) {
		d := Difference{Name: name, Was: old[name] != "", Is: now[name] != ""}
		if d.Was {
			if d.Before, err = r.Content(ctx, host, name, from); err != nil {
				return nil, err
			}
		}
		if d.Is {
			if d.After, err = r.Content(ctx, host, name, to); err != nil {
				return nil, err
			}
		}
		if !bytes.Equal(d.Before, d.After) || d.Was != d.Is {
			list = append(list, d)
		}
	}
	return list, nil
}

// Before is the commit before a version; empty for the first.
func (r *Repo) Before(ctx context.Context, version string) (string, error) {
	out, err := r.git.text(ctx, nil, 1<<10, "log", "-1", "--format=%P", version, "--")
	return strings.TrimSpace(out), err
}
