package redis

import (
	"context"

	"github.com/turnus/turnus/core/queue"
)

// Check looks for broken invariants.
func (q *Queue) Check(_ context.Context, _ bool) ([]queue.Finding, error) { return nil, nil }
