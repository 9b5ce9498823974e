package redis_test

import (
	"errors"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue/redis/redistest"
	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/schedule"
)

// roleUser is a client of a user with the rights of a role.
func roleUser(t *testing.T, server *redistest.Server, admin *goredis.Client, name string, role redisconn.Role, pools ...string) goredis.UniversalClient {
	t.Helper()
	rules, err := redisconn.ACLRules(role, redistest.Password, pools...)
	if err != nil {
		t.Fatal(err)
	}
	words := []any{"acl", "setuser", name}
	for _, r := range rules {
		words = append(words, r)
	}
	if err := admin.Do(t.Context(), words...).Err(); err != nil {
		t.Fatal(err)
	}
	return redistest.Dial(t, strings.Replace(server.URL(), "://"+redistest.User+":", "://"+name+":", 1))
}

// Whichever right is taken away, it is found before anything was written, with its name; a worker's user has none of them.
func TestMissingRightIsNamedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client()
	t.Cleanup(func() { _ = admin.Close() })
	s := newStore(t, roleUser(t, server, admin, "less", redisconn.ServerRole, "dmz"), "")
	if err := s.Preflight(t.Context()); err != nil {
		t.Fatalf("negative control, all rights of a server: %v", err)
	}
	for _, name := range redisconn.ScheduleCommands() {
		if err := admin.Do(t.Context(), "acl", "setuser", "less", "-"+name).Err(); err != nil {
			t.Fatal(err)
		}
		if err := s.Preflight(t.Context()); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "may not call "+name+" on the keys of schedules") || !strings.Contains(err.Error(), "turnus queue acl") {
			t.Errorf("without %s: %v", name, err)
		}
		if err := admin.Do(t.Context(), "acl", "setuser", "less", "+"+name).Err(); err != nil {
			t.Fatal(err)
		}
	}
	worker := newStore(t, roleUser(t, server, admin, "worker", redisconn.WorkerRole, "dmz"), "")
	if err := worker.Preflight(t.Context()); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "and") {
		t.Errorf("a worker's user: %v", err)
	}
	if n, err := admin.DBSize(t.Context()).Result(); err != nil || n != 0 {
		t.Errorf("%d keys were written (%v)", n, err)
	}
	// What it keeps from: a script that is refused when half of its work is done.
	if err := admin.Do(t.Context(), "acl", "setuser", "less", "-zadd").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(t.Context(), []schedule.Change{{ID: name(1), Data: []byte("x")}}); !errors.Is(err, core.ErrUnknown) {
		t.Errorf("a script that was refused half-way: %v", err)
	}
}
