package file

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/turnus/turnus/plugins/sdk"
)

// maxShown is the size up to which diffs show contents; larger ones are described, not read for
// them.
const maxShown = 1 << 20

// wanted is the content that the file shall have.
type wanted struct {
	bytes    []byte // nil when it is an artifact
	artifact string
	size     int64
	sha256   string
}

// want finds the content. ok is false when only mode and owner matter.
func want(ctx context.Context, r *runOf) (w wanted, ok bool, err error) {
	p := r.Params
	switch {
	case p.Content != nil:
		w.bytes = []byte(*p.Content)
	case p.Template != "":
		if w.bytes, err = r.Render(ctx, p.Template, p.Vars); err != nil {
			return w, false, err
		}
	case p.Source != "":
		return artifact(ctx, r)
	default:
		return w, false, nil
	}
	w.size, w.sha256 = int64(len(w.bytes)), fmt.Sprintf("%x", sha256.Sum256(w.bytes))
	return w, true, nil
}

// artifact learns the hash of a file of the worker; its bytes are not kept.
func artifact(ctx context.Context, r *runOf) (wanted, bool, error) {
	hash := sha256.New()
	info, err := r.Artifact(ctx, r.Params.Source, 0, hash)
	if err != nil {
		return wanted{}, false, sdk.Refuse("source %s: %w", r.Params.Source, err)
	}
	return wanted{artifact: r.Params.Source, size: info.Size, sha256: fmt.Sprintf("%x", hash.Sum(nil))}, true, nil
}

// show reports the difference of contents, reading the old one for it.
func show(ctx context.Context, r *runOf, now entry, w wanted) error {
	if !r.Diff {
		return nil
	}
	if len(r.Secrets) > 0 {
		r.ShowDiff(r.Params.Path, []byte("content as it is\n"), []byte("content of a step with secrets, which is not shown\n"))
		return nil
	}
	if now.size > maxShown || w.size > maxShown {
		r.ShowDiff(r.Params.Path, []byte(summary(now.kind, now.size, now.sha256)), []byte(summary("file", w.size, w.sha256)))
		return nil
	}
	var before, after sdk.Head
	if now.kind == "file" {
		if _, err := r.Host().Get(ctx, r.Params.Path, maxShown, &before); err != nil && !errors.Is(err, sdk.ErrTooLarge) {
			return fmt.Errorf("reading %s: %w", r.Params.Path, err)
		}
	}
	if w.artifact != "" {
		if _, err := r.Artifact(ctx, w.artifact, maxShown, &after); err != nil {
			return fmt.Errorf("reading %s: %w", w.artifact, err)
		}
	} else {
		_, _ = after.Write(w.bytes)
	}
	r.ShowDiff(r.Params.Path, before.Bytes(), after.Bytes())
	return nil
}

func summary(kind string, size int64, sum string) string {
	return fmt.Sprintf("%s of %d bytes, sha256 %s\n", kind, size, sum)
}

// put writes the content.
func put(ctx context.Context, h *sdk.Host, f sdk.PutFile, w wanted) error {
	f.SHA256, f.Size = w.sha256, w.size
	var err error
	if w.artifact != "" {
		_, err = h.PutArtifact(ctx, f, w.artifact)
	} else {
		_, err = h.Put(ctx, f, bytes.NewReader(w.bytes))
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.Path, err)
	}
	return nil
}
