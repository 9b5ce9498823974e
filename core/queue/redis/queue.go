// Package redis implements the contracts of queue and board on Redis 7.0 or newer (or Valkey):
// standalone, Sentinel or Cluster. Every operation is one Lua script in lua/;
// DESIGN.md has the table of keys, the costs and the decisions.
//
// It owns the key names, the packing of runs, and how errors of the client become
// those of core. It must not know what a job's bytes mean, and keeps no state
// between calls except the highest token that it was given: what else a process knows of the queue,
// it asks Redis.
package redis

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/redisconn"
)

// Options of a queue. The zero value is right for production.
type Options struct {
	Pool       string        // which pool of workers this queue serves; "" is a pool like any other
	SessionTTL time.Duration // queue.SessionTTL when zero
	Keep       time.Duration // how long a complete run is remembered; 24 h when zero
}

// Queue is one pool's queue. All methods are safe for concurrent use.
type Queue struct {
	client  goredis.UniversalClient
	conn    *redisconn.Conn
	opt     Options
	keys    keyspace
	scripts *scripts

	seen            atomic.Uint64 // highest token that this process was given
	batch           *batcher      // of small runs
	feedConcurrency chan struct{} // taken by followers that sleep in Redis
}

var (
	_ queue.Queue = (*Queue)(nil)
	_ board.Store = (*Queue)(nil)
)

// New returns the queue of a pool. The client belongs to the caller, who closes it after the last
// call; it must be a *redis.Client (standalone or Sentinel) or a *redis.ClusterClient. Retries of
// the client do no harm: what changes the queue is sent once. New sends nothing; Preflight checks
// the server.
func New(client goredis.UniversalClient, opt Options) (*Queue, error) {
	conn, err := redisconn.New("queue", client)
	if err != nil {
		return nil, err
	}
	if len(opt.Pool) > queue.MaxIDLength {
		return nil, fmt.Errorf("queue: pool name is %d bytes, expected at most %d: %w", len(opt.Pool), queue.MaxIDLength, core.ErrInvalid)
	}
	if opt.SessionTTL <= 0 {
		opt.SessionTTL = queue.SessionTTL
	}
	if opt.Keep <= 0 {
		opt.Keep = 24 * time.Hour
	}
	s, err := loadScripts(opt.SessionTTL)
	if err != nil {
		return nil, err
	}
	q := &Queue{client: client, conn: conn, opt: opt, keys: newKeyspace(opt.Pool), scripts: s, feedConcurrency: make(chan struct{}, feedBlocks)}
	q.batch = &batcher{send: q.submitSmall}
	return q, nil
}

// Shutdown waits until what callers of Submit left behind is sent. No call may follow; the client
// is closed after it.
func (q *Queue) Shutdown() { q.batch.close() }

// Open starts a session with an id that was never used before.
func (q *Queue) Open(ctx context.Context, node string) (string, error) {
	if node == "" || len(node) > queue.MaxIDLength {
		return "", fmt.Errorf("node name %q: expected 1 to %d bytes: %w", node, queue.MaxIDLength, core.ErrInvalid)
	}
	id := rand.Text()
	reply, err := q.eval(ctx, q.scripts.open, id, node, q.opt.SessionTTL.Microseconds())
	if err != nil {
		return "", err
	}
	if n, _ := reply.(int64); n != 1 {
		return "", fmt.Errorf("queue: open: session id is taken: %w", core.ErrConflict)
	}
	return id, nil
}

// Beat keeps the session and all its leases alive.
func (q *Queue) Beat(ctx context.Context, session string) (queue.BeatResult, error) {
	r, err := q.sessionCall(ctx, q.scripts.beat, session, q.opt.SessionTTL.Microseconds(), q.seen.Load())
	if err != nil {
		return queue.BeatResult{}, err
	}
	res := queue.BeatResult{Now: r.time(), Until: r.time(), Stop: r.jobs()}
	return res, r.end("beat")
}

// Adopt lists what the session holds, in the order in which it was leased.
func (q *Queue) Adopt(ctx context.Context, session string) ([]queue.Lease, error) {
	found := map[core.JobID]queue.Lease{}
	for cursor := "0"; ; {
		r, err := q.sessionCall(ctx, q.scripts.adopt, session, cursor)
		if err != nil {
			return nil, err
		}
		cursor = r.text()
		page := r.list()
		for !page.empty() {
			l := queue.Lease{Job: core.JobID{Run: page.text(), Index: page.int()}, Host: page.text(), Token: uint64(page.int64())}
			l.Attempt, l.Data, l.State, l.Over = page.int(), page.bytes(), page.bytes(), core.Reason(page.text())
			found[l.Job] = l
		}
		if err := errors.Join(page.end("adopt"), r.end("adopt")); err != nil {
			return nil, err
		}
		if cursor == "0" {
			return byToken(found), nil
		}
	}
}

// Close ends the session and gives back what it still holds.
func (q *Queue) Close(ctx context.Context, session string) error {
	for {
		r, err := q.sessionCall(ctx, q.scripts.shut, session)
		if err != nil {
			return err
		}
		left := r.int()
		if err := r.end("close"); err != nil || left == 0 {
			return err
		}
	}
}

// sessionCall runs a script that answers GONE for a session that is no more.
func (q *Queue) sessionCall(ctx context.Context, s *script, session string, args ...any) (*reply, error) {
	v, err := q.eval(ctx, s, append([]any{session}, args...)...)
	if err != nil {
		return nil, err
	}
	r := newReply(v)
	if r.is("GONE") {
		q.seen.Store(0) // as in Turn
		return nil, fmt.Errorf("queue: %s: session %q: %w", s.Name, session, core.ErrSessionGone)
	}
	return r, nil
}

// translate turns an error of the client into one of core.
func translate(ctx context.Context, err error, doing string) error {
	return redisconn.Translate(ctx, err, "queue: "+doing)
}
