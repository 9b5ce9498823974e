package transport

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A process that was stopped for long, or gets no CPU, reads the output of an ended command late.
// It must not take its own silence for that of the host.
func TestOutputOfAClosedSessionIsReadToItsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		closed bool // by the host, as when nothing of the command lives on
		waits  bool // for the reader
	}{
		"closed":                              {closed: true, waits: true},
		"a background child holds the output": {closed: false, waits: false}, // the control
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := &execution{s: &session{closed: make(chan struct{})}, drained: make(chan struct{})}
				if c.closed {
					close(x.s.closed)
				}
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					x.drain(context.Background(), outputGrace)
				}()
				<-time.After(time.Minute) // the reader gets no turn
				synctest.Wait()
				select {
				case <-ended:
					if c.waits {
						t.Error("the output was dropped before it was read")
					}
				default:
					if !c.waits {
						t.Error("drain waits without an end")
					}
				}
				close(x.drained)
				<-ended
			})
		})
	}
}

// The grace begins again with each progress.
func TestSilenceOfAHostIsMeasuredFromItsLastByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &execution{s: &session{closed: make(chan struct{})}, drained: make(chan struct{})}
		begin, ended := time.Now(), make(chan time.Time, 1)
		go func() {
			x.drain(context.Background(), outputGrace)
			ended <- time.Now()
		}()
		for range 10 {
			<-time.After(outputGrace / 2)
			x.moved.Add(1)
		}
		last := time.Since(begin)
		if took := (<-ended).Sub(begin); took < last+outputGrace-outputGrace/quietRounds || took > last+2*outputGrace {
			t.Errorf("dropped after %s, the last byte came after %s", took, last)
		}
	})
}
