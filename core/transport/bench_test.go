package transport

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
)

// cpu returns the time that this process has used, the servers' processes not counted.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWarmRun is one command over a pooled connection, Go to Go.
func BenchmarkWarmRun(b *testing.B) {
	f := startFake(b, "127.40.0.1", nil)
	p := newPool(b, nil)
	h := f.host("h")
	if _, err := run(b, p, h, "x"); err != nil {
		b.Fatal(err)
	}
	ctx := testContext(b)
	for b.Loop() {
		if _, err := p.Run(ctx, h, Exec{Command: "x"}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkColdRun is a new connection and one command, Go to Go, both ends counted.
func BenchmarkColdRun(b *testing.B) {
	f := startFake(b, "127.40.0.2", nil)
	p := newPool(b, nil)
	ctx := testContext(b)
	for b.Loop() {
		if _, err := p.Run(ctx, f.host("h"), Exec{Command: "x", Fresh: true}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFanout runs `true` on 500 addresses of OpenSSH, cold: through a pool,
// and by a bare loop over x/crypto/ssh with as many goroutines.
func BenchmarkFanout(b *testing.B) {
	hosts, at := 500, 64
	if v, err := strconv.Atoi(os.Getenv("BENCH_HOSTS")); err == nil && v > 0 {
		hosts = v
	}
	key, public := servers.NewSSHKey(b)
	s := servers.StartSSHD(b, servers.Authorize(public), servers.SSHDAddresses(hosts), servers.SSHDConfig("MaxStartups 1000"))
	list := make([]core.Host, hosts)
	for i := range list {
		list[i] = s.HostAt(i, fmt.Sprintf("h%d", i))
	}
	each := func(f func(core.Host) error) {
		var wg sync.WaitGroup
		work := make(chan core.Host)
		for range at {
			wg.Go(func() {
				for h := range work {
					if err := f(h); err != nil {
						b.Error(err)
					}
				}
			})
		}
		for _, h := range list {
			work <- h
		}
		close(work)
		wg.Wait()
	}
	report := func(b *testing.B, before time.Duration) {
		n := float64(b.N * hosts)
		b.ReportMetric(n/b.Elapsed().Seconds(), "hosts/s")
		b.ReportMetric(float64((cpu()-before).Microseconds())/1000/n, "client-ms/host")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("pool", func(b *testing.B) {
		before := cpu()
		for b.Loop() {
			p := newPool(b, func(c *Config) { offers(c).Identities = []string{key} })
			each(func(h core.Host) error {
				_, err := p.Run(testContext(b), h, Exec{Command: "true"})
				return err
			})
			_ = p.Close()
		}
		report(b, before)
	})
	b.Run("bare", func(b *testing.B) {
		text, err := os.ReadFile(key)
		if err != nil {
			b.Fatal(err)
		}
		signer, err := ssh.ParsePrivateKey(text)
		if err != nil {
			b.Fatal(err)
		}
		before := cpu()
		for b.Loop() {
			each(func(h core.Host) error { return bare(h, signer, s.HostKey) })
		}
		report(b, before)
	})
}

func bare(h core.Host, signer ssh.Signer, hostKey ssh.PublicKey) error {
	c, err := ssh.Dial("tcp", net.JoinHostPort(h.Address, strconv.Itoa(h.SSH.Port)), &ssh.ClientConfig{
		User: h.SSH.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(hostKey),
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	s, err := c.NewSession()
	if err != nil {
		return err
	}
	return s.Run("true")
}

// BenchmarkPut sends a file (BENCH_MB, 64) to OpenSSH, until the host's disk has it and the host's
// hash of it is compared. BENCH_DIR is where to.
func BenchmarkPut(b *testing.B) {
	s, p := startSSHD(b)
	file := b.TempDir() + "/f"
	if dir := os.Getenv("BENCH_DIR"); dir != "" {
		file = dir + "/turnus-bench-put"
		b.Cleanup(func() { _ = os.Remove(file) })
	}
	size := int64(64 << 20)
	if v, err := strconv.ParseInt(os.Getenv("BENCH_MB"), 10, 64); err == nil && v > 0 {
		size = v << 20
	}
	b.SetBytes(size)
	for b.Loop() {
		if _, err := p.Put(testContext(b), s.Host("web1"), Put{Path: file, Size: size}, io.LimitReader(zeros{}, size)); err != nil {
			b.Fatal(err)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
