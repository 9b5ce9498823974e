package transport

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core"
)

// A command whose input breaks off is ended, and never sees an end of it: it would apply a part.
// Controls: a whole input has an end. Red with CloseWrite after a failed read.
func TestInputThatBreaksOffHasNoEnd(t *testing.T) {
	for name, c := range map[string]struct {
		sudoers, password string
		exec              Exec
	}{
		"the login":                {},
		"with secrets":             {exec: Exec{Secrets: map[string]string{"A": "x"}}},
		"sudo, without a password": {sudoers: asksNothing, exec: Exec{Become: core.Become{User: "root"}}},
		"sudo, with a password":    {sudoers: asks, password: "right horse", exec: Exec{Become: core.Become{User: "root"}}},
	} {
		t.Run(name, func(t *testing.T) {
			h, p, login := elevated(t, c.sudoers, "", c.password)
			for what, breaks := range map[string]bool{"whole": false, "broken": true} {
				e, applied := c.exec, filepath.Join(login.Home, what)
				e.Command, e.Stdin = "cat >/dev/null; echo >"+applied, io.Reader(strings.NewReader("first line\n"))
				if breaks {
					e.Stdin = io.MultiReader(e.Stdin, failing{})
				}
				exit, err := p.Run(testContext(t), h, e)
				if breaks && (err == nil || !strings.Contains(err.Error(), "web1: reading the command's input: tape broken")) {
					t.Errorf("%s: %+v, %v, expected the reader's error", what, exit, err)
				}
				if !breaks && (err != nil || exit != Exit{}) {
					t.Errorf("%s: %+v, %v", what, exit, err)
				}
				if _, err := os.Stat(applied); breaks != errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s: applied: %v", what, err)
				}
			}
		})
	}
}

// The host's end of the same: the command is ended before its input ends.
func TestInputThatBreaksOffEndsTheCommandFirst(t *testing.T) {
	killed, ended := make(chan struct{}), make(chan struct{})
	f := startFake(t, "127.33.0.18", func(f *fake) {
		f.onExec = func(ch ssh.Channel, command, _ string) uint32 {
			if strings.Contains(command, "for sig in TERM KILL") {
				close(killed)
				return 0
			}
			go func() {
				defer close(ended)
				_, _ = io.Copy(io.Discard, ch)
			}()
			select {
			case <-ended:
				return 0
			case <-killed:
				return 143
			}
		}
	})
	p := newPool(t, nil)
	_, err := p.Run(testContext(t), f.host("h"), Exec{Command: "nft -f -", Stdin: io.MultiReader(strings.NewReader("flush ruleset\n"), failing{})})
	if err == nil || !strings.Contains(err.Error(), "tape broken") {
		t.Errorf("got %v, expected the reader's error", err)
	}
	<-ended
}
