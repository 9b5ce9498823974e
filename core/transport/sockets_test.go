package transport

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core/transport/fleet"
)

// boundedPool reaches the hosts of fl with at most limit connections at the same time.
func boundedPool(t *testing.T, fl *fleet.Fleet, limit int) (p *Pool, log *bytes.Buffer) {
	t.Helper()
	log = &bytes.Buffer{}
	p = newPool(t, func(c *Config) {
		offers(c).Identities, c.MaxConns = []string{fl.IdentityFile()}, limit
		c.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	return p, log
}

func startFleet(t *testing.T, hosts int) *fleet.Fleet {
	t.Helper()
	fl, err := fleet.Start(t.Context(), fleet.Config{Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fl.Close() })
	return fl
}

// Many more hosts than connections: every host is reached, one warning is logged.
// Red without the bound: the process opens a connection for each host.
func TestFaultW17MoreHostsThanDescriptors(t *testing.T) {
	const hosts, limit = 200, 12
	fl := startFleet(t, hosts)
	p, log := boundedPool(t, fl, limit)
	var wg sync.WaitGroup
	for _, h := range fl.Hosts() {
		wg.Go(func() {
			if _, err := run(t, p, h, "true"); err != nil {
				t.Errorf("%s: %v", h.Name, err)
			}
			if open := p.Stats().Open; open > limit {
				t.Errorf("%d connections at the same time, expected at most %d", open, limit)
			}
		})
	}
	wg.Wait()
	if n := strings.Count(log.String(), "file descriptor limit"); n != 1 {
		t.Errorf("%d warnings, expected 1:\n%s", n, log)
	}
}

// All connections are in use: a further host waits, and is served by the first that becomes free.
func TestFaultW17WaitsForAConnectionInUse(t *testing.T) {
	busy := newBlocker()
	f := startFake(t, "127.33.7.1", func(f *fake) { f.onExec = busy.exec })
	fl := startFleet(t, 1)
	p, _ := boundedPool(t, fl, 1)
	held := make(chan error, 1)
	go func() {
		_, err := run(t, p, f.host("busy"), "x")
		held <- err
	}()
	eventually(t, "the command runs", func() bool { return busy.count() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	waits := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.sockets.starved == 1
	}
	go func() { gaveUp <- p.Probe(ctx, fl.Hosts()[0]) }()
	eventually(t, "the second host waits", waits)
	cancel()
	if err := <-gaveUp; err == nil {
		t.Error("a host whose caller had left got a connection beyond the bound")
	}
	served := make(chan error, 1)
	go func() {
		_, err := run(t, p, fl.Hosts()[0], "true")
		served <- err
	}()
	eventually(t, "the second host waits", waits)
	close(busy.release)
	if err := <-held; err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// Out of descriptors in spite of the bound, as when another part of the process
// took them: the error names the limit and what to type.
func TestFaultW17NamesTheLimit(t *testing.T) {
	err := dialError(&endpoint{}, syscall.EMFILE)
	if !strings.Contains(err.Error(), "ulimit -n") || !strings.Contains(err.Error(), "LimitNOFILE") {
		t.Errorf("%v, expected what to raise", err)
	}
	if _, bad := New(Config{MaxConns: -1, KnownHosts: []string{"/dev/null"}}); bad == nil || !strings.Contains(bad.Error(), "MaxConns") {
		t.Errorf("%v, expected a refusal", bad)
	}
}
