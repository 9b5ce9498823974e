package redis

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

const (
	inlineBytes  = 64 << 10         // a run up to this size is one round trip
	pieceBytes   = 256 << 10        // of one command of an upload
	pieceFields  = 512              // of one command of an upload
	abandonAfter = 10 * time.Minute // an upload whose Submit died is gone after this
)

// Submit accepts runs: small ones together, others one by one. After core.ErrUnknown, submit the
// run again: it is idempotent.
func (q *Queue) Submit(ctx context.Context, runs ...queue.Run) []queue.Submission {
	answers := make([]queue.Submission, len(runs))
	if err := queue.ValidateSubmit(len(runs)); err != nil {
		return failed(len(runs), err)
	}
	var together []*small
	var at []int // where the answer to one of them belongs
	flush := func() {
		if len(together) > 0 {
			for i, answer := range q.batch.submit(ctx, together) {
				answers[at[i]] = answer
			}
		}
		together, at = nil, nil
	}
	for i := range runs {
		r := &runs[i]
		if answers[i].Err = cmp.Or(ctx.Err(), r.Validate()); answers[i].Err != nil {
			continue
		}
		p := pack(r)
		if s, ok := q.asSmall(r, p); ok {
			together, at = append(together, s), append(at, i)
			continue
		}
		flush() // the order is kept
		answers[i].Created, answers[i].Err = q.submitLarge(ctx, r, p)
	}
	flush()
	return answers
}

// submitLarge accepts one run: its target list is uploaded in bounded pieces if it is long, then
// one script accepts it.
func (q *Queue) submitLarge(ctx context.Context, r *queue.Run, p *packed) (bool, error) {
	no := int64(0)
	if p.size > inlineBytes || len(p.ready) > maxReady {
		var err error
		if no, err = q.upload(ctx, r, p); err != nil {
			return false, fmt.Errorf("submit run %q: %w", r.ID, err)
		}
	}
	v, err := q.eval(ctx, q.scripts.accept, q.acceptArgs(r, p, no)...)
	if err != nil {
		return false, fmt.Errorf("submit run %q: %w", r.ID, err)
	}
	answer := newReply(v)
	conflict, gone := answer.is("CONFLICT"), answer.is("GONE")
	created, accepted := false, int64(0)
	if !conflict && !gone {
		created, accepted = answer.int() == 1, answer.int64()
	}
	if no != 0 && accepted != no {
		if err := q.unlink(ctx, no); err != nil { // a second submit of the same run, or a part has expired: its upload is not needed
			return created, fmt.Errorf("submit run %q: %w", r.ID, err)
		}
	}
	if conflict {
		return false, errOther(r.ID)
	}
	if gone {
		return false, fmt.Errorf("submit run %q: %w: its upload expired after %v, before the queue accepted it; nothing was changed, and the run may be submitted again", r.ID, core.ErrUnavailable, abandonAfter)
	}
	return created, answer.end("accept")
}

func errOther(run string) error {
	return fmt.Errorf("submit run %q: it was submitted before with other content: %w", run, core.ErrConflict)
}

// unlink drops the keys of an upload that is not accepted.
func (q *Queue) unlink(ctx context.Context, no int64) error {
	var keys []string
	for _, s := range runSuffixes() {
		keys = append(keys, q.keys.run(no, "")+s)
	}
	return translate(ctx, q.client.Unlink(ctx, keys...).Err(), "unlink")
}

// upload writes the target list under a new run number; it expires unless it is accepted.
func (q *Queue) upload(ctx context.Context, r *queue.Run, p *packed) (int64, error) {
	if err := q.formatted(ctx); err != nil {
		return 0, err
	}
	no, err := q.client.HIncrBy(ctx, q.keys.key("kMeta"), "run", 1).Result()
	if err != nil {
		return 0, translate(ctx, err, "number a run")
	}
	u := &uploader{ctx: ctx, q: q}
	for i, c := range p.chunks {
		u.add("hset", q.keys.run(no, "xTargets"), len(c), i, c)
	}
	for _, d := range p.large {
		u.add("hset", q.keys.run(no, "xData"), len(d.data), d.index, d.data)
	}
	for _, s := range p.timed {
		u.add("zadd", q.keys.run(no, "xSegments"), 32, s.due, fmt.Sprintf("%d:%d", s.from, s.to))
	}
	if limitOf(r) < len(r.Targets) {
		for _, s := range p.timed {
			u.add("zadd", q.keys.run(no, "xByIndex"), 32, s.from, fmt.Sprintf("%d:%d", s.from, s.to))
		}
	}
	for _, s := range p.ready[min(1, len(p.ready)):] { // the first goes with accept
		u.add("zadd", q.keys.run(no, "xRanges"), 32, s.from, fmt.Sprintf("%d:%d", s.from, s.to))
	}
	u.flush()
	if len(p.payload) > 0 {
		u.send("set", q.keys.run(no, "xPayload"), p.payload)
	}
	for from := 0; from < len(p.finished); from += pieceBytes {
		u.send("setrange", q.keys.run(no, "xFinished"), from, p.finished[from:min(from+pieceBytes, len(p.finished))])
	}
	return no, u.err
}

// uploader gathers fields of one key into commands of bounded size, the key's time to live with the
// first.
type uploader struct {
	ctx    context.Context //nolint:containedctx // lives as long as the call
	q      *Queue
	verb   string
	key    string
	fields []any
	bytes  int
	fresh  map[string]bool
	err    error
}

func (u *uploader) add(verb, key string, size int, pair ...any) {
	if u.key != key || u.bytes > pieceBytes || len(u.fields) >= 2*pieceFields {
		u.flush()
		u.verb, u.key = verb, key
	}
	u.fields = append(u.fields, pair...)
	u.bytes += size
}

func (u *uploader) flush() {
	if len(u.fields) > 0 {
		u.send(u.verb, u.key, u.fields...)
	}
	u.fields, u.bytes = nil, 0
}

func (u *uploader) send(verb, key string, args ...any) {
	if u.err != nil {
		return
	}
	if u.fresh == nil {
		u.fresh = map[string]bool{}
	}
	_, err := u.q.client.Pipelined(u.ctx, func(p goredis.Pipeliner) error {
		p.Do(u.ctx, append([]any{verb, key}, args...)...)
		if !u.fresh[key] {
			p.PExpire(u.ctx, key, abandonAfter)
			u.fresh[key] = true
		}
		return nil
	})
	u.err = translate(u.ctx, err, "upload targets")
}

func (q *Queue) acceptArgs(r *queue.Run, p *packed, no int64) []any {
	ready := p.ready
	if no != 0 {
		ready = ready[:min(1, len(ready))]
	}
	args := []any{r.ID, string(p.digest), no, r.Tenant, cmp.Or(r.TenantWeight, 1), q.config(r, p), len(ready)}
	for _, s := range ready {
		args = append(args, s.from, s.to)
	}
	if no != 0 {
		return append(args, 0, 0)
	}
	args = append(args, len(p.timed))
	for _, s := range p.timed {
		args = append(args, s.due, s.from, s.to)
	}
	args = append(args, len(p.chunks))
	for _, c := range p.chunks {
		args = append(args, c)
	}
	args = append(args, p.payload, p.finished)
	for _, d := range p.large {
		args = append(args, d.index, d.data)
	}
	return args
}

// config is the layout that accept.lua reads.
func (q *Queue) config(r *queue.Run, p *packed) []byte {
	u32 := binary.BigEndian.AppendUint32
	limit, total := limitOf(r), len(r.Targets)
	var b []byte
	b = u32(b, uint32(max(r.Weight, 1)))
	b = u32(b, uint32(int32(r.Priority)))
	for _, n := range []int{total, limit, r.MaxInFlight, r.PerGroup, r.StopAfter, r.StopUnreachable} {
		b = u32(b, uint32(n))
	}
	b = append(b, flag(r.Disruptive), flag(r.OnLost == queue.LostHold))
	b = u32(b, queue.MaxCrashes)
	b = append(b, make([]byte, 7+7+8)...) // a delay between crashes, its bound, and how far it is spread: none
	b = u32(b, chunkTargets)
	b = appendUint56(b, uint64(q.opt.Keep.Milliseconds()))
	late := 0
	for _, s := range p.timed {
		late += max(0, min(s.to, limit)-s.from)
	}
	b = u32(b, uint32(late))
	b = append(b, flag(r.Paused))
	ended, lost := make([]int, len(core.Outcomes())), math.MaxUint32
	for _, s := range r.FinishedJobs {
		ended[outcomeCode(s.Outcome)-1] += s.Count
		if s.Outcome == core.Lost {
			lost = min(lost, s.Index)
		}
	}
	for _, n := range ended {
		b = u32(b, uint32(n))
	}
	return u32(b, uint32(lost))
}

// limitOf is how many targets are released.
func limitOf(r *queue.Run) int {
	if r.Limit == 0 {
		return len(r.Targets)
	}
	return min(r.Limit, len(r.Targets))
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// digest identifies the content of a submission. The slices are hashed as they were packed.
// Finished jobs, and whether the run starts paused, are not in it.
func digest(r *queue.Run, p *packed) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%q %d %d %d %d %d %d %d %d %v %q 0 {0s 0s 0} %d\n", r.Tenant, max(r.TenantWeight, 1), max(r.Weight, 1), r.Priority, r.Limit,
		r.MaxInFlight, r.PerGroup, r.StopAfter, r.StopUnreachable, r.Disruptive, r.OnLost, len(r.Targets))
	for _, s := range r.Segments {
		fmt.Fprintf(h, "%d %d\n", micros(s.Due), s.Count)
	}
	for _, c := range p.chunks {
		h.Write(c)
	}
	for _, d := range p.large {
		fmt.Fprintf(h, "\n%d %d\n", d.index, len(d.data))
		h.Write(d.data)
	}
	fmt.Fprintf(h, "\n%d\n", len(r.Payload))
	h.Write(r.Payload)
	return h.Sum(nil)[:20]
}
