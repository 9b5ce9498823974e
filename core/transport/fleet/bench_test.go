package fleet

import (
	"runtime"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

// BenchmarkHandshakes dials, authenticates and closes, both ends in this
// process: go test -bench Handshakes ./core/transport/fleet
func BenchmarkHandshakes(b *testing.B) {
	f := start(b, Config{Hosts: 3000})
	hosts := f.Hosts()
	b.ResetTimer()
	next := make(chan int)
	var wg sync.WaitGroup
	for range 2 * runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for n := range next {
				c, err := dial(b, f, hosts[n%len(hosts)])
				if err != nil {
					b.Error(err)
					continue
				}
				_ = c.Close()
			}
		})
	}
	for n := range b.N {
		next <- n
	}
	close(next)
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "handshakes/s")
}

// BenchmarkExec runs one command over an open connection.
func BenchmarkExec(b *testing.B) {
	f := start(b, Config{Hosts: 1})
	c := mustDial(b, f, f.Hosts()[0])
	b.ResetTimer()
	for range b.N {
		if _, _, code, err := run(b, c, "exec /bin/sh -c 'hostname'", ""); code != 0 {
			b.Fatal(err)
		}
	}
}

// BenchmarkStart makes a fleet of 3000 hosts.
func BenchmarkStart(b *testing.B) {
	for range b.N {
		start(b, Config{Hosts: 3000})
	}
}

// BenchmarkIdle measures memory of idle connections, both ends in this process;
// a client's end costs about as much as the server's.
func BenchmarkIdle(b *testing.B) {
	const n = 300
	f := start(b, Config{Hosts: n})
	usage := func() float64 {
		for range 3 { // each halves the stacks that the handshakes have grown
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapInuse + m.StackInuse)
	}
	for range b.N {
		before := usage()
		clients := make([]*ssh.Client, 0, n)
		for _, h := range f.Hosts() {
			clients = append(clients, mustDial(b, f, h))
		}
		b.ReportMetric((usage()-before)/n/1024, "KB/connection")
		for _, c := range clients {
			_ = c.Close()
		}
	}
}
