//go:build acme

package cli

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
)

// A certificate that pebble signed is renewed while the server works, and at no time is there none
// that holds.
func TestPebbleSignsAndRenews(t *testing.T) {
	t.Parallel()
	port := testparts.FreePort(t)
	a := servers.StartPebble(t, servers.PebbleConfig{TLSPort: port, HTTPPort: testparts.FreePort(t), Valid: 30 * time.Second})
	c := startCertified(t, port, a.Directory, a.CA)
	first := c.certificate(t, a.Roots)
	if !slices.Equal(first.DNSNames, []string{acmeName}) {
		t.Errorf("the certificate is for %v", first.DNSNames)
	}
	c.get(t, "/v1/runs", a.Roots)
	if _, err := c.shake(acmeName, x509.NewCertPool()); !errors.As(err, new(x509.UnknownAuthorityError)) {
		t.Errorf("a client that does not know pebble got %v", err)
	}
	c.Wait(t, "the next certificate", func() error {
		next, err := c.shake(acmeName, a.Roots)
		if err != nil {
			t.Fatalf("before the next one: %v\n%s", err, c.Log())
		}
		if next.SerialNumber.Cmp(first.SerialNumber) == 0 {
			return fmt.Errorf("it still shows the one that ends at %v", next.NotAfter)
		}
		return nil
	})
	if strings.Contains(c.Log(), "ACME: ") {
		t.Errorf("it complains: %s", c.Log())
	}
	// Nothing is asked for a name that nobody gave; the control is the one that was.
	if _, err := c.shake("other.example.net", a.Roots); err == nil || strings.Contains(a.Log(), "other.example.net") || !strings.Contains(a.Log(), acmeName) {
		t.Errorf("a certificate for another name: %v\n%s", err, a.Log())
	}
}

// Where port 443 does not arrive, the look over HTTP does.
func TestPebbleLooksOverHTTP(t *testing.T) {
	t.Parallel()
	web := testparts.FreePort(t)
	a := servers.StartPebble(t, servers.PebbleConfig{TLSPort: testparts.FreePort(t), HTTPPort: web, Valid: time.Hour})
	c := startCertified(t, testparts.FreePort(t), a.Directory, a.CA, "--acme-http", "127.0.0.1:"+strconv.Itoa(web))
	c.certificate(t, a.Roots)
	if strings.Contains(c.Log(), "ACME: ") {
		t.Errorf("it complains of a look that was not needed: %s", c.Log())
	}
}

// A problem between a server and its certificate is reported, and there is no certificate. The
// controls are the tests above.
func TestPebbleDoesNotSign(t *testing.T) {
	t.Parallel()
	for name, it := range map[string]struct {
		refuses []string
		unknown bool // who signed the directory's certificate
		deaf    bool // it looks where nobody listens
		says    string
	}{
		"its directory's authority is unknown": {unknown: true, says: "certificate signed by unknown authority"},
		"it does not want the name":            {refuses: []string{acmeName}, says: "rejectedIdentifier"},
		"it does not reach the server":         {deaf: true, says: "tls-alpn-01 of \"" + acmeName + "\": \"Failed to connect"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := testparts.FreePort(t)
			cfg := servers.PebbleConfig{TLSPort: port, HTTPPort: testparts.FreePort(t), Valid: time.Hour, Refuses: it.refuses}
			if it.deaf {
				cfg.TLSPort = testparts.FreePort(t)
			}
			a := servers.StartPebble(t, cfg)
			ca := a.CA
			if it.unknown {
				ca = servers.OtherCA(t).CA(t, t.TempDir())
			}
			c := startCertified(t, port, a.Directory, ca)
			c.says(t, "no certificate for "+acmeName+": ", it.says)
			if cert, err := c.shake(acmeName, a.Roots); err == nil {
				t.Errorf("there is a certificate: %v", cert.DNSNames)
			}
		})
	}
}

// A renewal that fails is reported while the certificate still holds.
func TestPebbleIsAwayWhenACertificateEnds(t *testing.T) {
	t.Parallel()
	port := testparts.FreePort(t)
	a := servers.StartPebble(t, servers.PebbleConfig{TLSPort: port, HTTPPort: testparts.FreePort(t), Valid: 30 * time.Second})
	c := startCertified(t, port, a.Directory, a.CA)
	c.certificate(t, a.Roots)
	a.Stop()
	c.Wait(t, "a message", func() error {
		if _, err := c.shake(acmeName, a.Roots); err != nil {
			t.Fatalf("before the failure was reported: %v\n%s", err, c.Log())
		}
		if !strings.Contains(c.Log(), "ACME: the certificate for "+acmeName+" ends at ") {
			return errors.New("there is none")
		}
		return nil
	})
	c.says(t, "and is not renewed", "connection refused")
}
