package plugintest

import (
	"context"
	"fmt"
	"slices"

	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/wire/wirerpc"
)

// Keep makes content the kept version of a file of the job's host.
func (k *Kit) Keep(name, content string) *Kit {
	k.services.mu.Lock()
	defer k.services.mu.Unlock()
	k.services.kept[name] = content
	return k
}

// Kept is the newest kept version of a file of the job's host.
func (k *Kit) Kept(name string) (string, bool) {
	k.services.mu.Lock()
	defer k.services.mu.Unlock()
	content, ok := k.services.kept[name]
	return content, ok
}

// Kept sends what was kept.
func (s *services) Kept(ctx context.Context, req *wire.KeptRequest, stream *wirerpc.KeptServer) error {
	if _, err := s.lease(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	content, ok := s.kept[req.GetName()]
	s.mu.Unlock()
	info := &wire.KeptInfo{Found: ok, Size: int64(len(content))}
	if err := stream.Send(&wire.KeptResponse{Message: &wire.KeptResponse_Info{Info: info}}); err != nil {
		return err
	}
	for chunk := range slices.Chunk([]byte(content), wire.ChunkSize) {
		if err := stream.Send(&wire.KeptResponse{Message: &wire.KeptResponse_Data{Data: chunk}}); err != nil {
			return err
		}
	}
	return nil
}

// Keep keeps the files, all or none.
func (s *services) Keep(ctx context.Context, stream *wirerpc.KeepServer) (*wire.KeepResponse, error) {
	l, err := s.lease(ctx)
	if err != nil {
		return nil, err
	}
	if l.check {
		return nil, fault(wirerpc.CodeFailedPrecondition, "check mode: keeping a configuration is refused")
	}
	type file struct {
		name, content string
		gone          bool
	}
	var files []file
	for stream.Receive() {
		msg := stream.Msg()
		if f := msg.GetFile(); f != nil {
			files = append(files, file{name: f.GetName(), gone: f.GetGone()})
		} else if len(files) > 0 {
			files[len(files)-1].content += string(msg.GetData())
		}
	}
	if err := stream.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &wire.KeepResponse{}
	for _, f := range files {
		old, had := s.kept[f.name]
		switch {
		case f.gone == !had && (f.gone || old == f.content):
			continue
		case f.gone:
			delete(s.kept, f.name)
		default:
			s.kept[f.name] = f.content
		}
		resp.Changed = append(resp.Changed, f.name)
	}
	if len(resp.GetChanged()) > 0 {
		s.versions++
		resp.Version = fmt.Sprintf("%040x", s.versions)
	}
	return resp, nil
}
