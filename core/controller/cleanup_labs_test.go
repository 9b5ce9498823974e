//go:build labs

package controller_test

import (
	"testing"

	"github.com/turnus/turnus/core/testparts/servers"
)

// The same over Redis and PostgreSQL.
func TestLabACancelledRunEndsAfterItsCleanup(t *testing.T) {
	r := overReal(t, servers.StartRedisTCP(t))
	r.cleansUp(r.open)
}
