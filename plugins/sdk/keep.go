package sdk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// KeptFile is one file of the host's configuration, as the worker keeps its versions.
type KeptFile struct {
	Name    string // a letter or digit, then letters, digits, dots, dashes and underscores; 128 in all
	Content []byte
	Gone    bool // the host has it no more
}

// KeptVersion is the result of a Keep.
type KeptVersion struct {
	Version string   // empty when nothing differed
	Changed []string // names of the files that did
}

// Kept is a file of the newest kept version of the host's configuration; found is false
// when that has none. It is allowed in check mode.
func (r *Run[P, S]) Kept(ctx context.Context, name string) (content []byte, found bool, err error) {
	streamCtx, cancel := context.WithCancel(ctx)
	stream, err := r.s.jobs.Kept(r.s.withLease(streamCtx), &wire.KeptRequest{Name: name})
	if err != nil {
		cancel()
		return nil, false, hostError(ctx, "", "read the kept version", err)
	}
	defer release(cancel, stream.Close)
	for stream.Receive() {
		if info := stream.Msg().GetInfo(); info != nil {
			found = info.GetFound()
		}
		content = append(content, stream.Msg().GetData()...)
	}
	if err := hostError(ctx, "", "read the kept version", stream.Err()); err != nil {
		return nil, false, err
	}
	return content, found, nil
}

// Keep makes files a new version of the host's configuration at the worker, all or none.
// Files that are not named stay as they are; what equals the kept version makes none. At
// most 64 files, and 64 MiB in all. Check mode refuses it.
func (r *Run[P, S]) Keep(ctx context.Context, files ...KeptFile) (KeptVersion, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := r.s.jobs.Keep(r.s.withLease(ctx)), error(nil)
	for _, f := range files {
		if err = sendKept(stream.Send, f); err != nil {
			break
		}
	}
	if err != nil && !errors.Is(err, io.EOF) { // EOF: the worker ended the call, and CloseAndReceive returns why
		return KeptVersion{}, fmt.Errorf("keep the configuration: %w", err)
	}
	resp, err := stream.CloseAndReceive()
	if err != nil {
		return KeptVersion{}, hostError(ctx, "", "keep the configuration", err)
	}
	return KeptVersion{Version: resp.GetVersion(), Changed: resp.GetChanged()}, nil
}

func sendKept(send func(*wire.KeepRequest) error, f KeptFile) error {
	if err := send(&wire.KeepRequest{Message: &wire.KeepRequest_File{File: &wire.KeepFile{Name: f.Name, Gone: f.Gone}}}); err != nil || f.Gone {
		return err
	}
	return sendChunks(bytes.NewReader(f.Content), func(b []byte) error {
		return send(&wire.KeepRequest{Message: &wire.KeepRequest_Data{Data: b}})
	})
}
