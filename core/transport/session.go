package transport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
)

// session is one SSH session channel: an exec or a subsystem.
type session struct {
	c     *conn
	ch    ssh.Channel
	fresh bool // the connection is its own and ends with it

	exited chan struct{} // closed when the host reported how the command ended
	closed chan struct{} // closed when the host closed the channel
	exit   Exit          // valid after exited
}

// session opens a session at the end of r. A connection that turns out to be
// broken is replaced once: nothing has been sent to the host through it.
func (p *Pool) session(ctx context.Context, r route, fresh bool) (*session, error) {
	e := r.last()
	for try := 0; ; try++ {
		c, reused, err := p.lend(ctx, r, fresh)
		if err != nil {
			return nil, err
		}
		ch, reqs, err := c.openSession(ctx)
		if err == nil {
			return c.begin(ch, reqs, fresh), nil
		}
		var refused *ssh.OpenChannelError
		switch {
		case ctx.Err() != nil:
			p.giveBack(c, fresh)
			return nil, e.ended(ctx, "session", true)
		case errors.As(err, &refused):
			// The connection is fine; only this channel was refused.
			others := p.lower(c)
			p.giveBack(c, fresh)
			if others && try < 3 {
				continue // wait for one of them, or for another connection
			}
			return nil, e.unreachable("session", "the host refuses sessions: raise MaxSessions in its sshd_config, or lower the pool's; a login that may not run commands (internal-sftp, nologin) also refuses",
				fmt.Errorf("session refused: %w", err))
		}
		p.discard(c)
		c.kill(err)
		p.giveBack(c, fresh)
		if !reused || try > maxPerHost {
			return nil, e.unreachable("session", "see the host's log: journalctl -u ssh", fmt.Errorf("no session on a new connection: %w", err))
		}
	}
}

// lend leases a pooled connection, or dials one of its own.
func (p *Pool) lend(ctx context.Context, r route, fresh bool) (c *conn, reused bool, err error) {
	if !fresh {
		return p.acquire(ctx, r, sessionUse)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.ctx, func() { cancel(errPoolClosed) })()
	c, err = p.login(ctx, r)
	if err == nil { // without a lease it would be closed as idle
		p.mu.Lock()
		c.lease(sessionUse)
		p.mu.Unlock()
	}
	return c, false, err
}

func (p *Pool) giveBack(c *conn, fresh bool) {
	if fresh {
		c.kill(errDropped)
		<-c.dead
		return
	}
	p.release(c, sessionUse)
}

// openSession tries again for a while when the server refuses: a session that
// ended a moment ago may still count there, since closing is asynchronous.
func (c *conn) openSession(ctx context.Context) (ssh.Channel, <-chan *ssh.Request, error) {
	for wait := 100 * time.Millisecond; ; wait *= 2 {
		ch, reqs, err := c.open(ctx, "session", nil)
		var refused *ssh.OpenChannelError
		if !errors.As(err, &refused) || wait > 800*time.Millisecond {
			return ch, reqs, err
		}
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, nil, context.Cause(ctx)
		case <-c.dead:
			pause.Stop()
			return nil, nil, c.lost()
		}
	}
}

func (c *conn) begin(ch ssh.Channel, reqs <-chan *ssh.Request, fresh bool) *session {
	s := &session{c: c, ch: ch, fresh: fresh, exited: make(chan struct{}), closed: make(chan struct{})}
	// Requests must be read, or they block the whole connection.
	if !c.pool.spawn(func() { s.serve(reqs) }) {
		_ = ch.Close()
		s.serve(reqs)
	}
	return s
}

// serve notes how the command ended. It ends with the channel.
func (s *session) serve(reqs <-chan *ssh.Request) {
	defer close(s.closed)
	known := false
	for r := range reqs {
		exit, ok := parseExit(r)
		if ok && !known {
			known = true
			s.exit = exit
			close(s.exited)
		}
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
	}
}

// parseExit reads exit-status and exit-signal (RFC 4254 §6.10).
func parseExit(r *ssh.Request) (Exit, bool) {
	switch r.Type {
	case "exit-status":
		var m struct{ Status uint32 }
		if ssh.Unmarshal(r.Payload, &m) != nil {
			return Exit{}, false
		}
		return Exit{Code: int(m.Status)}, true
	case "exit-signal":
		var m struct {
			Signal     string
			CoreDumped bool
			Message    string
			Language   string
		}
		if ssh.Unmarshal(r.Payload, &m) != nil {
			return Exit{}, false
		}
		return Exit{Code: 128 + signalNumbers()[m.Signal], Signal: m.Signal}, true
	}
	return Exit{}, false
}

// signalNumbers are those of RFC 4254 that all systems number alike, Linux's for
// the rest.
func signalNumbers() map[string]int {
	return map[string]int{
		"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8, "KILL": 9, "USR1": 10,
		"SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15,
	}
}

// start sends the request that gives the session its content. It stops waiting when ctx ends; the
// host may have started by then.
func (s *session) start(ctx context.Context, kind, content string) error {
	done := make(chan error, 1)
	if !s.c.pool.spawn(func() {
		ok, err := s.ch.SendRequest(kind, true, ssh.Marshal(struct{ Content string }{content}))
		if err == nil && !ok {
			err = errStartRefused
		}
		done <- err
	}) {
		return errPoolClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errStartRefused = errors.New("the host refused to start it")

// end closes the channel and gives the connection back. Safe to call once.
func (s *session) end() {
	_ = s.ch.Close()
	s.c.pool.giveBack(s.c, s.fresh)
}

// abort closes the channel, which ends whatever waits on it once the host confirms. If a host does
// not, its connection is closed.
func (s *session) abort() {
	_ = s.ch.Close()
	patience := time.NewTimer(closeAfter)
	defer patience.Stop()
	select {
	case <-s.closed:
	case <-patience.C:
		s.c.pool.discard(s.c)
		s.c.kill(errNoAnswer)
	}
}

// broken explains a session that ended without an exit status: the connection died,
// or only the session did.
func (s *session) broken(op string) *Error {
	settle := time.NewTimer(time.Second)
	defer settle.Stop()
	select {
	case <-s.c.dead:
		return s.c.e.fail(op, "it was in progress: check the host before running it again, as by turnus exec HOST -i INVENTORY -- COMMAND", false,
			mark(s.c.lost(), core.ErrUnreachable, core.ErrUnknown))
	case <-settle.C: // the connection stands
		return s.c.e.fail(op, "sshd ended the session; see the host's log", false,
			mark(errors.New("session ended without an exit status"), core.ErrUnknown))
	}
}
