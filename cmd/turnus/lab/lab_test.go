package lab

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core/transport/fleet"
)

func TestMain(m *testing.M) {
	if len(os.Args) >= 3 && os.Args[1] == node.ServeVerb { // started by a test as the process of a built-in plugin
		os.Exit(node.ServePlugin(os.Args[2], os.Args[3:], os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

func TestNamesCountWithinTheirGroup(t *testing.T) {
	var got []string
	for n := range 12 {
		name, group := nameOf(n)
		if strings.TrimRight(name, "0123456789") != group {
			t.Errorf("host %d: %s of %s", n, name, group)
		}
		got = append(got, name)
	}
	if want := "web1 web2 db1 web3 web4 dns1 web5 fw1 web6 db2 web7 web8"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	seen := map[string]bool{}
	for n := range maxHosts {
		name, _ := nameOf(n)
		if seen[name] {
			t.Fatalf("two hosts are named %s", name)
		}
		seen[name] = true
	}
}

func TestEveryWayToBreakIsAFault(t *testing.T) {
	for _, how := range append(ways(), "ok") {
		if p, ok := faultOf(how); !ok || p.Kind != how {
			t.Errorf("%s: %+v, %v", how, p, ok)
		}
	}
	for _, how := range []string{"", "Slow", "fast"} {
		if _, ok := faultOf(how); ok {
			t.Errorf("%q is a fault", how)
		}
	}
}

func newFolder(t *testing.T) *folder {
	t.Helper()
	dir, err := os.MkdirTemp("", "lab") //nolint:usetesting // the path of t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a rest in /tmp fails nothing
	t.Setenv("TURNUS_STATE", dir)
	f, err := openFolder()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// serve answers on the socket of f until the test ends.
func serve(t *testing.T, f *folder, hosts int) *room {
	t.Helper()
	fl, err := f.startHosts(t.Context(), hosts)
	if err != nil {
		t.Fatal(err)
	}
	socket, err := f.listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := &room{f: f, fleet: fl}
	ended := make(chan net.Conn, 1)
	go func() { ended <- control(context.Background(), socket, r.answer) }()
	t.Cleanup(func() {
		_ = socket.Close() // ends control
		if c := <-ended; c != nil {
			_ = c.Close()
		}
		if err := fl.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestRequestsAreHeldToTheLabsHosts(t *testing.T) {
	f := newFolder(t)
	r := serve(t, f, 10)
	for _, tc := range []struct {
		q       request
		problem string
		broken  int
	}{
		{request{Do: "break", Hosts: []string{"web1", "db2"}, How: "dead"}, "", 2},
		{request{Do: "break", Hosts: []string{"web2", "wbe1"}, How: "slow"}, `host "wbe1": the lab has no such host`, 2},
		{request{Do: "break", Hosts: []string{"web2"}, How: "burn"}, "expected one of: slow, dead, newkey, full-disk", 2},
		{request{Do: "break", Hosts: []string{"web1"}, How: "ok"}, "", 1},
		{request{Do: "break", How: "ok"}, "", 0},
	} {
		got, err := f.ask(t.Context(), tc.q)
		if tc.problem == "" && err != nil || tc.problem != "" && (err == nil || !strings.Contains(err.Error(), tc.problem)) {
			t.Errorf("%+v: %v, want %q", tc.q, err, tc.problem)
		}
		broken := 0
		for _, h := range r.lab().Hosts {
			if h.State != "ok" {
				broken++
			}
		}
		if broken != tc.broken || err == nil && len(got.Hosts) != 10 {
			t.Errorf("%+v: %d hosts are broken, want %d", tc.q, broken, tc.broken)
		}
	}
}

// Bytes that are no request close their connection, and the next one is answered.
func TestNoiseOnTheSocket(t *testing.T) {
	f := newFolder(t)
	serve(t, f, 1)
	for _, noise := range []string{"", "GET / HTTP/1.1\r\n\r\n", `{"do": 3}`, `{"hosts":`} {
		c, err := net.Dial("unix", filepath.Join(f.path, socketFile))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(noise)) // it may be refused immediately
		_ = c.Close()
	}
	if got, err := f.ask(t.Context(), request{Do: "ls"}); err != nil || len(got.Hosts) != 1 {
		t.Errorf("after noise: %+v, %v", got, err)
	}
}

func TestFilesOfTheLabArePrivate(t *testing.T) {
	f := newFolder(t)
	serve(t, f, 2)
	for _, name := range []string{socketFile, inventoryFile, knownHostsFile, keyFile} {
		info, err := os.Lstat(filepath.Join(f.path, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	// The negative control: a folder that others may read is refused.
	if err := os.Chmod(f.path, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := openFolder(); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a folder that others may read: %v", err)
	}
}

func TestFolderTooDeepForASocket(t *testing.T) {
	t.Setenv("TURNUS_STATE", filepath.Join(t.TempDir(), strings.Repeat("x", 100)))
	if _, err := openFolder(); err == nil || !strings.Contains(err.Error(), "hint: set TURNUS_STATE") {
		t.Errorf("got %v", err)
	}
}

func TestNoLabIsUp(t *testing.T) {
	f := newFolder(t)
	// The files that a killed lab leaves.
	for _, name := range []string{socketFile, inventoryFile, keyFile} {
		if err := os.WriteFile(filepath.Join(f.path, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.ask(t.Context(), request{Do: "ls"}); err == nil || !strings.Contains(err.Error(), "hint: turnus lab up") {
		t.Errorf("ask: %v", err)
	}
	if up, err := f.end(t.Context()); up || err != nil {
		t.Errorf("end: %v, %v", up, err)
	}
	left, err := os.ReadDir(f.path)
	if err != nil || len(left) != 1 || left[0].Name() != lockFile {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestExportLineIsOneWord(t *testing.T) {
	if got, want := exportLine("/a b/it's"), `export TURNUS_INVENTORY='/a b/it'\''s'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestInventoryNamesEveryHost(t *testing.T) {
	f, err := fleet.Start(t.Context(), fleet.Config{Hosts: 10, Name: func(n int) string { name, _ := nameOf(n); return name }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	inventory, known := inventoryText(f.Hosts(), "/k"), knownHostsText(f.Hosts())
	for _, h := range f.Hosts() {
		key, _ := json.Marshal(h.SSH.HostKeys[0])
		if !strings.Contains(inventory, "  "+h.Name+": {address: "+h.Address) || !strings.Contains(inventory, string(key)) {
			t.Errorf("the inventory has no %s:\n%s", h.Name, inventory)
		}
		if !strings.Contains(known, "["+h.Address+"]:") || !strings.Contains(known, h.SSH.HostKeys[0]+"\n") {
			t.Errorf("known_hosts has no %s:\n%s", h.Name, known)
		}
	}
	if !strings.Contains(inventory, "  db: {hosts: [db1, db2]}\n") {
		t.Errorf("groups:\n%s", inventory)
	}
}
