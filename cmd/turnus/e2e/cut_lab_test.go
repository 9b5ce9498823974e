//go:build linux && labs

package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/turnus/turnus/core/transport/fleet"
)

// cutFor bounds the lab: on a slow machine it takes a part of the cuts, in an order that changes.
const cutFor = 6 * time.Minute

// turnus up dies at each commit of its ledger, before and after it. See TestUpKilledAtCommits.
func TestLabUpKilledAtEachCommit(t *testing.T) {
	l := newLab(t, fleet.Config{Hosts: 1}).traced()
	whole := l.cutting(0, false)
	whole.cut()
	total := whole.commits()
	began, done := time.Now(), 0
	for _, i := range rand.Perm(2 * total) {
		if time.Since(began) > cutFor {
			break
		}
		l.cutting(1+i/2, i%2 == 1).cut()
		done++
	}
	t.Logf("%d of %d cuts at %d commits in %v", done, 2*total, total, time.Since(began).Round(time.Second))
}
