package core

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Minute
		p := &Pulse{}
		wants := func(what string, beats bool, stuck time.Duration) {
			t.Helper()
			if p.Beats() != beats || p.Stuck(limit) != stuck {
				t.Errorf("%s: %v, %v; expected %v, %v", what, p.Beats(), p.Stuck(limit), beats, stuck)
			}
		}
		wants("before the loop", false, 0)
		p.Beat()
		<-time.After(limit)
		wants("within the limit", true, 0)
		<-time.After(time.Second)
		wants("over the limit", true, limit+time.Second)
		p.Beat()
		wants("it continues", true, 0)
		p.End()
		<-time.After(2 * limit)
		wants("after the loop", false, 0)
	})
}
