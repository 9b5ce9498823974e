package definitions

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/yamlread"
)

// gitTree is the tree of one commit. It reads objects: no attribute, filter or checkout takes part.
type gitTree struct {
	g       *git
	commit  string
	entries []entry // once they were listed: a commit never changes
}

var hash = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`) })

// LoadRevision reads the set of a revision (a branch, tag or commit) of a repository on this
// machine: a work tree or a bare one. Errors are those of Load.
func LoadRevision(ctx context.Context, repo, revision string, o Options) (*Set, error) {
	r, err := parseRemote(repo)
	if err != nil {
		return nil, err
	}
	g := &git{program: "git", dir: r.address, user: true}
	commit, err := g.resolve(ctx, revision)
	if err != nil {
		return nil, fmt.Errorf("repository %s: %w", repo, err)
	}
	if o.Revision, err = g.describe(ctx, commit); err != nil {
		return nil, err
	}
	return loadTree(ctx, &gitTree{g: g, commit: commit}, o)
}

// resolve is the commit that a revision means.
func (g *git) resolve(ctx context.Context, revision string) (string, error) {
	if revision == "" || strings.HasPrefix(revision, "-") || strings.ContainsFunc(revision, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "", fmt.Errorf("%w revision %q: expected a branch, a tag or a commit", core.ErrInvalid, yamlread.Clip(revision))
	}
	out, err := g.run(ctx, localTime, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
	if ctx.Err() != nil {
		return "", err
	}
	if err != nil {
		if _, lost := g.run(ctx, localTime, "rev-parse", "--git-dir"); lost != nil {
			return "", fmt.Errorf("%w: %w", core.ErrInvalid, lost)
		}
		return "", fmt.Errorf("%w: there is no revision %q\nhint: in CI, fetch the whole history (fetch-depth: 0)", core.ErrInvalid, yamlread.Clip(revision))
	}
	commit := strings.TrimSpace(strings.TrimPrefix(out, "--end-of-options\n"))
	if !hash().MatchString(commit) {
		return "", fmt.Errorf("%w: git gave no commit for %q", core.ErrInvalid, yamlread.Clip(revision))
	}
	return commit, nil
}

// lastYear is the last that JSON can hold. In a zone west of UTC, git writes the year before.
const lastYear = 9999

// describe returns the author, the time and the subject of a commit.
func (g *git) describe(ctx context.Context, commit string) (Revision, error) {
	out, err := g.run(ctx, localTime, "log", "-1", "--no-show-signature", "--no-color", "--encoding=UTF-8", "--format=%an <%ae>%n%cI%n%s", commit, "--")
	if err != nil {
		return Revision{}, err
	}
	lines := strings.SplitN(out, "\n", 3)
	if len(lines) < 3 {
		return Revision{}, fmt.Errorf("git log: %w: the log of commit %s lacks fields", core.ErrInvalid, commit)
	}
	r := Revision{Commit: commit, Author: oneLine(lines[0]), Subject: oneLine(lines[2])}
	if at, err := time.Parse(time.RFC3339, lines[1]); err == nil && at.UTC().Year() <= lastYear { // anybody can write anything into a commit
		r.CommittedAt = at.UTC()
	}
	return r, nil
}

// oneLine is text of a commit, for people and logs.
func oneLine(text string) string {
	const most = 200
	text, _, _ = strings.Cut(strings.TrimSpace(strings.ToValidUTF8(text, "?")), "\n")
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return clean(text)
}

func (t *gitTree) list(ctx context.Context) ([]entry, error) {
	if t.entries != nil {
		return t.entries, nil
	}
	var out []entry
	err := t.g.stream(ctx, localTime, nil, func(r *bufio.Reader) error {
		for {
			line, err := r.ReadSlice(0)
			switch {
			case errors.Is(err, io.EOF) && len(line) == 0:
				return nil
			case err != nil:
				return treeProblem("", "a file's name is too long")
			case len(out) == MaxEntries:
				return treeProblem("", "commit %s holds more than %d files", t.commit, MaxEntries)
			}
			e, err := parseEntry(string(line[:len(line)-1]))
			if err != nil {
				return err
			}
			out = append(out, e)
		}
	}, "ls-tree", "-r", "-z", "-l", "--full-tree", t.commit)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	have := make(map[string]bool, len(out))
	for _, e := range out { // a crafted tree may hold one name as a file and as a folder
		for p := e.path; p != "."; p = path.Dir(p) {
			if have[p] {
				return nil, treeProblem(e.path, "the path is there twice")
			}
		}
		have[e.path] = true
	}
	t.entries = out
	return out, nil
}

// parseEntry reads "MODE TYPE HASH SIZE\tPATH".
func parseEntry(line string) (entry, error) {
	meta, p, ok := strings.Cut(line, "\t")
	f := strings.Fields(meta)
	if !ok || len(f) != 4 || !hash().MatchString(f[2]) {
		return entry{}, fmt.Errorf("git ls-tree: %w: unexpected line %q", core.ErrInvalid, yamlread.Clip(line))
	}
	if why := checkPath(p); why != "" {
		return entry{}, treeProblem(p, "the file %s", why)
	}
	e := entry{path: p, blob: f[2]}
	switch f[0] {
	case "100644", "100664":
	case "100755":
		e.kind = program
	case "120000":
		e.kind = link
	case "160000":
		e.kind = module
		return e, nil
	default:
		e.kind = special
	}
	size, err := strconv.ParseInt(f[3], 10, 64)
	if err != nil || size < 0 {
		return entry{}, treeProblem(p, "the file is missing in the repository")
	}
	e.size = size
	return e, nil
}

func (t *gitTree) read(ctx context.Context, files []entry) ([][]byte, error) {
	out := make([][]byte, 0, len(files))
	err := t.blobs(ctx, files, func(e entry, r io.Reader) error {
		data := make([]byte, e.size)
		_, err := io.ReadFull(r, data)
		out = append(out, data)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// blobs hands on the content of each file, of the size in its entry.
func (t *gitTree) blobs(ctx context.Context, files []entry, use func(e entry, r io.Reader) error) error {
	if len(files) == 0 {
		return nil
	}
	var ask strings.Builder
	for _, e := range files {
		ask.WriteString(e.blob + "\n")
	}
	return t.g.stream(ctx, localTime, strings.NewReader(ask.String()), func(r *bufio.Reader) error {
		for _, e := range files {
			head, err := r.ReadSlice('\n')
			if err != nil {
				return io.ErrUnexpectedEOF
			}
			if want := fmt.Sprintf("%s blob %d\n", e.blob, e.size); string(head) != want {
				return treeProblem(e.path, "the repository does not hold this file: %s", yamlread.Clip(strings.TrimSpace(string(head))))
			}
			body := &io.LimitedReader{R: r, N: e.size}
			if err := use(e, body); err != nil {
				return err
			}
			if _, err := io.Copy(io.Discard, body); err != nil {
				return err
			}
			if _, err := r.ReadByte(); err != nil { // the newline behind each
				return io.ErrUnexpectedEOF
			}
		}
		return nil
	}, "cat-file", "--batch")
}
