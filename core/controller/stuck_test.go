package controller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/queue/encrypted"
)

// hung is a queue of which one call never returns, also after its context ended.
type hung struct {
	encrypted.Backend
	until chan struct{}
}

func (h hung) Posted(ctx context.Context, name string, seen uint64) ([]byte, uint64, error) {
	<-h.until
	return h.Backend.Posted(ctx, name, seen)
}

func TestAControllerThatHangsSaysSo(t *testing.T) {
	fake(t, func(l *lab) {
		h := hung{l.queue(), make(chan struct{})}
		c, err := controller.New(controller.Config{Name: "s", Ledger: l.ledger, Queue: h, Board: h})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		if err := c.Stuck(); err != nil {
			t.Errorf("at the first start: %v", err)
		}
		core.Pause(ctx, 2*time.Minute, nil)
		if c.Stuck() == nil {
			t.Error("it hangs, and reports nothing")
		}
		close(h.until)
		core.Pause(ctx, 5*time.Second, nil)
		if err := c.Stuck(); err != nil {
			t.Errorf("it continues, and reports: %v", err)
		}
		stop()
		<-done
	})
}
