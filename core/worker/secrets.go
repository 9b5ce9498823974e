package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/redact"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/playbooks"
	"github.com/turnus/turnus/plugins/host"
)

// resolveTime bounds fetching the secrets of one attempt.
const resolveTime = time.Minute

// given are the secrets of one attempt. They are never stored.
type given struct {
	values map[string][]byte // by the names that the job type knows
}

// texts are the values as expressions have them.
func (g given) texts() map[string]string {
	out := make(map[string]string, len(g.values))
	for name, value := range g.values {
		out[name] = string(value)
	}
	return out
}

// handed is a secret as a call had it. The same name may have another value for another host.
type handed struct {
	Name string `json:"name"`
	Host string `json:"host"`
}

// resolve fetches what the step may have on a host, right before an attempt. Earlier calls of the
// job may have left their secrets where this one finds them, so its reports must also be free of
// those. If this node has not seen their values, it fetches them. If it cannot, nothing runs.
func (m *machine) resolve(ctx context.Context, names map[string]string, on core.Host) (given, error) {
	g := given{values: make(map[string][]byte, len(names))}
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	fetched := make(map[string][]byte, len(names))
	for _, name := range slices.Sorted(maps.Values(names)) {
		if _, known := fetched[name]; known {
			continue
		}
		value, err := m.fetch(ctx, name, on)
		if err != nil {
			return g, err
		}
		fetched[name] = value
	}
	for _, e := range m.earlier() {
		if m.seen[e] {
			continue
		}
		h, err := m.hostOf(e)
		if err == nil {
			_, err = m.fetch(ctx, e.Name, h)
		}
		if err != nil {
			return g, fmt.Errorf("an earlier step of this job had it, so this one's output must be free of it: %w", err)
		}
	}
	for alias, name := range names {
		g.values[alias] = fetched[name]
	}
	return g, nil
}

// earlier are the secrets that earlier calls of the job had. A state of a former version does not
// have them: there each step and handler of which the job has a result may have had its own.
func (m *machine) earlier() []handed {
	if m.state.Given != nil {
		return m.state.Given
	}
	calls := slices.Clone(m.prog.playbook.Steps[:len(m.state.Done)])
	for _, r := range m.state.Handlers.Ran {
		if i := slices.IndexFunc(m.prog.playbook.Handlers, func(h playbooks.Step) bool { return h.Name == r.Name }); i >= 0 {
			calls = append(calls, m.prog.playbook.Handlers[i])
		}
	}
	var all []handed
	for _, s := range calls {
		for _, name := range slices.Sorted(maps.Values(s.Secrets)) {
			all = append(all, handed{name, m.calledOn(s).Name})
		}
	}
	return all
}

// calledOn is the host of a step that may not be called again.
func (m *machine) calledOn(s playbooks.Step) core.Host {
	if h, err := m.delegate(s); err == nil {
		return h
	}
	return m.host
}

// hostOf is the host for which a call had a secret.
func (m *machine) hostOf(e handed) (core.Host, error) {
	if e.Host == m.host.Name {
		return m.host, nil
	}
	return m.prog.snapshot.Delegate(e.Host, m.host)
}

// hand notes that a call on a host has the step's secrets. It goes into the state with what comes
// next, so that later steps hide them, on the next worker as well.
func (m *machine) hand(s playbooks.Step, on core.Host) {
	if m.state.Given == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Values(s.Secrets)) {
		if e := (handed{name, on.Name}); !slices.Contains(m.state.Given, e) {
			m.state.Given = append(m.state.Given, e)
		}
	}
}

// fetch asks for one secret for a host, and keeps its value out of all later reports of the job.
func (m *machine) fetch(ctx context.Context, name string, h core.Host) ([]byte, error) {
	source := m.job.w.cfg.Secret
	if source == nil {
		return nil, fmt.Errorf("secret %s: worker %s was started without secrets: --secrets FILE or --secrets-identity FILE gives it some: %w", name, m.job.w.cfg.Name, core.ErrInvalid)
	}
	value, err := source(ctx, secrets.Ask{
		Name: name, Tenant: m.prog.playbook.Tenant, Playbook: m.prog.playbook.Name, Host: h, Encrypted: m.prog.snapshot.Secrets,
	})
	if err != nil {
		return nil, err
	}
	if m.hidden == nil {
		if m.hidden, err = redact.New(); err != nil {
			return nil, err
		}
		m.seen = map[handed]bool{}
	}
	if err := m.job.w.conceal(m.hidden, redact.Value{Name: name, Bytes: value}); err != nil {
		return nil, err
	}
	m.seen[handed{name, h.Name}] = true
	return value, nil
}

// unresolved is the outcome of an attempt that was not made for lack of a secret. If it may be
// available later, the error wraps core.ErrUnavailable.
func unresolved(err error) (host.Outcome, error) {
	out := host.Outcome{Failed: true, Effects: host.EffectsNone, Reason: err.Error()}
	if errors.Is(err, core.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		out.Retryable = true
		if !errors.Is(err, core.ErrUnavailable) {
			err = fmt.Errorf("%w: %w", core.ErrUnavailable, err)
		}
		return out, err
	}
	return out, nil
}

// equip gives the call its secrets, and the params that hold some.
func (a *attempts) equip(ctx context.Context, c *host.Call) error {
	g, err := a.m.resolve(ctx, a.step.Secrets, a.host)
	if err != nil {
		return err
	}
	a.m.hand(a.step, a.host)
	c.Secrets, c.Hidden = g.values, a.m.hidden
	c.Host.SSH.Verified = len(g.values) > 0
	if !a.step.With.UsesSecrets() {
		return nil
	}
	if err := a.step.With.CheckSecrets(a.typ.Params); err != nil {
		return err
	}
	env := a.m.env
	env.Secrets = g.texts()
	c.Params, err = a.step.With.JSON(env)
	return err
}

// listen makes the way of the call's output: through what takes its secrets out.
func (a *attempts) listen() {
	hidden := a.m.hidden
	a.warned = map[string]bool{}
	a.out = hidden.Stream(func(b []byte) { a.print(&a.stdout, Event{Kind: Output, Step: a.name, Stdout: b}, b) })
	a.err = hidden.Stream(func(b []byte) { a.print(&a.stderr, Event{Kind: Output, Step: a.name, Stderr: b}, b) })
}

func (a *attempts) print(keep *capture, e Event, b []byte) {
	keep.write(b)
	a.m.job.report(e)
}

// heard takes a piece of output. At the end of a line, bytes that were kept as a possible beginning
// of a secret are shown if they reveal nothing: watchers see whole lines.
func heard(s *redact.Stream, b []byte) {
	if len(b) == 0 {
		return
	}
	_, _ = s.Write(b) // it never fails
	if bytes.HasSuffix(b, []byte{'\n'}) {
		s.Idle()
	}
}

// keepSecret refuses a state that holds a secret: it would be in the queue.
func (a *attempts) keepSecret(s *host.State) error {
	if s == nil {
		return nil
	}
	name, found := a.m.hidden.FindJSON(s.JSON)
	if !found {
		return nil
	}
	return fmt.Errorf("the state of job type %s holds the value of secret %s, and was not kept: a state may name secrets, and never hold one: %w", a.step.Uses, name, core.ErrInvalid)
}

// hide takes secrets out of the outcome of a call.
func (a *attempts) hide(out host.Outcome, err error) (host.Outcome, error) {
	hidden := a.m.hidden
	if hidden == nil {
		return out, err
	}
	if bad := a.keepSecret(out.State); bad != nil {
		out = host.Outcome{Failed: true, Effects: host.EffectsUnknown, Reason: bad.Error()}
	}
	out.Reason = hidden.String(out.Reason)
	out.Signal = hidden.String(out.Signal)
	if out.Outputs != nil {
		out.Outputs, _ = hidden.Any(out.Outputs).(map[string]any)
	}
	if err != nil {
		err = &cleaned{hidden.String(err.Error()), err}
	}
	return out, err
}

// cleaned is an error whose text is free of secrets.
type cleaned struct {
	text string
	err  error
}

func (e *cleaned) Error() string { return e.text }

func (e *cleaned) Is(target error) bool { return errors.Is(e.err, target) }
