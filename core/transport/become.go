package transport

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// sudo and doas are the programs that run a command as another user.
const (
	sudo = core.BecomeSudo
	doas = core.BecomeDoas
)

// elevation is one execution as another user: Become, and the options of sudo.
type elevation struct {
	core.Become
	credential string // name, for errors
	password   string // "" where sudo must not ask
	prompt     string // what sudo prints when it asks; random, so that nothing else prints it
}

// elevate returns how e.Become is carried out on the host; nil for the login itself.
// A password is fetched only where the credential has one, and only for sudo: doas reads
// passwords from a terminal alone.
func (e *endpoint) elevate(ctx context.Context, b core.Become, id string) (*elevation, error) {
	if b.User == "" {
		return nil, nil //nolint:nilnil // the login itself
	}
	up := &elevation{Become: b, credential: e.cred.Name}
	up.Method = cmp.Or(up.Method, sudo)
	if up.Method != sudo || e.cred.BecomePassword == nil {
		return up, nil
	}
	password, err := e.cred.BecomePassword(ctx, e.host)
	if err != nil {
		return nil, e.fail("become", "", true, fmt.Errorf("password of user %s for sudo: %w", e.user, err))
	}
	if strings.ContainsAny(password, "\n\x00") {
		return nil, e.fail("become", "", true, mark(errors.New("the password for sudo holds a line end or a NUL byte"), core.ErrInvalid))
	}
	up.password, up.prompt = password, "turnus-"+newExecID()+id+": "
	return up, nil
}

// mayAsk reports whether sudo may read a password from the command's standard input.
func (up *elevation) mayAsk() bool { return up != nil && up.password != "" }

// hide takes the password out of the host's output before it is shown: a device without a shell
// repeats its input.
func (up *elevation) hide(said []byte) []byte {
	if !up.mayAsk() {
		return said
	}
	return bytes.ReplaceAll(said, []byte(up.password), []byte("***"))
}

// program runs the shell script in $turnus_s as the user; the script gets the leftovers of older
// fences as its arguments. A login that is the user already needs no program.
func (up *elevation) program() string {
	options := "-n -u " + shell.Quote(up.User)
	if up.Method == sudo {
		options = "-n -H -u " + shell.Quote(up.User) + " --"
		if up.mayAsk() {
			// -k: a password that sudo remembers would leave ours in the command's input, or not, by chance.
			options = "-k -S -p " + shell.Quote(up.prompt) + " -H -u " + shell.Quote(up.User) + " --"
		}
	}
	return fmt.Sprintf("[ \"$(id -un)\" != %[3]s ] || exec /bin/sh -c \"$turnus_s\" turnus $turnus_l\n"+
		"command -v %[1]s >/dev/null || { echo 'no program %[1]s on the host' >&2; exit 127; }\n"+
		"exec %[1]s %[2]s /bin/sh -c \"$turnus_s\" turnus $turnus_l\n", up.Method, options, shell.Quote(up.User))
}

// loginWord follows the id in the line that the login's shell prints before it elevates.
const loginWord = ":login"

// proveLogin prints that line.
const proveLogin = "echo " + proofWord + "$" + execIDVar + loginWord + "\n"

// proveElevated prints the proof on both streams: what sudo printed before it is not the command's.
const proveElevated = "echo " + proofWord + "$" + execIDVar + " >&2\n" + proveShell

// input prepares the standard input of the elevated command. sudo takes its password from there;
// where it needs none, the line is left in the input and must not reach the command.
func (up *elevation) input(id string, hasStdin bool) string {
	switch {
	case !up.mayAsk():
		return ""
	case !hasStdin:
		return "exec </dev/null\n"
	}
	return fmt.Sprintf("while read -r turnus_x && [ \"$turnus_x\" != %s ]; do :; done; unset turnus_x\n", inputMark(id))
}

// inputMark is the line after which the command's own input begins.
func inputMark(id string) string { return "input-" + id }

// feed writes the standard input of a command that may ask for a password: the password, and, once
// the elevated shell has shown that it runs, the rest. After a wrong password sudo would take two
// more lines as passwords.
func (x *execution) feed(up *elevation, stdin io.Reader) {
	if _, err := io.WriteString(x.s.ch, up.password+"\n"); err == nil && stdin != nil {
		select {
		case <-x.proof.proved:
			x.pour(io.MultiReader(strings.NewReader(inputMark(x.id)+"\n"), stdin))
			return
		case <-x.proof.refused:
		case <-x.s.exited:
		case <-x.s.closed:
		}
	}
	_ = x.s.ch.CloseWrite()
}

// ErrWrongPassword marks errors of a password that sudo refused: the command did not begin. To try
// it again could lock the account.
var ErrWrongPassword = errors.New("sudo refused the password")

// auditLine matches a line that sudo prints after the reason.
var auditLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^sudo: error initializing audit plugin .*$`) })

// notElevated explains why the command did not begin, from the program's output. The language of
// the output is the host's.
func (up *elevation) notElevated(e *endpoint, said string, asked int, exit Exit) *Error {
	login := e.user
	fail := func(hint, format string, args ...any) *Error {
		return e.fail("become", hint, true, mark(fmt.Errorf("%s as %s: "+format, append([]any{up.Method, up.User}, args...)...), core.ErrInvalid))
	}
	if up.mayAsk() {
		said = strings.ReplaceAll(said, up.prompt, "")
	}
	said = strings.TrimSpace(auditLine().ReplaceAllString(said, ""))
	if i := strings.LastIndexByte(said, '\n'); i >= 0 { // sudo's lecture comes before
		said = said[i+1:]
	}
	if said == "" {
		said = fmt.Sprintf("exit code %d", exit.Code)
	}
	switch {
	// With passwd_tries=1 sudo asks once and counts. The number comes first in most languages.
	case asked > 1, asked == 1 && strings.HasPrefix(said, "sudo: 1 "):
		correct := "give the right one with -K or --become-password-env"
		if up.credential != "" {
			correct = "correct become_password of credential " + up.credential
		}
		wrong := fail(correct+"; the job tries it once, so that the account is not locked", "the password of user %s is wrong", login)
		wrong.Err = mark(wrong.Err, ErrWrongPassword, core.ErrInvalid)
		return wrong
	case exit.Code == 127:
		return fail("install it, or set another become method", "%s", said)
	case strings.Contains(said, "unknown user"):
		return fail("correct the user in become: of the playbook or inventory, or in --become-user", "%s", said)
	case strings.Contains(said, "tty"):
		return fail(fmt.Sprintf("in sudoers, write: Defaults:%s !requiretty", login), "%s", said)
	case up.Method == doas:
		return fail(fmt.Sprintf("in doas.conf, write: permit nopass %s as %s", login, up.User), "%s", said)
	case !up.mayAsk():
		give := "give its password with -K or --become-password-env"
		if up.credential != "" {
			give = "give credential " + up.credential + " a become_password"
		}
		return fail(fmt.Sprintf("%s, or write in sudoers: %s ALL=(%s) NOPASSWD: ALL", give, login, up.User), "%s", said)
	}
	return fail(fmt.Sprintf("in sudoers, write: %s ALL=(%s) ALL", login, up.User), "%s", said)
}
