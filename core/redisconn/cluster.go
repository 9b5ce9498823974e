package redisconn

import (
	"context"
	"errors"
	"net"

	goredis "github.com/redis/go-redis/v9"
)

// relearn has a Cluster's client ask again who has which slots when a server does not answer, or
// reports that the Cluster is down. Otherwise the client learns that only from redirections and
// from commands that it repeats. A server that is gone sends no redirections, and our commands must
// not be repeated. So the client would ask the old master of a slot for a minute after its replica
// took over.
type relearn struct{ client *goredis.ClusterClient }

var _ goredis.Hook = relearn{}

// DialHook implements goredis.Hook.
func (relearn) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook implements goredis.Hook.
func (r relearn) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error { return r.check(ctx, next(ctx, cmd)) }
}

// ProcessPipelineHook implements goredis.Hook.
func (r relearn) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error { return r.check(ctx, next(ctx, cmds)) }
}

// check passes the error on. The client asks in the background, and not more often than every 200
// ms.
func (r relearn) check(ctx context.Context, err error) error {
	var reply goredis.Error
	answered := errors.As(err, &reply) && !goredis.HasErrorPrefix(err, "CLUSTERDOWN")
	if err != nil && !answered && !errors.Is(ctx.Err(), context.Canceled) { // a deadline may have passed for that very reason
		r.client.ReloadState(ctx)
	}
	return err
}
