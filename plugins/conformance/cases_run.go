package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/sdk/words"
)

// baseline is one example as it runs when nothing goes wrong.
type baseline struct {
	typ     host.Type
	example host.Example
	record  *record
}

func (b *baseline) call() call {
	return call{typ: b.typ.Name, title: b.example.Title, params: b.example.Params, secrets: b.example.Secrets}
}

const (
	mostAtOnce = 16 // bounds how many jobs the suite runs at the same time
	manyHosts  = 40 // in the case of many jobs: what one host of them sets off must be seen
)

// baselines runs every example once, each on a host of its own, as many at the same time as the
// plugin allows.
func (s *suite) baselines(ctx context.Context) ([]*baseline, error) {
	if s.base != nil {
		return s.base, nil
	}
	var all []*baseline
	for _, t := range s.manifest.Types {
		for _, e := range s.examples(t) {
			all = append(all, &baseline{typ: t, example: e})
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	w, err := newWorld(ctx, &s.cfg.Lab, len(all))
	if err != nil {
		return nil, err
	}
	defer w.close()
	at := min(max(s.manifest.Concurrency, 1), 4)
	if len(s.cfg.Lab.Answers) > 0 {
		at = 1 // answers are given in order
	}
	for i, b := range all {
		b.record = &record{call: b.call()}
		b.record.call.host = i
	}
	for group := range slices.Chunk(all, at) {
		p, err := s.start(ctx, w)
		if err != nil {
			return nil, err
		}
		var wg sync.WaitGroup
		results := make([]*record, len(group))
		for i, b := range group {
			wg.Go(func() { results[i] = s.follow(ctx, p, w, b.record.call) })
		}
		wg.Wait()
		for i, b := range group {
			b.record = results[i]
			s.remember(b.record)
		}
		s.finish(p)
		w.set(func(w *world) { clear(w.used) })
	}
	s.base = all
	return all, nil
}

// subjects are the examples that end without a cancel, one a job type: the one that does most with
// its host.
func (s *suite) subjects(ctx context.Context, fit func(*baseline) bool) []*baseline {
	all, err := s.baselines(ctx)
	if err != nil {
		return nil
	}
	best := map[string]*baseline{}
	var names []string
	for _, b := range all {
		if !b.record.finished() || fit != nil && !fit(b) {
			continue
		}
		old := best[b.typ.Name]
		if old == nil {
			names = append(names, b.typ.Name)
		}
		if old == nil || len(b.record.ops)+100*len(b.record.saves) > len(old.record.ops)+100*len(old.record.saves) {
			best[b.typ.Name] = b
		}
	}
	return core.Map(names, func(name string) *baseline { return best[name] })
}

func worksOnHost(b *baseline) bool {
	return slices.ContainsFunc(b.record.ops, func(o op) bool { return !strings.HasPrefix(o.what, "checkpoint") && !strings.HasPrefix(o.what, "/") })
}

func (s *suite) oneOutcome(ctx context.Context) result {
	all, err := s.baselines(ctx)
	if err != nil {
		return doesNotStart(err)
	}
	if len(all) == 0 {
		return notApplicable("no job type has an example")
	}
	good := 0
	var parts []string
	for _, b := range all { // first: the process of a call that hangs is killed, with the calls beside it
		if b.record.late {
			return fault("watch the call's context, its deadline and CANCEL", "%s: no outcome, neither at its deadline of %v nor when it was cancelled", b.record.name(), s.cfg.Patience)
		}
	}
	for _, b := range all {
		r := b.record
		switch {
		case r.err != nil:
			return fault("end each call with one outcome and nothing behind it", "%s: %v", r.name(), r.err)
		}
		if v := outputsFit(b); v.status == Failed {
			return v
		}
		if r.good() {
			good++
		}
		parts = append(parts, fmt.Sprintf("%s %q: %s", b.typ.Name, b.example.Title, r.end()))
	}
	if good == 0 {
		return fault("give the simulated hosts what the examples need: turnus plugins test --lab FILE, with answers: and files:",
			"no example succeeds: %s (%s)", parts[0], all[0].record.why())
	}
	return passed("%d of %d examples succeed: %s", good, len(all), strings.Join(parts, ", "))
}

func outputsFit(b *baseline) result {
	o := b.record.out
	if len(b.typ.Outputs) == 0 || o.Failed || o.Skipped || o.Cancelled || len(o.Outputs) == 0 {
		return result{}
	}
	var schema jsonschema.Schema
	if json.Unmarshal(b.typ.Outputs, &schema) != nil {
		return result{}
	}
	schema.Required = nil // an output may be left out
	resolved, err := schema.Resolve(nil)
	if err == nil {
		err = words.Misfit("outputs", &schema, o.Outputs, resolved.Validate(o.Outputs))
	}
	if err != nil {
		return fault("correct the outputs or their schema: expressions of later steps are checked against it", "%s: the outputs do not fit their schema: %v", b.record.name(), err)
	}
	return result{}
}

func (s *suite) checkMode(ctx context.Context) result {
	declared, n := 0, 0
	for _, t := range s.manifest.Types {
		v := s.withOne(ctx, func(ctx context.Context, p *process, w *world) result {
			for _, e := range s.examples(t) {
				before, _ := w.tree()
				r := s.do(ctx, p, w, call{typ: t.Name, title: e.Title, params: e.Params, secrets: e.Secrets, check: true})
				n++
				if after, err := w.tree(); err != nil {
					return harness(err)
				} else if path := differs(before, after); path != "" {
					return fault("leave out what changes: that it is marked read_only does not make it so", "%s in check mode changes %s on the host", r.name(), path)
				}
				for _, o := range r.ops {
					if o.mutates && (t.Check || !o.refused) {
						return fault("with check set, mark what only reads as read_only, and leave out what changes", "%s in check mode tries %q, which may change the host", r.name(), o.what)
					}
				}
				if !t.Check && r.err == nil && !r.out.Failed {
					return fault("declare check mode in the manifest, or refuse the call", "%s does not declare check mode, and ends as %s in it", r.name(), r.end())
				}
				if t.Check && r.err != nil {
					return fault("end with one outcome, also in check mode", "%s in check mode: %v", r.name(), r.err)
				}
			}
			return result{}
		})
		if v.status == Failed {
			return v
		}
		if t.Check {
			declared++
		}
	}
	switch {
	case n == 0:
		return notApplicable("no job type has an example")
	case declared == 0:
		return passed("no job type declares check mode; all refuse it")
	}
	return passed("%d calls; no operation that changes", n)
}

// beginHung starts an example on a host that answers nothing.
func (s *suite) beginHung(ctx context.Context, p *process, w *world, b *baseline, limit time.Duration) (*running, *record) {
	w.set(func(w *world) { w.hang = true })
	c := b.call()
	c.limit = limit
	r := &record{call: c}
	run := s.begin(ctx, p, w, c, r)
	select {
	case <-w.entered:
	case <-run.done:
	case <-time.After(s.cfg.Patience):
	}
	return run, r
}

// hanging runs a case for each job type that works on its host.
func (s *suite) hanging(ctx context.Context, limit time.Duration, inspect func(p *process, w *world, run *running, r *record) result) result {
	n := 0
	for _, b := range s.subjects(ctx, worksOnHost) {
		v := s.withOne(ctx, func(ctx context.Context, p *process, w *world) result {
			run, r := s.beginHung(ctx, p, w, b, limit)
			v := inspect(p, w, run, r)
			p.signalIfRunning(run)
			<-run.done
			s.remember(r)
			return v
		})
		if v.status == Failed {
			return v
		}
		n++
	}
	if n == 0 {
		return notApplicable("no example both ends unasked and works on its host")
	}
	return passed("%s", core.Plural(n, "job type"))
}

// signalIfRunning ends the process of a call that is still under way: nothing else is sure to.
func (p *process) signalIfRunning(run *running) {
	select {
	case <-run.done:
	default:
		p.kill()
	}
}

func (s *suite) deadline(ctx context.Context) result {
	const limit = time.Second
	return s.hanging(ctx, limit, func(_ *process, _ *world, run *running, r *record) result {
		if !within(run.done, limit+s.cfg.Grace) {
			return fault("take the deadline of the request (deadline_unix_ms) into the call's context", "%s: the host hangs, and %v after its deadline the call has not ended", r.name(), s.cfg.Grace)
		}
		if r.err != nil {
			return fault("end with one outcome: failed, timed_out", "%s: after its deadline: %v", r.name(), r.err)
		}
		return result{}
	})
}

func (s *suite) cancel(ctx context.Context) result {
	return s.hanging(ctx, 10*time.Minute, func(_ *process, _ *world, run *running, r *record) result {
		if err := run.cancel(s.cfg.Grace); err != nil {
			return fault("answer Signal immediately", "%s: CANCEL is not taken: %v", r.name(), err)
		}
		if !within(run.done, s.cfg.Grace) {
			return fault("end the call's work when its lease is cancelled: the process is killed otherwise, with all its jobs", "%s: %v after CANCEL the call has not ended", r.name(), s.cfg.Grace)
		}
		if r.err != nil {
			return fault("end with one outcome: cancelled", "%s: after CANCEL: %v", r.name(), r.err)
		}
		if !r.out.Cancelled && !r.out.Failed {
			return fault("end as cancelled, or as failed with what was done", "%s: cancelled while its host hung, it ends as %s", r.name(), r.end())
		}
		return result{}
	})
}

func (s *suite) drain(ctx context.Context) result {
	return s.hanging(ctx, 10*time.Minute, func(p *process, w *world, run *running, r *record) result {
		drained, cancel := s.ask(ctx)
		defer cancel()
		if err := p.drain(drained); err != nil {
			return fault("answer Signal immediately", "DRAIN is not taken: %v", err)
		}
		c := r.call
		c.limit = time.Second
		fresh := &record{call: c}
		again := s.begin(ctx, p, w, c, fresh) // not once, which waits for the end of a process that refuses a call
		taken := !within(again.done, c.limit+s.cfg.Grace)
		if taken {
			p.kill()
			<-again.done
		}
		if taken || fresh.err == nil {
			return fault("after DRAIN answer Run with Unavailable", "%s: after DRAIN a new call is taken", r.name())
		}
		select {
		case <-run.done:
			if r.err != nil {
				return fault("let calls that run end normally", "%s: DRAIN broke the call that ran: %v", r.name(), r.err)
			}
		default:
		}
		if err := run.cancel(s.cfg.Grace); err != nil || !within(run.done, s.cfg.Grace) {
			return fault("after DRAIN calls still run, and may still be cancelled", "%s: after DRAIN the call that ran cannot be ended (%v)", r.name(), err)
		}
		if r.err != nil {
			return fault("let calls that run end with their outcome", "%s: after DRAIN the call that ran has none: %v", r.name(), r.err)
		}
		return result{}
	})
}

func (s *suite) concurrent(ctx context.Context) result {
	atOnce := min(s.manifest.Concurrency, mostAtOnce)
	n := max(atOnce, manyHosts)
	if atOnce < 2 {
		return notApplicable("the manifest allows one job a process")
	}
	if len(s.cfg.Lab.Answers) > 0 && slices.ContainsFunc(s.cfg.Lab.Answers, func(a Answer) bool { return a.Times > 0 }) {
		return notApplicable("the lab gives answers in an order (times:), which concurrent jobs would mix")
	}
	types := s.subjects(ctx, nil)
	if len(types) == 0 {
		return notApplicable("no example ends unasked")
	}
	for _, b := range types {
		v := s.withHosts(ctx, n, func(ctx context.Context, p *process, w *world) result {
			records := make([]*record, n)
			var wg sync.WaitGroup
			room := make(chan struct{}, atOnce)
			for i := range n {
				c := b.call()
				c.host, c.limit = i, 4*s.cfg.Patience // they share the machine
				room <- struct{}{}
				wg.Go(func() {
					defer func() { <-room }()
					records[i] = s.follow(ctx, p, w, c)
				})
			}
			wg.Wait()
			for _, r := range records {
				s.remember(r)
			}
			for _, r := range records {
				if r.err != nil {
					return fault("keep nothing of a job outside of it, and do not block one on another", "%s, %d at the same time: %v", r.name(), atOnce, r.err)
				}
				alone := b.record
				if r.end() != alone.end() || len(r.ops) != len(alone.ops) { // hosts differ, as in how long they are up
					if alone = s.alone(ctx, w, b, r.call.host); alone == nil {
						continue
					}
				}
				if r.end() != alone.end() {
					return fault("keep nothing of a job outside of it", "%s: alone it ends as %s, with %d at the same time as %s (%s)", r.name(), alone.end(), atOnce, r.end(), r.out.Reason)
				}
				if len(r.ops) != len(alone.ops) {
					return fault("keep nothing of a job outside of it: each call to a host carries its own job's lease", "%s: alone it makes %d calls to its host, with %d at the same time %d", r.name(), len(alone.ops), atOnce, len(r.ops))
				}
			}
			return result{}
		})
		if v.status == Failed {
			return v
		}
	}
	return passed("%d at the same time on %d hosts, %s", atOnce, n, core.Plural(len(types), "job type"))
}

// alone runs an example on one host of the world, in a process of its own; nil if that does not
// start.
func (s *suite) alone(ctx context.Context, w *world, b *baseline, host int) *record {
	p, err := s.start(ctx, w)
	if err != nil {
		return nil // the handshake's case names it
	}
	defer s.finish(p)
	c := b.call()
	c.host = host
	return s.do(ctx, p, w, c)
}
