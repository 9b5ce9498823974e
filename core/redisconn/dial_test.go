package redisconn_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/redisconn"
)

func TestDialReadsURLs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		url, addr string
		db        int
		tls       bool
	}{
		{"redis://127.0.0.1", "127.0.0.1:6379", 0, false},
		{"redis://user:p%40ss@h:7000/3?insecure=true", "h:7000", 3, false},
		{"rediss://[::1]:7000", "[::1]:7000", 0, true},
		{"unix:///run/redis.sock?db=2", "/run/redis.sock", 2, false},
		{"unix://:secret@/run/redis.sock", "/run/redis.sock", 0, false},
	} {
		c, err := redisconn.Dial(tc.url)
		if err != nil {
			t.Errorf("%s: %v", tc.url, err)
			continue
		}
		o := c.(*goredis.Client).Options()
		if o.Addr != tc.addr || o.DB != tc.db || (o.TLSConfig != nil) != tc.tls || o.MaxRetries != 0 {
			t.Errorf("%s: %s db %d tls %v retries %d", tc.url, o.Addr, o.DB, o.TLSConfig != nil, o.MaxRetries)
		}
		_ = c.Close()
	}
	if c, err := redisconn.Dial("redis-cluster://a,b:7001,c?insecure=true"); err != nil {
		t.Error(err)
	} else {
		if got := c.(*goredis.ClusterClient).Options().Addrs; !slices.Equal(got, []string{"a:6379", "b:7001", "c:6379"}) {
			t.Errorf("cluster: %v", got)
		}
		_ = c.Close()
	}
}

func TestDialErrorsHoldNoPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"127.0.0.1:6379", "http://:hunter2@h", "redis://:hunter2@h:x", "redis://:hunter2@h/x", "redis://:hunter2@a,b", "redis://:hunter2%zz@h",
		"redis-sentinel://:hunter2@h", "redis-cluster://:hunter2@h/1", "unix://:hunter2@", "redis://:hunter2@", "redis://:hunter2@h:0", "redis://:hunter2@h/-1",
		"redis://:hunter2/x@h", "redis://u:hunter2/x@h", "redis://:x?hunter2@h", "redis://:12/hunter2@h", "redis://hunter2/x@h", "unix:///run/hunter2?@x",
	} {
		c, err := redisconn.Dial(url)
		if err == nil {
			_ = c.Close()
			t.Errorf("%s was accepted", url)
			continue
		}
		if !errors.Is(err, core.ErrInvalid) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
