//go:build linux && labs

package e2e

import (
	"context"
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
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/transport/fleet"
)

// certificate makes a certificate for 127.0.0.1 that signs itself, for an hour.
func certificate(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	return certificateUntil(t, name, time.Now().Add(time.Hour))
}

func certificateUntil(t *testing.T, name string, until time.Time) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: text})
}

// turnus up over Redis and TLS, beside a worker that sends what is too long for a result: it is
// kept whole. A renewed certificate is served without a restart, and half a renewal is not.
func TestLabUpOverRedisAndTLSBesideADistantWorker(t *testing.T) {
	t.Parallel()
	const size = 5 << 20
	l := newLab(t, fleet.Config{Hosts: 4}).withRedis()
	if err := os.MkdirAll(filepath.Join(l.dir, "ops", "playbooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	var inventory strings.Builder
	inventory.WriteString("hosts:\n")
	for _, h := range l.fleet.Hosts() {
		inventory.WriteString(l.entry(h, ""))
	}
	l.file("ops/inventory.yaml", inventory.String())
	l.file("ops/playbooks/long.yaml", "playbook: all\ntargets: true\nsteps: [{name: flood, uses: command, with: {run: flood 5242880}}]\n")
	cert, key := certificate(t, "first")
	certFile, keyFile := l.file("cert.pem", string(cert)), l.file("key.pem", string(key))
	p := l.start(append([]string{"up", "--redis", l.redis.url(), "--data", filepath.Join(l.dir, "data"), "--project", filepath.Join(l.dir, "ops"), "--listen", "127.0.0.1:0", "--context", "",
		"--name", "here", "--tls-cert", certFile, "--tls-key", keyFile}, l.pluginFlags()...)...)
	until(t, "the service to listen", func() bool { return p.err.has("listening on https://") || !p.running() })
	tokenFile := filepath.Join(l.dir, "data", "admin.token")
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		t.Fatalf("%v; %s", err, p.err)
	}
	trusting := func(ca []byte) *client.Client {
		c, err := client.New(client.Config{Server: address(p), Token: strings.TrimSpace(string(token)), CAs: ca, Patience: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	c := trusting(cert)
	made, err := c.CreateToken(context.Background(), api.NewToken{Name: "distant", Tenant: "*", Role: "worker"})
	if err != nil {
		t.Fatal(err)
	}
	w := l.worker("--name", "distant", "--server", address(p), "--token-file", l.file("worker.token", made.Secret), "--ca-file", certFile)
	var cordoned time.Time
	until(t, "both workers", func() bool {
		_, err := c.CordonWorker(context.Background(), "here", "the distant one is to work")
		cordoned = time.Now()
		list, err2 := c.Workers(context.Background(), client.Page{})
		return err == nil && err2 == nil && has(list.Items, "distant")
	})
	until(t, "the service's own worker to have read its order", func() bool { // it reads before it reports
		list, err := c.Workers(context.Background(), client.Page{})
		return err == nil && reported(list.Items, "here").After(cordoned.Add(time.Second))
	})
	run := submitted(t, c)
	finished(t, c, run.ID)
	for i := range 4 {
		id := core.JobID{Run: run.ID, Index: i}
		job, err := c.Job(context.Background(), id)
		if err != nil || job.Worker != "distant" {
			t.Fatalf("job %d on worker %s: %v", i, job.Worker, err)
		}
		outputs, err := c.Outputs(context.Background(), id)
		if err != nil || len(outputs.Items) != 1 || outputs.Items[0].Size != size || outputs.Items[0].Cut {
			t.Errorf("job %d: %+v, %v; expected %d bytes", i, outputs.Items, err, size)
		}
	}

	// The renewed certificate does not fit the key for a moment: the first continues.
	next, nextKey := certificate(t, "second")
	l.file("cert.pem", string(next))
	until(t, "half a renewal to be noticed", func() bool {
		_, err := trusting(cert).Runs(context.Background(), client.RunFilter{}, client.Page{Limit: 1})
		return err == nil && p.err.has("cannot be used; the former one stays")
	})
	l.file("key.pem", string(nextKey))
	until(t, "the new certificate to be served", func() bool {
		_, err := trusting(next).Runs(context.Background(), client.RunFilter{}, client.Page{Limit: 1})
		return err == nil
	})
	if _, err := trusting(cert).Runs(context.Background(), client.RunFilter{}, client.Page{Limit: 1}); err == nil {
		t.Error("the former certificate is served still")
	}
	for _, one := range []*process{w, p} {
		one.signal(syscall.SIGTERM)
		one.wants(0)
	}
	l.redis.sound(nil)
}

func reported(workers []api.Worker, name string) time.Time {
	for _, w := range workers {
		if w.Name == name {
			return w.Reported
		}
	}
	return time.Time{}
}
