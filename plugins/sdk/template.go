package sdk

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/turnus/turnus/plugins/sdk/templates"
)

const maxRendered = 4 << 20

// Render renders a file of the worker, a Go text/template of at most 1 MiB, to at most 4 MiB. It
// has .Host, .Labels and .Vars; a name that is missing is an error. Its functions are default,
// join, lower, upper, trim, and quote for a word of a shell.
func (r *Run[P, S]) Render(ctx context.Context, name string, vars map[string]any) ([]byte, error) {
	var text bytes.Buffer
	if _, err := r.Artifact(ctx, name, templates.Most, &text); err != nil {
		return nil, Refuse("template: %w", err)
	}
	t, err := templates.Parse(name, text.String(), Quote)
	if err != nil {
		return nil, fault(name, err)
	}
	out := rendered{ctx: ctx}
	err = t.Execute(&out, map[string]any{"Host": r.Host().Name, "Labels": r.Labels, "Vars": vars})
	if err != nil {
		return nil, fault(name, err)
	}
	return out.Bytes(), nil
}

// fault is a mistake in a template, with its place where it has one: NAME:LINE:COLUMN.
func fault(name string, err error) error {
	text := strings.TrimPrefix(err.Error(), "template: ")
	if place, rest, ok := strings.Cut(text, ": executing "); ok {
		if _, at, ok := strings.Cut(rest, " at <"); ok {
			text = place + ": <" + at
		}
	}
	if !strings.HasPrefix(text, name) { // of the writer
		text = name + ": " + text
	}
	text = strings.Replace(text, "map has no entry for key", "there is no", 1)
	if before, rest, ok := strings.Cut(text, "can't evaluate field "); ok { // Go's words for the type follow
		field, _, _ := strings.Cut(rest, " ")
		text = before + "the value before ." + field + " has no fields"
	}
	return Refuse("template %s", text)
}

// rendered ends a template that never stops.
type rendered struct {
	bytes.Buffer
	ctx context.Context //nolint:containedctx // a Writer has no other way to be told
}

func (b *rendered) Write(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.Len()+len(p) > maxRendered {
		return 0, fmt.Errorf("renders to more than %d bytes", maxRendered)
	}
	return b.Buffer.Write(p)
}
