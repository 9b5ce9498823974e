package host

import (
	"context"
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// Bounds of one Keep.
const (
	maxKeptFiles = 64
	maxKeptBytes = 64 << 20
)

// KeptFile is one file of a host's configuration.
type KeptFile struct {
	Name    string
	Content []byte
	Gone    bool // the host has it no more
}

var errNoVersions = status.Error(codes.PermissionDenied, "this worker keeps no versions of configurations\nhint: --config-dir FOLDER")

// Kept implements wiregrpc.JobServer.
func (s *services) Kept(req *wire.KeptRequest, stream grpc.ServerStreamingServer[wire.KeptResponse]) error {
	return s.stream(stream.Context(), func(ctx context.Context, l *lease) error {
		if l.call.Kept == nil {
			return errNoVersions
		}
		content, found, err := l.call.Kept(ctx, req.GetName())
		if err != nil {
			return fault(l.call.Host.Name, "kept", err)
		}
		info := &wire.KeptInfo{Found: found, Size: int64(len(content))}
		if err := stream.Send(&wire.KeptResponse{Message: &wire.KeptResponse_Info{Info: info}}); err != nil {
			return err
		}
		for chunk := range slices.Chunk(content, wire.ChunkSize) {
			if err := stream.Send(&wire.KeptResponse{Message: &wire.KeptResponse_Data{Data: chunk}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Keep implements wiregrpc.JobServer: what the job's own host has, and no other's.
func (s *services) Keep(stream grpc.ClientStreamingServer[wire.KeepRequest, wire.KeepResponse]) error {
	return s.stream(stream.Context(), func(ctx context.Context, l *lease) error {
		if l.call.Keep == nil {
			return errNoVersions
		}
		if err := l.change(ctx, "keeping a configuration"); err != nil {
			return err
		}
		files, err := receiveKept(stream.Recv)
		if err != nil {
			return err
		}
		version, changed, err := l.call.Keep(ctx, files)
		if err != nil {
			return fault(l.call.Host.Name, "keep", err)
		}
		return stream.SendAndClose(&wire.KeepResponse{Version: version, Changed: changed})
	})
}

func receiveKept(recv func() (*wire.KeepRequest, error)) ([]KeptFile, error) {
	var files []KeptFile
	size := 0
	for {
		msg, err := recv()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		f := msg.GetFile()
		if size += len(f.GetName()) + len(msg.GetData()); size > maxKeptBytes {
			return nil, status.Errorf(codes.OutOfRange, "more than %d bytes", maxKeptBytes)
		}
		if f != nil {
			if len(files) == maxKeptFiles {
				return nil, invalid("more than %d files", maxKeptFiles)
			}
			files = append(files, KeptFile{Name: f.GetName(), Gone: f.GetGone()})
			continue
		}
		if len(files) == 0 {
			return nil, errNoStart
		}
		last := &files[len(files)-1]
		last.Content = append(last.Content, msg.GetData()...)
	}
}
