package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/telemetry"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// Exec is one command.
type Exec struct {
	Command string            // given to /bin/sh -c on the host
	Env     map[string]string // exported before the command; the host's users can see it in the process list, so no secrets
	// Secrets are also exported, but come to the command by its standard input, before Stdin, so that
	// they are in no process list. The host's root and the login itself can read them in
	// /proc/PID/environ.
	Secrets map[string]string
	Stdin   io.Reader   // nil: empty. A Read that blocks outlives Run until it returns; one that fails ends the command
	Stdout  io.Writer   // nil: discarded. Written by one goroutine at a time, never after Run
	Stderr  io.Writer   // may be the same as Stdout
	Fresh   bool        // over a new connection, which is closed afterwards
	Fence   Fence       // of the lease that the command belongs to
	Become  core.Become // runs the command as another user; the zero value is the login
}

// Exit is how a command ended.
type Exit struct {
	Code   int
	Signal string // without SIG, when a signal ended it; Code is then 128+n where known
}

const (
	// maxCommand is the longest argument that Linux takes (128 KiB), less the shell's own.
	maxCommand = 120 << 10
	// maxSecret is the longest variable that Linux takes (128 KiB), with room for its name.
	maxSecret = 120 << 10
	// lingering output is waited for this long after the exit status while nothing
	// comes: a background child that holds stdout would otherwise keep Run for ever.
	outputGrace = 500 * time.Millisecond
	quietRounds = 5 // in which the grace is measured
	// outputLimit bounds it in all, should such a child write on and on.
	outputLimit = 10 * time.Second
	// killAfter TERM comes KILL, and closeAfter KILL the channel is closed.
	killAfter  = 2 * time.Second
	closeAfter = time.Second
)

// Run runs a command to its end, without a terminal, so that a command that prompts ends
// immediately. The error is nil, with any exit code, if a POSIX shell ran the command. The shell
// proves it by a line before the output, which Stdout does not get, nor what the login printed
// before. Output that comes within 500 ms after the exit status is still read. A background child
// that holds stdout open longer keeps running without a reader.
//
// When ctx ends, the remote process group gets TERM, and within 2 s KILL. Run returns when all of
// it has ended, or 7 s later at the latest (22 s as another user) and twice the time that the
// login needed to run the command, up to 30 s. Its *Error wraps ctx's error, and ErrMayRun if the
// host did not confirm the end. Its field Before reports whether the command can have run.
func (p *Pool) Run(ctx context.Context, h core.Host, e Exec) (Exit, error) {
	r, err := p.resolve(h)
	if err != nil {
		return Exit{}, err
	}
	return p.run(ctx, r, e)
}

func (p *Pool) run(ctx context.Context, r route, e Exec) (Exit, error) {
	id, at := newExecID(), r.last()
	command, stdin, err := withSecrets(e, id)
	if err == nil { // before anything is contacted
		_, err = commandLine(e.Fence.script(at.name, e.Become.User != ""), command, e.Env, id, nil, stdin != nil)
	}
	if err == nil {
		err = e.Become.Check()
	}
	if err != nil {
		return Exit{}, at.fail("exec", "", true, mark(err, core.ErrInvalid))
	}
	e.Stdin = stdin
	s, err := p.session(ctx, r, e.Fresh)
	if err != nil {
		return Exit{}, err
	}
	defer s.end()
	ctx, span := telemetry.StartSpan(ctx, telemetry.SpanExec, telemetry.AttributeHost.String(at.name))
	exit, err := s.run(ctx, id, command, e)
	telemetry.EndSpan(span, err)
	return exit, err
}

// run fetches the password that the command may need, now that the host has proved its key, and
// executes the command.
func (s *session) run(ctx context.Context, id, command string, e Exec) (Exit, error) {
	up, err := s.c.e.elevate(ctx, e.Become, id)
	if err != nil {
		return Exit{}, err
	}
	if up.mayAsk() && s.c.unverified {
		return Exit{}, s.c.e.noSecrets("become", "the password for sudo", s.c.pool.trust.scan)
	}
	line, err := commandLine(e.Fence.script(s.c.e.name, up != nil), command, e.Env, id, up, e.Stdin != nil)
	if err != nil {
		return Exit{}, s.c.e.fail("exec", "", true, mark(err, core.ErrInvalid))
	}
	return s.exec(ctx, line, id, e, up)
}

// commandLine runs command by /bin/sh whatever the user's shell is: bash would
// read ~/.bashrc first. sshd refuses most of SSH's own way to set variables.
// id names the execution in the environment of all that it starts. Before the command come
// what the fence asks for, and the proof that a shell runs. As another user the command is the
// script of a second shell, which sudo or doas starts: it inherits no environment, and sets its
// own.
func commandLine(fence, command string, env map[string]string, id string, up *elevation, hasStdin bool) (string, error) {
	var b strings.Builder
	named := "export " + execIDVar + "=" + id + "\n"
	if up == nil {
		b.WriteString(named + fence + proveShell)
	} else {
		b.WriteString(named + endLeftovers + proveElevated + up.input(id, hasStdin))
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !envName(name) {
			return "", fmt.Errorf("environment variable %q: expected letters, digits and _", name)
		}
		b.WriteString("export " + name + "=" + shell.Quote(env[name]) + "\n")
	}
	b.WriteString(command)
	line := "exec /bin/sh -c " + shell.Quote(b.String())
	if up != nil {
		line = "exec /bin/sh -c " + shell.Quote("turnus_s=$1 turnus_l=\n"+named+fence+proveLogin+up.program()) + " turnus " + shell.Quote(b.String())
	}
	if strings.IndexByte(line, 0) >= 0 {
		return "", errors.New("command or environment holds a NUL byte")
	}
	if len(line) > maxCommand {
		return "", fmt.Errorf("command with its environment is %d bytes, expected at most %d: send it as a file and run that", len(line), maxCommand)
	}
	return line, nil
}

// withSecrets returns the command that first reads its secrets, and the input that begins with
// them. The read of sh takes a byte at a time from input in which it cannot seek, so that the
// command finds its own input untouched. Both read and eval are parts of the shell, and so no
// process has a secret among its arguments.
func withSecrets(e Exec, id string) (command string, stdin io.Reader, err error) {
	if len(e.Secrets) == 0 {
		return e.Command, e.Stdin, nil
	}
	var exports strings.Builder
	for _, name := range slices.Sorted(maps.Keys(e.Secrets)) {
		value := e.Secrets[name]
		switch {
		case !envName(name):
			return "", nil, fmt.Errorf("secret %q as an environment variable: expected a name of letters, digits and _", name)
		case strings.IndexByte(value, 0) >= 0:
			return "", nil, fmt.Errorf("secret %s holds a NUL byte: no environment variable can hold one", name)
		case len(value) > maxSecret:
			return "", nil, fmt.Errorf("secret %s has %d bytes: an environment variable holds at most %d; give it to the host as a file", name, len(value), maxSecret)
		}
		exports.WriteString("export " + name + "=" + shell.Quote(value) + "\n")
	}
	end := "end-" + id
	stdin = strings.NewReader(exports.String() + end + "\n")
	if e.Stdin != nil {
		stdin = io.MultiReader(stdin, e.Stdin)
	}
	return fmt.Sprintf(readEnvironment, end, end) + e.Command, stdin, nil
}

const readEnvironment = `turnus_env= turnus_line= turnus_ifs=$IFS; IFS=
while read -r turnus_line && [ "$turnus_line" != %s ]; do turnus_env="$turnus_env$turnus_line
"; done; IFS=$turnus_ifs
[ "$turnus_line" = %s ] || { echo "the secrets of the command did not arrive" >&2; exit 1; }
eval "$turnus_env"; unset turnus_env turnus_line turnus_ifs
`

func envName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// output copies one stream of a session to a writer that must not be touched
// after Run.
type output struct {
	w      io.Writer
	lock   *sync.Mutex   // held while writing; shared where both streams have one writer
	over   *atomic.Bool  // set under lock: write no more
	moved  *atomic.Int64 // monotone nanoseconds of the last progress
	failed chan<- error
	pass   func([]byte) ([]byte, bool) // what of the bytes is the command's, and whether to continue
}

func (o output) copy(from io.Reader, buf []byte) {
	for {
		n, err := from.Read(buf)
		if n > 0 {
			b, more := o.pass(buf[:n])
			if !more {
				o.fail(errNoProof)
				return
			}
			if !o.write(b) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (o output) write(b []byte) bool {
	o.lock.Lock()
	defer o.lock.Unlock()
	if o.over.Load() {
		return false
	}
	if o.w != nil && len(b) > 0 {
		if _, err := o.w.Write(b); err != nil {
			o.fail(fmt.Errorf("writing the command's output: %w", err))
			return false
		}
	}
	o.moved.Add(1)
	return true
}

func (o output) fail(err error) {
	select {
	case o.failed <- err:
	default:
	}
}

// execution is one command under way.
type execution struct {
	id      string // in the command's environment
	s       *session
	up      *elevation // nil: as the login
	proof   *shellProof
	fenced  bool // the command has a fence
	lock    [2]sync.Mutex
	over    atomic.Bool
	moved   atomic.Int64
	failed  chan error    // a local writer or reader failed
	drained chan struct{} // both outputs are at their end
}

// exec runs line over the session and waits for its end.
func (s *session) exec(ctx context.Context, line, id string, e Exec, up *elevation) (Exit, error) {
	x := &execution{s: s, id: id, up: up, proof: newProof(id, up), fenced: e.Fence.Queue != "", failed: make(chan error, 1), drained: make(chan struct{})}
	if err := s.start(ctx, "exec", line); err != nil {
		return Exit{}, x.notStarted(ctx, err)
	}
	if !x.pipe(e) {
		return Exit{}, s.c.e.fail("exec", "", false, errPoolClosed)
	}
	defer x.hush()
	return x.wait(ctx)
}

func (x *execution) notStarted(ctx context.Context, err error) error {
	e := x.s.c.e
	switch {
	case ctx.Err() != nil:
		return mayRun(x.stop(), e.ended(ctx, "exec", false))
	case errors.Is(err, errStartRefused):
		return e.fail("exec", "the login may not run commands; see the host's log: journalctl -u ssh", true, mark(err, core.ErrUnreachable))
	}
	return x.s.broken("exec")
}

// pipe connects the streams. It reports false when the pool is closed.
func (x *execution) pipe(e Exec) bool {
	p := x.s.c.pool
	second := &x.lock[1]
	if e.Stdout != nil && sameWriter(e.Stdout, e.Stderr) {
		second = &x.lock[0]
	}
	out := output{w: e.Stdout, lock: &x.lock[0], over: &x.over, moved: &x.moved, failed: x.failed, pass: x.proof.pass}
	errs := output{w: e.Stderr, lock: second, over: &x.over, moved: &x.moved, failed: x.failed, pass: x.proof.passErrors}
	if !p.spawn(func() {
		defer close(x.drained)
		var both sync.WaitGroup
		both.Go(func() {
			buf := buffer(&p.errBufs, 4<<10)
			errs.copy(x.s.ch.Stderr(), *buf)
			p.errBufs.Put(buf)
		})
		buf := buffer(&p.bufs, 32<<10) // room for one SSH packet
		out.copy(x.s.ch, *buf)
		p.bufs.Put(buf)
		both.Wait()
	}) {
		return false
	}
	if x.up.mayAsk() {
		go x.feed(x.up, e.Stdin) // not joined, as below
		return true
	}
	if e.Stdin == nil {
		_ = x.s.ch.CloseWrite()
		return true
	}
	// Not joined: a Read that blocks is the caller's to end.
	go x.pour(e.Stdin)
	return true
}

// pour writes the standard input of the command. If it cannot be read to its end, the command is
// ended without one: a command that applies its input would take a part for the whole.
func (x *execution) pour(stdin io.Reader) {
	in := &noting{r: stdin}
	_, _ = io.Copy(x.s.ch, in)
	if in.err == nil {
		_ = x.s.ch.CloseWrite()
		return
	}
	if !x.s.hasExited() { // a command that has ended does not need the rest
		output{failed: x.failed}.fail(fmt.Errorf("reading the command's input: %w", in.err))
	}
}

// noting notes why its reader failed: io.Copy does not distinguish that from a failed write.
type noting struct {
	r   io.Reader
	err error
}

func (n *noting) Read(b []byte) (int, error) {
	k, err := n.r.Read(b)
	if err != nil && err != io.EOF {
		n.err = err
	}
	return k, err
}

// buffer is one of those in pool, or a new one of size bytes.
func buffer(pool *sync.Pool, size int) *[]byte {
	if b, ok := pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, size)
	return &b
}

func sameWriter(a, b io.Writer) (same bool) {
	defer func() { _ = recover() }() // writers of a type that cannot be compared
	return a == b
}

// hush makes sure that nothing is written after Run.
func (x *execution) hush() {
	for i := range x.lock {
		x.lock[i].Lock()
		x.over.Store(true)
		x.lock[i].Unlock()
	}
}

// wait returns when the command has ended and its output was read, or when one
// of the limits is reached.
func (x *execution) wait(ctx context.Context) (Exit, error) {
	s := x.s
	select {
	case <-s.exited:
	case <-s.closed:
	case err := <-x.failed:
		ended := x.stop()
		if ctx.Err() != nil { // which also ends readers and writers
			return s.exitSoFar(), mayRun(ended, s.c.e.ended(ctx, "exec", false))
		}
		return Exit{}, mayRun(ended, x.broken(err))
	case <-ctx.Done():
		if !s.hasExited() {
			ended := x.stop()
			return s.exitSoFar(), mayRun(ended, s.c.e.ended(ctx, "exec", false))
		}
		// It ended before it was asked to, which this process may see late: how it ended is known.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), killAfter)
		defer cancel()
	}
	x.drain(ctx, outputGrace+4*s.c.rtt)
	select {
	case err := <-x.failed:
		return s.exitSoFar(), x.broken(err)
	case <-s.exited:
		switch ok, stale := x.proved(ctx); {
		case !ok && x.fenced && s.exit.Signal != "": // before it began: a command with a newer fence ended it
			return Exit{}, s.c.e.stale()
		case !ok:
			return Exit{}, x.proof.missing(s.c.e, s.exit, x.up)
		case stale:
			return Exit{}, s.c.e.stale()
		}
		return s.exit, nil
	default:
	}
	if ctx.Err() != nil {
		return Exit{}, s.c.e.ended(ctx, "exec", false)
	}
	return Exit{}, s.broken("exec")
}

// proved waits for the proof while output may still come: only its end shows that there is none.
func (x *execution) proved(ctx context.Context) (ok, stale bool) {
	if ok, stale := x.proof.given(); ok {
		return ok, stale
	}
	limit := time.NewTimer(outputLimit)
	defer limit.Stop()
	select {
	case <-x.drained:
	case <-ctx.Done():
	case <-limit.C:
	}
	return x.proof.given()
}

// broken is why a stream of the command could not be passed on.
func (x *execution) broken(err error) error {
	if errors.Is(err, errNoShell) {
		return x.s.c.e.fail("exec", noShellHint, false, mark(err, core.ErrInvalid))
	}
	return fmt.Errorf("%s: %w", x.s.c.e.name, err)
}

func (s *session) hasExited() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

func (s *session) exitSoFar() Exit {
	if s.hasExited() {
		return s.exit
	}
	return Exit{}
}

// drain reads the output that the command wrote before it ended. It returns when both outputs end,
// when nothing moved for grace, or after outputLimit. Once the host has closed the session, the
// rest of the output is here already: it is read to its end, however slowly this process gets
// along.
func (x *execution) drain(ctx context.Context, grace time.Duration) {
	select {
	case <-x.drained:
		return
	default:
	}
	limit := time.NewTimer(outputLimit)
	defer limit.Stop()
	// Several short rounds, each timed from the last: a process
	// that was stopped would see a single long one pass in one step.
	silence := time.NewTimer(grace / quietRounds)
	defer silence.Stop()
	before := int64(-1)
	for quiet := 0; quiet < quietRounds; {
		select {
		case <-x.drained:
			return
		case <-x.s.closed:
			select {
			case <-x.drained:
			case <-ctx.Done():
			}
			return
		case <-silence.C:
			quiet++
			if now := x.moved.Load(); now != before || x.writing() {
				before, quiet = now, 0
			}
			silence.Reset(grace / quietRounds)
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// writing reports whether a local writer is busy: then it is not the host that is silent.
func (x *execution) writing() bool {
	for i := range x.lock {
		if !x.lock[i].TryLock() {
			return true
		}
		x.lock[i].Unlock()
	}
	return false
}
