package transport

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
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
// host's next command must not meet the rest of this one. OpenSSH reports how the group's first
// process ended, and refuses to signal where root is logged in. So a second session does both; the
// server is asked for the signal where that session finds nothing, as on a host without /proc. It
// is false if the host did not confirm the end.
func (x *execution) stop() bool {
	if x.killGroup() && x.ended(closeAfter) {
		return true
	}
	x.signal("TERM")
	if !x.ended(killAfter) {
		x.signal("KILL")
		x.ended(closeAfter)
	}
	return x.s.hasExited()
}

// ErrMayRun marks the error of a command whose end was asked for and not confirmed by the host.
var ErrMayRun = errors.New("the command may still run on the host")

func mayRun(ended bool, err error) error {
	if ended {
		return err
	}
	return mark(err, ErrMayRun)
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

// killScript ends the process groups that have the id $1$2 in their environment, or in their
// command line before the first exec, and whose leader sshd started, or sudo or doas: by TERM, and
// within 2 s by KILL. It finds them all before the first signal, because sudo passes TERM on, and
// nobody finds a group whose leader has ended. It waits until the groups have ended: cat continues
// where a process ends while it is read, and sed would not. Zombies do not count: not every init
// buries them. It needs Linux's /proc, and fails where it finds no such group, or one outlives
// KILL, as in a call of the kernel to a disk that does not answer. Daemons that left the group are
// spared.
const killScript = `n=1 ID=$1$2 groups=
for f in $(grep -lF "$ID" /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null); do
  p=${f#/proc/}; p=${p%%/*}
  [ "$p" = $$ ] && continue
  set -- $(sed 's/.*) //' "/proc/$p/stat" 2>/dev/null)
  [ "$3" = "$p" ] || continue
  read -r parent <"/proc/$2/comm" || continue
  case $parent in sshd* | sudo | doas) groups="$groups $p" ;; esac
done
for sig in TERM KILL; do
  for p in $groups; do kill "-$sig" "-$p" 2>/dev/null && n=0; done
  read -r now rest </proc/uptime
  until=$((${now%.*} + 2))
  while [ "${now%.*}" -lt "$until" ]; do
    lives=
    for p in $groups; do
      kill -0 "-$p" 2>/dev/null && [ "$(cat /proc/[0-9]*/stat 2>/dev/null | sed -n "s/.*) [^ZX] [0-9]* $p .*/alive/p")" ] && lives=1 && break
    done
    [ "$lives" ] || break 2
    sleep 0.1 2>/dev/null || sleep 1
    read -r now rest </proc/uptime
  done
done
[ "$lives" ] && n=1
exit $n`

// elevated reports whether the command runs as the other user. It may have begun a moment ago, and
// its proof be on the way.
func (x *execution) elevated(ctx context.Context) bool {
	wait := time.NewTimer(closeAfter)
	defer wait.Stop()
	select {
	case <-x.proof.proved:
		return true
	case <-x.proof.refused:
	case <-x.s.exited:
	case <-x.s.closed:
	case <-wait.C:
	case <-ctx.Done():
	}
	ok, _ := x.proof.given()
	return ok
}

// elevating is how long sudo or doas may take to start on a busy host, beside what the script
// takes.
const elevating = 15 * time.Second

// maxLag bounds how much longer the end of a command may take on a host where logins are slow.
const maxLag = 30 * time.Second

// killLimit returns how long killGroup may take. The login starts a shell for it, which takes about
// as long as the start of the command took.
func (x *execution) killLimit() time.Duration {
	limit := killAfter + 2*closeAfter + min(2*x.proof.lag(), maxLag)
	if x.up != nil {
		limit += elevating // nobody else may end what runs as another user
	}
	return limit
}

// killGroup runs killScript beside the command. It is false where that found nothing to end, or did
// not end in time.
func (x *execution) killGroup() bool {
	up := x.up
	ctx, cancel := context.WithTimeout(x.s.c.pool.ctx, x.killLimit())
	defer cancel()
	if up.mayAsk() && !x.elevated(ctx) {
		up = nil // a password that is wrong must not be tried again
	}
	if up.mayAsk() {
		own := *up
		own.prompt = "turnus-" + newExecID() + ": " // the execution's has its id, by which the script would end its own sudo
		up = &own
	}
	const half = 8 // what has the id whole in its command line is taken for a part of the execution
	line, err := commandLine("", "set -- "+x.id[:half]+" "+x.id[half:]+"\n"+killScript, nil, "kill", up, false)
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
	if up.mayAsk() {
		_, _ = io.WriteString(ch, up.password+"\n")
	}
	_ = ch.CloseWrite()
	select {
	case <-s.exited:
		return s.exit == Exit{}
	case <-s.closed:
		return false
	case <-ctx.Done():
		return false
	}
}
