package host

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// maxSaved bounds a file that SaveFile writes.
const maxSaved = 4 << 30

// Put implements wiregrpc.HostsServer.
func (s *services) Put(stream grpc.ClientStreamingServer[wire.PutRequest, wire.PutResponse]) error {
	return s.stream(stream.Context(), func(ctx context.Context, l *lease) error {
		first, err := stream.Recv()
		if err != nil {
			return err
		}
		start := first.GetStart()
		if start == nil {
			return errNoStart
		}
		h, err := l.host(start.GetHost())
		if err != nil {
			return err
		}
		if err := l.change(ctx, "writing "+start.GetPath()); err != nil {
			return err
		}
		if !path.IsAbs(start.GetPath()) {
			return invalid("path %q is not absolute", start.GetPath())
		}
		put := transport.Put{
			Path: start.GetPath(), Mode: start.GetMode(), Owner: start.GetOwner(),
			Size: start.GetSize(), SHA256: start.GetSha256(), Backup: start.GetBackup(), Validate: start.GetValidate(), Fence: l.fence(), Become: l.call.Become,
		}
		var data io.Reader = &recvReader{next: func() ([]byte, error) {
			m, err := stream.Recv()
			return m.GetData(), err
		}}
		if start.GetArtifact() != "" {
			f, info, err := l.artifact(start.GetArtifact())
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }()
			data, put.Size = f, info.Size()
		}
		if err := l.elevated(ctx, h); err != nil {
			return err
		}
		w, err := s.reach.Put(ctx, h, put, pace(ctx, data, newLimiter(start.GetRate())))
		if err != nil {
			return fault(h.Name, "put", l.heed(err))
		}
		return stream.SendAndClose(&wire.PutResponse{Size: w.Size, Sha256: w.SHA256})
	})
}

// Get implements wiregrpc.HostsServer. The first info message of a host's file has
// size -1, for its size is known when it has been read; the last one is complete.
func (s *services) Get(req *wire.GetRequest, stream grpc.ServerStreamingServer[wire.GetResponse]) error {
	data := chunkWriter(func(b []byte) error {
		return stream.Send(&wire.GetResponse{Message: &wire.GetResponse_Data{Data: b}})
	})
	info := func(i transport.FileInfo) error {
		return stream.Send(&wire.GetResponse{Message: &wire.GetResponse_Info{
			Info: &wire.FileInfo{Size: i.Size, Mode: i.Mode, Sha256: i.SHA256},
		}})
	}
	return s.stream(stream.Context(), func(ctx context.Context, l *lease) error {
		if req.GetArtifact() != "" {
			return l.sendArtifact(req, info, data)
		}
		h, err := l.host(req.GetHost())
		if err != nil {
			return err
		}
		if !path.IsAbs(req.GetPath()) {
			return invalid("path %q is not absolute", req.GetPath())
		}
		if err := l.elevated(ctx, h); err != nil {
			return err
		}
		if err := info(transport.FileInfo{Size: -1}); err != nil {
			return err
		}
		// The bound is kept here, where its status is known.
		got, err := s.reach.Get(ctx, h, req.GetPath(), l.call.Become, 0, &bounded{w: data, most: req.GetMaxSize()})
		if err != nil {
			return fault(h.Name, "get", l.heed(err))
		}
		return info(got)
	})
}

// bounded refuses what goes over the size that was asked for.
type bounded struct {
	w    io.Writer
	most int64 // 0: any
	n    int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.n += int64(len(p)); b.most > 0 && b.n > b.most {
		return 0, status.Errorf(codes.OutOfRange, "the file has more than %d bytes", b.most)
	}
	return b.w.Write(p)
}

// artifact opens a regular file under the call's folder of files.
func (l *lease) artifact(name string) (*os.File, os.FileInfo, error) {
	if l.call.Files == "" {
		return nil, nil, status.Errorf(codes.PermissionDenied, "artifact %q: this job has no folder of files", name)
	}
	root, err := os.OpenRoot(l.call.Files)
	if err != nil {
		return nil, nil, status.Errorf(codes.NotFound, "artifact %q: %s", name, err)
	}
	defer func() { _ = root.Close() }()
	// Not blocking, so that a FIFO is refused below instead of waited for.
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, unopened(name, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = errors.New("not a regular file")
	default:
		err = l.withheld(filepath.Join(l.call.Files, filepath.FromSlash(name)))
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, invalid("artifact %q: %s", name, err)
	}
	return f, info, nil
}

// unopened is the error of an artifact that cannot be opened. It names no folder of this machine,
// because the owner of a host reads it.
func unopened(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return status.Errorf(codes.NotFound, "artifact %q: there is no such file on the worker: expected it in the folder of the playbook, or below the worker's --files", name)
	case !filepath.IsLocal(filepath.FromSlash(name)):
		return status.Errorf(codes.PermissionDenied, "artifact %q: expected a path below the folder of the playbook, which .. and / lead out of", name)
	}
	return status.Errorf(codes.PermissionDenied, "artifact %q: %s", name, err)
}

// withheld returns an error for a file that must not be sent to a host, also if links lead to one:
// git's own, whose settings may hold a login, and those of this process. A person who may commit
// can name any file below the folder of a playbook.
func (l *lease) withheld(path string) error {
	path, err := filepath.EvalSymlinks(path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return err
	}
	for at := path; ; at = filepath.Dir(at) {
		if strings.EqualFold(filepath.Base(at), ".git") {
			return errors.New("it is git's own")
		}
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		for _, own := range l.call.Withheld {
			if other, err := os.Stat(own); err == nil && os.SameFile(info, other) {
				return errors.New("it is the worker's own")
			}
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

func (l *lease) sendArtifact(req *wire.GetRequest, info func(transport.FileInfo) error, data io.Writer) error {
	if folder, ok := strings.CutSuffix(req.GetArtifact(), "/"); ok {
		return l.sendList(folder, info, data)
	}
	f, st, err := l.artifact(req.GetArtifact())
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if most := req.GetMaxSize(); most > 0 && st.Size() > most {
		return status.Errorf(codes.OutOfRange, "artifact %q has %d bytes; at most %d are wanted", req.GetArtifact(), st.Size(), most)
	}
	about := transport.FileInfo{Size: st.Size(), Mode: uint32(st.Mode().Perm())}
	if err := info(about); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(sum, data), struct{ io.Reader }{io.LimitReader(f, st.Size())}, make([]byte, wire.ChunkSize))
	if err != nil {
		return fault("", "artifact", err)
	}
	about.Size, about.SHA256 = n, hex.EncodeToString(sum.Sum(nil))
	return info(about)
}

// SaveFile implements wiregrpc.JobServer: FETCH/HOST/NAME, complete or not at all.
func (s *services) SaveFile(stream grpc.ClientStreamingServer[wire.SaveFileRequest, wire.SaveFileResponse]) error {
	return s.stream(stream.Context(), func(ctx context.Context, l *lease) error {
		first, err := stream.Recv()
		if err != nil {
			return err
		}
		name := filepath.FromSlash(first.GetStart().GetName())
		host := l.call.Host.Name
		switch {
		case first.GetStart() == nil:
			return errNoStart
		case l.call.Fetch == "":
			return status.Error(codes.PermissionDenied, "this job has no folder for fetched files")
		case name == "." || !filepath.IsLocal(name):
			return invalid("name %q must be relative and stay below its folder", name)
		case !filepath.IsLocal(host) || host == "." || strings.ContainsAny(host, `/\`):
			return invalid("host name %q cannot name a folder", host)
		}
		if err := l.change(ctx, "saving "+name); err != nil {
			return err
		}
		in := &recvReader{next: func() ([]byte, error) {
			m, err := stream.Recv()
			return m.GetData(), err
		}}
		resp, err := save(ctx, l.call.Fetch, filepath.Join(host, name), in)
		if err != nil {
			return fault(host, "save", err)
		}
		return stream.SendAndClose(resp)
	})
}

func save(ctx context.Context, folder, name string, in io.Reader) (_ *wire.SaveFileResponse, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("folder for fetched files: %w", err)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("folder for fetched files: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, fmt.Errorf("save %s: %w", name, err)
	}
	// A name that no fetched file has; readable by the user only, because nobody knows what a host's
	// file holds.
	part := filepath.Join(filepath.Dir(name), ".part-"+rand.Text())
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("save %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			_ = root.Remove(part)
		}
	}()
	sum := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(f, sum), io.LimitReader(in, maxSaved+1), make([]byte, wire.ChunkSize))
	err = errors.Join(err, f.Close(), ctx.Err())
	if err == nil && n > maxSaved {
		err = status.Errorf(codes.ResourceExhausted, "save %s: over %d bytes", name, int64(maxSaved))
	}
	if err != nil {
		return nil, err
	}
	if err := root.Rename(part, name); err != nil {
		return nil, fmt.Errorf("save %s: %w", name, err)
	}
	return &wire.SaveFileResponse{
		Path: filepath.Join(folder, name), Size: n, Sha256: hex.EncodeToString(sum.Sum(nil)),
	}, nil
}
