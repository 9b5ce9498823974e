package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/testparts/servers"
)

// Nothing of a login or of a token goes over plain http to another machine. A proxy sees what
// would. The control is a context that allows it: its requests are seen.
func TestFaultS10NoLoginInTheClear(t *testing.T) {
	var seen atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		seen.Add(1)
		http.Error(w, "no", http.StatusTeapot)
	}))
	defer proxy.Close()
	contexts := filepath.Join(t.TempDir(), "contexts.yaml")
	text := "contexts:\n  clear: {server: \"http://turnus.example.net\"}\n  forced: {server: \"http://turnus.example.net\", insecure_http: true}\n"
	if err := os.WriteFile(contexts, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(args ...string) string {
		cmd := turnusProcess(t, args...)
		cmd.Env = append(os.Environ(), "HTTP_PROXY="+proxy.URL, "http_proxy="+proxy.URL, "NO_PROXY=", "no_proxy=", "TURNUS_CONFIG="+contexts, "TURNUS_TOKEN=hunter2")
		out, _ := cmd.CombinedOutput() // that it fails shows in its output
		return string(out)
	}
	for _, args := range [][]string{
		{"login", "--server", "http://turnus.example.net"}, {"login", "--context", "clear"}, {"runs", "ls", "--server", "http://10.0.0.1:8470"},
		{"worker", "--redis", "redis://127.0.0.1:1/0", "--server", "http://turnus.example.net"},
	} {
		out := ask(args...)
		if !strings.Contains(out, "in the clear") || !strings.Contains(out, "hint: --server https://") || seen.Load() != 0 {
			t.Errorf("%v: %d requests went out; %s", args, seen.Load(), out)
		}
	}
	if out := ask("login", "--context", "forced"); seen.Load() == 0 {
		t.Errorf("negative control: no request went out: %s", out)
	}
}

// loginServer names the provider of info, and gives each person who logs in there a token.
func loginServer(t *testing.T, info *api.LoginInfo) string {
	t.Helper()
	return answers(t, func(r *http.Request) any {
		if r.Method == http.MethodPost {
			return api.Token{ID: "1", Secret: "s"}
		}
		return info
	})
}

// A context keeps where its first login was, and as which client. A server that names another one,
// or another client of the same provider, gets no login: nothing is asked of that one.
func TestFaultS9AServerDoesNotChangeTheProvider(t *testing.T) {
	p, evil := servers.StartOIDC(t), servers.StartOIDC(t)
	info := api.LoginInfo{Issuer: p.Issuer, ClientID: servers.OIDCClient, Scopes: []string{"openid"}}
	server := loginServer(t, &info)
	t.Setenv("TURNUS_CONFIG", filepath.Join(t.TempDir(), "contexts.yaml"))
	turnus(t, console.ExitOK, "login", "--server", server, "--as", "prod")
	turnus(t, console.ExitOK, "login", "--context", "prod") // the control: the same again
	for _, other := range []api.LoginInfo{{Issuer: evil.Issuer, ClientID: servers.OIDCClient}, {Issuer: p.Issuer, ClientID: "other"}} {
		info.Issuer, info.ClientID = other.Issuer, other.ClientID
		asked := p.Asked("/device")
		for _, args := range [][]string{{"login", "--context", "prod"}, {"login", "--server", server, "--as", "new"}} {
			_, stderr := turnus(t, console.ExitInvalid, args...)
			for _, says := range []string{p.Issuer, servers.OIDCClient, other.Issuer, other.ClientID, "turnus context rm prod"} {
				if !strings.Contains(stderr, says) {
					t.Errorf("%+v, %v: %q lacks %q", other, args, stderr, says)
				}
			}
		}
		if p.Asked("/device") != asked || evil.Asked("/.well-known/openid-configuration") != 0 {
			t.Errorf("%+v: a login was begun", other)
		}
	}
}

// A logout removes the session from the context whose server and token it used, and from no other.
func TestLogoutForgetsTheSessionThatItEnded(t *testing.T) {
	var ended atomic.Int32
	server := answers(t, func(*http.Request) any {
		ended.Add(1)
		return struct{}{}
	})
	contexts := filepath.Join(t.TempDir(), "contexts.yaml")
	text := "current: prod\ncontexts:\n  prod: {server: \"" + server + "\", token: prod-session, login: true}\n"
	if err := os.WriteFile(contexts, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	other := writeText(t, "other.token", "other-session", 0o600)
	t.Setenv("TURNUS_CONFIG", contexts)
	for i, tc := range []struct {
		server, token string // of the environment
		args          []string
		kept          bool
	}{
		{server: server + "/", token: "other-session", kept: true}, {token: "other-session", kept: true},
		{args: []string{"--token-file", other}, kept: true}, {args: []string{"--server", server, "--token-file", other}, kept: true},
		{}, // the control
	} {
		t.Setenv("TURNUS_SERVER", tc.server)
		t.Setenv("TURNUS_TOKEN", tc.token)
		turnus(t, console.ExitOK, append([]string{"logout"}, tc.args...)...)
		left, err := os.ReadFile(contexts)
		if err != nil || ended.Load() != int32(i+1) {
			t.Fatalf("%+v: %d sessions were ended; %v", tc, ended.Load(), err)
		}
		if strings.Contains(string(left), "prod-session") != tc.kept {
			t.Errorf("%+v: the contexts are now %s", tc, left)
		}
	}
}

// A context is used in other folders than the login that wrote it.
func TestLoginKeepsAbsolutePaths(t *testing.T) {
	p, dir := servers.StartOIDC(t), t.TempDir()
	server := loginServer(t, &api.LoginInfo{Issuer: p.Issuer, ClientID: servers.OIDCClient, Scopes: []string{"openid"}})
	ca := servers.CommonCA(t)
	files := []string{"--ca-file", ca.CA(t, dir)}
	pair := ca.Sign(t, dir, "client")
	files = append(files, "--cert-file", pair.Cert, "--key-file", pair.Key)
	args := []string{"login", "--server", server, "--as", "prod"}
	for i := 0; i < len(files); i += 2 {
		args = append(args, files[i], filepath.Base(files[i+1]))
	}
	t.Chdir(dir)
	t.Setenv("TURNUS_CONFIG", filepath.Join(dir, "contexts.yaml"))
	turnus(t, console.ExitOK, args...)
	out, _ := turnus(t, console.ExitOK, "context", "ls", "-o", "json")
	for i := 0; i < len(files); i += 2 {
		if !strings.Contains(out, `"`+files[i+1]+`"`) {
			t.Errorf("%s is not %s in %s", files[i], files[i+1], out)
		}
	}
	if out, _ := turnus(t, console.ExitOK, "context", "ls", "-o", "name"); out != "prod\n" { // the chosen context has a mark
		t.Errorf("-o name prints %q", out)
	}
}
