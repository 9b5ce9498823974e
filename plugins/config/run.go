package config

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

type job = sdk.Run[Params, sdk.NoState]

// part is one of what, as it was found.
type part struct {
	name    string
	content []byte
	gone    bool

	before []byte
	was    bool // the kept version has it
}

func (p *part) changed() bool {
	return p.gone && p.was || !p.gone && (!p.was || !bytes.Equal(p.before, p.content))
}

func run(ctx context.Context, r *job) error {
	parts := make([]*part, 0, len(r.Params.What))
	total := 0
	for i := range r.Params.What {
		item := &r.Params.What[i]
		r.Progress(float64(i)/float64(len(r.Params.What)), item.Name)
		p, err := collect(ctx, r, item)
		if err != nil {
			return fault(item, err)
		}
		if total += len(p.content); total > mostTotal {
			return sdk.Refuse("the configuration has more than %d bytes in all; nothing was kept", mostTotal)
		}
		parts = append(parts, p)
	}
	changed, err := compare(ctx, r, parts)
	if err != nil {
		return err
	}
	r.Output("files", describe(parts))
	r.Output("version", "")
	if len(changed) == 0 {
		return nil
	}
	if r.Check {
		r.Changed()
		r.Explain("would keep " + names(changed))
		return nil
	}
	return keep(ctx, r, changed)
}

// collect fetches one part and normalises it.
func collect(ctx context.Context, r *job, item *Item) (*part, error) {
	n, err := newNormaliser(&r.Params, item)
	if err != nil {
		return nil, err
	}
	raw := &bounded{most: int(r.Params.MaxSize)}
	if item.Path != "" {
		_, err = r.Host().Get(ctx, item.Path, int64(r.Params.MaxSize), raw)
	} else {
		err = output(ctx, r, item, raw)
	}
	switch {
	case errors.Is(err, sdk.ErrNotFound) && item.Optional:
		return &part{name: item.Name, gone: true}, nil
	case errors.Is(err, sdk.ErrTooLarge):
		return nil, fmt.Errorf("it is larger than max_size (%d bytes)", r.Params.MaxSize)
	case err != nil:
		return nil, err
	}
	content, err := n.apply(raw.Bytes())
	if err == nil && item.Path == "" && len(content) == 0 {
		err = errors.New("the command printed nothing that is kept; expected a configuration")
	}
	return &part{name: item.Name, content: content}, err
}

// output runs a command for its output. Nothing of it is shown: it holds what is yet to be
// replaced.
func output(ctx context.Context, r *job, item *Item, out *bounded) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out.over = cancel // an endless command ends
	limit := time.Duration(r.Params.Timeout)
	exit, err := r.Host().Exec(ctx, sdk.Command{Run: item.Command, Stdout: out, ReadOnly: true, Timeout: limit})
	switch {
	case out.full:
		return sdk.ErrTooLarge
	case err != nil:
		return err
	}
	return exit.Err()
}

// fault names the part that could not be read. Its cause stays, because it reports whether the host
// was reached.
func fault(item *Item, err error) error {
	what := "the file " + item.Path
	if item.Path == "" {
		what = "the command"
	}
	return sdk.Refuse("%s, %s: %w", item.Name, what, err)
}

// bounded keeps up to most bytes, and calls over at the first one more.
type bounded struct {
	bytes.Buffer
	most int
	full bool
	over func() // may be nil
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		b.full = true
		if b.over != nil {
			b.over()
		}
		return 0, sdk.ErrTooLarge
	}
	return b.Buffer.Write(p)
}

// compare shows what differs from the kept version.
func compare(ctx context.Context, r *job, parts []*part) ([]*part, error) {
	var changed []*part
	for _, p := range parts {
		var err error
		if p.before, p.was, err = r.Kept(ctx, p.name); err != nil {
			return nil, sdk.Refuse("reading the kept version: %w", err)
		}
		if !p.changed() {
			continue
		}
		changed = append(changed, p)
		r.ShowDiff(r.Host().Name+": "+p.name, readable(p.before), readable(p.content))
	}
	return changed, nil
}

// readable lets a text of another encoding be compared line by line.
func readable(content []byte) []byte {
	if bytes.IndexByte(content, 0) >= 0 {
		return content
	}
	return bytes.ToValidUTF8(content, []byte("\ufffd"))
}

func keep(ctx context.Context, r *job, changed []*part) error {
	files := make([]sdk.KeptFile, len(changed))
	for i, p := range changed {
		files[i] = sdk.KeptFile{Name: p.name, Content: p.content, Gone: p.gone}
	}
	kept, err := r.Keep(ctx, files...)
	if err != nil {
		return sdk.Refuse("keeping the version: %w", err).Retryable()
	}
	r.Output("version", kept.Version)
	if kept.Version != "" { // otherwise another process kept the same meanwhile
		r.Changed()
		r.Explain(fmt.Sprintf("kept %s as version %.12s", names(changed), kept.Version))
	}
	return nil
}

func names(parts []*part) string {
	const most = 5
	var list []string
	for i, p := range parts {
		if i == most {
			list = append(list, fmt.Sprintf("%d more", len(parts)-most))
			break
		}
		if p.gone {
			list = append(list, p.name+" (gone)")
		} else {
			list = append(list, p.name)
		}
	}
	return strings.Join(list, ", ")
}

func describe(parts []*part) []File {
	files := make([]File, len(parts))
	for i, p := range parts {
		files[i] = File{Name: p.name, Size: len(p.content), Lines: lines(p.content), Changed: p.changed(), Gone: p.gone}
		if !p.gone {
			files[i].SHA256 = fmt.Sprintf("%x", sha256.Sum256(p.content))
		}
	}
	return files
}

// lines also counts a last line that does not end.
func lines(content []byte) int {
	n := bytes.Count(content, []byte("\n"))
	if len(content) > 0 && content[len(content)-1] != '\n' {
		n++
	}
	return n
}
