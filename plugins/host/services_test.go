package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/transport"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// op runs one host service call and returns status and text.
func (b *bench) op(t testing.TB, c Call, p labParams) (code, text string) {
	t.Helper()
	withParams := call("op", p)
	c.Type, c.Params = withParams.Type, withParams.Params
	got := b.must(t, c)
	if got["code"] != "OK" {
		return got["code"].(string), got["message"].(string)
	}
	return "OK", got["text"].(string)
}

func TestServices(t *testing.T) {
	echo := func(_ context.Context, h core.Host, e transport.Exec) (transport.Exit, error) {
		in, err := io.ReadAll(e.Stdin)
		_, _ = fmt.Fprintf(e.Stdout, "%s:%s", h.Name, in)
		return transport.Exit{Code: 4}, err
	}
	b := open(t, &fleet{run: echo})
	for _, row := range []struct {
		p          labParams
		code, text string
	}{
		{labParams{Op: "exec", Text: "in"}, "OK", "fw1:in exit 4"},
		{labParams{Op: "exec", Text: "in", Host: "fw2"}, "PermissionDenied", `host "fw2" is not that of the lease`},
		{labParams{Op: "exec", Host: "fw3"}, "PermissionDenied", `host "fw3" is not that of the lease`},
		{labParams{Op: "put", Path: "/etc/motd", N: 2}, "OK", "131072"},
		{labParams{Op: "put", Path: "etc/motd"}, "InvalidArgument", "not absolute"},
		{labParams{Op: "put", Path: "/etc/motd", Host: "fw3"}, "PermissionDenied", "fw3"},
		{labParams{Op: "get", Path: "/etc/motd"}, "OK", "content of /etc/motd"},
		{labParams{Op: "get", Path: "/etc/motd", Host: "fw3"}, "PermissionDenied", "fw3"},
		{labParams{Op: "get", Path: "/etc/motd", N: 3}, "OutOfRange", "more than 3 bytes"},
		{labParams{Op: "dial", Text: "ping"}, "OK", "PING"},
		{labParams{Op: "dial", Host: "fw3"}, "PermissionDenied", "fw3"},
		{labParams{Op: "probe"}, "OK", ""},
		{labParams{Op: "probe", Host: "fw3"}, "PermissionDenied", "fw3"},
		{labParams{Op: "secret", Text: "token"}, "PermissionDenied", "it lists none"},
		{labParams{Op: "checkpoint", Text: `{"n":1}`}, "OK", ""},
		{labParams{Op: "checkpoint", Text: `{`}, "InvalidArgument", "not JSON"},
		{labParams{Op: "save", Path: "x"}, "PermissionDenied", "no folder for fetched files"},
		{labParams{Op: "get", Text: "x"}, "PermissionDenied", "no folder of files"},
		{labParams{Op: "bare"}, "PermissionDenied", "no such lease"},
		{labParams{Op: "probe", Lease: "0123456789abcdef0123456789abcdef"}, "PermissionDenied", "no such lease"},
	} {
		if code, text := b.op(t, call("op", labParams{}), row.p); code != row.code || !strings.Contains(text, row.text) {
			t.Errorf("%+v: %s %q, expected %s %q", row.p, code, text, row.code, row.text)
		}
	}
}

func TestCheckModeRefusesWhatMayChange(t *testing.T) {
	b := open(t, &fleet{run: func(context.Context, core.Host, transport.Exec) (transport.Exit, error) { return transport.Exit{}, nil }})
	c := call("op", labParams{})
	c.Check, c.Fetch = true, t.TempDir()
	for _, row := range []struct {
		p    labParams
		code string
	}{
		{labParams{Op: "exec"}, "FailedPrecondition"},
		{labParams{Op: "exec", RO: true}, "OK"},
		{labParams{Op: "put", Path: "/etc/motd"}, "FailedPrecondition"},
		{labParams{Op: "dial"}, "FailedPrecondition"},
		{labParams{Op: "save", Path: "x"}, "FailedPrecondition"},
		{labParams{Op: "get", Path: "/etc/motd"}, "OK"},
		{labParams{Op: "probe"}, "OK"},
	} {
		if code, text := b.op(t, c, row.p); code != row.code {
			t.Errorf("%+v: %s %s, expected %s", row.p, code, text, row.code)
		}
	}
	for ro, want := range map[bool]string{false: "FailedPrecondition", true: "OK"} {
		c := call("cmd", labParams{RO: ro})
		c.Check = true
		if got := b.must(t, c); got["code"] != want {
			t.Errorf("command, read-only %v: %v, expected %s", ro, got, want)
		}
	}
}

func TestDeadLeaseIsRefused(t *testing.T) {
	b := open(t, &fleet{})
	b.must(t, call("keep", labParams{}))
	if code, text := b.op(t, call("op", labParams{}), labParams{Op: "probe", Lease: "kept"}); code != "PermissionDenied" {
		t.Errorf("the lease of an ended call: %s %s", code, text)
	}
}

func TestFaultS17ALeaseIsGoodWithinItsProcessOnly(t *testing.T) {
	b, other := open(t, &fleet{}), open(t, &fleet{})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = b.Run(ctx, call("wait", labParams{})) })
	p := b.pool()
	var token string
	until(t, "the call runs", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.live) == 0 {
			return false
		}
		s := p.live[0].services
		s.mu.Lock()
		defer s.mu.Unlock()
		for lease := range s.leases {
			token = lease
		}
		return token != ""
	})
	if code, text := b.op(t, call("op", labParams{}), labParams{Op: "probe", Lease: token}); code != "OK" {
		t.Errorf("negative control: %s %s", code, text)
	}
	if code, text := other.op(t, call("op", labParams{}), labParams{Op: "probe", Lease: token}); code != "PermissionDenied" {
		t.Errorf("%s %s", code, text)
	}
	cancel()
	wg.Wait()
}

// A plugin that opens streams without end costs the worker a bounded number of them, and its own
// call only.
func TestOperationsOfALeaseAreBounded(t *testing.T) {
	s := &services{leases: map[string]*lease{}}
	enter := func(l *lease) (func(), error) {
		_, _, leave, err := s.enter(metadata.NewIncomingContext(t.Context(), metadata.Pairs(wire.LeaseKey, l.token)))
		return leave, err
	}
	greedy, other := s.grant(&Call{}), s.grant(&Call{})
	var leaves []func()
	for range maxOps {
		leave, err := enter(greedy)
		if err != nil {
			t.Fatalf("operation %d: %v", len(leaves), err)
		}
		leaves = append(leaves, leave)
	}
	if _, err := enter(greedy); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one more: %v", err)
	}
	if leave, err := enter(other); err != nil {
		t.Errorf("another call: %v", err)
	} else {
		leave()
	}
	leaves[0]()
	leave, err := enter(greedy)
	if err != nil {
		t.Fatalf("after one ended: %v", err)
	}
	for _, leave := range append(leaves[1:], leave) {
		leave()
	}
	greedy.end(time.Minute)
	other.end(time.Minute)
}

func TestEndOfTheLeaseCutsItsStreams(t *testing.T) {
	running, off := make(chan struct{}), make(chan struct{})
	b := open(t, &fleet{run: func(ctx context.Context, _ core.Host, _ transport.Exec) (transport.Exit, error) {
		close(running)
		<-ctx.Done() // the plugin, frozen, does not end it
		close(off)
		return transport.Exit{}, ctx.Err()
	}}, config(func(c *Config) { c.Grace = 300 * time.Millisecond }))
	pid := int(b.must(t, call("echo", labParams{}))["pid"].(float64))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-running
		freeze(pid)
		cancel()
	}()
	out, err := b.Run(ctx, call("op", labParams{Op: "exec"}))
	if !errors.Is(err, core.ErrPluginFailed) || !out.Cancelled {
		t.Errorf("%+v, %v", out, err)
	}
	select {
	case <-off:
	default:
		t.Error("the command ran on after Run returned")
	}
}

func TestSlowReaderHoldsTheHostBack(t *testing.T) { // and is cut off with its lease
	var wrote int64
	var mu sync.Mutex
	stuck, flows := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b := open(t, &fleet{run: func(ctx context.Context, _ core.Host, e transport.Exec) (transport.Exit, error) {
		defer close(stuck)
		block := make([]byte, 1<<20)
		for range 1024 {
			n, err := e.Stdout.Write(block)
			mu.Lock()
			wrote += int64(n)
			mu.Unlock()
			once.Do(func() { close(flows) })
			if err != nil {
				return transport.Exit{}, err
			}
		}
		return transport.Exit{}, nil
	}}, config(func(c *Config) { c.Grace = 300 * time.Millisecond }))
	pid := int(b.must(t, call("echo", labParams{}))["pid"].(float64))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		<-flows
		freeze(pid)
		cancel()
	}()
	if out, err := b.Run(ctx, call("op", labParams{Op: "exec"})); !errors.Is(err, core.ErrPluginFailed) || !out.Cancelled {
		t.Errorf("%+v, %v", out, err)
	}
	<-stuck
	mu.Lock()
	defer mu.Unlock()
	if wrote == 1<<30 {
		t.Error("all of 1 GiB was taken from a host while the plugin was frozen")
	}
}

func TestFaultsAreTranslated(t *testing.T) {
	refused := &transport.Error{Host: "fw1", Addr: "10.0.0.1:22", Op: "dial", Hint: "is it on?", Before: true, Err: fmt.Errorf("refused: %w", core.ErrUnreachable)}
	silent := &transport.Error{Host: "fw1", Op: "dial", Hint: "is it on?", Before: true, Err: errors.Join(core.ErrTimeout, core.ErrUnreachable)}
	var give error
	b := open(t, &fleet{run: func(context.Context, core.Host, transport.Exec) (transport.Exit, error) {
		return transport.Exit{}, give
	}})
	for _, row := range []struct {
		err  error
		code string
	}{
		{refused, "Unavailable"},
		{silent, "Unavailable"},
		{fmt.Errorf("x: %w", core.ErrTimeout), "DeadlineExceeded"},
		{context.DeadlineExceeded, "DeadlineExceeded"},
		{os.ErrNotExist, "NotFound"},
		{core.ErrInvalid, "InvalidArgument"},
		{errors.New("odd"), "Unknown"},
	} {
		give = row.err
		got := b.must(t, call("op", labParams{Op: "exec"}))
		if got["code"] != row.code || !strings.Contains(got["message"].(string), strings.TrimSuffix(row.err.Error(), "\nhint: is it on?")) {
			t.Errorf("%v: %v, expected %s", row.err, got, row.code)
		}
		fault, _ := got["fault"].(map[string]any)
		if row.code == "Unavailable" && (fault["op"] != "dial" || fault["before"] != true || fault["hint"] != "is it on?") {
			t.Errorf("detail of an unreachable host: %v", got)
		}
	}
}

func TestRefusedTunnelIsNotAnUnreachableHost(t *testing.T) {
	b := open(t, &fleet{dial: func(context.Context, core.Host, string) (net.Conn, error) {
		return nil, errors.New("connection refused")
	}})
	if code, text := b.op(t, call("op", labParams{}), labParams{Op: "dial"}); code != "Aborted" {
		t.Errorf("%s %s, expected Aborted", code, text)
	}
}

func TestCommandOutputIsBounded(t *testing.T) {
	b := open(t, &fleet{run: func(_ context.Context, _ core.Host, e transport.Exec) (transport.Exit, error) {
		for range 64 {
			if _, err := e.Stdout.Write(make([]byte, 1<<20)); err != nil {
				return transport.Exit{}, err
			}
		}
		return transport.Exit{}, nil
	}})
	if got := b.must(t, call("cmd", labParams{})); got["code"] != "OK" || len(got["stdout"].(string)) > 8<<20 {
		t.Errorf("%v, %d bytes", got["code"], len(got["stdout"].(string)))
	}
}

func TestArtifactsStayInTheirFolder(t *testing.T) {
	dir := t.TempDir()
	files := filepath.Join(dir, "playbook")
	if err := os.MkdirAll(filepath.Join(files, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(files, "sub", "a.txt"), "artifact", 0o644)
	write(t, filepath.Join(dir, "secret"), "hunter2", 0o644)
	if err := os.Symlink(filepath.Join(dir, "secret"), filepath.Join(files, "link")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(files, "linked"), 0o755), os.Symlink(filepath.Join(dir, "secret"), filepath.Join(files, "linked", "x"))); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(files, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	var put string
	b := open(t, &fleet{put: func(_ context.Context, _ core.Host, p transport.Put, data io.Reader) (transport.Written, error) {
		raw, err := io.ReadAll(data)
		put = string(raw)
		return transport.Written{Size: p.Size}, err
	}})
	c := call("op", labParams{})
	c.Files = files
	for _, row := range []struct{ name, code, text string }{
		{"sub/a.txt", "OK", "artifact"},
		{"../secret", "PermissionDenied", "expected a path below the folder of the playbook"},
		{"/etc/passwd", "PermissionDenied", ""},
		{"link", "PermissionDenied", ""},
		{"sub", "InvalidArgument", "not a regular file"},
		{"fifo", "InvalidArgument", "not a regular file"},
		{"none", "NotFound", `artifact "none": there is no such file on the worker`},
	} {
		if code, text := b.op(t, c, labParams{Op: "get", Text: row.name}); code != row.code || !strings.Contains(text, row.text) {
			t.Errorf("get %s: %s %q, expected %s", row.name, code, text, row.code)
		}
	}
	for _, row := range []struct{ name, code, text string }{
		{"sub/", "OK", `{"name":"a.txt","size":8,"mode":420,"sha256":"`},
		{"../", "PermissionDenied", ""},
		{"/etc/", "PermissionDenied", ""},
		{"./", "InvalidArgument", "not a regular file"},
		{"linked/", "PermissionDenied", ""}, // a link in it leads outside
		{"none/", "NotFound", "there is no such file"},
	} {
		if code, text := b.op(t, c, labParams{Op: "get", Text: row.name}); code != row.code || !strings.Contains(text, row.text) {
			t.Errorf("list %s: %s %q, expected %s", row.name, code, text, row.code)
		}
	}
	if code, text := b.op(t, c, labParams{Op: "put", Path: "/x", Text: "sub/a.txt"}); code != "OK" || text != "8" || put != "artifact" {
		t.Errorf("put of an artifact: %s %s, the host got %q", code, text, put)
	}
	if code, _ := b.op(t, c, labParams{Op: "put", Path: "/x", Text: "../secret"}); code != "PermissionDenied" {
		t.Errorf("put of a file outside: %s", code)
	}
}

// A person who may commit names files below the folder of a playbook, which may be a clone with
// git's own folder, and hold what belongs to the worker. Without Withheld, and by another name than
// .git, the same files are sent.
func TestFaultS1WhatIsTheWorkersOwnIsNotSent(t *testing.T) {
	files := filepath.Join(t.TempDir(), "ops")
	for _, name := range []string{"data/admin.token", ".git/config", "git/config", "worker.age", "plain"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(files, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(files, name), "hunter2", 0o600)
	}
	for name, to := range map[string]string{"to-data": "data", "to-git": ".git", "to-key": "worker.age"} {
		if err := os.Symlink(to, filepath.Join(files, name)); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, &fleet{put: func(_ context.Context, _ core.Host, p transport.Put, data io.Reader) (transport.Written, error) {
		_, err := io.Copy(io.Discard, data)
		return transport.Written{Size: p.Size}, err
	}})
	own := []string{filepath.Join(files, "data"), filepath.Join(files, "worker.age"), filepath.Join(files, "none"), ""}
	for _, row := range []struct {
		name     string
		withheld []string
		code     string
	}{
		{"plain", own, "OK"},
		{"git/config", own, "OK"},
		{"data/admin.token", nil, "OK"},
		{"worker.age", nil, "OK"},
		{"data/admin.token", own, "InvalidArgument"},
		{"to-data/admin.token", own, "InvalidArgument"},
		{"worker.age", own, "InvalidArgument"},
		{"to-key", own, "InvalidArgument"},
		{".git/config", nil, "InvalidArgument"},
		{"to-git/config", nil, "InvalidArgument"},
	} {
		c := call("op", labParams{})
		c.Files, c.Withheld = files, row.withheld
		for _, op := range []labParams{{Op: "get", Text: row.name}, {Op: "put", Path: "/x", Text: row.name}} {
			if code, text := b.op(t, c, op); code != row.code || code != "OK" && strings.Contains(text, "hunter2") {
				t.Errorf("%s of %s: %s %q, expected %s", op.Op, row.name, code, text, row.code)
			}
		}
	}
	c := call("op", labParams{})
	c.Files = filepath.Join(files, ".git") // as a forged job has it
	if code, _ := b.op(t, c, labParams{Op: "get", Text: "config"}); code != "InvalidArgument" {
		t.Errorf("a folder of git's own: %s", code)
	}
}

func TestSavedFilesStayInTheirFolder(t *testing.T) {
	dir := t.TempDir()
	c := call("op", labParams{})
	c.Fetch = filepath.Join(dir, "fetched")
	b := open(t, &fleet{})
	code, path := b.op(t, c, labParams{Op: "save", Path: "etc/motd", Text: "hello"})
	raw, err := os.ReadFile(filepath.Join(c.Fetch, "fw1", "etc", "motd"))
	if code != "OK" || path != filepath.Join(c.Fetch, "fw1", "etc", "motd") || err != nil || string(raw) != "hello" {
		t.Errorf("%s %s: %q, %v", code, path, raw, err)
	}
	if err := os.Symlink(dir, filepath.Join(c.Fetch, "fw1", "out")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../fw2/x", "/etc/x", "..", ".", "", "out/x"} {
		if code, text := b.op(t, c, labParams{Op: "save", Path: name, Text: "x"}); code == "OK" {
			t.Errorf("%q was saved as %s", name, text)
		}
	}
	c.Host.Name = "../evil"
	if code, text := b.op(t, c, labParams{Op: "save", Path: "x", Text: "x"}); code != "InvalidArgument" {
		t.Errorf("host %s: %s %s", c.Host.Name, code, text)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("outside of the folder: %v, %v", left, err)
	}
}

// A fetched file may be a key: nobody else reads it, and a file named like the part of another one
// keeps its content.
func TestSavedFilesAreTheUsersOnly(t *testing.T) {
	c := call("op", labParams{})
	c.Fetch = filepath.Join(t.TempDir(), "fetched")
	b := open(t, &fleet{})
	for _, name := range []string{"etc/key.part", "etc/key"} {
		if code, text := b.op(t, c, labParams{Op: "save", Path: name, Text: name}); code != "OK" {
			t.Fatalf("%s: %s %s", name, code, text)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(c.Fetch, "fw1", "etc", "key.part")); err != nil || string(raw) != "etc/key.part" {
		t.Errorf("key.part: %q, %v", raw, err)
	}
	err := filepath.WalkDir(c.Fetch, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCallThatMayNotBegin(t *testing.T) {
	b := open(t, &fleet{})
	for _, why := range []string{"the window has closed", ""} {
		c := call("echo", labParams{})
		c.State = &State{Version: 1, JSON: []byte("1")}
		c.MayBegin = func(context.Context) string { return why }
		out, err := b.Run(t.Context(), c)
		if held := out.Suspended && out.Held && out.State == c.State && out.Reason == why; err != nil || held != (why != "") {
			t.Errorf("%q: %+v, %v", why, out, err)
		}
	}
}

// A step was admitted, and then its host was long in coming: it is asked about again once the host
// is connected, before anything is sent to it. Red with the question in last taken out.
func TestFaultR7TheWindowIsAskedWhenTheHostIsReady(t *testing.T) {
	for _, shut := range []bool{false, true} {
		var did []string
		b := open(t, &fleet{
			ready: func() { did = append(did, "connected") },
			run: func(context.Context, core.Host, transport.Exec) (transport.Exit, error) {
				did = append(did, "ran")
				return transport.Exit{}, nil
			},
		})
		withParams := call("op", labParams{Op: "exec", Text: "in"})
		c := withParams
		c.State = &State{Version: 1, JSON: []byte("1")}
		c.MayBegin = func(context.Context) string {
			if did = append(did, "asked"); shut && len(did) > 1 {
				return "a freeze has begun"
			}
			return ""
		}
		out, err := b.Run(t.Context(), c)
		want := "asked connected asked ran"
		if shut {
			want = "asked connected asked"
		}
		if got := strings.Join(did, " "); err != nil || got != want {
			t.Errorf("did %q, expected %q: %+v, %v", got, want, out, err)
		}
		if shut && (out.Failed || !out.Held || out.State != c.State || !strings.Contains(out.Reason, "freeze")) {
			t.Errorf("expected to wait as the call was given: %+v", out)
		}
	}
}

func TestJobCallbacks(t *testing.T) {
	b := open(t, &fleet{})
	c := call("op", labParams{})
	var saved State
	c.Checkpoint = func(_ context.Context, s State) error { saved = s; return nil }
	c.Secrets = map[string][]byte{"token": []byte("hunter2")}
	if code, _ := b.op(t, c, labParams{Op: "checkpoint", Text: `{"n":1}`}); code != "OK" || string(saved.JSON) != `{"n":1}` || saved.Version != 1 {
		t.Errorf("%s, saved %+v", code, saved)
	}
	if code, _ := b.op(t, c, labParams{Op: "checkpoint", Text: `"` + strings.Repeat("x", 300<<10) + `"`}); code != "InvalidArgument" {
		t.Errorf("a state over 256 KiB: %s", code)
	}
	if code, text := b.op(t, c, labParams{Op: "secret", Text: "token"}); code != "OK" || text != "hunter2" {
		t.Errorf("%s %s", code, text)
	}
	if code, text := b.op(t, c, labParams{Op: "secret", Text: "other"}); code != "PermissionDenied" || !strings.Contains(text, "lists what it may have: token") {
		t.Errorf("a secret that the step does not list: %s %s", code, text)
	}
	if strings.Contains(b.log.String(), "hunter2") {
		t.Error("the secret is in the log")
	}
	c.Stop = func(context.Context) string { return "the window closed" }
	if code, text := b.op(t, c, labParams{Op: "checkpoint", Text: `{}`}); code != "OK" || text != "the window closed" {
		t.Errorf("a checkpoint at which to stop: %s %q", code, text)
	}
	if code, text := b.op(t, c, labParams{Op: "checkpoint", Text: `{}`, RO: true}); code != "OK" || text != "" {
		t.Errorf("a checkpoint of a rollback: %s %q", code, text)
	}
	if code, text := b.op(t, c, labParams{Op: "may start", N: 1}); code != "OK" || text != "" {
		t.Errorf("without a window: %s %q", code, text)
	}
	c.MayStart = func(_ context.Context, need time.Duration) string { return need.String() }
	if code, text := b.op(t, c, labParams{Op: "may start", N: 1500}); code != "OK" || text != "1.5s" {
		t.Errorf("may start: %s %q", code, text)
	}
	c.Checkpoint = func(context.Context, State) error { return fmt.Errorf("ledger: %w", core.ErrUnavailable) }
	if code, _ := b.op(t, c, labParams{Op: "checkpoint", Text: `{}`}); code == "OK" {
		t.Error("a checkpoint that is not durable was acknowledged")
	}
}

// Red with the questions to Live in Supervisor.run, enter, host and MayStart taken out, each for
// its line.
func TestFaultR1NothingBeginsOnALeaseThatIsOver(t *testing.T) {
	var ran atomic.Int64
	b := open(t, &fleet{run: func(context.Context, core.Host, transport.Exec) (transport.Exit, error) {
		ran.Add(1)
		return transport.Exit{}, nil
	}})
	over := errors.New("the lease has run out")
	refuse := func(after int64) func() error { // a lease that is over after so many questions
		return func() error {
			if after--; after < 0 {
				return over
			}
			return nil
		}
	}
	c := call("echo", labParams{})
	c.Live = refuse(0)
	if out, err := b.Run(t.Context(), c); err != nil || !out.Cancelled || out.Effects != EffectsNone {
		t.Errorf("a call: %+v, %v", out, err)
	}
	for asked := range int64(2) { // as it enters, and right before the host
		c.Live = refuse(1 + asked)
		if code, text := b.op(t, c, labParams{Op: "exec", Text: "reboot"}); code != "PermissionDenied" || !strings.Contains(text, over.Error()) {
			t.Errorf("a command: %s %s", code, text)
		}
	}
	if n := ran.Load(); n != 0 {
		t.Errorf("%d commands reached the host", n)
	}
	c.Live, c.MayStart = refuse(2), func(context.Context, time.Duration) string { return "" }
	if code, text := b.op(t, c, labParams{Op: "may start", N: 1}); code != "PermissionDenied" {
		t.Errorf("what cannot be undone: %s %s", code, text)
	}
}
