package host

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/plugins/host/wiregrpc"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// The lab is a plugin that misbehaves on request. The test binary runs itself as it:
// "BINARY lab MODE", on the bare wire, so that it can do what the sdk would never do.

type lab struct {
	wiregrpc.UnimplementedPluginServer
	name, version string

	hosts wiregrpc.HostsClient
	job   wiregrpc.JobClient

	mu      sync.Mutex
	cancels map[string]context.CancelFunc
	kept    string // a lease kept beyond its life
}

// labParams are the parameters of every lab type.
type labParams struct {
	Host  string `json:"host,omitempty"`
	Op    string `json:"op,omitempty"`
	Path  string `json:"path,omitempty"`
	Text  string `json:"text,omitempty"`
	N     int    `json:"n,omitempty"`
	RO    bool   `json:"ro,omitempty"`
	Lease string `json:"lease,omitempty"` // instead of the call's own
}

func labMain(mode string) {
	if target, ok := strings.CutPrefix(mode, "planted:"); ok {
		link := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "s")
		if err := os.Symlink(target, link); err != nil {
			panic(err)
		}
		fmt.Println("1|1|unix|" + link + "|grpc")
		<-time.After(time.Minute)
	}
	switch mode {
	case "early":
		fmt.Println("hello from main")
	case "deluge":
		_, _ = os.Stdout.WriteString(strings.Repeat("noise\n", 30_000))
		<-time.After(time.Minute)
	case "mute":
		<-time.After(time.Minute)
	case "chatty": // more than one read takes
		_, _ = os.Stderr.WriteString(strings.Repeat(strings.Repeat("x", 10_000)+"\n", 5))
		fallthrough
	case "quit":
		fmt.Fprintln(os.Stderr, "cannot find my config")
		os.Exit(7)
	case "tcp":
		fmt.Println("1|1|tcp|127.0.0.1:1|grpc")
		<-time.After(time.Minute)
	case "newer":
		fmt.Println("1|2|unix|" + filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "p") + "|grpc")
		<-time.After(time.Minute)
	case "elsewhere":
		fmt.Println("1|1|unix|/run/other.sock|grpc")
		<-time.After(time.Minute)
	case "certified":
		addCertificate()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	}
	l := &lab{name: "lab", version: "1.0.0", cancels: map[string]context.CancelFunc{}}
	if named, ok := strings.CutPrefix(mode, "named:"); ok { // NAME@VERSION
		l.name, l.version, _ = strings.Cut(named, "@")
	}
	conn, err := grpc.NewClient("unix:"+os.Getenv(wire.HostSocketEnv), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(wire.MaxMessage), grpc.MaxCallSendMsgSize(wire.MaxMessage)))
	if err != nil {
		panic(err)
	}
	l.hosts, l.job = wiregrpc.NewHostsClient(conn), wiregrpc.NewJobClient(conn)
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  goplugin.HandshakeConfig{MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue},
		VersionedPlugins: map[int]goplugin.PluginSet{wire.ProtocolVersion: {wire.ServiceName: labPlugin{lab: l}}},
		GRPCServer: func(o []grpc.ServerOption) *grpc.Server {
			return grpc.NewServer(append(o, grpc.MaxRecvMsgSize(wire.MaxMessage), grpc.MaxSendMsgSize(wire.MaxMessage))...)
		},
	})
}

// addCertificate adds a sixth field, a certificate, to the handshake line that Serve prints.
func addCertificate() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		panic(err)
	}
	stdout := os.Stdout
	r, w, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	os.Stdout = w
	go func() {
		line, _ := bufio.NewReader(r).ReadString('\n')
		fields := strings.Split(strings.TrimSpace(line), "|")
		_, _ = fmt.Fprintln(stdout, strings.Join(append(fields[:5], base64.RawStdEncoding.EncodeToString(der)), "|"))
	}()
}

type labPlugin struct {
	goplugin.NetRPCUnsupportedPlugin
	lab *lab
}

func (p labPlugin) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	wiregrpc.RegisterPluginServer(s, p.lab)
	return nil
}

func (p labPlugin) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, nil
}

func (l *lab) Describe(context.Context, *wire.DescribeRequest) (*wire.Manifest, error) {
	m := &wire.Manifest{Name: l.name, Version: l.version, Protocol: wire.ProtocolVersion, Concurrency: 64}
	for _, t := range labManifest().Types {
		name := l.name + strings.TrimPrefix(t.Name, "lab")
		if name == "lab.version" && l.version == "0.9.0" {
			continue // which later ones bring
		}
		m.Types = append(m.Types, &wire.JobType{Name: name, Summary: t.Summary, ParamsSchema: t.Params, Check: t.Check, OnLost: t.OnLost})
	}
	return m, nil
}

func labManifest() Manifest {
	m := Manifest{Name: "lab", Version: "1.0.0", Protocol: wire.ProtocolVersion, Concurrency: 64}
	for _, name := range labTypes() {
		m.Types = append(m.Types, Type{Name: name, Summary: "misbehaves", Params: json.RawMessage(`{"type":"object"}`), Check: true, OnLost: "hold"})
	}
	return m
}

func labTypes() []string {
	return []string{
		"lab.echo", "lab.cmd", "lab.op", "lab.flood", "lab.wait", "lab.hang", "lab.exit", "lab.panic", "lab.none", "lab.two", "lab.error",
		"lab.linger", "lab.noise", "lab.badlogs", "lab.fork", "lab.env", "lab.keep", "lab.suspend", "lab.fail", "lab.events", "lab.badoutputs", "lab.println", "lab.attack", "lab.say", "lab.poison", "lab.version",
	}
}

func (l *lab) Validate(_ context.Context, r *wire.ValidateRequest) (*wire.ValidateResponse, error) {
	var p labParams
	if err := json.Unmarshal(r.GetParams(), &p); err != nil {
		return nil, err
	}
	switch p.Op {
	case "bad":
		return &wire.ValidateResponse{Diagnostics: []*wire.Diagnostic{
			{Pointer: "/op", Summary: "bad op", Detail: "take another"}, {Summary: "old", Severity: wire.Diagnostic_WARNING},
		}}, nil
	case "hang":
		select {}
	case "exit":
		os.Exit(3)
	case "error":
		return nil, status.Error(codes.Internal, "no rules today")
	}
	return &wire.ValidateResponse{}, nil
}

func (l *lab) Signal(_ context.Context, r *wire.SignalRequest) (*wire.SignalResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if cancel := l.cancels[r.GetLease()]; cancel != nil {
		cancel()
	}
	return &wire.SignalResponse{}, nil
}

func done(outputs map[string]any) *wire.Outcome {
	if outputs["pid"] != nil { // a number of which tree of processes
		outputs["tree"], _ = os.Readlink("/proc/self/ns/pid")
	}
	raw, _ := json.Marshal(outputs)
	return &wire.Outcome{Outcome: &wire.Outcome_Done{Done: &wire.Done{Changed: true, Outputs: raw}}}
}

func outcomeEvent(o *wire.Outcome) *wire.RunEvent {
	return &wire.RunEvent{Event: &wire.RunEvent_Outcome{Outcome: o}}
}

func (l *lab) Run(r *wire.RunRequest, stream grpc.ServerStreamingServer[wire.RunEvent]) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	l.mu.Lock()
	l.cancels[r.GetLease()] = cancel
	if r.GetStep() == "overtaken" { // the first request to end has no effect, as if it came before the call
		l.cancels[r.GetLease()] = func() { l.cancels[r.GetLease()] = cancel }
	}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		delete(l.cancels, r.GetLease())
		l.mu.Unlock()
	}()
	var p labParams
	_ = json.Unmarshal(r.GetParams(), &p)
	token := r.GetLease()
	if p.Lease == "kept" {
		l.mu.Lock()
		token = l.kept
		l.mu.Unlock()
	} else if p.Lease != "" {
		token = p.Lease
	}
	svc := metadata.AppendToOutgoingContext(ctx, wire.LeaseKey, token)
	send := func(e *wire.RunEvent) { _ = stream.Send(e) }
	out, err := l.behave(svc, p, r, send)
	if err != nil || out == nil {
		return err
	}
	return stream.Send(outcomeEvent(out))
}

func (l *lab) behave(ctx context.Context, p labParams, r *wire.RunRequest, send func(*wire.RunEvent)) (*wire.Outcome, error) {
	_, kind, _ := strings.Cut(r.GetType(), ".")
	switch kind {
	case "version":
		return done(map[string]any{"version": l.version, "pid": os.Getpid()}), nil
	case "echo":
		return done(map[string]any{
			"job": r.GetJob(), "step": r.GetStep(), "attempt": r.GetAttempt(), "host": r.GetHost(), "params": json.RawMessage(r.GetParams()),
			"check": r.GetCheck(), "diff": r.GetDiff(), "key": r.GetIdempotencyKey(), "fence": r.GetFence(), "deadline": r.GetDeadlineUnixMs(),
			"labels": r.GetHostLabels(), "state": string(r.GetState().GetJson()), "pid": os.Getpid(),
		}), nil
	case "cmd":
		resp, err := l.hosts.Command(ctx, &wire.CommandRequest{Start: &wire.ExecStart{Host: p.Host, Command: "true", ReadOnly: p.RO}})
		switch {
		case ctx.Err() != nil:
			return &wire.Outcome{Outcome: &wire.Outcome_Cancelled{Cancelled: &wire.Cancelled{Reason: "as asked"}}}, nil //nolint:nilerr // the outcome reports it
		case err != nil:
			return done(map[string]any{"code": status.Code(err).String(), "message": status.Convert(err).Message()}), nil
		}
		return done(map[string]any{"code": "OK", "stdout": string(resp.GetStdout()), "pid": os.Getpid()}), nil
	case "poison": // changes its host before or after it reads it, and ends all on the host that Text names
		change := func() error {
			_, err := l.hosts.Command(ctx, &wire.CommandRequest{Start: &wire.ExecStart{Command: "change"}})
			return err
		}
		if p.Op == "first" {
			if err := change(); err != nil {
				return nil, err
			}
		}
		if _, err := l.hosts.Command(ctx, &wire.CommandRequest{Start: &wire.ExecStart{Command: "look", ReadOnly: true}}); err != nil {
			return nil, err
		}
		if r.GetHost() == p.Text {
			os.Exit(3)
		}
		if p.Op == "first" {
			return done(nil), nil
		}
		return done(nil), change()
	case "op":
		text, err := l.op(ctx, p)
		out := map[string]any{"code": status.Code(err).String(), "message": status.Convert(err).Message(), "text": text}
		for _, d := range status.Convert(err).Details() {
			if f, ok := d.(*wire.HostFault); ok {
				out["fault"] = map[string]any{"op": f.GetOp(), "before": f.GetBefore(), "hint": f.GetHint()}
			}
		}
		return done(out), nil
	case "flood":
		chunk := make([]byte, wire.ChunkSize)
		for range p.N {
			send(&wire.RunEvent{Event: &wire.RunEvent_Output{Output: &wire.Chunk{Stdout: chunk}}})
		}
		return done(nil), nil
	case "wait":
		send(&wire.RunEvent{Event: &wire.RunEvent_Progress{Progress: &wire.Progress{Phase: "waiting"}}})
		<-ctx.Done()
		return &wire.Outcome{Outcome: &wire.Outcome_Cancelled{Cancelled: &wire.Cancelled{Reason: "as asked"}}}, nil
	case "hang":
		send(&wire.RunEvent{Event: &wire.RunEvent_Progress{Progress: &wire.Progress{Phase: "hanging"}}})
		select {}
	case "keep":
		l.mu.Lock()
		l.kept = r.GetLease()
		l.mu.Unlock()
		return done(nil), nil
	case "linger":
		send(outcomeEvent(done(nil)))
		select {}
	case "two":
		send(outcomeEvent(done(nil)))
		return done(nil), nil
	case "none":
		return nil, nil
	case "error":
		return nil, status.Error(codes.Internal, "handler gave up"+strings.Repeat(" again", p.N))
	case "badoutputs":
		return &wire.Outcome{Outcome: &wire.Outcome_Done{Done: &wire.Done{Outputs: []byte("[1]")}}}, nil
	case "suspend":
		return &wire.Outcome{Outcome: &wire.Outcome_Suspended{Suspended: &wire.Suspended{
			WindowClosed: p.Op == "hold",
			State:        &wire.State{Version: 2, Json: []byte(`{"a":1}`)}, ResumeAfterMs: 1500, UntilSignal: "image", KeepLocks: true, Reason: "staged",
		}}}, nil
	case "fail":
		if p.Text == "params" {
			send(&wire.RunEvent{Event: &wire.RunEvent_Diagnostic{Diagnostic: &wire.Diagnostic{Summary: "unknown", Pointer: "/text"}}})
		}
		return &wire.Outcome{Outcome: &wire.Outcome_Failed{Failed: &wire.Failed{
			Reason: "no space" + strings.Repeat(" again", p.N), Retryable: true, Effects: wire.Failed_PARTIAL, RolledBack: true, Outputs: []byte(`{"free":0}`),
		}}}, nil
	case "events":
		for i := range p.N {
			send(&wire.RunEvent{Event: &wire.RunEvent_Log{Log: &wire.Log{Message: fmt.Sprint(i)}}})
		}
		send(&wire.RunEvent{Event: &wire.RunEvent_Diff{Diff: &wire.Diff{Title: "/etc/motd", Text: "-a\n+b\n"}}})
		send(&wire.RunEvent{Event: &wire.RunEvent_Diagnostic{Diagnostic: &wire.Diagnostic{Summary: "bad", Pointer: "/x"}}})
		return done(nil), nil
	default:
		return l.misbehave(p, r)
	}
}

func (l *lab) misbehave(p labParams, r *wire.RunRequest) (*wire.Outcome, error) {
	switch strings.TrimPrefix(r.GetType(), "lab.") {
	case "exit":
		os.Exit(3)
	case "panic":
		panic("lab panics")
	case "noise": // past go-plugin's redirection
		line := []byte(strings.Repeat("x", 70<<10) + "\n")
		for range p.N {
			_, _ = syscall.Write(1, line)
			_, _ = syscall.Write(2, line)
		}
		return done(nil), nil
	case "println":
		for range p.N {
			fmt.Println(strings.Repeat("y", 1000))
			fmt.Fprintln(os.Stderr, strings.Repeat("z", 1000))
		}
		return done(nil), nil
	case "say": // Text, in pieces, and then ends as in Op
		for _, fd := range []int{1, 2} {
			for i := range len(p.Text) {
				_, _ = syscall.Write(fd, []byte(p.Text[i:i+1]))
			}
			_, _ = syscall.Write(fd, []byte("\n"))
		}
		switch p.Op {
		case "error":
			return nil, status.Error(codes.Internal, "gave up with "+p.Text)
		case "panic":
			panic("panic with " + p.Text)
		}
		return done(nil), nil
	case "badlogs":
		for _, s := range []string{
			`{"@message": 7, "@level": "info"}`, `{"@message": "m", "@level": {"a": 1}}`, `{"@message":"m","@level":"info","@timestamp": 12}`,
			`{"@message": null}`, `{`, `{}`, "\x00\xff\xfe", `[]`, `{"@message":"fine","@level":"error","n":1}`, strings.Repeat(`{"a":`, 3000),
		} {
			_, _ = syscall.Write(2, []byte(s+"\n"))
		}
		return done(nil), nil
	case "fork":
		cmd := exec.Command("/bin/sh", "-c", "trap '' TERM HUP; echo $$; while :; do sleep 1; done")
		cmd.Stderr = os.NewFile(2, "stderr")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return nil, err
		}
		b := make([]byte, 20)
		n, _ := out.Read(b)
		return done(map[string]any{"pid": strings.TrimSpace(string(b[:n])), "parent": os.Getpid()}), nil
	case "attack":
		text := "reached"
		if err := attack(p); err != nil {
			text = err.Error()
		}
		return done(map[string]any{"text": text}), nil
	case "env":
		session, _ := unix.Getsid(0)
		stdin, err := io.ReadAll(os.NewFile(0, "stdin"))
		var core syscall.Rlimit
		_ = syscall.Getrlimit(syscall.RLIMIT_CORE, &core)
		return done(map[string]any{
			"env": os.Environ(), "stdin": len(stdin), "stdin_err": fmt.Sprint(err), "core": core.Cur,
			"pid": os.Getpid(), "group": syscall.Getpgrp(), "session": session,
		}), nil
	}
	return nil, status.Error(codes.Unimplemented, r.GetType())
}

// attack reaches for what is not the plugin's; nil: it got it.
func attack(p labParams) error {
	switch p.Op {
	case "read":
		_, err := os.ReadFile(p.Path)
		return err
	case "list":
		entries, err := os.ReadDir(p.Path)
		if err == nil && len(entries) < 2 {
			err = fmt.Errorf("%d entries", len(entries))
		}
		return err
	case "linger":
		cmd := exec.Command("/bin/sleep", p.Text)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd.Start()
	case "close": // a folder, so that nobody removes it
		dir := filepath.Join(os.Getenv("HOME"), "closed")
		return errors.Join(os.MkdirAll(filepath.Join(dir, "full"), 0o700), os.Chmod(dir, 0))
	default: // a network
		conn, err := net.Dial(p.Op, p.Path) // refused, or there immediately
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
}

// op calls one host service and reports what came of it.
func (l *lab) op(ctx context.Context, p labParams) (string, error) {
	switch p.Op {
	case "exec":
		return l.exec(ctx, p)
	case "put":
		s, err := l.hosts.Put(ctx)
		if err != nil {
			return "", err
		}
		start := &wire.PutStart{Host: p.Host, Path: p.Path, Size: -1}
		if p.Text != "" {
			start.Artifact = p.Text
		}
		_ = s.Send(&wire.PutRequest{Message: &wire.PutRequest_Start{Start: start}})
		for range p.N {
			if s.Send(&wire.PutRequest{Message: &wire.PutRequest_Data{Data: make([]byte, wire.ChunkSize)}}) != nil {
				break
			}
		}
		resp, err := s.CloseAndRecv()
		return fmt.Sprint(resp.GetSize()), err
	case "get":
		s, err := l.hosts.Get(ctx, &wire.GetRequest{Host: p.Host, Path: p.Path, Artifact: p.Text, MaxSize: int64(p.N)})
		var data []byte
		for err == nil {
			var m *wire.GetResponse
			if m, err = s.Recv(); err == nil {
				data = append(data, m.GetData()...)
			}
		}
		if err == io.EOF { //nolint:errorlint // as grpc says
			err = nil
		}
		return string(data), err
	case "dial":
		s, err := l.hosts.Dial(ctx)
		if err != nil {
			return "", err
		}
		_ = s.Send(&wire.DialMessage{Message: &wire.DialMessage_Start{Start: &wire.DialStart{Host: p.Host, Address: "127.0.0.1:9"}}})
		_ = s.Send(&wire.DialMessage{Message: &wire.DialMessage_Data{Data: []byte(p.Text)}})
		m, err := s.Recv()
		if err == nil && m.GetStart() != nil { // the connection stands
			m, err = s.Recv()
		}
		return string(m.GetData()), err
	case "probe":
		_, err := l.hosts.Probe(ctx, &wire.ProbeRequest{Host: p.Host})
		return "", err
	case "secret command":
		_, err := l.hosts.Command(ctx, &wire.CommandRequest{Start: &wire.ExecStart{Command: "x", Secrets: p.secrets()}})
		return "", err
	case "secret exec":
		s, err := l.hosts.Exec(ctx)
		if err != nil {
			return "", err
		}
		_ = s.Send(&wire.ExecRequest{Message: &wire.ExecRequest_Start{Start: &wire.ExecStart{Command: "x", Secrets: p.secrets()}}})
		_, err = s.Recv()
		return "", err
	case "secret":
		resp, err := l.job.Secret(ctx, &wire.SecretRequest{Name: p.Text})
		return string(resp.GetValue()), err
	case "checkpoint":
		resp, err := l.job.Checkpoint(ctx, &wire.CheckpointRequest{State: &wire.State{Version: 1, Json: []byte(p.Text)}, GoOn: p.RO})
		return resp.GetStop(), err
	case "may start":
		resp, err := l.job.MayStart(ctx, &wire.MayStartRequest{NeedMs: int64(p.N)})
		return resp.GetWait(), err
	case "save":
		s, err := l.job.SaveFile(ctx)
		if err != nil {
			return "", err
		}
		_ = s.Send(&wire.SaveFileRequest{Message: &wire.SaveFileRequest_Start{Start: &wire.SaveFileStart{Name: p.Path}}})
		_ = s.Send(&wire.SaveFileRequest{Message: &wire.SaveFileRequest_Data{Data: []byte(p.Text)}})
		resp, err := s.CloseAndRecv()
		return resp.GetPath(), err
	case "kept":
		s, err := l.job.Kept(ctx, &wire.KeptRequest{Name: p.Path})
		if err != nil {
			return "", err
		}
		text := ""
		for {
			m, err := s.Recv()
			if err == io.EOF { //nolint:errorlint // as grpc says
				return text, nil
			}
			if err != nil {
				return "", err
			}
			if info := m.GetInfo(); info != nil {
				text = fmt.Sprintf("%v %d ", info.GetFound(), info.GetSize())
			}
			text += string(m.GetData())
		}
	case "keep":
		s, err := l.job.Keep(ctx)
		if err != nil {
			return "", err
		}
		for range p.N {
			_ = s.Send(&wire.KeepRequest{Message: &wire.KeepRequest_File{File: &wire.KeepFile{Name: p.Path}}})
			_ = s.Send(&wire.KeepRequest{Message: &wire.KeepRequest_Data{Data: []byte(p.Text)}})
			_ = s.Send(&wire.KeepRequest{Message: &wire.KeepRequest_Data{Data: []byte(p.Text)}})
		}
		if p.N == 0 {
			_ = s.Send(&wire.KeepRequest{Message: &wire.KeepRequest_Data{Data: []byte(p.Text)}})
		}
		resp, err := s.CloseAndRecv()
		return fmt.Sprintf("%s %v", resp.GetVersion(), resp.GetChanged()), err
	case "bare": // no lease at all
		_, err := l.hosts.Probe(metadata.NewOutgoingContext(ctx, metadata.MD{}), &wire.ProbeRequest{})
		return "", err
	}
	return "", status.Error(codes.Unimplemented, p.Op)
}
