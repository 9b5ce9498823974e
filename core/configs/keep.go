package configs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// writeTime bounds a batch, with the wait for other processes.
const writeTime = 10 * time.Minute

var errClosed = fmt.Errorf("repository of configurations: %w: it is closed", core.ErrUnavailable)

// Keep makes a version of what differs from the kept one, durable when it returns. When ctx ends
// first the change may have been kept all the same; keeping it again then changes nothing.
// Errors: core.ErrInvalid for a bad name, or a folder that is not ours; core.ErrUnavailable after
// Close.
func (r *Repo) Keep(ctx context.Context, c Change) (Kept, error) {
	if err := c.check(); err != nil {
		return Kept{}, err
	}
	req := &request{change: &c}
	if !r.writes.add(req, r.write) {
		return Kept{}, errClosed
	}
	select {
	case <-req.over:
		return req.kept, req.err
	case <-ctx.Done():
		return Kept{}, ctx.Err()
	}
}

// write keeps a batch. Its requests' contexts do not end it: others also wait for it.
func (r *Repo) write(batch []*request) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	err := r.writeBatch(ctx, batch)
	for _, req := range batch {
		if err != nil {
			req.kept, req.err = Kept{}, err
		}
	}
}

func (r *Repo) writeBatch(ctx context.Context, batch []*request) error {
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	tip, err := r.git.tip(ctx, lock)
	if err != nil {
		return err
	}
	stream, err := r.compose(ctx, lock, tip, batch)
	if err != nil || stream == nil {
		return err
	}
	r.closing.Lock()
	r.wrote = true
	r.closing.Unlock()
	commits, err := r.git.load(ctx, lock, stream)
	if err != nil {
		return err
	}
	return answer(batch, commits)
}

// load makes commits of a stream, and gives their names. --done: a stream that breaks off, because
// this process was killed, changes nothing.
func (g git) load(ctx context.Context, lock *os.File, stream io.Reader) ([]string, error) {
	marks := core.Head{Most: 1 << 20}
	if err := g.call(ctx, lock, stream, &marks, "fast-import", "--quiet", "--done", "--date-format=raw"); err != nil {
		return nil, err
	}
	return strings.Fields(marks.String()), nil
}

// answer gives the commits, in their order, to those who asked for them.
func answer(batch []*request, commits []string) error {
	for _, req := range batch {
		if len(req.kept.Changed) == 0 {
			continue
		}
		if len(commits) == 0 {
			return errors.New("git fast-import reported fewer commits than were made")
		}
		req.kept.Version, commits = commits[0], commits[1:]
	}
	return nil
}

// compose is the input of fast-import; nil when nothing differs. Requests learn what of theirs did.
func (r *Repo) compose(ctx context.Context, lock *os.File, tip string, batch []*request) (io.Reader, error) {
	type place struct{ req, file int }
	var paths []string
	var places []place
	for i, req := range batch {
		dir, err := folder(req.change.Host)
		if err != nil {
			return nil, err
		}
		for j, f := range req.change.Files {
			paths, places = append(paths, dir+"/"+f.Name), append(places, place{i, j})
		}
	}
	// latest is what an earlier request of the batch makes of a path.
	latest := make(map[string]File)
	differs := core.Map(batch, func(req *request) []bool { return make([]bool, len(req.change.Files)) })
	k := 0
	err := r.git.contents(ctx, lock, tip, paths, func(old []byte, found bool) {
		at := places[k]
		f := batch[at.req].change.Files[at.file]
		if before, ok := latest[paths[k]]; ok {
			old, found = before.Content, !before.Gone
		}
		same := found && !f.Gone && bytes.Equal(old, f.Content) || !found && f.Gone
		if differs[at.req][at.file] = !same; !same {
			latest[paths[k]] = f
		}
		k++
	})
	if err != nil {
		return nil, err
	}
	var parts []io.Reader
	mark := 0
	for i, req := range batch {
		if !slices.Contains(differs[i], true) {
			continue
		}
		mark++
		parts = append(parts, commit(req, differs[i], mark, tip)...)
	}
	if mark == 0 {
		return nil, nil
	}
	return io.MultiReader(append(parts, strings.NewReader("done\n"))...), nil
}

// commit is one version in fast-import's language: every text is counted, no name needs quotes.
func commit(req *request, differs []bool, mark int, tip string) []io.Reader {
	c := req.change
	dir, _ := folder(c.Host) // was checked
	var body bytes.Buffer
	var contents []io.Reader
	flush := func() {
		contents = append(contents, strings.NewReader(body.String()))
		body.Reset()
	}
	req.kept = Kept{}
	var reported strings.Builder
	for i, f := range c.Files {
		switch {
		case !differs[i]:
			continue
		case f.Gone:
			fmt.Fprintf(&body, "D %s/%s\n", dir, f.Name)
			fmt.Fprintf(&reported, "File-Gone: %s\n", f.Name)
		default:
			fmt.Fprintf(&body, "M 100644 inline %s/%s\ndata %d\n", dir, f.Name, len(f.Content))
			flush()
			contents = append(contents, bytes.NewReader(f.Content))
			body.WriteByte('\n')
			fmt.Fprintf(&reported, "File: %s\n", f.Name)
		}
		req.kept.Changed = append(req.kept.Changed, f.Name)
	}
	fmt.Fprintf(&body, "get-mark :%d\n", mark)
	flush()
	message := fmt.Sprintf("%s: %s\n\nHost: %s\nPlaybook: %s\nRun: %s\nStep: %s\n%s",
		line(c.Host), head(strings.Join(req.kept.Changed, ", ")), dir, line(c.Playbook), line(c.Run), line(c.Step), reported.String())
	var top bytes.Buffer
	fmt.Fprintf(&top, "commit %s\nmark :%d\nauthor %s <> %d +0000\ncommitter Turnus <> %d +0000\ndata %d\n%s\n", branch, mark, person(c.Author), c.At.Unix(), c.At.Unix(), len(message), message)
	if mark == 1 && tip != "" {
		fmt.Fprintf(&top, "from %s\n", tip)
	}
	return append([]io.Reader{&top}, contents...)
}

// contents gives the content of each path at a commit, in order. A tip of "" has none.
func (g git) contents(ctx context.Context, lock *os.File, tip string, paths []string, each func(content []byte, found bool)) error {
	if tip == "" {
		for range paths {
			each(nil, false)
		}
		return nil
	}
	var ask strings.Builder
	for _, p := range paths {
		ask.WriteString(tip + ":" + p + "\n")
	}
	read, write := io.Pipe()
	called := make(chan error, 1)
	go func() {
		err := g.call(ctx, lock, strings.NewReader(ask.String()), write, "cat-file", "--batch")
		_ = write.CloseWithError(err)
		called <- err
	}()
	failed := parseContents(bufio.NewReaderSize(read, 64<<10), len(paths), each)
	_ = read.CloseWithError(io.ErrClosedPipe)
	if err := <-called; err != nil && (failed == nil || errors.Is(failed, err)) {
		return err
	}
	return failed
}

// parseContents reads "HASH blob SIZE\nCONTENT\n" or "ASKED missing\n", n times.
func parseContents(in *bufio.Reader, n int, each func([]byte, bool)) error {
	for range n {
		header, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		if strings.HasSuffix(header, " missing\n") {
			each(nil, false)
			continue
		}
		var hash, kind string
		var size int64
		if _, err := fmt.Sscanf(header, "%s %s %d\n", &hash, &kind, &size); err != nil || size < 0 || size > MaxBytes {
			return fmt.Errorf("git cat-file: %w answer %q", core.ErrInvalid, head(header))
		}
		content := make([]byte, size+1)
		if _, err := io.ReadFull(in, content); err != nil {
			return err
		}
		each(content[:size], kind == "blob")
	}
	return nil
}

// Close ends what is under way, packs the repository when it has grown, and refuses what comes
// later. It may be called again.
func (r *Repo) Close() error {
	r.writes.close()
	r.reads.close()
	r.closing.Lock()
	wrote := r.wrote
	r.wrote = false
	r.closing.Unlock()
	if !wrote {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	// It does something once some thousand objects lie about, or fifty packs.
	return r.git.call(ctx, lock, nil, io.Discard, "-c", "gc.auto=6700", "-c", "gc.autoDetach=false", "gc", "--auto", "--quiet")
}
