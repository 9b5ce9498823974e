package redis_test

import (
	"errors"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/redis"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/testparts/servers"
)

// restricted is a client of a new user with a role's rights and more rules.
func restricted(t *testing.T, server *servers.Redis, name string, role redisconn.Role, pools []string, more ...string) *goredis.Client {
	t.Helper()
	admin := server.Client()
	defer func() { _ = admin.Close() }()
	rules, err := redisconn.ACLRules(role, servers.Password, pools...)
	if err != nil {
		t.Fatal(err)
	}
	words := []any{"acl", "setuser", name}
	for _, r := range append(rules, more...) {
		words = append(words, r)
	}
	if err := admin.Do(t.Context(), words...).Err(); err != nil {
		t.Fatal(err)
	}
	user := strings.Replace(server.URL(), "://"+servers.RedisUser+":", "://"+name+":", 1)
	return servers.DialRedis(t, user).(*goredis.Client)
}

// A user has the commands and the keys of its role, and nothing else.
func TestUserHasItsRoleOnly(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	c := restricted(t, server, "dmz", redisconn.WorkerRole, []string{"dmz"})
	q := newQueue(t, c, redis.Options{Pool: "dmz"})
	if warnings, err := q.Preflight(t.Context()); err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	mustSubmit(t, q, "r", "a")
	s := mustOpen(t, q)
	if res, err := q.Turn(t.Context(), queue.Turn{Session: s, Want: 1}); err != nil || len(res.Leases) != 1 {
		t.Fatal(res, err)
	}
	for _, command := range [][]any{
		{"flushall"}, {"flushdb"}, {"config", "get", "*"}, {"config", "set", "dir", "/"}, {"keys", "*"}, {"scan", 0}, {"acl", "list"}, {"acl", "whoami"},
		{"shutdown"}, {"save"}, {"replicaof", "no", "one"}, {"module", "list"}, {"script", "flush"}, {"function", "list"}, {"monitor"}, {"publish", "x", "y"}, {"subscribe", "x"},
		{"client", "list"}, {"client", "kill", "id", 1}, {"swapdb", 0, 1}, {"rename", "{dmz/0}:ids", "{dmz/0}:x"}, {"dump", "{dmz/0}:ids"}, {"copy", "{dmz/0}:ids", "{dmz/0}:x"},
		{"get", "foreign"}, {"hgetall", "{default/0}:ids"}, {"hset", "{default/0}:meta2", "clock", 0}, {"hget", "{schedules/0}:clock", "t"},
		{"eval", "return redis.call('GET', 'foreign')", 0}, {"eval", "return redis.call('FLUSHALL')", 0}, {"eval", "return redis.call('HGETALL', KEYS[1])", 1, "{default/0}:ids"},
	} {
		if err := c.Do(t.Context(), command...).Err(); err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "No permissions") &&
			!strings.Contains(err.Error(), "The user executing the script can't") {
			t.Errorf("%v: %v, expected no permission", command, err)
		}
	}
	other := newQueue(t, c, redis.Options{Pool: "default"})
	if _, err := other.Preflight(t.Context()); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "turnus admin queue acl") {
		t.Errorf("another pool's queue: %v", err)
	}
	if _, err := other.Open(t.Context(), "node"); err == nil {
		t.Error("another pool's queue takes a session")
	}
}

// Negative control of the least rights: whichever command is taken away, it is found before
// anything was written, with its name.
func TestMissingCommandIsNamedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	admin := server.Client()
	t.Cleanup(func() { _ = admin.Close() })
	c := restricted(t, server, "less", redisconn.WorkerRole, nil)
	q := newQueue(t, c, redis.Options{})
	for _, name := range redisconn.QueueCommands() {
		if err := admin.Do(t.Context(), "acl", "setuser", "less", "-"+name).Err(); err != nil {
			t.Fatal(err)
		}
		warnings, err := q.Preflight(t.Context())
		switch {
		case name == "info": // it is good to have, and no more
			if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "+info") {
				t.Errorf("without INFO: %q, %v", warnings, err)
			}
			if err := admin.FlushAll(t.Context()).Err(); err != nil { // the format
				t.Fatal(err)
			}
		case !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "may not call "+name+" "):
			t.Errorf("without %s: %v", name, err)
		}
		if err := admin.Do(t.Context(), "acl", "setuser", "less", "+"+name).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := admin.DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("%d keys were written (%v)", n, err)
	}
	if err := admin.Do(t.Context(), "acl", "setuser", "less", "-hset").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Open(t.Context(), "node"); !errors.Is(err, core.ErrUnknown) || !strings.Contains(err.Error(), "turnus admin queue acl") {
		t.Errorf("a script that was refused half-way: %v", err)
	}
}

// A wrong user or password is reported.
func TestWrongUserIsNamed(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t)
	c, err := redisconn.Dial(strings.Replace(server.URL(), servers.RedisUser+":", "nobody:", 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := newQueue(t, c, redis.Options{}).Preflight(t.Context()); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "USER:PASSWORD@HOST") {
		t.Errorf("%v", err)
	}
}
