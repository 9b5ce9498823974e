package transport

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/turnus/turnus/core"
)

// proofWord begins the line that a shell prints before the command. The line holds the id of the
// execution, which the shell takes from a variable: what repeats the text of the command does not
// print it.
const proofWord = "turnus:"

// proveShell prints the proof. It is the first command after the variable was exported.
const proveShell = "echo " + proofWord + "$" + execIDVar + "\n"

// maxGreeting is how much a login may print before the proof: a message of the day, what ~/.bashrc says.
const maxGreeting = 64 << 10

// shellProof takes the line out of a command's standard output, with what the login printed before it.
type shellProof struct {
	line []byte

	mu    sync.Mutex
	ok    bool
	stale bool   // the command did not begin: its fence is older than one that the host saw
	said  []byte // before the proof
	errs  []byte // the beginning of the standard error, for who reads why there was no proof
}

func newProof(id string) *shellProof { return &shellProof{line: []byte(proofWord + id)} }

// pass returns what of b belongs to the command, and false when no proof can be expected any more.
func (p *shellProof) pass(b []byte) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ok {
		return b, true
	}
	from := max(0, len(p.said)-len(p.line)-len(fenceStale))
	p.said = append(p.said, b...)
	i := bytes.Index(p.said[from:], p.line)
	if i < 0 {
		return nil, len(p.said) <= maxGreeting
	}
	word, rest, ended := bytes.Cut(p.said[from+i+len(p.line):], []byte{'\n'})
	if !ended {
		return nil, len(p.said) <= maxGreeting
	}
	p.ok, p.said, p.stale = true, nil, string(word) == fenceStale
	return rest, true
}

// overhear keeps the beginning of the standard error.
func (p *shellProof) overhear(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ok && len(p.errs) < maxQuoted {
		p.errs = append(p.errs, b[:min(len(b), maxQuoted-len(p.errs))]...)
	}
}

// given tells whether a POSIX shell ran, and whether it refused the command's fence.
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
	noShellHint = "give the login a POSIX shell, or have its ForceCommand run SSH_ORIGINAL_COMMAND; commands cannot be run on a device that has a command line of its own"
)

// missing says what the host answered instead of running a shell.
func (p *shellProof) missing(e *endpoint, exit Exit) *Error {
	p.mu.Lock()
	said := strings.TrimSpace(string(p.said[:min(len(p.said), maxQuoted)]))
	if said == "" {
		said = strings.TrimSpace(string(p.errs))
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
