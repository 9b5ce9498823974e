package redis

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// TestBatcher: runs that arrive while a call is under way go with the next ones, in order and
// bounded; a caller that leaves withdraws its unsent run.
func TestBatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan struct{})
		var calls []int
		var ids []string
		b := &batcher{send: func(_ context.Context, runs []*small) []queue.Submission {
			calls = append(calls, len(runs))
			answers := make([]queue.Submission, len(runs))
			for i, r := range runs {
				ids = append(ids, r.id)
				answers[i].Created = r.id == strconv.Itoa(i%30)
			}
			<-next
			return answers
		}}
		var callers sync.WaitGroup
		submit := func(ctx context.Context, n int, check func([]queue.Submission)) {
			runs := make([]*small, n)
			for i := range runs {
				runs[i] = &small{id: strconv.Itoa(i)}
			}
			callers.Go(func() {
				answers := b.submit(ctx, runs)
				if len(answers) != n {
					t.Errorf("%d answers to %d runs", len(answers), n)
				}
				check(answers)
			})
			synctest.Wait()
		}
		created := func(answers []queue.Submission) {
			if slices.ContainsFunc(answers, func(a queue.Submission) bool { return !a.Created || a.Err != nil }) {
				t.Errorf("%+v", answers)
			}
		}
		sent, leave := context.WithCancel(t.Context())
		submit(sent, 1, func(a []queue.Submission) {
			if !errors.Is(a[0].Err, core.ErrUnknown) || !errors.Is(a[0].Err, context.Canceled) {
				t.Errorf("who leaves what was sent hears %v", a[0].Err)
			}
		})
		waits, leaveToo := context.WithCancel(t.Context())
		for range 10 {
			submit(t.Context(), 30, created)
		}
		submit(waits, 5, func(a []queue.Submission) {
			if errors.Is(a[4].Err, core.ErrUnknown) || !errors.Is(a[4].Err, context.Canceled) {
				t.Errorf("who leaves what was not sent hears %v", a[4].Err)
			}
		})
		leave()
		leaveToo()
		synctest.Wait()
		close(next)
		b.close()
		callers.Wait()
		if !slices.Equal(calls, []int{1, 240, 60}) {
			t.Errorf("calls of %v runs, expected 1, 240 and 60", calls)
		}
	})
}

// TestWrap: parcels are bounded by number and by size, and one run is a parcel whatever its size.
func TestWrap(t *testing.T) {
	t.Parallel()
	large := &small{payload: make([]byte, batchBytes)}
	runs := []*small{large, large}
	for range 2*batchRuns + 1 {
		runs = append(runs, &small{})
	}
	var sizes []int
	for _, p := range wrap(runs) {
		sizes = append(sizes, len(p.runs))
	}
	if !slices.Equal(sizes, []int{1, 1, batchRuns, batchRuns, 1}) {
		t.Errorf("parcels of %v runs", sizes)
	}
}
