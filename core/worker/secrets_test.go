package worker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/redact"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/snapshot"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

// vault is where the secrets of a test are.
type vault struct {
	values map[string]string
	err    func(n int, a secrets.Ask) error // of the n-th ask, from 1
	asked  []secrets.Ask
}

func (v *vault) resolve(_ context.Context, a secrets.Ask) ([]byte, error) {
	v.asked = append(v.asked, a)
	if v.err != nil {
		if err := v.err(len(v.asked), a); err != nil {
			return nil, err
		}
	}
	if value, ok := v.values[a.Name]; ok {
		return []byte(value), nil
	}
	return nil, fmt.Errorf("secret %s: %w", a.Name, core.ErrNotFound)
}

func (v *vault) names() string {
	var out []string
	for _, a := range v.asked {
		out = append(out, a.Name)
	}
	return strings.Join(out, " ")
}

// guarded runs steps on one host with secrets, and returns the result, and all that was sent or
// kept as text.
func (l *lab) guarded(v *vault, steps string, changes ...change) (core.Result, string) {
	l.t.Helper()
	c := l.config()
	c.Secret = v.resolve
	var states []string
	c.Queue = spying{c.Queue, func(data []byte) { states = append(states, string(data)) }}
	la := l.submit("r", 1, steps, changes...)
	n := l.startWith(c, func(w *Worker) {
		if l.careless {
			w.conceal = func(*redact.Set, ...redact.Value) error { return nil }
		}
	})
	res := l.results(la)
	n.drain()
	if len(res) != 1 {
		l.t.Fatalf("%d results, expected 1: %+v", len(res), res)
	}
	reported, err := json.Marshal(res)
	if err != nil {
		l.t.Fatal(err)
	}
	text := string(reported) + string(la.Run.Payload) + strings.Join(states, "\n")
	for _, e := range l.events {
		data, err := json.Marshal(e)
		if err != nil {
			l.t.Fatal(err)
		}
		text += string(e.Stdout) + string(e.Stderr) + string(data)
	}
	return res[0], text
}

// spying sees the states that a node gives its queue.
type spying struct {
	queue.Worker
	see func([]byte)
}

func (s spying) Save(ctx context.Context, save queue.Save) error {
	s.see(save.State)
	return s.Worker.Save(ctx, save)
}

const token, pass2 = "tok-4711/geheim", "correct horse battery"

func TestSecretsShowInNothingThatAJobReports(t *testing.T) {
	inLab(t, func(l *lab) {
		v := &vault{values: map[string]string{"api-token": token, "db": pass2}}
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			if got := string(c.Secrets["TOKEN"]); c.Step == "first" && got != token {
				t.Errorf("the job type got %q", got)
			}
			coded := base64.StdEncoding.EncodeToString([]byte("user:" + token))
			for _, b := range []byte("stdout " + token + " and " + coded + "\n") {
				c.Sink(host.Event{Stdout: []byte{b}})
			}
			c.Sink(host.Event{Stderr: []byte("err " + token[:5])})
			c.Sink(host.Event{Stderr: []byte(token[5:])})
			c.Sink(host.Event{DiffTitle: "/etc/" + token, Diff: "+" + token + "\n"})
			c.Sink(host.Event{Log: "logged in with " + token})
			c.Sink(host.Event{Phase: "using " + token, Done: 0.5})
			if err := c.Checkpoint(ctx, host.State{Version: 1, JSON: json.RawMessage(`{"at":1}`)}); err != nil {
				t.Errorf("a state without secrets: %v", err)
			}
			out := map[string]any{"plain": "is " + token, "code": coded, "list": []any{map[string]any{token: "x"}}}
			if c.Step == "first" && c.Attempt == 1 {
				return host.Outcome{Failed: true, Retryable: true, Reason: "401 for " + token, Outputs: out}, nil
			}
			return host.Outcome{Changed: true, Reason: "with " + token, Outputs: out}, nil
		}
		r, reported := l.guarded(v, `
steps:
  - {name: first, uses: command, secrets: {TOKEN: api-token}, retry: {attempts: 2, interval: 1s}, with: {run: x}}
  - {name: second, uses: command, with: {run: "${{ steps.first.outputs.plain }}"}}
`)
		if r.Outcome != core.Changed || len(r.Steps) != 2 {
			t.Fatalf("%+v", r)
		}
		for name, form := range map[string]string{"plain": token, "base64": base64.StdEncoding.EncodeToString([]byte(token))[4:12]} {
			if strings.Contains(reported, form) {
				t.Errorf("%s is in %s", name, reported)
			}
		}
		if s := r.Steps[0]; s.Stdout != "stdout [secret api-token] and dXNlcjp[secret api-token]0=\n" || s.Stderr != "err [secret api-token]" {
			t.Errorf("stdout %q, stderr %q", s.Stdout, s.Stderr)
		}
		calls := l.plugins.seen()
		if len(calls) != 3 || len(calls[2].Secrets) != 0 || params(calls[2])["run"] != "is [secret api-token]" {
			t.Errorf("%s; the second step has %d secrets, and params %s", l.plugins.steps(), len(calls[2].Secrets), calls[2].Params)
		}
		if v.names() != "api-token api-token" {
			t.Errorf("asked for %s, expected once an attempt, and not again for the step that has none", v.names())
		}
		if !calls[0].Host.SSH.Verified || !calls[1].Host.SSH.Verified || calls[2].Host.SSH.Verified {
			t.Error("calls with secrets, and only these, need a verified host key")
		}
		a := v.asked[0]
		if a.Playbook != "test" || a.Host.Name != "h00000" || a.Encrypted == nil {
			t.Errorf("asked with %+v", a)
		}
	})
}

// Negative: where the values are not concealed, the very same search finds them wherever a job
// reports something.
func TestSecretsThatAreNotConcealedAreSeen(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
			c.Sink(host.Event{Stdout: []byte("stdout " + token + "\n")})
			c.Sink(host.Event{Diff: "+" + token + "\n"})
			c.Sink(host.Event{Log: "log " + token})
			if err := c.Checkpoint(ctx, host.State{JSON: json.RawMessage(`"` + token + `"`)}); err != nil {
				t.Error(err)
			}
			return host.Outcome{Failed: true, Reason: "reason " + token, Outputs: map[string]any{"x": "output " + token}}, nil
		}
		l.careless = true
		_, reported := l.guarded(&vault{values: map[string]string{"api": token}}, "steps: [{name: first, uses: command, secrets: [api], with: {run: x}}]\n")
		for _, where := range []string{"stdout " + token, `"diff":"+` + token, "log " + token, "reason " + token, "output " + token, `"json":"` + token} {
			if !strings.Contains(reported, where) {
				t.Errorf("%q is not seen in %s", where, reported)
			}
		}
	})
}

func TestSecretsInParams(t *testing.T) {
	inLab(t, func(l *lab) {
		v := &vault{values: map[string]string{"api": token}}
		r, reported := l.guarded(v, `
steps:
  - {name: a, uses: api, foreach: [x, y], secrets: [api], with: {token: "Bearer ${{ secrets.api }} for ${{ item }}"}}
`)
		calls := l.plugins.seen()
		if r.Outcome != core.Unchanged || len(calls) != 2 || params(calls[1])["token"] != "Bearer "+token+" for y" {
			t.Errorf("%+v, %s", r, l.plugins.steps())
		}
		if strings.Contains(reported, token) {
			t.Error(reported)
		}
	})
	inLab(t, func(l *lab) { // the worker's own plugin declares other than the one that the playbook was checked against
		r, _ := l.guarded(&vault{values: map[string]string{"api": token}}, `
steps:
  - {name: a, uses: api, secrets: [api], with: {url: "https://x/${{ secrets.api }}"}}
`)
		if r.Outcome != core.Failed || !strings.Contains(r.Reason, `param "url" takes no secrets`) || len(l.plugins.seen()) != 0 {
			t.Errorf("%s: %s", r.Outcome, r.Reason)
		}
	})
}

func TestAStateMayHoldNoSecret(t *testing.T) {
	const steps = "steps: [{name: a, uses: command, secrets: [db], with: {run: x}}]\n"
	escaped := `{"pw":"` + strings.ReplaceAll(pass2, "c", `\u0063`) + `"}`
	for _, state := range []string{`{"pw":"` + pass2 + `"}`, escaped} {
		inLab(t, func(l *lab) {
			var refused error
			l.plugins.do = func(ctx context.Context, c host.Call) (host.Outcome, error) {
				refused = c.Checkpoint(ctx, host.State{JSON: json.RawMessage(state)})
				return host.Outcome{Suspended: true, State: &host.State{JSON: json.RawMessage(state)}}, nil
			}
			r, reported := l.guarded(&vault{values: map[string]string{"db": pass2}}, steps)
			if refused == nil || !errors.Is(refused, core.ErrInvalid) || !strings.Contains(refused.Error(), "job type command holds the value of secret db") {
				t.Errorf("checkpoint: %v", refused)
			}
			if r.Outcome != core.Failed || !strings.Contains(r.Reason, "job type command holds the value of secret db") {
				t.Errorf("suspended: %s, %s", r.Outcome, r.Reason)
			}
			if strings.Contains(reported, pass2) || strings.Contains(reported, `\u0063orre`) {
				t.Error(reported)
			}
		})
	}
}

func TestSecretsThatCannotBeHad(t *testing.T) {
	const steps = "steps: [{name: a, uses: command, secrets: [db], with: {run: x}}]\n"
	away := fmt.Errorf("vault: no answer: %w", core.ErrUnavailable)
	for _, tc := range []struct {
		name  string
		vault *vault
		want  core.Outcome
		why   string
		calls int
	}{
		{"unknown", &vault{}, core.Failed, "secret db", 0},
		{"too short to be hidden", &vault{values: map[string]string{"db": "abc"}}, core.Failed, "expected at least 4", 0},
		{"away for a while", &vault{values: map[string]string{"db": pass2}, err: func(n int, _ secrets.Ask) error {
			if n < 4 {
				return away
			}
			return nil
		}}, core.Unchanged, "", 1},
		{"away for long", &vault{err: func(int, secrets.Ask) error { return away }}, core.Failed, "vault: no answer", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				r, _ := l.guarded(tc.vault, steps)
				if r.Outcome != tc.want || !strings.Contains(r.Reason, tc.why) || len(l.plugins.seen()) != tc.calls {
					t.Errorf("%s: %s; %d calls", r.Outcome, r.Reason, len(l.plugins.seen()))
				}
			})
		})
	}
	t.Run("a node without secrets", func(t *testing.T) {
		inLab(t, func(l *lab) {
			r := l.one(steps)
			if r.Outcome != core.Failed || !strings.Contains(r.Reason, "--secrets FILE") || len(l.plugins.seen()) != 0 {
				t.Errorf("%s: %s", r.Outcome, r.Reason)
			}
		})
	})
}

// A job that another node continues with: its later steps are free of what the earlier ones had,
// though this node never had it.
func TestSecretsOfEarlierStepsAreHiddenByTheNextNode(t *testing.T) {
	inLab(t, func(l *lab) {
		stop := make(chan func(), 1) // of the first node
		l.plugins.do = func(_ context.Context, call host.Call) (host.Outcome, error) {
			if call.Step == "wait" {
				(<-stop)() // it drains: the job is suspended behind this step
				<-time.After(time.Second)
			}
			if call.Step == "later" {
				call.Sink(host.Event{Stdout: []byte("the file says " + token + "\n")})
			}
			return host.Outcome{Changed: true}, nil
		}
		v := &vault{values: map[string]string{"api": token}}
		c := l.config()
		c.Secret = v.resolve
		la := l.submit("r", 1, `
steps:
  - {name: write, uses: command, secrets: [api], with: {run: x}}
  - {name: wait, uses: command, with: {run: x}, window: none}
  - {name: later, uses: command, with: {run: x}}
`)
		first := l.start(c)
		stop <- first.stop
		if err := <-first.done; err != nil {
			t.Fatal(err)
		}
		before := len(v.asked)
		c.Name = "node-2"
		second := l.start(c)
		res := l.results(la)
		second.drain()
		if len(res) != 1 || len(res[0].Steps) != 3 || res[0].Steps[2].Stdout != "the file says [secret api]\n" || res[0].Worker != "node-2" {
			t.Errorf("%+v", res)
		}
		if len(v.asked) != before+1 {
			t.Errorf("asked %d times on the second node, expected once", len(v.asked)-before)
		}
	})
}

// A step that never had its secret blocks no later one. Control: one that had it does, on a node
// that has not seen it, and so does a state that does not have who had which.
func TestSecretsThatNoStepHadAreNotFetched(t *testing.T) {
	gone := func(_ int, a secrets.Ask) error {
		return fmt.Errorf("secret %s is not for this host: %w", a.Name, core.ErrInvalid)
	}
	for name, tc := range map[string]struct {
		steps string
		ran   string
		asked string
	}{
		"skipped by when": {"steps: [{name: a, uses: command, secrets: [db], when: false, with: {run: x}}, {name: b, uses: command, with: {run: x}}]\n", "b.1", ""},
		"no items":        {"steps: [{name: a, uses: command, secrets: [db], foreach: [], with: {run: x}}, {name: b, uses: command, with: {run: x}}]\n", "b.1", ""},
		"no rescue": {
			under("steps", group("g", under("steps", file("b")), "rescue: [{name: r, uses: file, secrets: [db]}]"), file("d")), "b.1 d.1", "",
		},
		"refused in a group": {
			under("steps", group("g", "steps: [{name: b, uses: file, secrets: [db]}]", under("rescue", file("r")), under("always", file("z")))), "r.1 z.1", "db",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				v := &vault{err: gone}
				if r, _ := l.guarded(v, tc.steps); l.plugins.steps() != tc.ran || v.names() != tc.asked {
					t.Errorf("ran %q, asked for %q: %+v", l.plugins.steps(), v.names(), r)
				}
			})
		})
	}
	for _, tc := range []struct{ state, refused string }{
		{`{"v":1,"done":[{"name":"a","outcome":"skipped"}],"given":[]}`, ""},
		{`{"v":1,"done":[{"name":"a","outcome":"changed"}],"given":[{"name":"db","host":"h00000"}]}`, "db"},
		{`{"v":1,"done":[{"name":"a","outcome":"skipped"}]}`, "db"},
	} {
		s, err := decodeState([]byte(tc.state))
		if err != nil {
			t.Fatal(err)
		}
		s.Handlers = &handlersState{}
		m := &machine{state: s, host: core.Host{Name: "h00000"}, env: playbooks.Env{Host: core.Host{Name: "h00000"}}, prog: &program{playbook: &playbooks.Playbook{Steps: []playbooks.Step{{Name: "a", Secrets: map[string]string{"DB": "db"}}}}}}
		names := ""
		for _, e := range m.earlier() {
			names += e.Name
		}
		if names != tc.refused {
			t.Errorf("%s: earlier calls had %q, expected %q", tc.state, names, tc.refused)
		}
	}
}

// A secret may have another value for another host: a step with on has its own, and the reports of
// later steps are free of both.
func TestSecretsOfAnotherHostAreItsOwn(t *testing.T) {
	inLab(t, func(l *lab) {
		l.plugins.do = func(_ context.Context, c host.Call) (host.Outcome, error) {
			if c.Step == "later" {
				c.Sink(host.Event{Stdout: []byte("pw-h00000 and pw-lb\n")})
			}
			return host.Outcome{Changed: true, Outputs: map[string]any{"for": len(c.Secrets["db"])}}, nil
		}
		var asked []string
		c := l.config()
		c.Secret = func(_ context.Context, a secrets.Ask) ([]byte, error) {
			asked = append(asked, a.Host.Name)
			return []byte("pw-" + a.Host.Name), nil
		}
		la := l.submit("r", 1, `steps:
  - {name: own, uses: file, secrets: [db]}
  - {name: there, uses: file, secrets: [db], on: '"lb"'}
  - {name: later, uses: file}
`, beside(balancer()))
		n := l.start(c)
		res := l.results(la)
		n.drain()
		if got := res[0].Steps[2].Stdout; got != "[secret db] and [secret db]\n" || strings.Join(asked, " ") != "h00000 lb" {
			t.Errorf("%q, asked for %v", got, asked)
		}
		for _, call := range l.plugins.seen() {
			if want := "pw-" + call.Host.Name; call.Step != "later" && string(call.Secrets["db"]) != want {
				t.Errorf("step %s on %s got %q", call.Step, call.Host.Name, call.Secrets["db"])
			}
		}
	})
}

func TestOldWorkersRefuseRunsWithSecrets(t *testing.T) {
	for steps, version := range map[string]string{
		"steps: [{uses: command, secrets: [db], with: {run: x}}]\n": `"version":4`,
		"steps: [{uses: command, with: {run: x}}]\n":                `"version":1`,
	} {
		p, err := playbooks.Parse("t.yaml", []byte("playbook: t\ntargets: true\n"+steps), playbooks.Options{})
		if err != nil {
			t.Fatal(err)
		}
		la, err := launch.Prepare(p, hosts(1), launch.Options{Secrets: map[string]secrets.Ref{"db": {Vault: "kv/db#pw"}, "other": {Vault: "kv/x#y"}}})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(la.Run.Payload), version) {
			t.Errorf("%s: %s", steps, la.Run.Payload)
		}
		snap, err := snapshot.Decode(la.Run.Payload)
		if err != nil || len(slices.Collect(maps.Keys(snap.Secrets))) != len(p.Secrets()) {
			t.Errorf("%s: %v, %v", steps, snap.Secrets, err)
		}
	}
}
