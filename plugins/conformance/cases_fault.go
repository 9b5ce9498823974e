package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/host/sandbox"
	"github.com/turnus/turnus/plugins/sdk/wire"
)

// mostKills bounds at how many checkpoints of one example the process is killed.
const mostKills = 8

func (s *suite) hostDrop(ctx context.Context) result {
	n := 0
	for _, b := range s.subjects(ctx, worksOnHost) {
		for at := range min(len(b.record.ops), 3) {
			v := s.withOne(ctx, func(ctx context.Context, p *process, w *world) result {
				w.set(func(w *world) { w.drop = at })
				return judgeDrop(s.do(ctx, p, w, b.call()))
			})
			if v.status == Failed {
				return v
			}
			n++
		}
	}
	if n == 0 {
		return notApplicable("no example both ends unasked and works on its host")
	}
	return passed("%s", core.Plural(n, "drop"))
}

func judgeDrop(r *record) result {
	mutated := false // an operation that may change the host was sent
	for _, o := range r.ops {
		mutated = mutated || o.mutates
	}
	switch {
	case r.late || r.overdue:
		return fault("end the job when calls to the host are Unavailable, at the latest at the deadline", "%s: its host went away, and the call does not end", r.name())
	case status.Code(r.err) == codes.Unavailable:
		return fault("an error of a host service ends one job, not the process", "%s: its host went away, and so did the process: %v", r.name(), r.err)
	case r.err != nil:
		return fault("end with one outcome: failed, unreachable", "%s: its host went away: %v", r.name(), r.err)
	case r.out.Failed && r.out.Effects == host.EffectsNone && mutated && len(r.ops) == 1:
		return fault("an operation that was cut may have had its effect: report UNKNOWN, unless the fault is before", "%s: its host went away in the midst of %q, and it reports that nothing was done", r.name(), r.ops[0].what)
	}
	return result{}
}

func (s *suite) killResume(ctx context.Context) result {
	list := s.subjects(ctx, func(b *baseline) bool { return len(b.record.saves) > 0 })
	if len(list) == 0 {
		if !slices.ContainsFunc(s.manifest.Types, func(t host.Type) bool { return t.StateVersion > 0 }) {
			return notApplicable("no job type keeps a state")
		}
		return notApplicable("no example reaches a checkpoint on the simulated host; --lab FILE gives its answers")
	}
	kills := 0
	for _, b := range list {
		for at := range min(len(b.record.saves), mostKills) {
			if v := s.killAt(ctx, b, at+1); v.status == Failed {
				return v
			}
			kills++
		}
	}
	return passed("killed %d times, %s", kills, core.Plural(len(list), "job type"))
}

// killAt kills the process right after its nth state is durable, and continues in a new one.
func (s *suite) killAt(ctx context.Context, b *baseline, nth int) result {
	w, err := newWorld(ctx, &s.cfg.Lab, 1)
	if err != nil {
		return harness(err)
	}
	defer w.close()
	p, err := s.start(ctx, w)
	if err != nil {
		return doesNotStart(err)
	}
	c := b.call()
	c.saved = func(n int, _ host.State) error {
		if n == nth {
			p.kill()
			return errors.New("killed")
		}
		return nil
	}
	cut := s.do(ctx, p, w, c)
	s.finish(p)
	if len(cut.saves) < nth {
		return fault("decide by what the host reports, so that a job can be followed", "%s: alone it saves %d states, a second time only %d", cut.name(), len(b.record.saves), len(cut.saves))
	}
	save := cut.saves[nth-1]
	next, err := s.start(ctx, w)
	if err != nil {
		return doesNotStart(fmt.Errorf("after a kill: %w", err))
	}
	defer s.finish(next)
	c = b.call()
	c.state, c.attempt = &save.state, 2
	resumed := s.do(ctx, next, w, c)
	if resumed.err != nil || resumed.end() != b.record.end() {
		why := resumed.out.Reason
		if resumed.err != nil {
			why = resumed.err.Error()
		}
		return fault("the state must hold all that the rest of the job needs, and whether the host was changed already",
			"%s: killed at checkpoint %q and resumed, it ends as %s, without the kill as %s (%s)", resumed.name(), save.name, resumed.end(), b.record.end(), why)
	}
	if missing := lacks(resumed.out.Outputs, b.record.out.Outputs); missing != "" {
		return fault("keep in the state what becomes an output", "%s: killed at checkpoint %q and resumed, it ends without the output %q", resumed.name(), save.name, missing)
	}
	if what := repeated(cut, resumed, b.record); what != "" && !b.typ.Idempotent {
		return fault("check the state before each step, and skip what is done", "%s: killed at checkpoint %q and resumed, it repeats %q", resumed.name(), save.name, what)
	}
	return result{}
}

func lacks(got, want map[string]any) string {
	for _, name := range sortedKeys(want) {
		if _, ok := got[name]; !ok {
			return name
		}
	}
	return ""
}

// repeated finds an operation that may change the host and was done more often with the kill than
// without.
func repeated(cut, resumed, whole *record) string {
	count := map[string]int{}
	for _, o := range whole.ops {
		count[o.what]--
	}
	for _, r := range []*record{cut, resumed} {
		for _, o := range r.ops {
			if count[o.what]++; count[o.what] > 0 && o.mutates {
				return o.what
			}
		}
	}
	return ""
}

func (s *suite) migrate(ctx context.Context) result {
	if !slices.ContainsFunc(s.manifest.Types, func(t host.Type) bool { return t.StateVersion > 0 }) {
		return notApplicable("no job type keeps a state")
	}
	return s.withOne(ctx, func(ctx context.Context, p *process, w *world) result {
		olds := 0
		for _, old := range s.cfg.Lab.States {
			t := s.typeOf(old.Type)
			if t == nil {
				return fault("correct states: of the lab", "the lab has a state of %q, which is no job type of the plugin", old.Type)
			}
			if v := s.migrates(ctx, p, t, &host.State{Version: old.Version, JSON: encode(old.State)}); v.status == Failed {
				return v
			}
			olds++
		}
		asked := ""
		for _, t := range s.manifest.Types {
			if t.StateVersion == 0 {
				continue
			}
			if v := s.refusesNewer(ctx, p, w, &t); v.status == Failed {
				return v
			}
			if t.StateVersion > 1 && !slices.ContainsFunc(s.cfg.Lab.States, func(o OldState) bool { return o.Type == t.Name }) {
				asked = t.Name
			}
		}
		if asked != "" {
			return notApplicable("%s has had other states before version %d, and the lab shows none of them: give them under states:", asked, s.typeOf(asked).StateVersion)
		}
		return passed("%s; a newer version is refused", core.Plural(olds, "old state"))
	})
}

func (s *suite) migrates(ctx context.Context, p *process, t *host.Type, old *host.State) result {
	resp, err := p.rpc.MigrateState(ctx, &wire.MigrateStateRequest{Type: t.Name, State: wireState(old)})
	switch {
	case err != nil:
		return fault("migrate every version that was ever released", "MigrateState of %s, version %d: %v", t.Name, old.Version, err)
	case int(resp.GetState().GetVersion()) != t.StateVersion:
		return fault("migrate to the manifest's state_version", "MigrateState of %s, version %d, gives version %d, expected %d", t.Name, old.Version, resp.GetState().GetVersion(), t.StateVersion)
	case !json.Valid(resp.GetState().GetJson()):
		return fault("a state is JSON", "MigrateState of %s, version %d, gives no JSON", t.Name, old.Version)
	}
	return result{}
}

func (s *suite) refusesNewer(ctx context.Context, p *process, w *world, t *host.Type) result {
	newer := &host.State{Version: t.StateVersion + 1, JSON: json.RawMessage(`{"from":"the future"}`)}
	if _, err := p.rpc.MigrateState(ctx, &wire.MigrateStateRequest{Type: t.Name, State: wireState(newer)}); err == nil {
		return fault("refuse with InvalidArgument: the plugin was rolled back under a running job", "MigrateState of %s takes a state of version %d, newer than its own %d", t.Name, newer.Version, t.StateVersion)
	}
	list := s.examples(*t)
	if len(list) == 0 {
		return result{}
	}
	r := s.do(ctx, p, w, call{typ: t.Name, title: list[0].Title, params: list[0].Params, secrets: list[0].Secrets, state: newer, attempt: 2})
	if r.err == nil && !r.out.Failed || len(r.ops) > 0 {
		return fault("fail before anything is done: what a newer version saved cannot be read", "%s runs from a state of version %d, newer than its own %d", r.name(), newer.Version, t.StateVersion)
	}
	return result{}
}

func (s *suite) largeFile(ctx context.Context) result {
	if !canMeasure {
		return notApplicable("the memory of a process is measured on Linux only")
	}
	list := s.subjects(ctx, func(b *baseline) bool { return slices.ContainsFunc(b.record.ops, func(o op) bool { return o.moves }) })
	if len(list) == 0 {
		return notApplicable("no example that ends unasked moves a file; --lab FILE can add one under examples:")
	}
	var most int64
	for _, b := range list {
		v := s.withOne(ctx, func(ctx context.Context, p *process, w *world) result {
			idle := peak(p.pid)
			w.set(func(w *world) { w.big = true })
			c := b.call()
			c.limit = 12 * s.cfg.Patience
			r := s.do(ctx, p, w, c)
			more := peak(p.pid) - idle
			most = max(most, more)
			switch {
			case r.late:
				return fault("", "%s: with a file of %d MiB it does not end", r.name(), bigFile>>20)
			case r.err != nil:
				return fault("stream files in chunks, or bound them by max_size", "%s: with a file of %d MiB: %v", r.name(), bigFile>>20, r.err)
			case more > bigMemory:
				return fault("stream files in chunks, or bound them by max_size", "%s: a file of %d MiB took %d MiB of memory, expected at most %d", r.name(), bigFile>>20, more>>20, bigMemory>>20)
			}
			return result{}
		})
		if v.status == Failed {
			return v
		}
	}
	return passed("files of %d MiB took at most %d MiB", bigFile>>20, max(most, 0)>>20)
}

func (s *suite) freeze(ctx context.Context) result {
	return s.hanging(ctx, 10*time.Minute, func(p *process, _ *world, run *running, r *record) result {
		p.signal(syscall.SIGSTOP)
		asked, cancel := context.WithTimeout(ctx, time.Second)
		_ = p.healthy(asked) // nobody answers; the suite continues all the same
		cancel()
		p.signal(syscall.SIGCONT)
		if err := run.cancel(s.cfg.Grace); err != nil || !within(run.done, s.cfg.Grace) {
			return fault("time that passes without the process is no reason to end the job", "%s: after SIGSTOP and SIGCONT the call cannot be ended (%v)", r.name(), err)
		}
		if r.err != nil {
			return fault("time that passes without the process is no reason to end the job", "%s: after SIGSTOP and SIGCONT: %v", r.name(), r.err)
		}
		return result{}
	})
}

// confined runs each example as a worker does by default, with the access that operators must
// allow, and nothing else.
func (s *suite) confined(ctx context.Context) result {
	if s.cfg.Sandbox == nil {
		return notApplicable("the suite was asked to confine nothing")
	}
	missing, err := s.cfg.Sandbox.Missing()
	if err != nil {
		return harness(err)
	}
	const hint = "a worker's process has its own folder, the system's programs, a private folder (HOME, TMPDIR) and no network: keep to that, or name to operators what to allow (--plugin-allow), and also to this suite (--allow-network, --allow-read)"
	all, err := s.baselines(ctx)
	if err != nil {
		return doesNotStart(err)
	}
	w, err := newWorld(ctx, &s.cfg.Lab, max(len(all), 1))
	if err != nil {
		return harness(err)
	}
	defer w.close()
	p, err := s.launch(ctx, w, launching{argv: s.cfg.Argv, box: s.cfg.Sandbox, profile: sandbox.Profile{Read: s.cfg.Read, Network: s.cfg.Lab.AllowNetwork}})
	if errors.Is(err, errUnconfined) {
		return notApplicable("%s", strings.Join(missing, "; "))
	}
	if err != nil {
		return fault(hint, "in a worker's sandbox the program does not start: %v", err)
	}
	defer s.finish(p)
	n := 0
	for i, b := range all {
		if !b.record.finished() {
			continue // it takes longer than it is given, anywhere
		}
		c := b.call()
		c.host = i
		r := s.follow(ctx, p, w, c)
		s.remember(r)
		if got, want := r.end(), b.record.end(); got != want {
			return fault(hint, "%s: it ends as %s, and as %s without the sandbox%s", r.name(), got, want, reasonOf(r))
		}
		w.set(func(w *world) { clear(w.used) })
		n++
	}
	note := core.Plural(n, "example") + " in a worker's sandbox"
	if len(missing) > 0 {
		note += ", which is not whole here: " + strings.Join(missing, "; ")
	}
	return passed("%s", note)
}

// reasonOf returns the plugin's reason for how the call ended.
func reasonOf(r *record) string {
	switch {
	case r.err != nil:
		return ": " + r.err.Error()
	case r.out.Reason != "":
		return ": " + r.out.Reason
	}
	return ""
}

func (s *suite) network(ctx context.Context) result {
	if s.cfg.Lab.AllowNetwork {
		return notApplicable("allow_network lets it open connections of its own: such a plugin does not run at workers without network")
	}
	w, err := newWorld(ctx, &s.cfg.Lab, 1)
	if err != nil {
		return harness(err)
	}
	defer w.close()
	p, err := s.launch(ctx, w, launching{argv: s.cfg.Argv, apart: true})
	if err != nil {
		if errors.Is(err, syscall.EPERM) || !canMeasure {
			return notApplicable("this machine gives nobody a network namespace")
		}
		return fault("listen on the Unix socket only", "in an empty network namespace the program does not start: %v", err)
	}
	defer s.finish(p)
	n := 0
	for _, t := range s.manifest.Types {
		for _, e := range s.examples(t) {
			s.do(ctx, p, w, call{typ: t.Name, title: e.Title, params: e.Params, secrets: e.Secrets, limit: time.Second})
			n++
			tried, err := attempts(p.pid)
			if err != nil {
				return notApplicable("the counters of the network namespace cannot be read: %v", err)
			}
			if tried > 0 {
				return fault("reach hosts through the host services (Dial), so that a worker's policy, audit and limits hold; or write allow_network in the lab, and in the manual",
					"%s, example %q: the process itself tries to open a network connection", t.Name, e.Title)
			}
		}
	}
	return passed("%s in an empty network namespace", core.Plural(n, "example"))
}
