package conformance

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/plugins/host"
)

const (
	maxSaid   = 16 << 20 // bytes that one call may send in events, and one process on stderr
	warmCalls = 8        // before memory is measured
	someCalls = 16       // fewer show nothing of memory
	manyCalls = 64
	leakTime  = 10 * time.Second // for the calls of one job type
	leakTotal = 32 << 20         // of memory, from call to call, that are a leak
	leakCall  = 512 << 10
)

// pass is one run of an example, with the host's files before and after it.
type pass struct {
	record        *record
	before, after map[string]string
}

// twice runs every example that succeeds twice on a host of its own.
func (s *suite) twice(ctx context.Context, judge func(b *baseline, first, second pass) result) (n int, v result) {
	all, err := s.baselines(ctx)
	if err != nil {
		return 0, doesNotStart(err)
	}
	for _, b := range all {
		if !b.record.finished() || !b.record.good() {
			continue
		}
		v := s.withOne(ctx, func(ctx context.Context, p *process, w *world) result {
			var both [2]pass
			for i := range both {
				var err error
				if both[i].before, err = w.tree(); err != nil {
					return harness(err)
				}
				w.set(func(w *world) { clear(w.used) })
				both[i].record = s.do(ctx, p, w, b.call())
				if both[i].after, err = w.tree(); err != nil {
					return harness(err)
				}
			}
			return judge(b, both[0], both[1])
		})
		if v.status == Failed {
			return n, v
		}
		n++
	}
	return n, result{}
}

func (s *suite) idempotent(ctx context.Context) result {
	if !slices.ContainsFunc(s.manifest.Types, func(t host.Type) bool { return t.Idempotent }) {
		return notApplicable("no job type is declared idempotent")
	}
	compared := 0
	_, v := s.twice(ctx, func(b *baseline, first, second pass) result {
		if !b.typ.Idempotent || !first.record.good() {
			return result{}
		}
		compared++
		if path := differs(first.after, second.after); path != "" {
			return fault("read the host first, and change only what is not as wanted; or declare idempotent: false",
				"%s: run again, it changes %s once more", second.record.name(), path)
		}
		if second.record.end() == "changed" && first.record.end() == "changed" && len(first.after) > 0 && touches(second.record) {
			return fault("end as unchanged when nothing had to be done; or declare idempotent: false",
				"%s: run again with nothing left to do, it calls %q and ends as changed", second.record.name(), mutation(second.record))
		}
		return result{}
	})
	switch {
	case v.status == Failed:
		return v
	case compared == 0:
		return notApplicable("no example of an idempotent job type succeeds")
	}
	return passed("%s run twice", core.Plural(compared, "example"))
}

// touches reports whether a call made an operation that may change its host.
func touches(r *record) bool { return mutation(r) != "" }

func mutation(r *record) string {
	for _, o := range r.ops {
		if o.mutates {
			return o.what
		}
	}
	return ""
}

func (s *suite) unchanged(ctx context.Context) result {
	n, v := s.twice(ctx, func(_ *baseline, first, second pass) result {
		for _, one := range []pass{first, second} {
			if path := differs(one.before, one.after); path != "" && one.record.end() == "unchanged" {
				return fault("report changed: handlers and later steps go by it", "%s ends as unchanged, and has changed %s", one.record.name(), path)
			}
		}
		return result{}
	})
	switch {
	case v.status == Failed:
		return v
	case n == 0:
		return notApplicable("no example succeeds")
	}
	return passed("%s", core.Plural(n, "example"))
}

func (s *suite) schemasAreClosed(context.Context) result {
	for _, t := range s.manifest.Types {
		var shape struct {
			Additional json.RawMessage `json:"additionalProperties"`
		}
		_ = json.Unmarshal(t.Params, &shape) // examples names a schema that is none
		if got := strings.Join(strings.Fields(string(shape.Additional)), ""); got != "false" && got != `{"not":{}}` {
			return fault("set additionalProperties to false: a misspelt key of a playbook is found before anything runs",
				"the params of %s allow keys that the schema does not name", t.Name)
		}
	}
	return passed("%s", core.Plural(len(s.manifest.Types), "job type"))
}

// isolation runs each job type on two hosts, one after the other, in one process.
func (s *suite) isolation(ctx context.Context) result {
	for _, b := range s.subjects(ctx, nil) {
		v := s.withHosts(ctx, 2, func(ctx context.Context, p *process, w *world) result {
			for i := range w.hosts {
				c := b.call()
				c.host = i
				s.do(ctx, p, w, c)
			}
			return result{}
		})
		if v.status == Failed {
			return v
		}
	}
	if len(s.seen.mixed) > 0 {
		return fault("keep nothing of a job outside of it: one worker serves several customers", "%s", s.seen.mixed[0])
	}
	return passed("")
}

func (s *suite) memory(ctx context.Context) result {
	if !canMeasure {
		return notApplicable("the memory of a process is measured on Linux only")
	}
	judged := 0
	for _, b := range s.subjects(ctx, nil) {
		// The time of an example is the tester's patience, so that a busy machine does not decide what is
		// tested.
		if someCalls*b.record.took > 2*s.cfg.Patience {
			continue
		}
		n := min(manyCalls, max(someCalls, int(leakTime/max(b.record.took, time.Millisecond))))
		v := s.withOne(ctx, func(ctx context.Context, p *process, w *world) result {
			for range warmCalls {
				s.do(ctx, p, w, b.call())
			}
			warm := resident(p.pid)
			for range n {
				w.set(func(w *world) { clear(w.used) })
				s.do(ctx, p, w, b.call())
			}
			if more := resident(p.pid) - warm; more > max(leakTotal, int64(n)*leakCall) {
				return fault("keep nothing of a call after it has ended", "%s: %d calls took %d MiB of memory that the process keeps", b.record.name(), n, more>>20)
			}
			return result{}
		})
		if v.status == Failed {
			return v
		}
		judged++
	}
	if judged == 0 {
		return notApplicable("no example is short enough to be repeated: %d calls within %v, twice the --patience", someCalls, 2*s.cfg.Patience)
	}
	return passed("%s", core.Plural(judged, "job type"))
}

func (s *suite) alive(context.Context) result {
	if died := s.seen.blamed["alive"]; died != "" {
		return fault("a worker takes that for a crash with unknown effects: catch what one job does wrong", "%s", died)
	}
	return passed("%s", core.Plural(len(s.calls), "call"))
}

func (s *suite) flood(context.Context) result {
	if flood := s.seen.blamed["flood"]; flood != "" {
		return fault("log what a person reads; put large content into outputs or files", "%s", flood)
	}
	return passed("")
}
