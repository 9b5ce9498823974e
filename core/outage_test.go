package core

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestFaultR8AnOutageIsReportedAtItsEndsAndOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Outage
		if lasted, failed := o.Over(); lasted != 0 || failed != 0 || o.Lasts() {
			t.Errorf("before any: %v, %d", lasted, failed)
		}
		reports := 0
		for range 300 { // five minutes
			if report, _ := o.Failed(); report {
				reports++
			}
			<-time.After(time.Second)
		}
		if reports != 5 || !o.Lasts() {
			t.Errorf("%d reports in five minutes", reports)
		}
		if lasted, failed := o.Over(); lasted != 5*time.Minute || failed != 300 || o.Lasts() {
			t.Errorf("lasted %v, %d failed", lasted, failed)
		}
	})
}
