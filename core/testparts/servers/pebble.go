package servers

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
)

// PebbleConfig defines how a CA behaves. The ports stand for 443 and 80 of every name.
type PebbleConfig struct {
	TLSPort, HTTPPort int           // where it checks challenges
	Valid             time.Duration // of what it signs, in seconds
	Refuses           []string      // names that it signs nothing for
}

// Pebble is a private ACME CA: Let's Encrypt's pebble on loopback, with a name server for which
// every name is this machine. make check-acme builds the programs; tests that need them have the
// build tag acme.
type Pebble struct {
	*testparts.Process
	Directory string         // URL
	CA        string         // file of the CA of the directory's own certificate
	Roots     *x509.CertPool // who signs what is asked for
}

// StartPebble runs a CA until the test ends.
func StartPebble(tb testing.TB, cfg PebbleConfig) *Pebble {
	tb.Helper()
	program := testparts.Need(tb, "pebble", "make check-acme")
	dir := tb.TempDir()
	own := CommonCA(tb).Sign(tb, dir, "pebble", LocalNames()...)
	listen, manage := at(testparts.FreePort(tb)), at(testparts.FreePort(tb))
	text, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": listen, "managementListenAddress": manage, "certificate": own.Cert, "privateKey": own.Key,
		"httpPort": cfg.HTTPPort, "tlsPort": cfg.TLSPort, "domainBlocklist": cfg.Refuses, "retryAfter": map[string]int{"authz": 1, "order": 1}, "keyAlgorithm": "ecdsa",
		"profiles": map[string]any{"default": map[string]any{"description": "what tests ask for", "validityPeriod": int(cfg.Valid.Seconds())}},
	}})
	file := filepath.Join(dir, "pebble.json")
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(program, "-config", file, "-strict", "-dnsserver", names(tb)) //nolint:noctx,gosec // ended by Stop; the test's own program
	// Each order is checked again, and immediately.
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0")
	a := &Pebble{Process: testparts.Run(tb, cmd), Directory: "https://" + listen + "/dir", CA: CommonCA(tb).CA(tb, dir), Roots: x509.NewCertPool()}
	a.ready(tb, "https://"+manage+"/roots/0")
	return a
}

func at(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// names runs a name server, and is its address.
func names(tb testing.TB) string {
	tb.Helper()
	program, address := testparts.Need(tb, "pebble-challtestsrv", "make check-acme"), at(testparts.FreePort(tb))
	//nolint:noctx,gosec // ended by Stop; the test's own program
	p := testparts.Run(tb, exec.Command(program, "-dnsserver", address, "-defaultIPv6", "", "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-management", "127.0.0.1:0"))
	p.Wait(tb, "the name server to listen", func() error {
		c, err := net.DialTimeout("tcp", address, time.Second) //nolint:noctx // bounded
		if err == nil {
			err = c.Close()
		}
		return err
	})
	return address
}

// ready waits until the CA answers, and takes its root.
func (a *Pebble) ready(tb testing.TB, root string) {
	tb.Helper()
	text, err := os.ReadFile(a.CA)
	if err != nil {
		tb.Fatal(err)
	}
	own := x509.NewCertPool()
	own.AppendCertsFromPEM(text)
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: own, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	get := func(url string) ([]byte, error) {
		resp, err := client.Get(url) //nolint:noctx // the client has a timeout
		if err != nil {
			return nil, err
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("GET %s: %s", url, resp.Status)
		}
		return text, err
	}
	a.Wait(tb, "pebble to answer", func() error {
		if _, err := get(a.Directory); err != nil {
			return err
		}
		text, err := get(root)
		if err == nil && !a.Roots.AppendCertsFromPEM(text) {
			err = fmt.Errorf("%s gives no certificate", root)
		}
		return err
	})
}
