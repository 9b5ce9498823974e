package console

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keyReader reads single keys from the terminal without echo. Ctrl-C and Ctrl-Z stay signals.
type keyReader struct {
	tty  *os.File
	keys chan Key

	mu      sync.Mutex
	lines   unix.Termios // the terminal's mode before
	set     bool         // the mode is ours
	paused  bool
	reading sync.WaitGroup
}

// Keys reads keys until stop is called, which restores the terminal and joins. Without a terminal
// on stdin, stdout and stderr, or in the background, keys is nil.
func (c *Console) Keys() (keys <-chan Key, stop func()) {
	in, ok := c.In.(*os.File)
	if !c.Live || !c.Out.OnTerminal() || !ok || !isTerminal(in) {
		return nil, func() {}
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, func() {}
	}
	k := &keyReader{tty: tty, keys: make(chan Key, 16)}
	if !k.begin() {
		_ = tty.Close()
		return nil, func() {}
	}
	c.mu.Lock()
	c.keys = k
	c.mu.Unlock()
	stopSignals := k.signals()
	return k.keys, func() {
		c.mu.Lock()
		c.keys = nil
		c.mu.Unlock()
		stopSignals()
		k.pause()
		_ = tty.Close()
	}
}

// pause stops reading and gives the terminal back. A nil reader does nothing.
func (k *keyReader) pause() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.paused = true
	k.end()
}

// resume ends a pause.
func (k *keyReader) resume() {
	if k == nil {
		return
	}
	k.mu.Lock()
	k.paused = false
	k.mu.Unlock()
	k.begin()
}

// begin takes the terminal and starts reading, unless the process is in the background.
func (k *keyReader) begin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.paused {
		return true
	}
	k.end()
	ok := false
	_ = k.control(func(fd int) {
		mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil || !foreground(fd) {
			return
		}
		k.lines = *mode
		mode.Lflag &^= unix.ICANON | unix.ECHO
		mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
		ok = unix.IoctlSetTermios(fd, unix.TCSETS, mode) == nil
	})
	if k.set = ok; !ok || k.tty.SetReadDeadline(time.Time{}) != nil {
		k.end()
		return false
	}
	k.reading.Go(k.read)
	return true
}

// end needs the lock. It joins the reader and restores the mode, which belongs to the shell while
// the process is in the background.
func (k *keyReader) end() {
	_ = k.tty.SetReadDeadline(time.Now())
	k.reading.Wait()
	if !k.set {
		return
	}
	k.set = false
	_ = k.control(func(fd int) {
		if foreground(fd) {
			_ = unix.IoctlSetTermios(fd, unix.TCSETS, &k.lines)
		}
	})
}

// read sends keys until the deadline, or until the process goes to the background.
func (k *keyReader) read() {
	conn, err := k.tty.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, 64)
	for {
		n := 0
		err := conn.Read(func(fd uintptr) bool {
			if !foreground(int(fd)) { // a read would stop the process
				return true
			}
			var err error
			n, err = unix.Read(int(fd), buf)
			return err != unix.EAGAIN && err != unix.EINTR
		})
		if err != nil || n <= 0 {
			return
		}
		for _, key := range parseKeys(buf[:n]) {
			select {
			case k.keys <- key:
			default: // typed faster than drawn
			}
		}
	}
}

// signals takes the terminal again when the process comes back from the background, and restores it
// before a signal ends the process. Under nohup, a hang-up is no end.
func (k *keyReader) signals() (stop func()) {
	got, end := make(chan os.Signal, 4), make(chan struct{})
	signal.Notify(got, unix.SIGCONT, unix.SIGQUIT)
	if !signal.Ignored(unix.SIGHUP) {
		signal.Notify(got, unix.SIGHUP)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-end:
				return
			case s := <-got:
				if s == unix.SIGCONT {
					k.begin()
					continue
				}
				k.pause()
				signal.Reset(s)
				_ = unix.Kill(unix.Getpid(), s.(unix.Signal))
			}
		}
	})
	return func() {
		signal.Stop(got)
		close(end)
		wg.Wait()
	}
}

func (k *keyReader) control(do func(fd int)) error {
	conn, err := k.tty.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Control(func(fd uintptr) { do(int(fd)) })
}

// foreground reports whether the terminal belongs to this process.
func foreground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
