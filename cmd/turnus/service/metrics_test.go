package service

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/telemetry"
	"github.com/turnus/turnus/core/testparts/servers"
)

// A node reports its metrics to clients of a CA only, where it is started so.
func TestMetricsOnlyToClientsOfACA(t *testing.T) {
	t.Parallel()
	ours, dir := servers.CommonCA(t), t.TempDir()
	node, client, stranger := ours.Sign(t, dir, "node", servers.LocalNames()...), ours.Sign(t, dir, "client"), servers.OtherCA(t).Sign(t, dir, "stranger")
	f := MetricsFlags{address: "127.0.0.1:0", cert: node.Cert, key: node.Key, clientCA: ours.CA(t, dir)}
	l, err := f.Listen(t.Context(), slog.New(slog.DiscardHandler), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	l.Handle("GET /metrics", telemetry.NewRegistry("v1", 0))
	pem, err := os.ReadFile(f.clientCA)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	for pair, want := range map[servers.Pair]bool{client: true, stranger: false, {}: false} {
		config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
		if pair.Cert != "" {
			own, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{own}
		}
		web := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		resp, err := web.Get("https://" + l.Addr() + "/metrics")
		if err == nil {
			_ = resp.Body.Close()
		}
		if got := err == nil && resp.StatusCode == http.StatusOK; got != want {
			t.Errorf("%q: answered %v, expected %v: %v", pair.Cert, got, want, err)
		}
	}
	f.cert, f.key = "", ""
	if _, err := f.Listen(t.Context(), slog.New(slog.DiscardHandler), func(string) {}); !invalid(err) {
		t.Errorf("a CA without a certificate of its own: %v", err)
	}
}

func invalid(err error) bool {
	exit, ok := errors.AsType[*console.Exit](err)
	return ok && exit.Code == console.ExitInvalid
}
