package transport

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
)

// proofWord begins the line that a shell prints before the command. The line holds the id of the
// execution, which the shell takes from a variable: what repeats the text of the command does not
// print it.
const proofWord = "turnus:"

// proveShell prints the proof. It is the first command after the variable was exported.
const proveShell = "echo " + proofWord + "$" + execIDVar + "\n"

// maxGreeting is how much a login may print before the proof: a message of the day, the output of
// ~/.bashrc.
const maxGreeting = 64 << 10

// shellProof takes the line out of a command's standard output, with what the login printed before
// it. Of an elevated command it also takes out of the standard error what comes before the same
// line there.
type shellProof struct {
	line    []byte
	prompt  []byte        // of sudo; nil where nothing asks
	proved  chan struct{} // closed with ok
	refused chan struct{} // closed when sudo asked again

	began time.Time

	mu      sync.Mutex
	took    time.Duration // from began to the proof
	ok      bool
	login   bool   // the login's shell ran: what is missing is the other user's
	stale   bool   // the command did not begin: its fence is older than one that the host saw
	asked   int    // times that sudo asked for the password
	errsOK  bool   // the standard error is the command's from here on
	said    []byte // before the proof
	errs    []byte // the beginning of the standard error, for people who read why there was no proof
	errsOut []byte // of the standard error, what may be the beginning of the line
}

func newProof(id string, up *elevation) *shellProof {
	p := &shellProof{began: time.Now(), line: []byte(proofWord + id), proved: make(chan struct{}), refused: make(chan struct{}), errsOK: up == nil}
	if up.mayAsk() {
		p.prompt = []byte(up.prompt)
	}
	return p
}

// pass returns what of b belongs to the command, and false when no proof can be expected any more.
func (p *shellProof) pass(b []byte) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ok {
		return b, true
	}
	from := max(0, len(p.said)-len(p.line)-len(fenceStale))
	p.said = append(p.said, b...)
	for {
		i := bytes.Index(p.said[from:], p.line)
		if i < 0 {
			return nil, len(p.said) <= maxGreeting
		}
		word, rest, ended := bytes.Cut(p.said[from+i+len(p.line):], []byte{'\n'})
		switch {
		case !ended:
			return nil, len(p.said) <= maxGreeting
		case string(word) == loginWord:
			p.login, p.said, from = true, rest, 0
			continue
		}
		p.ok, p.said, p.stale = true, nil, string(word) == fenceStale
		p.took = time.Since(p.began)
		close(p.proved)
		return rest, true
	}
}

// passErrors returns what of b, of the standard error, belongs to the command. It keeps the
// beginning of the rest.
func (p *shellProof) passErrors(b []byte) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ok && len(p.errs) < maxQuoted {
		p.errs = append(p.errs, b[:min(len(b), maxQuoted-len(p.errs))]...)
	}
	if p.errsOK {
		return b, true
	}
	p.errsOut = append(p.errsOut, b...)
	if _, rest, ok := bytes.Cut(p.errsOut, append(p.line, '\n')); ok {
		p.errsOK, p.errsOut = true, nil
		return rest, true
	}
	if p.prompt != nil {
		asked := bytes.Count(p.errsOut, p.prompt)
		if asked > 1 && p.asked <= 1 {
			close(p.refused)
		}
		p.asked = asked
	}
	return nil, len(p.errsOut) <= maxGreeting
}

// lag returns how long the login took to run the command, or how long it has taken so far.
func (p *shellProof) lag() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ok {
		return p.took
	}
	return time.Since(p.began)
}

// given reports whether a POSIX shell ran, and whether it refused the command's fence.
func (p *shellProof) given() (ok, stale bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ok, p.stale
}

// maxQuoted bounds what an error repeats of a host's words.
const maxQuoted = 200

var (
	errNoShell  = errors.New("the host did not run the command in a POSIX shell")
	errNoProof  = fmt.Errorf("%w: it printed more than %d bytes without one", errNoShell, maxGreeting)
	noShellHint = "give the login a POSIX shell (usermod -s /bin/sh USER), or have its ForceCommand run SSH_ORIGINAL_COMMAND; commands cannot be run on a device that has a command line of its own"
)

// missing returns an error with the host's output, where a shell did not run the command.
func (p *shellProof) missing(e *endpoint, exit Exit, up *elevation) *Error {
	p.mu.Lock()
	if p.login && up != nil {
		defer p.mu.Unlock()
		errs := up.hide(p.errsOut)
		return up.notElevated(e, string(errs[:min(len(errs), 4<<10)]), p.asked, exit)
	}
	quoted := func(said []byte) string {
		said = up.hide(said)
		return strings.TrimSpace(string(said[:min(len(said), maxQuoted)]))
	}
	said := quoted(p.said)
	switch {
	case said != "":
	case up != nil:
		said = quoted(p.errsOut)
	default:
		said = quoted(p.errs)
	}
	p.mu.Unlock()
	end := fmt.Sprintf("it ended with exit code %d", exit.Code)
	if exit.Signal != "" {
		end = "it was ended by SIG" + exit.Signal
	}
	if said != "" {
		end += fmt.Sprintf(" and said %q", said)
	}
	return e.fail("exec", noShellHint, false, mark(fmt.Errorf("%w: %s", errNoShell, end), core.ErrInvalid))
}
