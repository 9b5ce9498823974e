package ledger_test

import (
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts/servers"
)

// A ledger over TLS opens when both sides know each other, and else the error shows what to do.
func TestPostgresTLSErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgresTLS(t)
	database := server.Database(t)
	dir := t.TempDir()
	stranger := servers.OtherCA(t)
	foreign, foreignCA := stranger.Sign(t, dir, servers.PostgresUser), stranger.CA(t, dir)
	with := func(change func(url.Values)) string {
		u, err := url.Parse(database)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		change(q)
		u.RawQuery = q.Encode()
		return u.String()
	}
	for _, tc := range []struct {
		name, url string
		kind      error
		say       string // empty: it works
	}{
		{"both know each other", database, nil, ""},
		{"no authority", with(func(q url.Values) { q.Del("sslrootcert") }), core.ErrUnavailable, "sslrootcert=FILE"},
		{"another authority", with(func(q url.Values) { q.Set("sslrootcert", foreignCA) }), core.ErrUnavailable, "sslrootcert=FILE"},
		{"a foreign client's certificate", with(func(q url.Values) { q.Set("sslcert", foreign.Cert); q.Set("sslkey", foreign.Key) }), core.ErrUnavailable, "sslcert=FILE"},
		{"no such file", with(func(q url.Values) { q.Set("sslrootcert", "/nonexistent.pem") }), core.ErrInvalid, "/nonexistent.pem"},
	} {
		l, err := ledger.Open(t.Context(), tc.url, ledger.Options{})
		if err == nil {
			_ = l.Close()
		}
		if tc.say == "" && err != nil || tc.say != "" && (!errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.say)) {
			t.Errorf("%s: %v, expected %q", tc.name, err, tc.say)
		}
	}
}

// Servers on other machines are verified in full, weaker settings are refused unless the URL names
// them.
func TestPostgresOnOtherMachinesIsVerified(t *testing.T) {
	for _, tc := range []struct {
		url     string
		refused bool
	}{
		{"postgres://turnus:hunter2@db.invalid/x", false},
		{"postgres://turnus:hunter2@db.invalid/x?sslmode=verify-full", false},
		{"postgres://turnus:hunter2@db.invalid/x?sslmode=disable", true},
		{"postgres://turnus:hunter2@db.invalid/x?sslmode=prefer", true},
		{"postgres://turnus:hunter2@db.invalid/x?sslmode=allow", true},
		{"postgres://turnus:hunter2@db.invalid/x?sslmode=require", true},
		{"postgres://turnus:hunter2@127.0.0.1,db.invalid/x?sslmode=disable", true},
		{"postgres://turnus:hunter2@db.invalid/x?sslmode=disable&insecure=true", false},
		{"postgres://turnus:hunter2@127.0.0.1:1/x?sslmode=disable", false},
		{"postgres://turnus:hunter2@localhost:1/x", false},
		{"postgres:///x?host=/nonexistent", false},
	} {
		_, err := ledger.Open(t.Context(), tc.url+map[bool]string{true: "&", false: "?"}[strings.Contains(tc.url, "?")]+"connect_timeout=1", ledger.Options{})
		if err == nil || errors.Is(err, core.ErrInvalid) != tc.refused || tc.refused && !strings.Contains(err.Error(), "insecure=true") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, refused is expected to be %v", tc.url, err, tc.refused)
		}
	}
	t.Setenv("PGSSLMODE", "disable")
	if _, err := ledger.Open(t.Context(), "postgres://db.invalid/x?connect_timeout=1", ledger.Options{}); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("PGSSLMODE gets round it: %v", err)
	}
}

// A client's certificate that is renewed is used by the next connection.
func TestPostgresRenewedFilesAreTakenOver(t *testing.T) {
	t.Parallel()
	server := servers.StartPostgresTLS(t)
	l, err := ledger.Open(t.Context(), server.Database(t), ledger.Options{Connections: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	swap := func(a *servers.CA) {
		p := a.Sign(t, t.TempDir(), servers.PostgresUser)
		for from, to := range map[string]string{p.Cert: server.Client.Cert, p.Key: server.Client.Key} {
			text, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(to, text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.After(time.Minute); !ok(); {
			select {
			case <-deadline:
				t.Fatal("waited a minute for " + what)
			case <-tick.C:
			}
		}
	}
	next := func() error { // ends the connection there is
		_ = server.Disconnect(t)
		return l.Ping(t.Context())
	}
	swap(servers.OtherCA(t))
	until("a certificate that nobody trusts to be used", func() bool { return next() != nil })
	swap(servers.CommonCA(t))
	until("the renewed one to be used", func() bool { return next() == nil })
}
