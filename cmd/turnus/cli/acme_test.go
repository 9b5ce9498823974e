package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
)

const acmeName = "turnus.example.net"

// certified is a turnus up whose certificate comes from a CA.
type certified struct {
	*testparts.Process
	port int
	data string
}

// startCertified starts one at a port. Of flags that are there twice, the later count.
func startCertified(t *testing.T, port int, directory, ca string, flags ...string) *certified {
	t.Helper()
	dir := t.TempDir()
	c := &certified{port: port, data: filepath.Join(dir, "data")}
	cmd := turnusProcess(t, append([]string{"up", "--data", c.data, "--listen", c.address(), "--context", "",
		"--acme-directory", directory, "--acme-ca-file", ca, "--acme-name", acmeName}, flags...)...)
	cmd.Env = append(os.Environ(), "HOME="+dir, "TURNUS_STATE="+filepath.Join(dir, "state"))
	c.Process = testparts.Run(t, cmd)
	return c
}

func (c *certified) address() string { return "127.0.0.1:" + strconv.Itoa(c.port) }

// shake is a client that believes these CAs, and what it was shown.
func (c *certified) shake(name string, roots *x509.CertPool) (*x509.Certificate, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 30 * time.Second}, "tcp", c.address(), &tls.Config{ServerName: name, RootCAs: roots})
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0], nil
}

// certificate waits for the first one.
func (c *certified) certificate(t *testing.T, roots *x509.CertPool) (cert *x509.Certificate) {
	t.Helper()
	c.Wait(t, "a certificate", func() (err error) {
		cert, err = c.shake(acmeName, roots)
		return err
	})
	return cert
}

// says waits for words among the messages.
func (c *certified) says(t *testing.T, words ...string) {
	t.Helper()
	c.Wait(t, "a message", func() error {
		for line := range strings.Lines(c.Log()) {
			has := strings.HasPrefix(line, "ACME: ")
			for _, w := range words {
				has = has && strings.Contains(line, w)
			}
			if has {
				return nil
			}
		}
		return fmt.Errorf("no message of ACME has %q", words)
	})
}

// get asks the API as the administrator.
func (c *certified) get(t *testing.T, path string, roots *x509.CertPool) string {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(c.data, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+c.address()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{ServerName: acmeName, RootCAs: roots}}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v: %s", path, resp.Status, err, text)
	}
	return string(text)
}

// The time for which a certificate holds is measured, wherever it is from: an alert needs it.
func TestACMECertificateIsMeasured(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), testparts.FreePort(t)
	a := servers.StartACME(t, dir)
	a.OverTLS = func() string { return "127.0.0.1:" + strconv.Itoa(port) }
	roots := x509.NewCertPool()
	text, err := os.ReadFile(a.Signed.CA(t, dir))
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	c := startCertified(t, port, a.URL, a.CA)
	cert := c.certificate(t, roots)
	want := fmt.Sprintf("turnus_certificate_expires_timestamp_seconds{use=\"api\"} %g\n", float64(cert.NotAfter.Unix()))
	if got := c.get(t, "/metrics", roots); !strings.Contains(got, want) {
		t.Errorf("expected %sgot\n%s", want, got)
	}
}

// After a look that failed, the CA's reason is reported, which autocert keeps to itself.
func TestACMEReportsWhatTheCAMet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := servers.StartACME(t, dir)
	nobody := "127.0.0.1:" + strconv.Itoa(testparts.FreePort(t))
	a.OverTLS = func() string { return nobody }
	c := startCertified(t, testparts.FreePort(t), a.URL, a.CA)
	c.says(t, "no certificate for "+acmeName, "tls-alpn-01 of", nobody, "refused")
}
