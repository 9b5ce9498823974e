package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
)

// scriptTB lets kits fail a script.
type scriptTB struct {
	testing.TB
	ts *testscript.TestScript
}

func (s scriptTB) Helper()                           {}
func (s scriptTB) Cleanup(f func())                  { s.ts.Defer(f) }
func (s scriptTB) Fatal(args ...any)                 { s.ts.Fatalf("%s", fmt.Sprint(args...)) }
func (s scriptTB) Fatalf(f string, a ...any)         { s.ts.Fatalf(f, a...) }
func (s scriptTB) Logf(f string, args ...any)        { s.ts.Logf(f, args...) }
func (s scriptTB) port() string                      { return strconv.Itoa(testparts.FreePort(s)) }
func scriptParts(ts *testscript.TestScript) scriptTB { return scriptTB{ts: ts} }

func startCA(ts *testscript.TestScript, _ bool, args []string) {
	tb := scriptParts(ts)
	a := servers.StartACME(tb, ts.MkAbs("."))
	for _, name := range []string{"PORT", "HTTP"} {
		ts.Setenv(name, tb.port())
	}
	at := "127.0.0.1:" + ts.Getenv("PORT")
	if args[0] == "http-01" {
		web := "127.0.0.1:" + ts.Getenv("HTTP")
		a.HTTP = func() string { return web }
	} else {
		a.OverTLS = func() string { return at }
	}
	ts.Setenv("ACME", a.URL)
	ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), nil, 0o600))
	a.Signed.CA(tb, ts.MkAbs("."))
	ts.Defer(func() {
		orders, looked := a.Orders()
		if orders != 1 || len(looked) != 1 || looked[0] != args[0] {
			ts.Logf("%d orders, %v checked; expected one, of %s", orders, looked, args[0])
			panic("the authority was not asked once")
		}
	})
}

func handshake(ts *testscript.TestScript, never bool, args []string) {
	text, err := os.ReadFile(ts.MkAbs("ca.pem"))
	ts.Check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	try := func() error {
		c, err := tls.Dial("tcp", "127.0.0.1:"+ts.Getenv("PORT"), &tls.Config{ServerName: args[0], RootCAs: pool})
		if err == nil {
			err = c.Close()
		}
		return err
	}
	if never {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); { // it listens already
			if c, err := net.Dial("tcp", "127.0.0.1:"+ts.Getenv("PORT")); err == nil {
				_ = c.Close()
				break
			}
			<-time.After(50 * time.Millisecond)
		}
		if err := try(); err == nil {
			ts.Fatalf("there is a certificate for %s", args[0])
		}
		return
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if err = try(); err == nil {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	ts.Fatalf("no certificate for %s: %v", args[0], err)
}

func certificates(ts *testscript.TestScript, _ bool, _ []string) {
	tb, dir := scriptParts(ts), strings.TrimSuffix(ts.MkAbs("."), "/.")
	a := servers.CommonCA(tb)
	a.CA(tb, dir)
	a.Sign(tb, dir, "server", servers.LocalNames()...)
	a.Sign(tb, dir, "client")
	servers.OtherCA(tb).Sign(tb, dir, "foreign")
	ts.Setenv("PORT", scriptParts(ts).port())
}
