package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/redisconn"
)

// Preflight checks the server. The error is for a server that cannot be used or reached; the
// warnings are for one that may lose accepted runs, each with what to do next. It changes only the
// format of data that a former version kept.
func (q *Queue) Preflight(ctx context.Context) ([]string, error) {
	warnings, err := q.suits(ctx)
	if err != nil {
		return warnings, err
	}
	if err := q.takeOver(ctx); err != nil && !errors.Is(err, core.ErrUnavailable) { // a replica, for example: the warnings report it, and the first call tries again
		return warnings, err
	}
	return warnings, nil
}

// suits is Preflight of the server, whatever it keeps. It changes nothing.
func (q *Queue) suits(ctx context.Context) ([]string, error) {
	c, err := q.node(ctx)
	if err != nil {
		return nil, err
	}
	missing, err := q.conn.Missing(ctx, q.keys.key("kMeta"), redisconn.QueueCommands())
	if err != nil {
		return nil, err
	}
	blind := slices.Contains(missing, "info")
	missing = slices.DeleteFunc(missing, func(name string) bool { return name == "info" })
	if err := q.conn.Lacking(missing, fmt.Sprintf("the keys of pool %q", q.opt.Pool)); err != nil {
		return nil, err
	}
	if blind {
		return []string{"the user of this connection may not ask how the server is (INFO), so it is unknown whether it keeps accepted runs, and a restart that loses changes is not noticed in time: allow it +info, or see that " +
			"maxmemory-policy is noeviction and appendonly is yes"}, nil
	}
	info, err := c.Info(ctx, "server", "memory", "persistence", "replication").Result()
	if err != nil {
		return nil, translate(ctx, err, "preflight")
	}
	return preflight(ctx, info, func(name string) (string, error) {
		m, err := c.ConfigGet(ctx, name).Result()
		return m[name], err
	})
}

func preflight(ctx context.Context, info string, config func(string) (string, error)) ([]string, error) {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[k] = v
		}
	}
	version := fields["redis_version"]
	name := "Redis"
	if v := fields["valkey_version"]; v != "" {
		name, version = "Valkey", v
	}
	major, err := strconv.Atoi(strings.SplitN(version, ".", 2)[0])
	if err != nil {
		return nil, fmt.Errorf("queue: the server has version %q, expected 7.0 or newer: %w", version, core.ErrInvalid)
	}
	if major < 7 {
		return nil, fmt.Errorf("queue: the server is %s %s, expected 7.0 or newer: upgrade it: %w", name, version, core.ErrInvalid)
	}
	var warnings []string
	if p := fields["maxmemory_policy"]; p != "noeviction" {
		warnings = append(warnings, fmt.Sprintf("%s may evict queue data when memory is full (maxmemory-policy is %s): set `maxmemory-policy noeviction`", name, p))
	}
	if fields["aof_enabled"] != "1" {
		save, err := config("save")
		switch {
		case err != nil && !isRefusal(err):
			return warnings, translate(ctx, err, "preflight")
		case err != nil: // the user may not ask, and does not have to: the configuration also has passwords
			warnings = append(warnings, name+" has no append-only file: a crash loses what was accepted since the last snapshot, or all where it makes none; set `appendonly yes`")
		case err == nil && save == "":
			warnings = append(warnings, name+" keeps nothing on disk: after a restart the queue is empty; set `appendonly yes`")
		default:
			warnings = append(warnings, name+" saves snapshots only: a crash loses what was accepted since the last one; set `appendonly yes`")
		}
	}
	if fields["role"] == "slave" {
		warnings = append(warnings, name+" is a replica and refuses writes: connect to the master, or use redis-sentinel://")
	}
	return warnings, nil
}

// isRefusal reports whether the server answered that it does not allow the question, as managed
// ones do.
func isRefusal(err error) bool {
	var reply goredis.Error
	return errors.As(err, &reply)
}
