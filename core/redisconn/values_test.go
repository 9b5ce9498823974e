package redisconn_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/testparts/servers"
)

// A doctor may read all values under its pools' keys, as turnus admin keys does; other keys in the
// same Redis do not disturb it. The negative controls are the same user without one of the
// commands, a server's, and reading everything.
func TestDoctorReadsAllValues(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := servers.StartRedis(t) // its user is a doctor
	admin := server.Client()
	t.Cleanup(func() { _ = admin.Close() })
	calls := []*goredis.Cmd{
		admin.Do(ctx, "set", "{default/0}:text", "a text"), admin.Do(ctx, "hset", "{default/0}:fields", "f", "a field"),
		admin.Do(ctx, "xadd", "{default/0}:news", "*", "f", "an entry"), admin.Do(ctx, "rpush", "{default/0}:list", "not looked at"),
		admin.Do(ctx, "set", "shop:cart:17", "another's"),
	}
	for _, c := range calls {
		if c.Err() != nil {
			t.Fatal(c.Err())
		}
	}
	all := redisconn.RoleKeys(redisconn.DoctorRole)
	if len(all) != 1 {
		t.Fatalf("patterns of all keys: %q", all)
	}
	read := func(c goredis.UniversalClient, match string) (found []string, err error) {
		err = redisconn.Values(context.WithoutCancel(ctx), c, match, func(_ string, value []byte) error {
			found = append(found, string(value))
			return nil
		})
		slices.Sort(found)
		return found, err
	}
	user := server.User(t)
	if found, err := read(user, all[0]); err != nil || strings.Join(found, ", ") != "a field, a text, an entry" {
		t.Errorf("a doctor reads %q, %v", found, err)
	}
	if found, err := read(user, "*"); err == nil {
		t.Errorf("negative control: it may read what others keep: %q", found)
	}
	if found, err := read(admin, "*"); err != nil || !slices.Contains(found, "another's") {
		t.Errorf("negative control: nothing of others is there: %q, %v", found, err)
	}
	for _, command := range []string{"scan", "type", "get", "hscan", "xrange"} {
		if !slices.Contains(redisconn.RoleCommands(redisconn.DoctorRole), command) {
			t.Errorf("a doctor may not call %s", command)
		}
		if err := admin.Do(ctx, "acl", "setuser", servers.RedisUser, "-"+command).Err(); err != nil {
			t.Fatal(err)
		}
		if found, err := read(user, all[0]); err == nil {
			t.Errorf("negative control: without %s it reads %q", command, found)
		}
		if err := admin.Do(ctx, "acl", "setuser", servers.RedisUser, "+"+command).Err(); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := redisconn.ACLRules(redisconn.ServerRole, servers.Password)
	if err != nil {
		t.Fatal(err)
	}
	args := []any{"acl", "setuser", servers.RedisUser}
	for _, r := range rules {
		args = append(args, r)
	}
	if err := admin.Do(ctx, args...).Err(); err != nil {
		t.Fatal(err)
	}
	if found, err := read(user, all[0]); err == nil {
		t.Errorf("negative control: a server's user reads %q", found)
	}
}
