//go:build labs

package ledger_test

import (
	"testing"

	"github.com/turnus/turnus/core/testparts/servers"
)

// All that both databases have to show, on PostgreSQL.
func TestLabPostgres(t *testing.T) {
	t.Parallel()
	suite(t, onServer(servers.StartPostgresTLS(t)))
}
