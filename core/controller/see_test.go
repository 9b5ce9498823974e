package controller

import (
	"context"
	"slices"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
)

// asked is a queue that notes what it is asked, and does not answer.
type asked struct {
	queue.Watch
	most []int
	runs [][]string
}

func (a *asked) Poll(_ context.Context, most int, asks ...queue.Ask) []queue.Sight {
	var ids []string
	for _, ask := range asks {
		ids = append(ids, ask.Run)
	}
	a.most, a.runs = append(a.most, most), append(a.runs, ids)
	return queue.SeeNone(asks, core.ErrUnavailable)
}

// A run of which the queue had more records than it gave is not read a few at a time beside many
// others.
func TestALargeRunIsReadApart(t *testing.T) {
	q := &asked{}
	c := &Controller{watch: q}
	var polls []*poll
	for _, id := range []string{"a", "large", "b", "c", "d", "e", "f", "g"} {
		polls = append(polls, &poll{w: &watched{id: id, more: id == "large"}, run: ledger.Run{ID: id}, held: &held{launch: &launch.Launch{}}})
	}
	c.see(t.Context(), polls)
	if len(q.runs) != 2 || !slices.Equal(q.runs[1], []string{"large"}) || q.most[1] != 1000 || q.most[0] != pollRecords/7 {
		t.Errorf("asked for %v, at most %v records", q.runs, q.most)
	}
}
