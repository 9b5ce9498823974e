package sdk_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/wire"
	"github.com/turnus/turnus/plugins/sdk/wire/wirerpc"
)

// asPlugin makes the test binary a plugin process; its value is what it prints, where.
const asPlugin = "SDK_TEST_PLUGIN"

const noise = "a line before the handshake\n"

// init prints before main as an author's package may.
func init() {
	if strings.Contains(os.Getenv(asPlugin), "init") {
		fmt.Print(noise)
		_, _ = syscall.Write(1, []byte(noise))
	}
}

func TestMain(m *testing.M) {
	mode := os.Getenv(asPlugin)
	if mode == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if strings.Contains(mode, "main") {
		fmt.Print(noise)
	}
	sdk.Serve(sdk.Plugin("noisy", "1.0.0"), sdk.Job("noisy.job", func(ctx context.Context, r *plain) error {
		fmt.Println(strings.Repeat("x", 70<<10)) // longer than a scanner's line
		_, _ = syscall.Write(1, []byte(noise))
		return r.Host().Run(ctx, "uptime").Err()
	}))
}

func command(t *testing.T, mode string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asPlugin+"="+mode)
	return cmd
}

// uptimeHost answers the one command of the noisy job over a real socket.
type uptimeHost struct {
	wirerpc.HostsServer // nil: the other procedures are not called
}

func (uptimeHost) Exec(_ context.Context, stream *wirerpc.ExecServer) error {
	if _, err := stream.Receive(); err != nil {
		return err
	}
	err := stream.Send(&wire.ExecResponse{Message: &wire.ExecResponse_Output{Output: &wire.Chunk{Stdout: []byte("up 3 days")}}})
	if err != nil {
		return err
	}
	return stream.Send(&wire.ExecResponse{Message: &wire.ExecResponse_Exit{Exit: &wire.Exit{}}})
}

// folder is a new one whose path is short enough for sockets, as that of t.TempDir may not be.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sdk") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func hostSocket(t *testing.T) string {
	t.Helper()
	path := filepath.Join(folder(t), "it's a socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	handler := wirerpc.NewHandler()
	wirerpc.RegisterHosts(handler, uptimeHost{})
	server, served := wirerpc.NewServer(handler), make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return path
}

// start runs the plugin by hand, and returns a client of the address in its handshake, and the rest
// of its standard output.
func start(t *testing.T, mode string, env ...string) (cmd *exec.Cmd, plugin *wirerpc.Client, rest io.Reader) {
	t.Helper()
	cmd = command(t, mode)
	cmd.Env = append(append(cmd.Env, wire.CookieKey+"="+wire.CookieValue, "PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_UNIX_SOCKET_DIR="+folder(t)), env...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	parts := strings.Split(strings.TrimSuffix(line, "\n"), "|")
	if err != nil || len(parts) != 5 || parts[0] != "1" || parts[1] != "1" || parts[2] != "unix" || parts[4] != "grpc" {
		t.Fatalf("handshake %q: %v", line, err)
	}
	return cmd, wirerpc.NewClient(func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", parts[3])
	}), lines
}

// Output of an author's code, before or after the handshake, must not break it.
func TestTrapPrintingBeforeServe(t *testing.T) { // go-plugin#164, go-plugin#199; Nomad's serve.go
	for _, mode := range []string{"quiet", "init", "main", "init and main"} {
		t.Run(mode, func(t *testing.T) {
			cmd, client, rest := start(t, mode, wire.HostSocketEnv+"="+hostSocket(t))
			defer client.CloseIdleConnections()
			plugin := wirerpc.Plugin{Client: client}
			stream, err := plugin.Run(t.Context(), &wire.RunRequest{Type: "noisy.job", Job: "r/0", Lease: "l", Host: "h"})
			if err != nil {
				t.Fatal(err)
			}
			var output string
			var last *wire.RunEvent
			for stream.Receive() {
				output += string(stream.Msg().GetOutput().GetStdout())
				last = stream.Msg()
			}
			if err := errors.Join(stream.Err(), stream.Close()); err != nil {
				t.Fatal(err)
			}
			if last.GetOutcome().GetDone() == nil || output != "up 3 days" {
				t.Errorf("got %v, output %q", last, output)
			}
			_ = client.Call(t.Context(), "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{}) // its end may be faster than its answer
			if printed, err := io.ReadAll(rest); err != nil || len(printed) > 0 {
				t.Errorf("after the handshake its real standard output has %.60q, %v", printed, err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("after Shutdown: %v", err)
			}
		})
	}
}

// A killed worker cannot stop its plugins; they notice.
func TestTrapOrphanEndsItself(t *testing.T) { // dkron#1496, golang/go#27505
	cmd, client, _ := start(t, "quiet")
	plugin := wirerpc.Plugin{Client: client}
	m, err := plugin.Describe(t.Context(), &wire.DescribeRequest{})
	if err != nil || m.GetName() != "noisy" {
		t.Fatalf("describe: %v, %v", m, err)
	}
	client.CloseIdleConnections() // all that the plugin sees of its worker's death
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the orphan ended with %v, want exit status 1", err)
	}
}

func TestStartedByHand(t *testing.T) {
	out, err := command(t, "quiet", "manifest").Output()
	var m sdk.Manifest
	if err != nil || json.Unmarshal(out, &m) != nil || m.Name != "noisy" || len(m.Types) != 1 {
		t.Errorf("manifest: %v, %s", err, out)
	}
	both, err := command(t, "quiet").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(both), "This is a Turnus plugin (noisy)") {
		t.Errorf("by hand: %v, %s", err, both)
	}
}
