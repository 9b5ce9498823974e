package fleet

import (
	"context"
	"errors"
	"io"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

func itoa(n int) string { return strconv.Itoa(n) }

// maxCommand bounds a command line; sshd's limit is the packet.
const maxCommand = 1 << 20

// signalled is why a command was ended from outside.
type signalled string

func (s signalled) Error() string { return "ended by SIG" + string(s) }

// Command is one exec request as a Handler sees it.
type Command struct {
	Host   string
	Line   string            // as the client sent it
	Script string            // what the innermost /bin/sh -c would run, without leading exports
	Env    map[string]string // of env requests and leading exports
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// session is one session channel: at most one command or subsystem.
type session struct {
	conn *conn
	ch   ssh.Channel
	env  map[string]string
	work sync.WaitGroup
	once sync.Once // exit
}

// serve answers the channel's requests until the client closes it, then ends
// and joins the command.
func (s *session) serve(ctx context.Context, requests <-chan *ssh.Request) {
	ctx, kill := context.WithCancelCause(ctx)
	started := false
	for r := range requests {
		ok := true
		switch r.Type {
		case "env":
			ok = s.setEnv(r.Payload)
		case "pty-req", "window-change", "eow@openssh.com":
		case "exec", "shell", "subsystem":
			ok = !started && s.start(ctx, kill, r)
			started = started || ok
		case "signal":
			s.signal(kill, r.Payload)
		default: // also keepalive@openssh.com
			ok = false
		}
		if r.WantReply && r.Type != "exec" && r.Type != "shell" && r.Type != "subsystem" {
			_ = r.Reply(ok, nil) // when it fails, requests will be closed
		}
	}
	kill(signalled("HUP"))
	s.work.Wait()
	_ = s.ch.Close() // the client closed it, or the command's end did
}

func (s *session) setEnv(payload []byte) bool {
	var kv struct{ Key, Value string }
	if ssh.Unmarshal(payload, &kv) != nil || len(s.env) >= 256 {
		return false
	}
	s.env[kv.Key] = kv.Value
	return true
}

func (s *session) signal(kill context.CancelCauseFunc, payload []byte) {
	var sig struct{ Name string }
	if ssh.Unmarshal(payload, &sig) == nil {
		s.conn.host.deliver(kill, sig.Name)
	}
}

// deliver ends a command with a signal, unless the host ignores it.
func (h *host) deliver(kill context.CancelCauseFunc, name string) {
	switch name {
	case "KILL":
		kill(signalled(name))
	case "TERM", "INT", "HUP", "QUIT":
		if !h.profile.Load().IgnoreTerm {
			kill(signalled(name))
		}
	}
}

// start begins what the request asks for, and replies before the first output.
func (s *session) start(ctx context.Context, kill context.CancelCauseFunc, r *ssh.Request) bool {
	var arg struct{ Text string }
	if r.Type != "shell" && (ssh.Unmarshal(r.Payload, &arg) != nil || len(arg.Text) > maxCommand) ||
		r.Type == "subsystem" && arg.Text != "sftp" {
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
		return false
	}
	if r.WantReply {
		_ = r.Reply(true, nil)
	}
	switch r.Type {
	case "subsystem":
		s.work.Go(s.sftp)
	case "shell":
		s.work.Go(func() { s.shell(ctx, kill) })
	default:
		s.work.Go(func() { s.exec(ctx, kill, arg.Text) })
	}
	return true
}

func (s *session) sftp() {
	files := &sftpFiles{fs: &s.conn.host.fs}
	server := sftp.NewRequestServer(s.ch, sftp.Handlers{FileGet: files, FilePut: files, FileCmd: files, FileList: files})
	code := 0
	if err := server.Serve(); err != nil && !errors.Is(err, io.EOF) {
		code = 1
	}
	s.exit(code, nil)
}

// shell runs what the client types until it ends its input.
func (s *session) shell(ctx context.Context, kill context.CancelCauseFunc) {
	script, err := io.ReadAll(io.LimitReader(s.ch, maxCommand))
	if err != nil {
		return
	}
	s.exec(ctx, kill, string(script))
}

// exec runs one command with the host's faults.
func (s *session) exec(ctx context.Context, kill context.CancelCauseFunc, line string) {
	h, f := s.conn.host, s.conn.fleet
	f.stats.commands.Add(1)
	p := h.profile.Load()
	pid := h.begin(kill, line)
	defer h.end(pid)
	// A killed command may be stuck in reading or writing: reporting its end and
	// closing the channel sets it free.
	stop := context.AfterFunc(ctx, func() { s.exit(0, context.Cause(ctx)) })
	defer stop()
	if p.Hang || !wait(ctx, p.Latency) {
		<-ctx.Done()
		s.exit(0, context.Cause(ctx))
		return
	}
	sh := newShell(h, s.env, pid, stdio{in: s.ch, out: s.ch, err: s.ch.Stderr()})
	script, begins := s.prove(ctx, sh, line)
	if !begins {
		s.exit(sh.status, context.Cause(ctx))
		return
	}
	switch {
	case p.Reset, p.Cut:
		_, _ = io.WriteString(s.ch, "partial output of "+h.name+"\n") // the connection ends in any case
		if p.Reset {
			reset(s.conn.tcp)
		} else {
			_ = s.conn.tcp.Close()
		}
		return
	case p.ExitCode != 0:
		_, _ = io.WriteString(s.ch.Stderr(), p.Stderr) // a lost client gets nothing
		s.exit(p.ExitCode, nil)
		return
	}
	if p.Binary {
		_, _ = s.ch.Write(allBytes()) // a lost client ends ctx
	}
	if p.Flood > 0 {
		_ = floodTo(ctx, s.ch, p.Flood) // the same
	}
	code := s.answer(ctx, sh, line, script)
	s.exit(code, context.Cause(ctx))
}

// proveShell is the statement by which a client's line proves that a shell ran it, after what may
// refuse its lease. Answers by the host's profile, or by the fleet's owner, come after the proof,
// as if a shell had run.
const proveShell = "echo turnus:$TURNUS_EXEC\n"

// prove runs a line up to the proof and returns the rest, and whether to run it. A line without a
// proof is returned whole.
func (s *session) prove(ctx context.Context, sh *shell, line string) (rest string, begins bool) {
	if !strings.Contains(line, proveShell) {
		return line, true
	}
	quoted, ok := strings.CutPrefix(line, "exec /bin/sh -c '")
	quoted, ended := strings.CutSuffix(quoted, "'")
	inner := strings.ReplaceAll(quoted, `'\''`, "'")
	if quotes := strings.Count(quoted, "'"); !ok || !ended || quotes != 3*(strings.Count(inner, "'")) {
		return line, true // it is no word that a client has quoted
	}
	before, after, _ := strings.Cut(inner, proveShell)
	if sh.tree(ctx, s.conn.fleet.scripts.parseOnce, before); sh.done || ctx.Err() != nil {
		return "", false
	}
	_, err := io.WriteString(s.ch, "turnus:"+sh.vars["TURNUS_EXEC"].text+"\n")
	return after, err == nil
}

// answer lets the fleet's owner answer first, then the interpreter.
func (s *session) answer(ctx context.Context, sh *shell, line, script string) int {
	h, f := s.conn.host, s.conn.fleet
	if f.cfg.Handle != nil {
		script, env := f.scripts.unwrap(script)
		maps.Copy(env, s.env)
		if id := sh.vars["TURNUS_EXEC"].text; id != "" {
			env["TURNUS_EXEC"] = id
		}
		c := Command{Host: h.name, Line: line, Script: script, Env: env, Stdin: sh.in, Stdout: sh.out, Stderr: sh.err}
		if code, ok := f.cfg.Handle(ctx, c); ok {
			return code
		}
	}
	return sh.main(ctx, script)
}

// exit reports how the command ended and closes the channel, which ends serve. Only the first call
// counts.
func (s *session) exit(code int, cause error) {
	s.once.Do(func() {
		if sig, ok := errors.AsType[signalled](cause); ok {
			_, _ = s.ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
				Name  string
				Core  bool
				Error string
				Lang  string
			}{Name: string(sig)})) // a lost client gets nothing
		} else {
			_, _ = s.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)}))
		}
		_ = s.ch.Close() // fails only when it is closed already
	})
}

// rebootDelay is how long a command continues behind its reboot.
const rebootDelay = time.Second
