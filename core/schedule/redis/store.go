// Package redis keeps schedules on Redis 7.0 or newer (or Valkey): standalone, Sentinel or Cluster.
// Every operation is one Lua script in lua/; DESIGN.md has the table of keys, the costs and the
// decisions.
//
// It owns the key names and the layout of records. It must not know what a record's data means, reads no
// clock but the server's, and keeps no state between calls.
package redis

import (
	"context"
	"fmt"
	"math"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/schedule"
)

// maxSpace is how long Options.Space may be.
const maxSpace = 32

// Options of a store. The zero value is right for production.
type Options struct {
	Space string // apart from each other in one database: letters, digits and '-', at most 32 bytes
}

// Store keeps schedules. All methods are safe for concurrent use.
type Store struct {
	conn    *redisconn.Conn
	keys    []string
	wake    string
	scripts *scripts
}

var _ schedule.Store = (*Store)(nil)

// New returns the store. The client belongs to the caller, who closes it after the last call; it must be a
// *redis.Client (standalone or Sentinel) or a *redis.ClusterClient. New sends nothing.
func New(client goredis.UniversalClient, opt Options) (*Store, error) {
	conn, err := redisconn.New("schedules", client)
	if err != nil {
		return nil, err
	}
	if len(opt.Space) > maxSpace {
		return nil, fmt.Errorf("schedules: space is %d bytes, expected at most %d: %w", len(opt.Space), maxSpace, core.ErrInvalid)
	}
	for _, c := range opt.Space {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return nil, fmt.Errorf("schedules: space %q has the character %q, expected letters, digits and '-': %w", opt.Space, c, core.ErrInvalid)
		}
	}
	if opt.Space != "" {
		opt.Space += ":"
	}
	s, err := loadScripts()
	if err != nil {
		return nil, err
	}
	st := &Store{conn: conn, scripts: s}
	st.keys, st.wake = keyNames(opt.Space)
	return st, nil
}

// Preflight asks whether the user of the connection has the rights that the store needs: core.ErrInvalid says which it lacks, and
// core.ErrUnavailable that the server does not answer. It changes nothing; without it, a script may be refused half-way.
func (s *Store) Preflight(ctx context.Context) error {
	missing, err := s.conn.Missing(ctx, s.wake, redisconn.ScheduleCommands())
	if err != nil {
		return err
	}
	return s.conn.Lacking(missing, "the keys of schedules")
}

// Take hands out what is due.
func (s *Store) Take(ctx context.Context, most int, hold time.Duration) (schedule.Taken, error) {
	var t schedule.Taken
	if err := schedule.ValidateTake(most, hold); err != nil {
		return t, err
	}
	r, err := s.eval(ctx, s.scripts.take, most, ceilMicro(hold))
	if err != nil {
		return t, err
	}
	t.Now, t.Next = r.micro(), r.milli()
	for due := r.milli(); !r.empty(); {
		t.Records = append(t.Records, schedule.Record{ID: r.id(), Version: r.version(), Due: due, Data: r.bytes()})
	}
	t.More = !t.Next.IsZero() && !t.Next.After(t.Now)
	return t, r.end(s.scripts.take)
}

// Write applies changes, each if its version is right.
func (s *Store) Write(ctx context.Context, changes []schedule.Change) ([]uint64, error) {
	if err := schedule.ValidateWrite(changes); err != nil {
		return nil, err
	}
	if len(changes) == 0 {
		return nil, nil
	}
	args := make([]any, 0, 6*len(changes))
	for i := range changes {
		c := &changes[i]
		what, due := "set", int64(-1)
		switch {
		case c.Delete:
			what = "del"
		case c.Keep:
			what = "keep"
		}
		if !c.Due.IsZero() {
			due = schedule.DueMilli(c.Due)
		}
		args = append(args, recordKey(c.ID), c.Version, what, due, ceilMicro(c.Hold), c.Data)
	}
	r, err := s.eval(ctx, s.scripts.write, args...)
	if err != nil {
		return nil, err
	}
	r.micro()
	versions := make([]uint64, 0, len(changes))
	for range changes {
		versions = append(versions, r.version())
	}
	return versions, r.end(s.scripts.write)
}

// Get reads records.
func (s *Store) Get(ctx context.Context, ids []schedule.ID) (schedule.Read, error) {
	if err := schedule.ValidateIDs(ids); err != nil {
		return schedule.Read{}, err
	}
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = recordKey(id)
	}
	r, err := s.eval(ctx, s.scripts.get, args...)
	if err != nil {
		return schedule.Read{}, err
	}
	out := schedule.Read{Now: r.micro(), Records: r.records()}
	return out, r.end(s.scripts.get)
}

// eval runs a script exactly once or not at all; core.ErrUnknown says that it is not known which.
func (s *Store) eval(ctx context.Context, script *redisconn.Script, args ...any) (*reply, error) {
	v, err := s.conn.Eval(ctx, script, s.keys, args...)
	if err != nil {
		return nil, err
	}
	return newReply(v), nil
}

// ceilMicro is a span in µs, rounded up.
func ceilMicro(d time.Duration) int64 {
	if d > math.MaxInt64-time.Microsecond {
		return d.Microseconds()
	}
	return (d + time.Microsecond - 1).Microseconds()
}
