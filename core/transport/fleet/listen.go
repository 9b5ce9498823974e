package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// errNoDevice reports that a socket cannot be tied to the loopback device here.
var errNoDevice = errors.New("binding a socket to the loopback device is not possible here")

// listen opens the sockets and returns the port of each host, or one port for all.
//
// One socket on 0.0.0.0 serves every address of 127.0.0.0/8, but must not serve anybody else. So it
// is tied to the loopback device, where no packet of another machine reaches it, and accept refuses
// connections to other addresses. Where the device cannot be bound, each host has a socket of its
// own on 127.0.0.1.
func (f *Fleet) listen(ctx context.Context) ([]int, error) {
	if !f.cfg.perHost {
		l, err := listenOnLoopbackDevice(ctx)
		if err == nil {
			f.listeners = []net.Listener{l}
			return []int{portOf(l)}, nil
		}
		if !errors.Is(err, errNoDevice) {
			return nil, fmt.Errorf("listen for the fleet: %w", err)
		}
		f.cfg.perHost = true
	}
	ports := make([]int, 0, f.cfg.Hosts)
	var lc net.ListenConfig
	for range f.cfg.Hosts {
		l, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
		if err != nil {
			for _, open := range f.listeners {
				_ = open.Close() // nothing was accepted on it
			}
			return nil, fmt.Errorf("listen for host %d of the fleet: %w", len(ports), err)
		}
		f.listeners = append(f.listeners, l)
		ports = append(ports, portOf(l))
	}
	return ports, nil
}

func portOf(l net.Listener) int {
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

// accept serves one listener. fixed is the host it belongs to; -1 when the
// address that the client dialled chooses the host.
func (f *Fleet) accept(l net.Listener, fixed int) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors, or the client is gone already
			if !wait(f.ctx, 10*time.Millisecond) {
				return
			}
			continue
		}
		f.stats.accepted.Add(1)
		h := f.identify(c, fixed)
		if h == nil {
			f.stats.refused.Add(1)
			reset(c)
			continue
		}
		if !f.track(c, h) {
			_ = c.Close() // the fleet is closing
			return
		}
		f.wg.Go(func() {
			defer f.untrack(c)
			f.serve(c, h)
		})
	}
}

// identify finds the host that a connection was made to. It returns nil for
// everything that is not loopback at both ends.
func (f *Fleet) identify(c net.Conn, fixed int) *host {
	local, remote := addrOf(c.LocalAddr()), addrOf(c.RemoteAddr())
	if !local.IsLoopback() || !remote.IsLoopback() {
		return nil
	}
	n := fixed
	if fixed < 0 {
		n = numberOf(local)
	}
	if n < 0 || n >= len(f.hosts) {
		return nil
	}
	return f.hosts[n]
}

func addrOf(a net.Addr) netip.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return t.AddrPort().Addr().Unmap()
}

// Hosts are numbered through 127.10.1.1 … 127.10.250.250, 127.11.1.1 …, so that
// none looks like a network or broadcast address.
const addrBase, addrSpan = 10, 250

func addressOf(n int) string {
	return fmt.Sprintf("127.%d.%d.%d", addrBase+n/(addrSpan*addrSpan), 1+n/addrSpan%addrSpan, 1+n%addrSpan)
}

// numberOf is the reverse of addressOf; -1 for an address of no host.
func numberOf(a netip.Addr) int {
	if !a.Is4() {
		return -1
	}
	b := a.As4()
	x, y, z := int(b[1])-addrBase, int(b[2])-1, int(b[3])-1
	if b[0] != 127 || x < 0 || y < 0 || z < 0 || y >= addrSpan || z >= addrSpan {
		return -1
	}
	return (x*addrSpan+y)*addrSpan + z
}

// reset closes a connection with RST, as a crashing host's kernel does.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // without it this is an orderly close, which also serves
	}
	_ = c.Close() // nothing can be done about a socket that does not close
}
