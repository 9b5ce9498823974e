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

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/turnus/turnus/plugins/internal/wire"
	"github.com/turnus/turnus/plugins/sdk"
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

type clientSide struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (clientSide) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("client only")
}

func (clientSide) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return wire.NewPluginClient(conn), nil
}

// uptimeHost answers the one command of the noisy job over a real socket.
type uptimeHost struct {
	wire.UnimplementedHostsServer
}

func (uptimeHost) Exec(stream wire.Hosts_ExecServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	err := stream.Send(&wire.ExecResponse{Message: &wire.ExecResponse_Output{Output: &wire.Chunk{Stdout: []byte("up 3 days")}}})
	if err != nil {
		return err
	}
	return stream.Send(&wire.ExecResponse{Message: &wire.ExecResponse_Exit{Exit: &wire.Exit{}}})
}

func hostSocket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sdk") //nolint:usetesting // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "it's a socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server, served := grpc.NewServer(), make(chan struct{})
	wire.RegisterHostsServer(server, uptimeHost{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-served
		_ = os.RemoveAll(dir)
	})
	return path
}

// What an author prints, before or after the handshake, must not break it.
func TestTrapPrintingBeforeServe(t *testing.T) { // go-plugin#164, go-plugin#199; Nomad's serve.go
	for _, mode := range []string{"quiet", "init", "main", "init and main"} {
		t.Run(mode, func(t *testing.T) {
			cmd := command(t, mode)
			cmd.Env = append(cmd.Env, wire.HostSocketEnv+"="+hostSocket(t))
			client := goplugin.NewClient(&goplugin.ClientConfig{
				HandshakeConfig: goplugin.HandshakeConfig{
					ProtocolVersion: wire.ProtocolVersion, MagicCookieKey: wire.CookieKey, MagicCookieValue: wire.CookieValue,
				},
				Plugins:          goplugin.PluginSet{wire.ServiceName: clientSide{}},
				Cmd:              cmd,
				AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
				Logger:           hclog.NewNullLogger(),
				StartTimeout:     30 * time.Second,
			})
			defer client.Kill()
			protocol, err := client.Client()
			if err != nil {
				t.Fatalf("handshake: %v", err)
			}
			raw, err := protocol.Dispense(wire.ServiceName)
			if err != nil {
				t.Fatal(err)
			}
			stream, err := raw.(wire.PluginClient).Run(t.Context(), &wire.RunRequest{Type: "noisy.job", Job: "r/0", Lease: "l", Host: "h"})
			if err != nil {
				t.Fatal(err)
			}
			var output string
			var last *wire.RunEvent
			for {
				event, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				output += string(event.GetOutput().GetStdout())
				last = event
			}
			if last.GetOutcome().GetDone() == nil || output != "up 3 days" {
				t.Errorf("got %v, output %q", last, output)
			}
		})
	}
}

// start runs the plugin by hand and returns the address of its handshake.
func start(t *testing.T) (cmd *exec.Cmd, address string) {
	t.Helper()
	cmd = command(t, "quiet")
	cmd.Env = append(cmd.Env, wire.CookieKey+"="+wire.CookieValue, "PLUGIN_PROTOCOL_VERSIONS=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	parts := strings.Split(line, "|")
	if err != nil || len(parts) < 5 {
		t.Fatalf("handshake %q: %v", line, err)
	}
	return cmd, parts[3]
}

// A killed worker cannot stop its plugins; they notice.
func TestTrapOrphanEndsItself(t *testing.T) { // dkron#1496, golang/go#27505
	cmd, address := start(t)
	conn, err := grpc.NewClient("unix:"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	m, err := wire.NewPluginClient(conn).Describe(t.Context(), &wire.DescribeRequest{})
	if err != nil || m.GetName() != "noisy" {
		t.Fatalf("describe: %v, %v", m, err)
	}
	if err := conn.Close(); err != nil { // all that the plugin sees of its worker's death
		t.Fatal(err)
	}
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
