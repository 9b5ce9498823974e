package worker

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAPollerThatHangsIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Worker{}
		if err := w.Stuck(); err != nil {
			t.Errorf("before Run: %v", err)
		}
		w.pulse.Beat()
		pass(stuckAfter)
		if err := w.Stuck(); err != nil {
			t.Errorf("within the limit: %v", err)
		}
		pass(time.Second)
		if err := w.Stuck(); err == nil {
			t.Error("over the limit it is not stuck")
		}
	})
}
