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

// stop ends the command's process group, politely first, and returns when all of it has ended: the
// host's next command must not meet what is left of this one. OpenSSH tells how the group's first
// process ended, and refuses to signal where root is logged in. So a second session does both; the
// server is asked for the signal where that session finds nothing, as on a host without /proc.
func (x *execution) stop() {
	if x.killGroup() {
		x.ended(closeAfter)
		return
	}
	x.signal("TERM")
	if !x.ended(killAfter) {
		x.signal("KILL")
		x.ended(closeAfter)
	}
}

// ended waits for the host's word that the command has ended.
func (x *execution) ended(within time.Duration) bool {
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-x.s.exited:
	case <-x.s.closed:
	case <-t.C:
		return false
	}
	return true
}

// signal asks the server for the signal. Its answer is not waited for: the end of the command is.
func (x *execution) signal(name string) {
	x.s.c.pool.spawn(func() {
		_, _ = x.s.ch.SendRequest("signal", false, ssh.Marshal(struct{ Name string }{name}))
	})
}

// killScript ends the process group that has the id in its environment, or in its command line
// before its first exec, and whose leader sshd started: by TERM, and within 2 s by KILL. It waits until
// the group has ended. Zombies do not count: not every init buries them. It needs Linux's /proc, and
// fails where it finds no such group. Daemons that left the group are spared.
const killScript = `n=1
for f in $(grep -lF "$ID" /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null); do
  p=${f#/proc/}; p=${p%%/*}
  [ "$p" = $$ ] && continue
  set -- $(sed 's/.*) //' "/proc/$p/stat" 2>/dev/null)
  [ "$3" = "$p" ] || continue
  read -r parent <"/proc/$2/comm" || continue
  case $parent in sshd*) ;; *) continue ;; esac
  for sig in TERM KILL; do
    kill "-$sig" "-$p" && n=0
    read -r now rest </proc/uptime
    until=$((${now%.*} + 2))
    while [ "${now%.*}" -lt "$until" ]; do
      kill -0 "-$p" 2>/dev/null && [ "$(sed -n "s/.*) [^ZX] [0-9]* $p .*/alive/p" /proc/[0-9]*/stat 2>/dev/null)" ] || continue 3
      sleep 0.1 2>/dev/null || sleep 1
      read -r now rest </proc/uptime
    done
  done
done
exit $n`

// killGroup runs killScript beside the command. It is false where that found nothing to end.
func (x *execution) killGroup() bool {
	ctx, cancel := context.WithTimeout(x.s.c.pool.ctx, killAfter+2*closeAfter)
	defer cancel()
	line, err := commandLine("", killScript, map[string]string{"ID": x.id}, "kill")
	if err != nil {
		return false
	}
	c := x.s.c
	ch, reqs, err := c.open(ctx, "session", nil) // past the pool's limit: it must not wait for others
	if err != nil {
		return false
	}
	s := &session{c: c, ch: ch, exited: make(chan struct{}), closed: make(chan struct{})}
	if !c.pool.spawn(func() { s.serve(reqs) }) {
		_ = ch.Close()
		return false
	}
	defer func() { _ = ch.Close() }()
	if s.start(ctx, "exec", line) != nil {
		return false
	}
	select {
	case <-s.exited:
		return s.exit == Exit{}
	case <-s.closed:
		return false
	case <-ctx.Done():
		return true
	}
}
