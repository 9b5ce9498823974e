// Package fetch owns the job type fetch: files of a host, copied to the worker.
// It imports only the sdk.
package fetch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a fetch.
type Params struct {
	Path     string   `json:"path,omitempty" turnus:"pattern=^/" jsonschema:"file of the host"`
	Paths    []string `json:"paths,omitempty" turnus:"min=1,max=1000" jsonschema:"several files, instead of path"`
	MaxSize  sdk.Size `json:"max_size,omitempty" turnus:"default=100MiB" jsonschema:"of each file; a larger one fails the step"`
	Optional bool     `json:"optional,omitempty" jsonschema:"a file that is missing is left out instead of failing the step"`
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	if (p.Path == "") == (len(p.Paths) == 0) {
		return errors.New("expected one of path and paths")
	}
	var bad sdk.Problems
	if p.Path != "" {
		bad.Path("/path", p.Path)
	}
	for i, name := range p.Paths {
		bad.Path(fmt.Sprintf("/paths/%d", i), name)
	}
	return bad.Err()
}

// Outputs of a fetch.
type Outputs struct {
	Files []File `json:"files" jsonschema:"those that were fetched: path on the host, saved on the worker, size in bytes, sha256"`
}

// File is one that was fetched.
type File struct {
	Path   string `json:"path" jsonschema:"on the host"`
	Saved  string `json:"saved" jsonschema:"on the worker"`
	Size   int64  `json:"size" jsonschema:"bytes"`
	SHA256 string `json:"sha256"`
}

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("fetch", run,
		sdk.Summary("Copy files of the host to the worker"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Outputs[Outputs](),
		sdk.Example("A configuration", sdk.With{"path": "/etc/fw/rules.conf"}),
		sdk.Example("Several, where they exist", sdk.With{"paths": []string{"/var/log/boot", "/var/log/app.log"}, "optional": true, "max_size": "5MiB"}),
	)
}

const description = `
Copies files into the worker's fetch folder, under HOST/ and the file's own path, and replaces
older copies. The hashes of the read and the saved bytes must agree. The host is not changed. Check
mode checks only that the files exist.
`

func run(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) error {
	paths := r.Params.Paths
	if r.Params.Path != "" {
		paths = []string{r.Params.Path}
	}
	if r.Check {
		return check(ctx, r, paths)
	}
	files := []File{}
	defer func() { r.Output("files", files) }()
	for i, name := range paths {
		r.Progress(float64(i)/float64(len(paths)), name)
		file, err := one(ctx, r, name)
		if errors.Is(err, sdk.ErrNotFound) && r.Params.Optional {
			continue
		}
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return r.Skip("none of the files exists")
	}
	return nil
}

func check(ctx context.Context, r *sdk.Run[Params, sdk.NoState], paths []string) error {
	there, err := r.Host().Exists(ctx, paths...)
	if err != nil {
		return err
	}
	for i, name := range paths {
		if !there[i] && !r.Params.Optional {
			return sdk.Refuse("%s does not exist on %s", name, r.Host().Name)
		}
	}
	return nil
}

// one copies a file without holding more than a chunk of it.
func one(ctx context.Context, r *sdk.Run[Params, sdk.NoState], name string) (File, error) {
	reader, writer := io.Pipe()
	var read sdk.FileInfo
	var readErr error
	var reading sync.WaitGroup
	reading.Go(func() {
		read, readErr = r.Host().Get(ctx, name, int64(r.Params.MaxSize), writer)
		_ = writer.CloseWithError(readErr) // nil is the end of the file
	})
	content := bufio.NewReader(reader)
	var saved sdk.SavedFile
	_, err := content.Peek(1)
	if err == nil || errors.Is(err, io.EOF) { // of a file that is not there nothing is begun
		saved, err = r.SaveFile(ctx, strings.TrimPrefix(name, "/"), content)
	}
	_ = reader.Close()
	reading.Wait()
	if readErr != nil && !errors.Is(readErr, io.ErrClosedPipe) {
		err = readErr
	}
	switch {
	case errors.Is(readErr, sdk.ErrTooLarge):
		return File{}, sdk.Refuse("%s is larger than max_size (%d bytes)", name, r.Params.MaxSize)
	case err != nil:
		return File{}, fmt.Errorf("fetching %s: %w", name, err)
	case saved.SHA256 != read.SHA256:
		return File{}, sdk.Refuse("%s changed on its way: sha256 %s was read, %s was saved", name, read.SHA256, saved.SHA256).Retryable()
	}
	return File{Path: name, Saved: saved.Path, Size: saved.Size, SHA256: saved.SHA256}, nil
}
