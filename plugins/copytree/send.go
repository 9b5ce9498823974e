package copytree

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/turnus/turnus/plugins/sdk"
)

// staging is the folder in the host's folder where files arrive.
const staging = ".turnus-copy"

// send sends what differs as one stream, and puts it in place.
func send(ctx context.Context, r *runOf, t *todo) error {
	p := r.Params
	in, out := io.Pipe()
	var packing sync.WaitGroup
	packing.Go(func() { _ = out.CloseWithError(pack(ctx, r, t, out)) })
	line := sdk.Vars("p", p.Path, "s", staging, "w", ".turnus-"+strings.ToLower(rand.Text())) + doScript
	exit, err := r.Host().Exec(ctx, sdk.Command{Run: line, Stdin: in})
	_ = in.Close()
	packing.Wait()
	if err == nil {
		err = exit.Err()
	}
	if err != nil {
		return fmt.Errorf("copying to %s: %w", p.Path, err)
	}
	return nil
}

// pack writes the files as a tar, and last what to do with them: a stream that was cut does
// nothing.
func pack(ctx context.Context, r *runOf, t *todo, to io.Writer) error {
	w := tar.NewWriter(to)
	put := func(name string, mode uint32, size int64) error {
		return w.WriteHeader(&tar.Header{Name: name, Mode: int64(mode), Size: size, Format: tar.FormatGNU})
	}
	for _, f := range t.send {
		if err := put("new/"+f.name, f.mode, f.size); err != nil {
			return fmt.Errorf("%s: %w", f.artifact, err)
		}
		if err := content(ctx, r, f.wanted, w); err != nil {
			return fmt.Errorf("%s: %w", f.artifact, err)
		}
	}
	ops := strings.Join(append(t.ops, ""), "\n")
	if err := put("ops", newFile, int64(len(ops))); err != nil {
		return err
	}
	if _, err := io.WriteString(w, ops); err != nil {
		return err
	}
	return w.Close()
}

func content(ctx context.Context, r *runOf, f wanted, w io.Writer) error {
	if !f.template {
		_, err := r.Artifact(ctx, f.artifact, 0, w)
		return err
	}
	text, err := r.Render(ctx, f.artifact, r.Params.Vars)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, bytes.NewReader(text))
	return err
}
