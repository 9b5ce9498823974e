package host

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/redact"
	"github.com/turnus/turnus/core/transport"
)

// withSecret gives a call a secret, as the worker does.
func withSecret(t *testing.T, c Call, name, value string) Call {
	t.Helper()
	hidden, err := redact.New(redact.Value{Name: name, Bytes: []byte(value)})
	if err != nil {
		t.Fatal(err)
	}
	c.Secrets, c.Hidden = map[string][]byte{name: []byte(value)}, hidden
	return c
}

// secrets are the variables of a lab's command: one, or N, with the secret that Text names.
func (p labParams) secrets() map[string]string {
	env := map[string]string{"VAR": p.Text}
	for len(env) < p.N {
		env[fmt.Sprint("VAR", len(env))] = p.Text
	}
	return env
}

// The output of a process is in the worker's log, and so are errors of its calls: neither shows
// what a call was given, also when another call of the process prints it. A value that no call was
// given is shown.
func TestProcessesPrintNoSecret(t *testing.T) {
	const value, other = "geheim/4711", "nobody-was-given-this"
	b := open(t, &fleet{})
	b.must(t, withSecret(t, call("say", labParams{Text: "first " + value}), "token", value))
	b.must(t, call("say", labParams{Text: "second " + hex.EncodeToString([]byte(value)) + " " + other}))
	for _, op := range []string{"error", "panic"} {
		out, err := b.Run(t.Context(), withSecret(t, call("say", labParams{Text: "third " + value, Op: op}), "token", value))
		if err == nil || !out.Failed {
			t.Errorf("%s: %+v, %v", op, out, err)
		}
	}
	for _, line := range []string{"first [secret token]", "second [secret token] " + other, "gave up with third [secret token]", "panic with third [secret token]"} {
		until(t, line+" in the log", b.log.has(line))
	}
	if text := b.log.String(); strings.Contains(text, value) || strings.Contains(text, hex.EncodeToString([]byte(value))) {
		t.Errorf("the log shows the secret: %s", text)
	}
}

// A process that was given too many secrets makes room for another.
func TestProcessesWithManySecretsAreReplaced(t *testing.T) {
	b := open(t, &fleet{})
	first := b.must(t, call("echo", labParams{}))["pid"]
	hidden, err := redact.New()
	if err != nil {
		t.Fatal(err)
	}
	for i := range redact.MaxValues/2 + 1 {
		if err := hidden.Add(redact.Value{Name: "n", Bytes: hex.AppendEncode(nil, []byte{byte(i >> 8), byte(i), 7})}); err != nil {
			t.Fatal(err)
		}
	}
	c := call("echo", labParams{})
	c.Hidden = hidden
	if out, err := b.Run(t.Context(), c); err != nil || out.Failed { // its process may be gone already: it is not looked for
		t.Fatalf("%+v, %v", out, err)
	}
	if again := b.must(t, call("echo", labParams{}))["pid"]; again == first {
		t.Errorf("process %v takes calls still", again)
	}
}

// Variables that are secrets reach the host by the names that the lease has, and no other way; any
// other name is refused, and nothing runs.
func TestSecretsOfCommandsAreTheLeases(t *testing.T) {
	var seen []transport.Exec
	b := open(t, &fleet{run: func(_ context.Context, _ core.Host, e transport.Exec) (transport.Exit, error) {
		seen = append(seen, e)
		return transport.Exit{}, nil
	}})
	c := withSecret(t, call("op", labParams{}), "token", "hunter2")
	for _, op := range []string{"secret command", "secret exec"} {
		if code, text := b.op(t, c, labParams{Op: op, Text: "token"}); code != "OK" {
			t.Errorf("%s: %s %s", op, code, text)
		}
		if code, text := b.op(t, c, labParams{Op: op, Text: "other"}); code != "PermissionDenied" || !strings.Contains(text, "other") {
			t.Errorf("%s of a secret that the step does not list: %s %s", op, code, text)
		}
	}
	if len(seen) != 2 {
		t.Fatalf("%d commands ran, expected 2", len(seen))
	}
	for _, e := range seen {
		if !maps.Equal(e.Secrets, map[string]string{"VAR": "hunter2"}) || len(e.Env) != 0 || strings.Contains(e.Command, "hunter2") {
			t.Errorf("%+v", e)
		}
	}
	if code, text := b.op(t, call("op", labParams{}), labParams{Op: "secret", Text: "token"}); code != "PermissionDenied" || !strings.Contains(text, "it lists none") {
		t.Errorf("a step without secrets: %s %s", code, text)
	}
}

// Each variable has a copy of its secret's value: a call of a few MiB must not fill the memory. Red
// without the bound: the command ran.
func TestVariablesThatAreSecretsAreBounded(t *testing.T) {
	b := open(t, &fleet{})
	c := withSecret(t, call("op", labParams{}), "token", "hunter2")
	for _, op := range []string{"secret command", "secret exec"} {
		if code, text := b.op(t, c, labParams{Op: op, Text: "token", N: maxSecretVariables}); code != "OK" {
			t.Errorf("%s: %s %s", op, code, text)
		}
		code, text := b.op(t, c, labParams{Op: op, Text: "token", N: maxSecretVariables + 1})
		if code != "InvalidArgument" || !strings.Contains(text, "257 variables of the command are secrets: expected at most 256") {
			t.Errorf("%s, one more: %s %s", op, code, text)
		}
	}
}
