package host

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/plugins/host/wiregrpc"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// TestHostilePlugin does what hostile code of a plugin tries on a worker and its other plugins. The
// sandbox's own tests try what is below that. Without the sandbox each must succeed, or the test
// proves nothing.
func TestHostilePlugin(t *testing.T) {
	box, err := confining()
	if err != nil {
		t.Fatal(err)
	}
	missing, err := box.Missing()
	if err == nil && len(missing) > 0 {
		err = errors.New(strings.Join(missing, "; "))
	}
	testparts.Able(t, "a whole sandbox", err)

	other := open(t, &fleet{}) // another plugin
	other.must(t, call("echo", labParams{}))
	p := other.pool()
	p.mu.Lock()
	folder := p.live[0].dir
	p.mu.Unlock()
	listening, err := filepath.Glob(filepath.Join(folder, "plugin[0-9]*"))
	if err != nil || len(listening) != 1 {
		t.Fatalf("socket of the other plugin: %v, %v", listening, err)
	}
	tcp, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tcp.Close() }()
	token := filepath.Join(t.TempDir(), "admin.token")
	write(t, token, "hunter2", 0o600)

	bareOne, confined := open(t, &fleet{}, bare()), open(t, &fleet{})
	online := open(t, &fleet{}, allowed(Allow{Network: true}))
	for _, row := range []struct {
		p      labParams
		online bool // reached with the network allowed
	}{
		{labParams{Op: "tcp", Path: tcp.Addr().String()}, true},
		{labParams{Op: "unix", Path: listening[0]}, false},
		{labParams{Op: "unix", Path: filepath.Join(folder, "h")}, false},
		{labParams{Op: "list", Path: filepath.Dir(folder)}, false},
		{labParams{Op: "read", Path: token}, false},
		{labParams{Op: "read", Path: fmt.Sprintf("/proc/%d/environ", os.Getpid())}, false},
	} {
		if row.p.Op == "list" { // of the folder of all processes of a supervisor
			write(t, filepath.Join(filepath.Dir(folder), "more"), "", 0o600)
		}
		try := func(b *bench) bool { return b.must(t, call("attack", row.p))["text"] == "reached" }
		if !try(bareOne) {
			t.Errorf("negative control: %+v should succeed without the sandbox", row.p)
		}
		if try(confined) {
			t.Errorf("%+v: reached", row.p)
		}
		if try(online) != row.online {
			t.Errorf("%+v, with the network allowed: reached %v", row.p, !row.online)
		}
	}
}

// A process that a plugin leaves running, outside of its group, ends with it.
func TestNothingOutlivesAPlugin(t *testing.T) {
	for _, control := range []bool{true, false} {
		opts := []option{}
		if control {
			opts = append(opts, bare())
		}
		b := open(t, &fleet{}, opts...)
		if !control && !b.tree {
			testparts.Able(t, "a process tree of its own", errors.New("this machine gives none"))
		}
		mark := fmt.Sprintf("97531.%d", time.Now().UnixNano())
		if got := b.must(t, call("attack", labParams{Op: "linger", Text: mark}))["text"]; got != "reached" {
			t.Fatal(got)
		}
		until(t, "it runs", func() bool { return running(mark) != 0 })
		if err := b.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if !control {
			until(t, "it is dead", func() bool { return running(mark) == 0 })
			continue
		}
		pid := running(mark)
		if pid == 0 {
			t.Fatal("negative control: without the sandbox it should live on")
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// running finds the sleeping process with the mark.
func running(mark string) (pid int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range all {
		if raw, _ := os.ReadFile(file); strings.HasPrefix(string(raw), "/bin/sleep\x00"+mark) {
			_, _ = fmt.Sscanf(file, "/proc/%d/", &pid)
		}
	}
	return pid
}

// A plugin that opens connections without end costs the worker a bounded number of descriptors.
func TestConnectionsOfAProcessAreBounded(t *testing.T) {
	f := &folder{}
	root, err := f.open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.remove() }()
	socket := filepath.Join(root, "h")
	s, err := serveHosts(socket, &fleet{}, &child{pid: syscall.Getpgrp()}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	var all []net.Conn
	for range maxConnections + 10 {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		all = append(all, conn)
	}
	for i, conn := range all[maxConnections:] { // they come in order
		_ = conn.SetReadDeadline(time.Now().Add(deadline))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("connection %d is open", maxConnections+i+1)
		}
	}
	for _, conn := range all[:10] {
		_ = conn.Close()
	}
	client, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	until(t, "there is room again", func() bool {
		_, err := wiregrpc.NewHostsClient(client).Probe(t.Context(), &wire.ProbeRequest{})
		return status.Code(err) == codes.PermissionDenied
	})
}

func TestWhatPluginsMayHave(t *testing.T) {
	box, err := confining()
	if err != nil {
		t.Fatal(err)
	}
	asks, modest := Plugin{Name: "asks", Version: "1", Manifest: Manifest{Network: true}}, Plugin{Name: "modest", Version: "1"}
	for _, row := range []struct {
		name  string
		cfg   Config
		words string // of the error; empty: none
		want  Allow  // of asks
	}{
		{"nothing is allowed", Config{Sandbox: box, Allow: map[string]Allow{}}, "--plugin-allow asks=network", Allow{}},
		{"no sandbox", Config{Allow: map[string]Allow{}}, "", Allow{}},
		{"only asked what it is", Config{Sandbox: box}, "", Allow{}},
		{"allowed", Config{Sandbox: box, Allow: map[string]Allow{"asks": {Network: true}}}, "", Allow{Network: true}},
		{"a misspelt name", Config{Sandbox: box, Allow: map[string]Allow{"asks": {Network: true}, "modets": {}}}, `"modets"`, Allow{Network: true}},
		{"no path", Config{Sandbox: box, Allow: map[string]Allow{"asks": {Network: true}, "modest": {Read: []string{"opt"}}}}, "absolute", Allow{Network: true}},
	} {
		found := []Plugin{asks, modest}
		err := allow(found, row.cfg)
		if row.words == "" && err != nil || row.words != "" && (!errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), row.words)) {
			t.Errorf("%s: %v", row.name, err)
		}
		if found[0].Allow.Network != row.want.Network {
			t.Errorf("%s: %+v", row.name, found[0].Allow)
		}
	}
}
