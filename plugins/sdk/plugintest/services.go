package plugintest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/wire/wirerpc"
)

// services is the worker's end: Hosts and Job of plugin.proto, over scripted hosts.
type services struct {
	mu        sync.Mutex
	hosts     map[string]*Host
	own       string // name of the job's host
	leases    map[string]*lease
	secrets   map[string]string
	artifacts map[string]string
	saved     map[string]string
	kept      map[string]string
	versions  int
}

// fault is the status with which a call is refused.
func fault(code wirerpc.Code, format string, args ...any) error {
	return wirerpc.Errorf(code, format, args...)
}

type lease struct {
	check  bool
	saved  []Checkpoint
	closed bool
	window func(need time.Duration) string // nil: no window
}

func newServices() *services {
	return &services{
		hosts: map[string]*Host{}, leases: map[string]*lease{}, secrets: map[string]string{},
		artifacts: map[string]string{}, saved: map[string]string{}, kept: map[string]string{},
	}
}

func (s *services) host(name string) *Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hosts[name]
	if h == nil {
		h = &Host{name: name, files: make(map[string]File), dials: make(map[string]func(net.Conn))}
		s.hosts[name] = h
	}
	s.own = cmp.Or(s.own, name)
	return h
}

func (s *services) first() string {
	s.mu.Lock()
	own := s.own
	s.mu.Unlock()
	if own == "" {
		own = "r1"
		s.host(own)
	}
	return own
}

func (s *services) open(name string, check bool, window func(time.Duration) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases[name] = &lease{check: check, window: window}
}

func (s *services) close(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases[name].closed = true
}

func (s *services) checkpoints(name string) []Checkpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.leases[name].saved)
}

func (s *services) lease(ctx context.Context) (*lease, error) {
	names := wirerpc.Leases(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(names) == 1 && s.leases[names[0]] != nil && !s.leases[names[0]].closed {
		return s.leases[names[0]], nil
	}
	return nil, fault(wirerpc.CodePermissionDenied, "no running job has the lease %q", names)
}

// enter checks every call to a host.
func (s *services) enter(ctx context.Context, name, what string, readOnly bool) (*Host, error) {
	l, err := s.lease(ctx)
	if err != nil {
		return nil, err
	}
	if l.check && !readOnly {
		return nil, fault(wirerpc.CodeFailedPrecondition, "check mode: %s is not marked read-only", what)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name = cmp.Or(name, s.own)
	if h := s.hosts[name]; h != nil {
		return h, nil
	}
	return nil, fault(wirerpc.CodePermissionDenied, "the lease does not name the host %q; it names %q", name, slices.Sorted(maps.Keys(s.hosts)))
}

func (s *services) secretNames() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.secrets))
}

// environment returns the values of a command's variables that are secrets.
func (s *services) environment(start *wire.ExecStart) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out map[string]string
	for variable, name := range start.GetSecrets() {
		value, ok := s.secrets[name]
		if !ok {
			return nil, fault(wirerpc.CodePermissionDenied, "secret %q is not for this step", name)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[variable] = value
	}
	return out, nil
}

func limited(ctx context.Context, ms int64) (context.Context, context.CancelFunc) {
	if ms > 0 {
		return context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
	}
	return context.WithCancel(ctx)
}

func (s *services) run(ctx context.Context, start *wire.ExecStart, stdin string) (Reply, error) {
	h, err := s.enter(ctx, start.GetHost(), "command "+start.GetCommand(), start.GetReadOnly())
	if err != nil {
		return Reply{}, err
	}
	if strings.ContainsRune(start.GetCommand(), 0) {
		return Reply{}, fault(wirerpc.CodeInvalidArgument, "the command holds a NUL byte")
	}
	secrets, err := s.environment(start)
	if err != nil {
		return Reply{}, err
	}
	ctx, cancel := limited(ctx, start.GetTimeoutMs())
	defer cancel()
	return h.answer(ctx, Call{
		Command: start.GetCommand(), Env: start.GetEnv(), Secrets: secrets, Stdin: stdin,
		ReadOnly: start.GetReadOnly(), Fresh: start.GetNewConnection(),
	})
}

// Exec answers a command with its output in chunks.
func (s *services) Exec(ctx context.Context, stream *wirerpc.ExecServer) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	start := first.GetStart()
	h, err := s.enter(ctx, start.GetHost(), "command "+start.GetCommand(), start.GetReadOnly())
	if err == nil {
		err = h.reachable() // a host that is down takes no input
	}
	if err != nil {
		return err
	}
	var stdin strings.Builder
	for start.GetStdin() {
		msg, err := stream.Receive()
		if errors.Is(err, io.EOF) || msg.GetEof() {
			break
		}
		if err != nil {
			return err
		}
		stdin.Write(msg.GetStdin())
	}
	reply, err := s.run(ctx, start, stdin.String())
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk([]byte(reply.Stdout), wire.ChunkSize) {
		if err := sendOutput(stream, &wire.Chunk{Stdout: chunk}); err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk([]byte(reply.Stderr), wire.ChunkSize) {
		if err := sendOutput(stream, &wire.Chunk{Stderr: chunk}); err != nil {
			return err
		}
	}
	return stream.Send(&wire.ExecResponse{Message: &wire.ExecResponse_Exit{Exit: exitOf(reply)}})
}

func sendOutput(stream *wirerpc.ExecServer, c *wire.Chunk) error {
	return stream.Send(&wire.ExecResponse{Message: &wire.ExecResponse_Output{Output: c}})
}

func exitOf(r Reply) *wire.Exit { return &wire.Exit{Code: int32(r.Code), Signal: r.Signal} }

// Command answers a command in one message.
func (s *services) Command(ctx context.Context, req *wire.CommandRequest) (*wire.CommandResponse, error) {
	reply, err := s.run(ctx, req.GetStart(), string(req.GetStdin()))
	if err != nil {
		return nil, err
	}
	keep := cmp.Or(int(req.GetMaxOutput()), 1<<20)
	return &wire.CommandResponse{
		Exit: exitOf(reply), Stdout: []byte(reply.Stdout[:min(keep, len(reply.Stdout))]),
		Stderr:    []byte(reply.Stderr[:min(keep, len(reply.Stderr))]),
		Truncated: len(reply.Stdout) > keep || len(reply.Stderr) > keep,
	}, nil
}

// Put stores a file.
func (s *services) Put(ctx context.Context, stream *wirerpc.PutServer) (*wire.PutResponse, error) {
	stream.Receive() // what came is its first message; nothing is one without a start
	start := stream.Msg().GetStart()
	h, err := s.enter(ctx, start.GetHost(), "put "+start.GetPath(), false)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(start.GetPath(), "/") {
		return nil, fault(wirerpc.CodeInvalidArgument, "path %q is not absolute", start.GetPath())
	}
	content, err := received[*wire.PutRequest](stream)
	if err != nil {
		return nil, err
	}
	if start.GetArtifact() != "" {
		if content, err = s.artifact(start.GetArtifact()); err != nil {
			return nil, err
		}
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(content))
	if start.GetSha256() != "" && start.GetSha256() != sum {
		return nil, fault(wirerpc.CodeDataLoss, "%s: sha256 is %s, expected %s", start.GetPath(), sum, start.GetSha256())
	}
	if err := h.write(ctx, start, content); err != nil {
		return nil, err
	}
	return &wire.PutResponse{Size: int64(len(content)), Sha256: sum}, nil
}

// received is the data of all messages that are left of a stream.
func received[M interface{ GetData() []byte }](stream interface {
	Receive() bool
	Msg() M
	Err() error
}) (content []byte, err error) {
	for stream.Receive() {
		content = append(content, stream.Msg().GetData()...)
	}
	return content, stream.Err()
}

func (s *services) artifact(name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	content, ok := s.artifacts[name]
	if folder, is := strings.CutSuffix(name, "/"); is {
		content, ok = s.list(folder), true
	}
	if !ok {
		return nil, fault(wirerpc.CodeNotFound, "artifact %q: not found", name)
	}
	return []byte(content), nil
}

// list is the files below a folder, as a worker lists them. The folder . is that of the playbook.
func (s *services) list(folder string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.artifacts)) {
		below, ok := strings.CutPrefix(name, folder+"/")
		if folder == "." {
			below, ok = name, true
		}
		if ok {
			content := s.artifacts[name]
			raw, _ := json.Marshal(sdk.ArtifactFile{Name: below, Size: int64(len(content)), Mode: 0o644, SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(content)))})
			out.WriteString(string(raw) + "\n")
		}
	}
	return out.String()
}

// Get sends a file.
func (s *services) Get(ctx context.Context, req *wire.GetRequest, stream *wirerpc.GetServer) error {
	content, mode, err := s.content(ctx, req)
	if err != nil {
		return err
	}
	if req.GetMaxSize() > 0 && int64(len(content)) > req.GetMaxSize() {
		return fault(wirerpc.CodeOutOfRange, "%s%s has %d bytes; at most %d are wanted", req.GetPath(), req.GetArtifact(), len(content), req.GetMaxSize())
	}
	send := func(info *wire.FileInfo) error {
		return stream.Send(&wire.GetResponse{Message: &wire.GetResponse_Info{Info: info}})
	}
	if err := send(&wire.FileInfo{Size: -1}); err != nil {
		return err
	}
	for chunk := range slices.Chunk(content, wire.ChunkSize) {
		if err := stream.Send(&wire.GetResponse{Message: &wire.GetResponse_Data{Data: chunk}}); err != nil {
			return err
		}
	}
	return send(&wire.FileInfo{Size: int64(len(content)), Mode: mode, Sha256: fmt.Sprintf("%x", sha256.Sum256(content))})
}

func (s *services) content(ctx context.Context, req *wire.GetRequest) ([]byte, uint32, error) {
	if req.GetArtifact() != "" {
		if _, err := s.lease(ctx); err != nil {
			return nil, 0, err
		}
		content, err := s.artifact(req.GetArtifact())
		return content, 0o644, err
	}
	h, err := s.enter(ctx, req.GetHost(), "get "+req.GetPath(), true)
	if err != nil {
		return nil, 0, err
	}
	return h.read(req.GetPath())
}

// Probe returns the result of the host's OnProbe.
func (s *services) Probe(ctx context.Context, req *wire.ProbeRequest) (*wire.ProbeResponse, error) {
	h, err := s.enter(ctx, req.GetHost(), "probe", true)
	if err != nil {
		return nil, err
	}
	return &wire.ProbeResponse{TookMs: 1}, h.probe()
}

// Dial relays to a scripted listener.
func (s *services) Dial(ctx context.Context, stream *wirerpc.DialServer) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	start := first.GetStart()
	h, err := s.enter(ctx, start.GetHost(), "a connection to "+start.GetAddress(), false)
	if err != nil {
		return err
	}
	conn, served, err := h.dial(ctx, start.GetAddress())
	if err != nil {
		return err
	}
	if err := stream.Send(&wire.DialMessage{Message: &wire.DialMessage_Start{Start: start}}); err != nil {
		_ = conn.Close()
		return err
	}
	relay(stream, conn)
	<-served
	return nil
}

func relay(stream *wirerpc.DialServer, conn io.ReadWriteCloser) {
	up := make(chan struct{})
	go func() {
		defer close(up)
		for {
			msg, err := stream.Receive()
			if err != nil {
				_ = conn.Close()
				return
			}
			if _, err := conn.Write(msg.GetData()); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := conn.Read(buf)
		if n > 0 {
			_ = stream.Send(&wire.DialMessage{Message: &wire.DialMessage_Data{Data: buf[:n]}})
		}
		if err != nil {
			break
		}
	}
	_ = stream.Send(&wire.DialMessage{Message: &wire.DialMessage_Eof{Eof: true}})
	_ = conn.Close()
	<-up
}

// Checkpoint keeps the state.
func (s *services) Checkpoint(ctx context.Context, req *wire.CheckpointRequest) (*wire.CheckpointResponse, error) {
	l, err := s.lease(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.saved = append(l.saved, Checkpoint{
		Name: req.GetName(), State: State{Version: int(req.GetState().GetVersion()), JSON: req.GetState().GetJson()},
	})
	resp := &wire.CheckpointResponse{}
	if l.window != nil && !req.GetGoOn() {
		resp.Stop = l.window(0)
	}
	return resp, nil
}

// MayStart asks the call's window.
func (s *services) MayStart(ctx context.Context, req *wire.MayStartRequest) (*wire.MayStartResponse, error) {
	l, err := s.lease(ctx)
	if err != nil || l.window == nil || l.check {
		return &wire.MayStartResponse{}, err
	}
	need := time.Duration(req.GetNeedMs()) * time.Millisecond
	return &wire.MayStartResponse{Wait: l.window(max(need, time.Nanosecond))}, nil
}

// Secret answers what the kit was given.
func (s *services) Secret(ctx context.Context, req *wire.SecretRequest) (*wire.SecretResponse, error) {
	if _, err := s.lease(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.secrets[req.GetName()]
	if !ok {
		return nil, fault(wirerpc.CodePermissionDenied, "secret %q is not for this step", req.GetName())
	}
	return &wire.SecretResponse{Value: []byte(value)}, nil
}

// SaveFile keeps the file.
func (s *services) SaveFile(ctx context.Context, stream *wirerpc.SaveServer) (*wire.SaveFileResponse, error) {
	if _, err := s.lease(ctx); err != nil {
		return nil, err
	}
	stream.Receive() // what came is its first message; nothing is one without a start
	name := stream.Msg().GetStart().GetName()
	if name == "" || strings.HasPrefix(name, "/") || slices.Contains(strings.Split(name, "/"), "..") {
		return nil, fault(wirerpc.CodeInvalidArgument, "name %q: expected a relative path without ..", name)
	}
	content, err := received[*wire.SaveFileRequest](stream)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.saved[name] = string(content)
	s.mu.Unlock()
	return &wire.SaveFileResponse{
		Path: "/fetched/" + name, Size: int64(len(content)), Sha256: fmt.Sprintf("%x", sha256.Sum256(content)),
	}, nil
}
