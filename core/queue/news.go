package queue

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/turnus/turnus/core"
)

// Parts is into how many parts the runs of a queue are cut: a server follows the runs of some of
// them.
const Parts = 16

// MaxPoll bounds the runs of one Poll.
const MaxPoll = 256

// Part is the part that a run belongs to. It depends on the id alone.
func Part(run string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(run))
	return int(h.Sum32() % Parts)
}

// Watch follows many runs at the same time: News names the runs to read, Poll reads them.
type Watch interface {
	// News names the runs of the asked parts that have changed since each part's cursor. If none has,
	// it waits up to wait, and returns within milliseconds of a change. It is a hint to poll: it may
	// name a run without news, and its log is short. A part is Lost if the log does not reach back to
	// its cursor, or if it is asked for without a cursor.
	News(ctx context.Context, from map[int]string, wait time.Duration) (News, error)
	// Poll reads status and records of up to MaxPoll runs in one round trip, and answers for each, in
	// order. Of each run it gives at most most records.
	Poll(ctx context.Context, most int, asks ...Ask) []Sight
}

// News is the changes in some parts of the queue.
type News struct {
	Runs []string       // each once: submitted, recorded, changed in phase or limit, a job suspended or its suspension ended
	Next map[int]string // cursors of the asked parts
	Lost []int          // parts of which some runs may be missing above: check all of them; ascending
}

// Ask is one run to check.
type Ask struct {
	Run     string
	Cursor  string // of its records, as Sight.Next; "" is the beginning
	Awaited bool   // count what its suspended jobs wait for
}

// Sight is the state of one run at one moment: the records include all that Status counts as ended
// and the cursor is not behind, unless More.
type Sight struct {
	Status  Status
	Records []Record
	Next    string         // cursor behind Records
	More    bool           // there may be more records: ask again
	Awaited map[string]int // suspended jobs by event, if asked for and Status.Suspended > 0
	Partial bool           // Awaited took several steps, between which jobs may have moved
	// Err is of this run alone: core.ErrNotFound, or core.ErrInvalid for a cursor that this queue did
	// not give out, as one of a queue that was rolled back. Any other error is that of the whole call.
	Err error
}

// RefusePoll returns the answers to a Poll that every queue refuses, and nil for any other.
func RefusePoll(most int, asks []Ask) []Sight {
	switch {
	case len(asks) > MaxPoll:
		return SeeNone(asks, fmt.Errorf("poll %d runs, expected at most %d: %w", len(asks), MaxPoll, core.ErrInvalid))
	case most < 1:
		return SeeNone(asks, fmt.Errorf("poll runs: max is %d records, expected 1 or more: %w", most, core.ErrInvalid))
	}
	return nil
}

// SeeNone answers for every run with one error.
func SeeNone(asks []Ask, err error) []Sight {
	return core.Map(asks, func(a Ask) Sight { return Sight{Next: a.Cursor, Err: err} })
}

// ValidateNews reports what News refuses.
func ValidateNews(from map[int]string) error {
	if len(from) == 0 {
		return fmt.Errorf("news of no part, expected 1 to %d of them: %w", Parts, core.ErrInvalid)
	}
	for part := range from {
		if part < 0 || part >= Parts {
			return fmt.Errorf("news of part %d, expected 0 to %d: %w", part, Parts-1, core.ErrInvalid)
		}
	}
	return nil
}
