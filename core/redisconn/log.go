package redisconn

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
)

// silent drops what go-redis writes to standard error itself, across the output there. The caller
// gets each failure as an error.
type silent struct{}

// Printf implements go-redis's logger.
func (silent) Printf(context.Context, string, ...any) {}

// The logger is one for the whole process, and may only be set before any client is there.
func init() { goredis.SetLogger(silent{}) }
