package transport

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

// undrained runs a command as Run does, without the lines that drop a password from its input.
func undrained(ctx context.Context, t *testing.T, p *Pool, h core.Host, e Exec) error {
	t.Helper()
	r, err := p.resolve(h)
	if err != nil {
		return err
	}
	s, err := p.session(ctx, r, e.Fresh)
	if err != nil {
		return err
	}
	defer s.end()
	id := newExecID()
	up, err := s.c.e.elevate(ctx, e.Become, id)
	if err != nil {
		return err
	}
	line, err := commandLine("", e.Command, e.Env, id, up, e.Stdin != nil)
	if err != nil {
		return err
	}
	drain := up.input(id, true)
	if strings.Count(line, drain) != 1 {
		t.Errorf("the command line %q does not have %q", line, drain)
		return nil
	}
	_, err = s.exec(ctx, strings.Replace(line, drain, "", 1), id, e, up)
	return err
}

// Without the lines that drop it, a password that sudo did not ask for is in the command's input,
// and so in the file that is written. Control: Run drops it.
func TestBecomeWithoutDrainShowsThePassword(t *testing.T) {
	t.Parallel()
	const password = "right horse"
	h, p, _ := elevated(t, asksNothing, "", password)
	for name, drains := range map[string]bool{"without the drain": false, "control": true} {
		var out strings.Builder
		e := Exec{Command: "cat", Stdin: strings.NewReader("input\n"), Stdout: &out, Stderr: io.Discard, Become: core.Become{User: "root"}}
		var err error
		if drains {
			_, err = p.Run(testContext(t), h, e)
		} else {
			err = undrained(testContext(t), t, p, h, e)
		}
		if err != nil || strings.Contains(out.String(), password) == drains || !strings.HasSuffix(out.String(), "input\n") {
			t.Errorf("%s: %q, %v", name, out.String(), err)
		}
	}
}
