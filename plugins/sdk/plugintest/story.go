package plugintest

import (
	"context"
	"slices"
	"time"
)

// maxCalls bounds a story: a job type that suspends itself for ever fails its test.
const maxCalls = 1000

// FakeTime declares that the test runs in a bubble of testing/synctest: the job type's clock, which
// is time.Now, timers and sdk.Sleep, is then a fake one that leaps when all wait. ResumeUntilDone
// lets the time of each suspension pass, and a call may take a year of it.
//
//	synctest.Test(t, func(t *testing.T) {
//		kit := plugintest.New(t, Def()).FakeTime()
//		…
//	})
func (k *Kit) FakeTime() *Kit {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.patience, k.fake = 365*24*time.Hour, true
	return k
}

// ResumeUntilDone calls the job type, and again for each suspension with the state that it saved,
// as a worker does, until it ends; all the calls are returned, the last one is the end. Events are
// taken to have come. With FakeTime the time of each suspension passes in between; without, the
// next call follows immediately.
func (k *Kit) ResumeUntilDone(params any, opts ...Option) []*Result {
	k.tb.Helper()
	var calls []*Result
	var state *State
	for range maxCalls {
		result, saved, killed := k.mortal(params, append(slices.Clip(opts), Resume(state)))
		if saved != nil {
			state = saved
		}
		if killed {
			continue
		}
		calls = append(calls, result)
		if result.Outcome != "suspended" {
			return calls
		}
		state = result.State
		k.mu.Lock()
		fake := k.fake
		k.mu.Unlock()
		if fake {
			<-time.After(result.ResumeAfter)
		}
	}
	k.tb.Fatalf("the job type suspended itself %d times and did not end; the last time: %s", maxCalls, calls[len(calls)-1].Reason)
	return nil
}

// mortal is one call that may be killed: then it returns the last state that was durable, nil where
// there was none.
func (k *Kit) mortal(params any, opts []Option) (result *Result, saved *State, killed bool) {
	k.tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	k.death.arm(cancel)
	running := k.Start(params, append(opts, Context(ctx))...)
	result, err := running.Try()
	if k.death.fired() {
		k.work.wait() // a killed process calls nothing any more; this one must end first
		if list := k.services.checkpoints(running.lease); len(list) > 0 {
			saved = &list[len(list)-1].State
		}
		return nil, saved, true
	}
	if err != nil {
		k.tb.Fatalf("the call broke the contract of job types: %v", err)
	}
	return result, nil, false
}
