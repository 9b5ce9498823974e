//go:build linux && labs

package e2e

import (
	"context"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/transport/fleet"
)

// thief can read and write all of Redis, and has no key.
type thief struct {
	*lab
	client *goredis.Client
	kept   map[string]string // by key: how Redis dumps it
}

// ofRuns are the keys that list the runs and jobs, and that they wait: not what counts, nor who
// works.
var ofRuns = regexp.MustCompile(`[:}](ids|tenants|ready|due|small|payloads|[rt][0-9]+(:.)?)$`)

// keep copies them once the run is there: all at one moment, since the run moves from one key to
// another.
func (s *thief) keep() {
	s.t.Helper()
	const all = `local out = {} for _, key in ipairs(redis.call('KEYS', '*')) do table.insert(out, key) table.insert(out, redis.call('DUMP', key)) end return out`
	until(s.t, "the run to be in Redis", func() bool {
		dumps, err := s.client.Eval(context.Background(), all, nil).StringSlice()
		if err != nil {
			s.t.Fatal(err)
		}
		s.kept = map[string]string{}
		for i := 0; i+1 < len(dumps); i += 2 {
			if ofRuns.MatchString(dumps[i]) {
				s.kept[dumps[i]] = dumps[i+1]
			}
		}
		return len(s.kept) > 0
	})
}

// replay puts back what was kept, all at one moment: a worker that asks in between would find a run
// without its jobs, and forget it.
func (s *thief) replay() {
	s.t.Helper()
	_, err := s.client.TxPipelined(context.Background(), func(p goredis.Pipeliner) error {
		for key, dump := range s.kept {
			p.RestoreReplace(context.Background(), key, 0, dump)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// A person who can write to Redis, and has no key, makes a worker do only jobs that were encrypted
// for their place: neither a forged job, nor a true one for another host, index or run. The same
// job in the same place starts again, as in docs/security.md: that is also the control.
func TestLabAttackOverRedisWithAKeyRing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := newLab(t, fleet.Config{Hosts: 2}).withRedis()
	ring := filepath.Join(l.dir, "ring.json")
	l.keys(nil, "new", ring)
	run := l.run("--keyring", ring, l.playbook("true", "{uses: command, with: {run: echo hello}}"))
	s := &thief{lab: l, client: l.redis.admin()}
	raw := l.redis.queue()
	until(t, "the run to be released", func() bool { // it goes into the queue paused
		ids, err := raw.Runs(ctx)
		if err != nil || len(ids) == 0 {
			return false
		}
		status, err := raw.Status(ctx, ids[0])
		return err == nil && status.Phase == queue.Active
	})
	s.keep()

	// Without a worker, the thief leases the jobs and gives them back: so their encrypted bytes are
	// known.
	session, err := raw.Open(ctx, "thief")
	if err != nil {
		t.Fatal(err)
	}
	leased, err := raw.Turn(ctx, queue.Turn{Session: session, Want: 2})
	if err != nil || len(leased.Leases) != 2 {
		t.Fatalf("%+v, %v", leased, err)
	}
	jobs := leased.Leases
	slices.SortFunc(jobs, func(a, b queue.Lease) int { return a.Job.Index - b.Job.Index })
	back := make([]queue.Ack, len(jobs))
	for i, job := range jobs {
		back[i] = queue.Ack{Job: job.Job, Token: job.Token, Kind: queue.AckReturn}
	}
	if _, err := raw.Turn(ctx, queue.Turn{Session: session, Acks: back}); err != nil {
		t.Fatal(err)
	}
	payload, err := raw.Payload(ctx, jobs[0].Job.Run)
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Close(ctx, session); err != nil {
		t.Fatal(err)
	}

	w := l.worker("--keyring", ring)
	ended := func(run string, jobs int) (all []queue.Record) {
		until(t, "the end of run "+run, func() bool {
			seen := raw.Poll(ctx, 10, queue.Ask{Run: run})[0]
			all = seen.Records
			return seen.Err == nil && len(all) == jobs
		})
		return all
	}
	ended(jobs[0].Job.Run, 2)
	run.wants(0)
	before := l.fleet.Stats().Commands
	if before < 2 {
		t.Fatalf("control: %d commands on the hosts", before)
	}

	submit := func(r queue.Run) {
		t.Helper()
		if _, err := queue.SubmitOne(ctx, raw, r); err != nil {
			t.Fatal(err)
		}
	}
	first, second := jobs[0], jobs[1]
	submit(queue.Run{ID: "plain", Payload: []byte("{}"), Targets: []queue.Target{{Host: first.Host, Data: []byte("{}")}}})
	submit(queue.Run{ID: "elsewhere", Payload: payload, Targets: []queue.Target{{Host: first.Host, Data: first.Data}, {Host: second.Host, Data: second.Data}}})
	for _, r := range ended("elsewhere", 2) {
		if r.Outcome != core.Failed {
			t.Errorf("the job %d of another run ended as %s", r.Index, r.Outcome)
		}
	}
	until(t, "the forged job to be refused", func() bool { return w.err.has("plain/0", "is not encrypted") })
	if n := l.fleet.Stats().Commands; n != before {
		t.Errorf("%d commands were run for what was forged", n-before)
	}

	s.replay()
	until(t, "the same jobs in their place to start again", func() bool { return l.fleet.Stats().Commands >= before+2 })
	w.signal(syscall.SIGTERM)
	w.wants(0)
}
