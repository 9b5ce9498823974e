//go:build labs

package redisconn_test

import (
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core/redisconn"
	"github.com/turnus/turnus/core/testparts/servers"
)

// A master of a Cluster is gone, and its replica takes over: commands that are sent once find it
// immediately, and not after the minute that the client believes what it knows.
func TestLabTrapClusterFailoverIsNotSeen(t *testing.T) {
	t.Parallel()
	r := servers.StartReplicatedRedis(t)
	var addrs []string
	for _, s := range r.Masters {
		addrs = append(addrs, s.Addr)
	}
	c := servers.DialRedis(t, r.URL())
	o := r.Masters[0].Guard.Options(t, addrs[0])
	plain := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: addrs, MaxRetries: -1, TLSConfig: o.TLSConfig})
	t.Cleanup(func() { _ = plain.Close() })
	conn, err := redisconn.New("test", c)
	if err != nil {
		t.Fatal(err)
	}
	count := redisconn.NewScript("count", "return redis.call('HINCRBY', KEYS[1], 'n', 1)")
	const key = "{default/0}:n"
	if _, err := conn.Eval(t.Context(), count, []string{key}); err != nil {
		t.Fatal(err)
	}
	if err := plain.HLen(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	r.Owner(t, key).Kill()
	servers.Until(t, "a script to run on the new master", func() bool {
		_, err := conn.Eval(t.Context(), count, []string{key})
		return err == nil
	})
	if err := plain.Do(t.Context(), "evalsha_ro", strings.Repeat("0", 40), 1, key).Err(); err == nil || strings.HasPrefix(err.Error(), "NOSCRIPT") {
		t.Errorf("negative control: a client without the hook also found the new master: %v", err)
	}
}
