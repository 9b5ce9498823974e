package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	hclog "github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/plugins/host/wiregrpc"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// specimen is a plugin made by hand, without the sdk: well-made, except for the one fault that is
// its name.
type specimen struct {
	wiregrpc.UnimplementedPluginServer
	fault string
	hosts wiregrpc.HostsClient
	job   wiregrpc.JobClient

	draining atomic.Bool
	calls    atomic.Int64
	mu       sync.Mutex
	running  map[string]context.CancelFunc
	last     string // what the faults "mixes" and "leaks-outputs" keep of a job outside of it
	eaten    [][]byte
}

func specimenMain(kind string) {
	s := &specimen{fault: kind, running: map[string]context.CancelFunc{}}
	switch kind {
	case "noise-before":
		fmt.Println("loading, please wait")
	case "no-cookie":
		_ = os.Setenv(wire.CookieKey, wire.CookieValue)
	case "bad-log":
		fmt.Fprintln(os.Stderr, `{"@message": {"text": "hello"}, "@level": "info", "@timestamp": "2026-01-02T03:04:05Z"}`)
	case "ignores-term":
		signal.Ignore(syscall.SIGTERM)
	case "never-starts":
		time.AfterFunc(100*time.Millisecond, func() { fmt.Fprintln(os.Stderr, "no licence"); os.Exit(3) })
		select {}
	}
	conn, err := grpc.NewClient("passthrough:///worker", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", os.Getenv(wire.HostSocketEnv))
		}))
	if err != nil {
		panic(err)
	}
	s.hosts, s.job = wiregrpc.NewHostsClient(conn), wiregrpc.NewJobClient(conn)
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue},
		Plugins:         goplugin.PluginSet{wire.ServiceName: &served{specimen: s}},
		GRPCServer:      goplugin.DefaultGRPCServer,
		Logger:          hclog.NewNullLogger(),
	})
}

type served struct {
	goplugin.NetRPCUnsupportedPlugin
	*specimen
}

func (p *served) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	wiregrpc.RegisterPluginServer(s, p.specimen)
	return nil
}

func (p *served) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("a plugin's end only")
}

const specimenSchema = `{"type":"object","properties":{"text":{"type":"string"},"times":{"type":"integer"}},"required":["text"],"additionalProperties":false}`

func (s *specimen) Describe(context.Context, *wire.DescribeRequest) (*wire.Manifest, error) {
	m := &wire.Manifest{Name: "specimen", Version: "1.0.0", Protocol: wire.ProtocolVersion, Concurrency: 32}
	example := []byte(`{"text":"hello","times":2}`)
	for _, name := range []string{"lab.echo", "lab.phases", "lab.copy", "lab.secret"} {
		t := &wire.JobType{Name: name, Summary: "For tests", ParamsSchema: []byte(specimenSchema), Check: name == "lab.echo", OnLost: "hold"}
		if name == "lab.phases" {
			t.StateVersion = 1
		}
		t.Idempotent = name == "lab.copy"
		if s.fault == "open-schema" && name == "lab.copy" {
			t.ParamsSchema = []byte(strings.Replace(specimenSchema, `,"additionalProperties":false`, "", 1))
		}
		t.Examples = []*wire.Example{{Title: "Hello", Params: example, Secrets: []string{"password"}}}
		m.Types = append(m.Types, t)
	}
	switch s.fault {
	case "bad-manifest":
		m.Types[0].OnLost = "shrug"
	case "bad-example":
		m.Types[1].Examples[0] = &wire.Example{Title: "Old", Params: []byte(`{"txt":"hello"}`)}
	case "changing-manifest":
		m.Types[0].Summary = fmt.Sprint(s.calls.Add(1))
	}
	return m, nil
}

func (s *specimen) problems(raw []byte) []*wire.Diagnostic {
	var with map[string]any
	if err := json.Unmarshal(raw, &with); err != nil {
		return []*wire.Diagnostic{{Summary: err.Error()}}
	}
	var all []*wire.Diagnostic
	bad := func(pointer, summary string) {
		if s.fault == "no-pointer" {
			pointer = ""
		}
		all = append(all, &wire.Diagnostic{Pointer: pointer, Summary: summary})
	}
	for name, value := range with {
		_, isText := value.(string)
		_, isNumber := value.(float64)
		switch {
		case name != "text" && name != "times":
			if s.fault != "takes-anything" {
				bad("/"+name, "unknown")
			}
		case name == "text" && !isText, name == "times" && !isNumber:
			bad("/"+name, "wrong type")
		}
	}
	if with["text"] == nil {
		bad("", "text is missing")
	}
	return all
}

func (s *specimen) Validate(_ context.Context, req *wire.ValidateRequest) (*wire.ValidateResponse, error) {
	return &wire.ValidateResponse{Diagnostics: s.problems(req.GetParams())}, nil
}

func (s *specimen) MigrateState(_ context.Context, req *wire.MigrateStateRequest) (*wire.MigrateStateResponse, error) {
	if v := req.GetState().GetVersion(); v > 1 && s.fault != "takes-newer-state" {
		return nil, status.Errorf(codes.InvalidArgument, "version %d is not known", v)
	}
	return &wire.MigrateStateResponse{State: req.GetState()}, nil
}

func (s *specimen) Signal(_ context.Context, req *wire.SignalRequest) (*wire.SignalResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case req.GetKind() == wire.SignalRequest_DRAIN:
		s.draining.Store(true)
	case s.fault != "ignores-cancel" && s.running[req.GetLease()] != nil:
		s.running[req.GetLease()]()
	}
	return &wire.SignalResponse{}, nil
}

func done(changed bool) *wire.Outcome {
	return &wire.Outcome{Outcome: &wire.Outcome_Done{Done: &wire.Done{Changed: changed}}}
}

func failed(reason string, effects wire.Failed_Effects) *wire.Outcome {
	return &wire.Outcome{Outcome: &wire.Outcome_Failed{Failed: &wire.Failed{Reason: reason, Effects: effects}}}
}

func (s *specimen) Run(req *wire.RunRequest, stream wiregrpc.Plugin_RunServer) error {
	if !slices.Contains([]string{"lab.echo", "lab.phases", "lab.copy", "lab.secret"}, req.GetType()) {
		if s.fault == "dies-of-unknown-type" {
			panic("no such type")
		}
		return status.Error(codes.NotFound, "no such type")
	}
	if s.draining.Load() && s.fault != "ignores-drain" {
		return status.Error(codes.Unavailable, "draining")
	}
	end := func(o *wire.Outcome) error {
		return stream.Send(&wire.RunEvent{Event: &wire.RunEvent_Outcome{Outcome: o}})
	}
	if len(s.problems(req.GetParams())) > 0 {
		return end(failed("invalid parameters", wire.Failed_NONE))
	}
	if req.GetCheck() && req.GetType() != "lab.echo" {
		return end(failed("no check mode", wire.Failed_NONE))
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	if ms := req.GetDeadlineUnixMs(); ms > 0 && s.fault != "ignores-deadline" {
		ctx, cancel = context.WithDeadline(ctx, time.UnixMilli(ms))
		defer cancel()
	}
	s.mu.Lock()
	s.running[req.GetLease()] = cancel
	s.mu.Unlock()
	lease := req.GetLease()
	if s.fault == "no-lease" {
		lease = ""
	}
	outcome := s.work(metadata.AppendToOutgoingContext(ctx, wire.LeaseKey, lease), req, stream)
	if outcome == nil {
		return nil
	}
	if err := end(outcome); err != nil || s.fault != "two-outcomes" {
		return err
	}
	return end(outcome)
}

func (s *specimen) work(ctx context.Context, req *wire.RunRequest, stream wiregrpc.Plugin_RunServer) *wire.Outcome {
	s.misbehave(ctx, req, stream)
	var err error
	if s.fault == "never-succeeds" {
		return failed("no licence for this host", wire.Failed_NONE)
	}
	shell := func(line string, readOnly bool) {
		if err == nil {
			_, err = s.hosts.Command(ctx, &wire.CommandRequest{Start: &wire.ExecStart{Command: line, ReadOnly: readOnly}})
		}
	}
	switch req.GetType() {
	case "lab.echo":
		_, err = s.hosts.Command(ctx, &wire.CommandRequest{Start: &wire.ExecStart{Command: "uptime", ReadOnly: true}})
		switch s.fault {
		case "check-changes":
			shell("touch /tmp/x", false)
		case "check-lies":
			shell("touch /tmp/x", true)
		}
		if s.fault == "listens" && err == nil {
			var l net.Listener
			if l, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err == nil {
				_ = l.Close()
			}
		}
	case "lab.phases":
		err = s.phases(ctx, req)
	case "lab.copy":
		err = s.copyFile(ctx)
		if s.fault == "not-idempotent" {
			shell("echo again >>/tmp/log", false)
		}
	case "lab.secret":
		err = s.useSecret(ctx, stream)
	}
	switch {
	case ctx.Err() != nil && s.fault == "no-outcome-on-cancel":
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		o := failed("timed out", wire.Failed_UNKNOWN)
		o.GetFailed().TimedOut = true
		return o
	case ctx.Err() != nil:
		return &wire.Outcome{Outcome: &wire.Outcome_Cancelled{Cancelled: &wire.Cancelled{}}}
	case err != nil && s.fault == "dies-of-drop":
		panic(err)
	case err != nil:
		o := failed(err.Error(), wire.Failed_UNKNOWN)
		o.GetFailed().Unreachable = status.Code(err) == codes.Unavailable
		return o
	}
	out := done(req.GetType() == "lab.phases" && s.fault != "lies-unchanged" || s.fault == "not-idempotent")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.fault {
	case "leaks-outputs":
		out.GetDone().Outputs = []byte(fmt.Sprintf(`{"before": %q}`, s.last))
		s.last = req.GetHost()
	case "bad-utf8":
		out.GetDone().Outputs = []byte("{\"name\": \"\xff\xfe\"}")
	}
	return out
}

// misbehave is the faults that are not in what a job does with its host.
func (s *specimen) misbehave(ctx context.Context, req *wire.RunRequest, stream wiregrpc.Plugin_RunServer) {
	log := func(text string) {
		_ = stream.Send(&wire.RunEvent{Event: &wire.RunEvent_Log{Log: &wire.Log{Message: text}}})
	}
	switch s.fault {
	case "long-line":
		_, _ = syscall.Write(1, append(bytes.Repeat([]byte{'x'}, 70<<10), '\n'))
	case "prints":
		_, _ = syscall.Write(1, []byte("hello\n"))
	case "grandchild":
		cmd := exec.Command("sleep", "600")
		fd, _ := syscall.Dup(2) // go-plugin has replaced os.Stderr
		cmd.Stderr = os.NewFile(uintptr(fd), "stderr")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = cmd.Start()
	case "dies-second":
		if s.calls.Add(1) == 2 {
			_, _ = syscall.Write(2, []byte("index out of range\n"))
			os.Exit(2)
		}
	case "dies-one-host":
		if strings.Contains(req.GetHost(), "0021") {
			_, _ = syscall.Write(2, []byte("nil pointer\n"))
			os.Exit(2)
		}
	case "floods":
		for range 64 << 10 {
			if stream.Send(&wire.RunEvent{Event: &wire.RunEvent_Log{Log: &wire.Log{Message: strings.Repeat("spam ", 200)}}}) != nil {
				return
			}
		}
	case "floods-stderr":
		for range 4 << 10 {
			_, _ = syscall.Write(2, append(bytes.Repeat([]byte("spam "), 2000), '\n'))
		}
	case "eats-memory":
		meal := make([]byte, 2<<20)
		for i := range meal {
			meal[i] = 1
		}
		s.mu.Lock()
		s.eaten = append(s.eaten, meal)
		s.mu.Unlock()
	case "hangs":
		select {}
	case "no-outcome":
		if req.GetType() == "lab.echo" {
			s.fault = "no-outcome-on-cancel"
		}
	case "prints-environment":
		log(strings.Join(os.Environ(), " "))
	case "dials":
		_, _ = new(net.Dialer).DialContext(ctx, "tcp", "192.0.2.1:80")
	case "ignores-cancel", "ignores-deadline":
		return
	case "mixes":
		s.mu.Lock()
		first := s.last == ""
		s.last = req.GetJob()
		s.mu.Unlock()
		if !first {
			_, _ = s.hosts.Command(ctx, &wire.CommandRequest{Start: &wire.ExecStart{Command: "uptime", ReadOnly: true}})
		}
	}
}

// phases changes the host three times, and saves between.
func (s *specimen) phases(ctx context.Context, req *wire.RunRequest) error {
	var state struct{ Done int }
	if st := req.GetState(); st != nil && s.fault != "starts-over" {
		if st.GetVersion() > 1 {
			if s.fault != "takes-newer-state" {
				return errors.New("the state is of a newer version")
			}
			st = nil
		}
		_ = json.Unmarshal(st.GetJson(), &state)
	}
	if req.GetState() != nil && s.fault == "forgets" {
		return errors.New("nothing staged")
	}
	for n := state.Done; n < 3; n++ {
		if _, err := s.hosts.Command(ctx, &wire.CommandRequest{Start: &wire.ExecStart{Command: fmt.Sprintf("touch /tmp/phase-%d", n)}}); err != nil {
			return err
		}
		raw, _ := json.Marshal(map[string]int{"Done": n + 1})
		if _, err := s.job.Checkpoint(ctx, &wire.CheckpointRequest{Name: fmt.Sprintf("phase-%d", n), State: &wire.State{Version: 1, Json: raw}}); err != nil {
			return err
		}
	}
	return nil
}

func (s *specimen) copyFile(ctx context.Context) error {
	stream, err := s.hosts.Get(ctx, &wire.GetRequest{Path: "/etc/hostname"})
	if err != nil {
		return err
	}
	var all []byte
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if s.fault == "hoards" {
			all = append(all, m.GetData()...)
		}
	}
	_ = len(all)
	return nil
}

func (s *specimen) useSecret(ctx context.Context, stream wiregrpc.Plugin_RunServer) error {
	secret, err := s.job.Secret(ctx, &wire.SecretRequest{Name: "password"})
	if err != nil {
		return err
	}
	command, stdin := "cat >/dev/null", secret.GetValue()
	if s.fault == "secret-in-command" {
		command, stdin = "echo "+string(secret.GetValue()), nil
	}
	if s.fault == "secret-in-log" {
		_ = stream.Send(&wire.RunEvent{Event: &wire.RunEvent_Log{Log: &wire.Log{Message: "login with " + string(secret.GetValue())}}})
	}
	_, err = s.hosts.Command(ctx, &wire.CommandRequest{Start: &wire.ExecStart{Command: command}, Stdin: stdin})
	return err
}
