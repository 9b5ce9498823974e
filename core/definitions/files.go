package definitions

import (
	"context"
	"errors"
	"slices"

	"github.com/turnus/turnus/playbooks"
)

// Files are the files of a tree that need not be valid.
type Files struct {
	Documents []Document // by path
	Unread    []string   // paths of what is no regular file, or too large
}

// FolderFiles reads the files of a folder that Load would read, whatever mistakes they hold. It
// also reads those in the places of known, which may be nil.
func FolderFiles(ctx context.Context, dir string, known *Set) (Files, error) {
	t, err := openFolder(ctx, dir)
	if err != nil {
		return Files{}, err
	}
	defer t.close()
	return filesOf(ctx, t, known)
}

// Files reads the files of a commit as FolderFiles does. The commit must be in the mirror: the tip
// is.
func (f *Follower) Files(ctx context.Context, commit string, known *Set) (Files, error) {
	if !hash().MatchString(commit) {
		return Files{}, treeProblem("", "the branch was not read yet")
	}
	return filesOf(ctx, &gitTree{g: f.g, commit: commit}, known)
}

func filesOf(ctx context.Context, t tree, known *Set) (Files, error) {
	entries, err := t.list(ctx)
	if err != nil {
		return Files{}, err
	}
	l := &loader{ctx: ctx, t: t, entries: entries, set: &Set{}}
	if err := l.find(); err != nil {
		return Files{}, err
	}
	for _, part := range parts { // find stops at the first mistake
		l.convention(part)
	}
	var out Files
	var read []entry
	var size int64
	for _, e := range entries {
		if !l.set.layout.documents(e.path) && (known == nil || !known.layout.documents(e.path)) {
			continue
		}
		if !l.readable(e) || size+e.bytes() > MaxSize || len(read) == MaxDocuments {
			out.Unread = append(out.Unread, e.path)
			continue
		}
		size += e.bytes()
		read = append(read, e)
	}
	data, err := t.read(ctx, read)
	if err != nil {
		return Files{}, err
	}
	for i, e := range read {
		out.Documents = append(out.Documents, Document{e.path, data[i]})
	}
	return out, nil
}

// Mended loads the set that the files give when each file with a mistake is as known has it. It
// shows what the rest of them changes. The error is that of Load where that is not valid either.
func (f Files) Mended(ctx context.Context, known *Set, o Options) (*Set, error) {
	set, err := FromDocuments(ctx, f.Documents, o)
	found, invalid := errors.AsType[playbooks.Diagnostics](err)
	if !invalid && len(f.Unread) == 0 {
		return set, err
	}
	return FromDocuments(ctx, f.without(found, known), o)
}

// without returns the documents, those that cannot be read or have a mistake as known has them.
func (f Files) without(mistakes playbooks.Diagnostics, known *Set) []Document {
	bad := map[string]bool{}
	for _, p := range f.Unread {
		bad[p] = true
	}
	for _, d := range mistakes {
		bad[d.File] = true
	}
	out := slices.DeleteFunc(slices.Clone(f.Documents), func(d Document) bool { return bad[d.Path] })
	if known != nil {
		for _, d := range known.docs {
			if bad[d.Path] {
				out = append(out, d)
			}
		}
	}
	return out
}
