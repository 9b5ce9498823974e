//go:build s3

package ledger_test

import (
	"testing"

	"github.com/turnus/turnus/core/testparts"
)

// Outputs in a bucket go as those in a folder do, whichever ledger names them.
func TestBucketsAreCleared(t *testing.T) {
	s3 := testparts.StartS3(t, "over", "killed")
	for name, url := range ledgers(t) {
		t.Run(name, func(t *testing.T) { whatIsOverGoes(newSite(t, url, s3.URL("over/"+name))) })
	}
	for name, url := range ledgers(t) {
		t.Run("killed, "+name, func(t *testing.T) { killedInTheMiddle(newSite(t, url, s3.URL("killed/"+name))) })
	}
}
