// Package systemd owns the notifications of systemd about the process: that it is ready, that it
// still works, that it stops (sd_notify(3)). Without systemd it does nothing.
//
// It must not know what the process works on: a function reports whether it is stuck.
package systemd

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
)

// Manager is the systemd that started this process. The nil Manager is nobody. Safe for concurrent
// use.
type Manager struct {
	conn  *net.UnixConn
	every time.Duration // between signs of life; 0: none are wanted

	once sync.Once // Ready
	quit chan struct{}
	done sync.WaitGroup
}

// Open reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID with getenv, for the process pid. It is
// nil where no NOTIFY_SOCKET is set. An error wraps core.ErrInvalid for values that systemd does
// not give, and core.ErrUnavailable where nobody listens.
func Open(getenv func(string) string, pid int) (*Manager, error) {
	address := getenv("NOTIFY_SOCKET")
	if address == "" {
		return nil, nil //nolint:nilnil // nobody is to be told
	}
	if address[0] != '/' && address[0] != '@' {
		return nil, fmt.Errorf("NOTIFY_SOCKET %q: expected a path, or @NAME: %w", address, core.ErrInvalid)
	}
	m := &Manager{quit: make(chan struct{})}
	usec := getenv("WATCHDOG_USEC")
	if of := getenv("WATCHDOG_PID"); usec != "" && (of == "" || of == strconv.Itoa(pid)) { // else they are a parent's
		n, err := strconv.ParseInt(usec, 10, 64)
		if err != nil || n <= 0 || n > int64(24*time.Hour/time.Microsecond) {
			return nil, fmt.Errorf("WATCHDOG_USEC %q: expected microseconds, a day at most: %w", usec, core.ErrInvalid)
		}
		m.every = max(time.Duration(n)*time.Microsecond/3, time.Millisecond) // one may be late, and the next is still in time
	}
	var err error
	if m.conn, err = net.DialUnix("unixgram", nil, &net.UnixAddr{Name: address, Net: "unixgram"}); err != nil {
		return nil, fmt.Errorf("NOTIFY_SOCKET: %w: %w", core.ErrUnavailable, err)
	}
	return m, nil
}

// Ready reports that the process works, and from then on until Close, as often as WATCHDOG_USEC
// wants it, that it still does: while stuck returns nil. Systemd restarts a process without
// notifications. Only the first call counts.
func (m *Manager) Ready(stuck func() error) error {
	if m == nil {
		return nil
	}
	var err error
	m.once.Do(func() {
		if err = m.report("READY=1"); err == nil && m.every > 0 {
			m.done.Go(func() { m.watch(stuck) })
		}
	})
	return err
}

// Stopping reports that the process has begun to end. Signs of life continue: draining takes its
// time.
func (m *Manager) Stopping() error {
	if m == nil {
		return nil
	}
	return m.report("STOPPING=1")
}

// Close ends the signs of life.
func (m *Manager) Close() error {
	if m == nil {
		return nil
	}
	close(m.quit)
	m.done.Wait()
	return m.conn.Close()
}

func (m *Manager) watch(stuck func() error) {
	tick := time.NewTicker(m.every)
	defer tick.Stop()
	for {
		if err := stuck(); err == nil {
			_ = m.report("WATCHDOG=1") // what is lost is missed by systemd, as it should be
		} else {
			_ = m.report("STATUS=" + strings.Map(oneLine, err.Error()))
		}
		select {
		case <-m.quit:
			return
		case <-tick.C:
		}
	}
}

func (m *Manager) report(state string) error {
	if err := m.conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return fmt.Errorf("notify systemd of %s: %w", state, err)
	}
	if _, err := m.conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify systemd of %s: %w", state, err)
	}
	return nil
}

// oneLine keeps a text from being more than one assignment.
func oneLine(r rune) rune {
	if r < ' ' {
		return ' '
	}
	return r
}
