package wirerpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair serves a handler on a socket, and returns a client of it.
func pair(t *testing.T, handler http.Handler) *Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, served := NewServer(handler), make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	client := NewClient(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
	})
	t.Cleanup(func() {
		client.CloseIdleConnections()
		_ = server.Close()
		<-served
	})
	return client
}

// hosts answers calls by their first message.
type hosts struct {
	HostsServer // nil: the other procedures are not called

	gone chan error // why the context of a call that hangs ended
}

func (h hosts) Command(ctx context.Context, req *wire.CommandRequest) (*wire.CommandResponse, error) {
	switch command := req.GetStart().GetCommand(); command {
	case "lease":
		return &wire.CommandResponse{Stdout: []byte(strings.Join(Leases(ctx), ","))}, nil
	case "hang":
		<-ctx.Done()
		h.gone <- context.Cause(ctx)
		return nil, ctx.Err()
	case "down":
		err := Errorf(CodeUnavailable, "h: dial: 100%% of \"ports\" refuse\nthis – Übel")
		err.Fault = &wire.HostFault{Host: "h", Op: "dial", Before: true, Hint: "ü"}
		return nil, err
	default:
		return &wire.CommandResponse{Stdout: req.GetStdin()}, nil
	}
}

func (hosts) Exec(_ context.Context, stream *ExecServer) error {
	if _, err := stream.Receive(); err != nil {
		return err
	}
	for {
		m, err := stream.Receive()
		if errors.Is(err, io.EOF) || m.GetEof() {
			return stream.Send(&wire.ExecResponse{Message: &wire.ExecResponse_Exit{Exit: &wire.Exit{Code: 7}}})
		}
		if err != nil {
			return err
		}
		if string(m.GetStdin()) == "stop" {
			return Errorf(CodeAborted, "stopped")
		}
		if err := stream.Send(&wire.ExecResponse{Message: &wire.ExecResponse_Output{Output: &wire.Chunk{Stdout: m.GetStdin()}}}); err != nil {
			return err
		}
	}
}

func calls(t *testing.T) (Hosts, hosts) {
	t.Helper()
	server, h := hosts{gone: make(chan error, 1)}, NewHandler()
	RegisterHosts(h, server)
	return Hosts{pair(t, h)}, server
}

func TestUnaryCalls(t *testing.T) {
	client, server := calls(t)
	command := func(ctx context.Context, name string, stdin []byte) (*wire.CommandResponse, error) {
		return client.Command(ctx, &wire.CommandRequest{Start: &wire.ExecStart{Command: name}, Stdin: stdin})
	}
	if res, err := command(WithLease(t.Context(), "l 1"), "lease", nil); err != nil || string(res.GetStdout()) != "l 1" {
		t.Errorf("lease %q, %v", res.GetStdout(), err)
	}
	for _, size := range []int{0, 1, 4095, 4096, 70_000, wire.MaxMessage - 100} {
		data := bytes.Repeat([]byte{'x'}, size)
		if res, err := command(t.Context(), "echo", data); err != nil || !bytes.Equal(res.GetStdout(), data) {
			t.Errorf("%d bytes: %d came back, %v", size, len(res.GetStdout()), err)
		}
	}
	if _, err := command(t.Context(), "echo", make([]byte, wire.MaxMessage)); CodeOf(err) != CodeResourceExhausted {
		t.Errorf("too large: %v", err)
	}
	_, err := command(t.Context(), "down", nil)
	status, is := errors.AsType[*Error](err)
	if !is || status.Code != CodeUnavailable || status.Message != "h: dial: 100% of \"ports\" refuse\nthis – Übel" {
		t.Fatalf("status %v", err)
	}
	if f := status.Fault; f.GetHost() != "h" || f.GetOp() != "dial" || !f.GetBefore() || f.GetHint() != "ü" {
		t.Errorf("fault %v", f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := command(ctx, "hang", nil); CodeOf(err) != CodeDeadlineExceeded {
		t.Errorf("past its deadline: %v", err)
	}
	if cause := <-server.gone; cause == nil {
		t.Error("the server's context has no cause")
	}
	if err := client.Call(t.Context(), "/no.Such/Procedure", &emptypb.Empty{}, &emptypb.Empty{}); CodeOf(err) != CodeUnimplemented {
		t.Errorf("no such procedure: %v", err)
	}
}

func TestStreams(t *testing.T) {
	client, _ := calls(t)
	stream, err := client.Exec(t.Context(), &wire.ExecStart{Command: "cat", Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, wire.ChunkSize, 1 << 20} { // one answer for each message, in turns
		data := bytes.Repeat([]byte{'y'}, size)
		if err := stream.Send(&wire.ExecRequest{Message: &wire.ExecRequest_Stdin{Stdin: data}}); err != nil {
			t.Fatal(err)
		}
		if res, err := stream.Receive(); err != nil || !bytes.Equal(res.GetOutput().GetStdout(), data) {
			t.Fatalf("%d bytes: %v", size, err)
		}
	}
	if err := stream.CloseRequest(); err != nil {
		t.Fatal(err)
	}
	if res, err := stream.Receive(); err != nil || res.GetExit().GetCode() != 7 {
		t.Errorf("exit %v, %v", res, err)
	}
	for range 2 {
		if _, err := stream.Receive(); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
	}
	_ = stream.CloseResponse()
	if stream, err = client.Exec(t.Context(), &wire.ExecStart{Command: "cat"}); err != nil { // without input
		t.Fatal(err)
	}
	if res, err := stream.Receive(); err != nil || res.GetExit().GetCode() != 7 {
		t.Errorf("without input: %v, %v", res, err)
	}
	_ = stream.CloseResponse()
}

// A call that the server ends stops the sender, and the receiver learns why.
func TestAStreamThatTheServerEnds(t *testing.T) {
	client, _ := calls(t)
	stream, err := client.Exec(t.Context(), &wire.ExecStart{Command: "cat", Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&wire.ExecRequest{Message: &wire.ExecRequest_Stdin{Stdin: []byte("stop")}})
	for err == nil { // until the sender learns of it
		err = stream.Send(&wire.ExecRequest{Message: &wire.ExecRequest_Stdin{Stdin: make([]byte, wire.ChunkSize)}})
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("Send: %v", err)
	}
	if _, err := stream.Receive(); CodeOf(err) != CodeAborted {
		t.Errorf("Receive: %v", err)
	}
	_ = stream.CloseResponse()
}

// A context that ends lets go of a call, whether it sends, receives, or waits for the answer.
func TestACallEndsWithItsContext(t *testing.T) {
	client, _ := calls(t)
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := client.Exec(ctx, &wire.ExecStart{Command: "cat", Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan error)
	go func() {
		_, err := stream.Receive()
		received <- err
	}()
	cancel()
	if err := <-received; CodeOf(err) != CodeCanceled {
		t.Errorf("Receive: %v", err)
	}
	if err := stream.Send(&wire.ExecRequest{}); !errors.Is(err, io.EOF) {
		t.Errorf("Send: %v", err)
	}
	_ = stream.CloseResponse()
}

// An answer that is no gRPC, or ends too early, is an error that names this.
func TestFaultyPeers(t *testing.T) {
	for want, answer := range map[string]func(http.ResponseWriter){
		"HTTP status 404":                      func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) },
		"without a gRPC status":                func(w http.ResponseWriter) { _, _ = w.Write(nil) },
		"the call ended without an answer":     func(w http.ResponseWriter) { w.Header().Set(statusKey, "0") },
		"the message is compressed":            func(w http.ResponseWriter) { _, _ = w.Write([]byte{1, 0, 0, 0, 0}) },
		"message of 4294967295 bytes: at most": func(w http.ResponseWriter) { _, _ = w.Write([]byte{0, 255, 255, 255, 255}) },
		"read a message: unexpected EOF":       func(w http.ResponseWriter) { _, _ = w.Write([]byte{0, 0, 0, 0, 9, 1}) },
		"decode the message":                   func(w http.ResponseWriter) { _, _ = w.Write([]byte{0, 0, 0, 0, 1, 255}) },
		"the text %zz of a status (gRPC status": func(w http.ResponseWriter) {
			w.Header().Set(statusKey, "2")
			w.Header().Set(messageKey, "the text %zz of a status")
		},
	} {
		client := pair(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w) }))
		if err := client.Call(t.Context(), "/x/y", &emptypb.Empty{}, &wrapperspb.StringValue{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	nobody := NewClient(func(context.Context) (net.Conn, error) { return nil, errors.New("no such socket") })
	if err := nobody.Call(t.Context(), "/x/y", &emptypb.Empty{}, &emptypb.Empty{}); CodeOf(err) != CodeUnavailable || !strings.Contains(err.Error(), "no such socket") {
		t.Errorf("without a server: %v", err)
	}
}

func TestTimeouts(t *testing.T) {
	for text, want := range map[string]time.Duration{"1H": time.Hour, "2M": 2 * time.Minute, "3S": 3 * time.Second, "4m": 4 * time.Millisecond, "5u": 5000, "6n": 6, "99999999H": 1<<63 - 1} {
		if d, ok := parseTimeout(text); !ok || d != want {
			t.Errorf("%s: %v, %v", text, d, ok)
		}
	}
	for _, text := range []string{"", "m", "1", "-1m", "1d", "123456789m"} {
		if d, ok := parseTimeout(text); ok {
			t.Errorf("%q: %v", text, d)
		}
	}
	for d, want := range map[time.Duration]string{-1: "1m", time.Second: "1000m", 48 * time.Hour: "172800S", 1<<63 - 1: "99999999S"} {
		if text := formatTimeout(d); text != want {
			t.Errorf("%v: %s, expected %s", d, text, want)
		}
	}
}

func FuzzStatus(f *testing.F) {
	f.Add([]byte{0x08, 0x0e}, "x%41")
	f.Add((&Error{Code: CodeUnavailable, Message: "m", Fault: &wire.HostFault{Host: "h"}}).details(), "")
	f.Fuzz(func(t *testing.T, raw []byte, text string) {
		_ = faultOf(raw)
		if back := unescape(escape(text)); back != text {
			t.Errorf("%q became %q", text, back)
		}
	})
}
