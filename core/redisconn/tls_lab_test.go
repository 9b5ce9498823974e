//go:build linux && labs

package redisconn_test

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core/testparts/servers"
)

// A Cluster and a Sentinel over TLS, with the user of the least rights.
func TestLabClusterAndSentinelOverTLS(t *testing.T) {
	t.Parallel()
	if servers.TLSEverywhere() {
		t.Log("every test of both is over TLS")
		return
	}
	f := servers.StartRedisSentinelTLS(t)
	if err := hello(t, f.URL()); err != nil {
		t.Errorf("Sentinel: %v", err)
	}
	if err := hello(t, servers.StartRedisClusterTLS(t)); err != nil {
		t.Errorf("Cluster: %v", err)
	}
	admin := f.Master.Client()
	defer func() { _ = admin.Close() }()
	if refused, err := admin.Do(t.Context(), "acl", "log").Slice(); err != nil || len(refused) > 0 {
		t.Errorf("the master refused: %v, %v", refused, err)
	}
	sentinel := goredis.NewClient(f.Master.Guard.Options(t, f.Sentinel))
	defer func() { _ = sentinel.Close() }()
	if refused, err := sentinel.Do(t.Context(), "acl", "log").Slice(); err != nil || len(refused) > 0 {
		t.Errorf("the Sentinel refused: %v, %v", refused, err)
	}
}
