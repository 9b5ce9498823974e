package redisconn

import (
	"context"
	"fmt"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// Pieces that Values asks for in one call.
const (
	scanKeys    = 1000 // that are checked; of a server that others also use, few of them match
	scanEntries = 100
)

// Values visits every value of every string, hash and stream whose key matches a pattern of Redis,
// on the server, or on all of a Cluster. It reads all of them, a bounded piece at a time, which is
// slow: it is for checks, not for daily work. Other keys are not read; the server skips them. A
// value that comes or goes meanwhile may or may not be visited. An error of visit ends it. visit is
// not called concurrently, and must not keep the value.
func Values(ctx context.Context, client goredis.UniversalClient, match string, visit func(key string, value []byte) error) error {
	var one sync.Mutex
	each := func(key string, value []byte) error {
		one.Lock()
		defer one.Unlock()
		return visit(key, value)
	}
	err := fmt.Errorf("client is a %T", client)
	switch c := client.(type) {
	case *goredis.ClusterClient:
		err = c.ForEachMaster(ctx, func(ctx context.Context, node *goredis.Client) error { return valuesOf(ctx, node, match, each) })
	case *goredis.Client:
		err = valuesOf(ctx, c, match, each)
	}
	return Translate(ctx, err, "read what Redis holds in "+match)
}

func valuesOf(ctx context.Context, c *goredis.Client, match string, visit func(string, []byte) error) error {
	for cursor := uint64(0); ; {
		keys, next, err := c.Scan(ctx, cursor, match, scanKeys).Result()
		if err != nil {
			return err
		}
		for _, key := range keys {
			if err := valuesIn(ctx, c, key, visit); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

func valuesIn(ctx context.Context, c *goredis.Client, key string, visit func(string, []byte) error) error {
	kind, err := c.Type(ctx, key).Result()
	if err != nil {
		return err
	}
	switch kind {
	case "string":
		value, err := c.Get(ctx, key).Bytes()
		if err == goredis.Nil { //nolint:errorlint // the client gives it as it is
			return nil
		}
		if err != nil {
			return err
		}
		return visit(key, value)
	case "hash":
		for cursor := uint64(0); ; {
			pairs, next, err := c.HScan(ctx, key, cursor, "*", scanEntries).Result()
			if err != nil {
				return err
			}
			for i := 1; i < len(pairs); i += 2 {
				if err := visit(key, []byte(pairs[i])); err != nil {
					return err
				}
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	case "stream":
		for from := "-"; ; {
			entries, err := c.XRangeN(ctx, key, from, "+", scanEntries).Result()
			if err != nil || len(entries) == 0 {
				return err
			}
			for _, e := range entries {
				for _, v := range e.Values {
					if text, ok := v.(string); ok {
						if err := visit(key, []byte(text)); err != nil {
							return err
						}
					}
				}
			}
			from = "(" + entries[len(entries)-1].ID
		}
	}
	return nil
}
