package servers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TLSEnv set to 1 has every server that tests start speak TLS only.
const TLSEnv = "TURNUS_TEST_TLS"

// TLSEverywhere reports whether TLSEnv is set.
func TLSEverywhere() bool { return os.Getenv(TLSEnv) == "1" }

// CA signs.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// common is made once: servers of one test trust each other.
var common = sync.OnceValues(func() (*CA, error) { return newCA("Turnus tests") })

// CommonCA is the CA of all tests of this binary.
func CommonCA(tb testing.TB) *CA {
	tb.Helper()
	a, err := common()
	must(tb, err)
	return a
}

// OtherCA is a CA that no client trusts unless a test adds it.
func OtherCA(tb testing.TB) *CA {
	tb.Helper()
	a, err := newCA("somebody else")
	must(tb, err)
	return a
}

func newCA(name string) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template(name, time.Hour)
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &CA{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

func template(name string, life time.Duration) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // never fails, see crypto/rand
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(life)}
}

// Pair is a certificate with its key, as files.
type Pair struct{ Cert, Key string }

// CA writes the CA's certificate into the folder and returns its path.
func (a *CA) CA(tb testing.TB, dir string) string {
	tb.Helper()
	path := filepath.Join(dir, "ca.pem")
	must(tb, os.WriteFile(path, a.pem, 0o644)) //nolint:gosec // it is public
	return path
}

// Sign writes a pair that is good for a server of these names and addresses and for a client called
// name, for an hour.
func (a *CA) Sign(tb testing.TB, dir, name string, hosts ...string) Pair {
	tb.Helper()
	return a.SignFor(tb, dir, name, time.Hour, hosts...)
}

// SignFor is Sign for another life; one that is over is none.
func (a *CA) SignFor(tb testing.TB, dir, name string, life time.Duration, hosts ...string) Pair {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(tb, err)
	t := template(name, life)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, &key.PublicKey, a.key)
	must(tb, err)
	text, err := x509.MarshalPKCS8PrivateKey(key)
	must(tb, err)
	p := Pair{Cert: filepath.Join(dir, name+".pem"), Key: filepath.Join(dir, name+".key")}
	must(tb, os.WriteFile(p.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(tb, os.WriteFile(p.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}), 0o600))
	return p
}

// LocalNames are the names by which a server on this machine is asked.
func LocalNames() []string { return []string{"localhost", "127.0.0.1", "::1"} }

// SignRequest is the chain, in PEM, of a certificate that was asked for: for 90 days, so that
// nobody renews it immediately.
func (a *CA) SignRequest(tb testing.TB, csr *x509.CertificateRequest) []byte {
	tb.Helper()
	t := template(csr.Subject.CommonName, 90*24*time.Hour)
	t.DNSNames, t.KeyUsage, t.ExtKeyUsage = csr.DNSNames, x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, csr.PublicKey, a.key)
	must(tb, err)
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), a.pem...)
}
