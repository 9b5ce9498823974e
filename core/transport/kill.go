package transport

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"golang.org/x/crypto/ssh"
)

// execIDVar is in the environment of every command, so that its process group
// can be found again.
const execIDVar = "TURNUS_EXEC"

func newExecID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// stop ends the command's process group, politely first. OpenSSH kills the group
// by itself when it is sent a signal, but refuses to where root is logged in
// ("requires privilege separation"); then a second session does it.
func (x *execution) stop() {
	for _, step := range []struct {
		signal string
		wait   time.Duration
	}{{"TERM", killAfter}, {"KILL", closeAfter}} {
		if !x.signal(step.signal) {
			x.killByID(step.signal)
		}
		t := time.NewTimer(step.wait)
		select {
		case <-x.s.exited:
		case <-x.s.closed:
		case <-t.C:
			continue
		}
		t.Stop()
		return
	}
}

// signal reports whether the server accepted it. A server that does not answer
// in time counts as having accepted: nothing else would reach it either.
func (x *execution) signal(name string) bool {
	accepted := make(chan bool, 1)
	if !x.s.c.pool.spawn(func() {
		ok, err := x.s.ch.SendRequest("signal", true, ssh.Marshal(struct{ Name string }{name}))
		accepted <- ok || err != nil
	}) {
		return true
	}
	t := time.NewTimer(closeAfter)
	defer t.Stop()
	select {
	case ok := <-accepted:
		return ok
	case <-x.s.exited:
	case <-x.s.closed:
	case <-t.C:
	}
	return true
}

// killScript signals the process group that has the id in its environment, or in
// its command line before its first exec, and whose leader sshd started. It
// needs Linux's /proc. Daemons that left the group are spared.
const killScript = `for f in $(grep -lF "$ID" /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null); do
  p=${f#/proc/}; p=${p%%/*}
  [ "$p" = $$ ] && continue
  set -- $(sed 's/.*) //' "/proc/$p/stat" 2>/dev/null)
  [ "$3" = "$p" ] || continue
  read -r parent <"/proc/$2/comm" || continue
  case $parent in sshd*) kill "-$SIG" "-$p";; esac
done`

// killByID runs killScript beside the command.
func (x *execution) killByID(signal string) {
	ctx, cancel := context.WithTimeout(x.s.c.pool.ctx, killAfter)
	defer cancel()
	line, err := commandLine("", killScript, map[string]string{"ID": x.id, "SIG": signal}, "kill")
	if err != nil {
		return
	}
	c := x.s.c
	ch, reqs, err := c.open(ctx, "session", nil) // past the pool's limit: it must not wait for others
	if err != nil {
		return
	}
	s := &session{c: c, ch: ch, exited: make(chan struct{}), closed: make(chan struct{})}
	if !c.pool.spawn(func() { s.serve(reqs) }) {
		_ = ch.Close()
		return
	}
	defer func() { _ = ch.Close() }()
	if s.start(ctx, "exec", line) != nil {
		return
	}
	select {
	case <-s.exited:
	case <-s.closed:
	case <-ctx.Done():
	}
}
