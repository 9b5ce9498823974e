package memory

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// newsKept is how many hints are kept at least, once there are so many.
const newsKept = 64 << 10

// newsLog is which runs have news, in order. A run that nobody has read since is there once.
type newsLog struct {
	life    string   // names this log, so that no cursor of another fits
	first   int64    // number of the first of list
	list    []string // ids of runs
	read    int64    // number behind those that somebody has read
	changed chan struct{}
}

func newNews() newsLog {
	return newsLog{life: rand.Text(), changed: make(chan struct{})}
}

// next is the number of the next hint.
func (n *newsLog) next() int64 { return n.first + int64(len(n.list)) }

func (n *newsLog) cursor(number int64) string { return n.life + "." + strconv.FormatInt(number, 10) }

// number returns the number that a cursor is behind; false if the log does not reach back to it.
func (n *newsLog) number(cursor string) (int64, bool) {
	life, text, _ := strings.Cut(cursor, ".")
	at, err := strconv.ParseInt(text, 10, 64)
	return at, err == nil && life == n.life && at >= n.first && at <= n.next()
}

// report notes that something has happened in the run.
func (q *Queue) report(r *run) {
	n := &q.news
	if r.reported > n.read {
		return
	}
	if len(n.list) == 2*newsKept {
		n.list = append(make([]string, 0, 2*newsKept), n.list[newsKept:]...)
		n.first += newsKept
	}
	n.list = append(n.list, r.id)
	r.reported = n.next()
	close(n.changed)
	n.changed = make(chan struct{})
}

// News names the runs that have changed.
func (q *Queue) News(ctx context.Context, from map[int]string, wait time.Duration) (queue.News, error) {
	if err := queue.ValidateNews(from); err != nil {
		return queue.News{}, err
	}
	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	for over := wait <= 0; ; {
		if err := ctx.Err(); err != nil {
			return queue.News{}, err
		}
		news, changed := q.newsSince(from)
		if over || len(news.Runs)+len(news.Lost) > 0 {
			return news, nil
		}
		from = news.Next // what there was is of parts that were not asked for
		select {
		case <-changed:
		case <-timer.C:
			over = true
		case <-ctx.Done():
		}
	}
}

// newsSince returns the news that there is now, and a channel that closes when there is more.
func (q *Queue) newsSince(from map[int]string) (queue.News, <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := &q.news
	begin, end := n.next(), n.next()
	numbers := map[int]int64{}
	news := queue.News{Next: map[int]string{}}
	for part, cursor := range from {
		at, kept := n.number(cursor)
		if !kept {
			news.Lost, at = append(news.Lost, part), end
		}
		numbers[part], begin = at, min(begin, at)
		news.Next[part] = n.cursor(end)
	}
	slices.Sort(news.Lost)
	seen := map[string]bool{}
	for i := begin; i < end; i++ {
		id := n.list[i-n.first]
		if at, asked := numbers[queue.Part(id)]; asked && i >= at && !seen[id] {
			seen[id] = true
			news.Runs = append(news.Runs, id)
		}
	}
	n.read = end
	return news, n.changed
}

// Poll reads status and records of runs, of each at one moment.
func (q *Queue) Poll(ctx context.Context, most int, asks ...queue.Ask) []queue.Sight {
	if refused := queue.RefusePoll(most, asks); refused != nil {
		return refused
	}
	if err := ctx.Err(); err != nil {
		return queue.SeeNone(asks, err)
	}
	return core.Map(asks, func(a queue.Ask) queue.Sight { return q.poll(a, most) })
}

func (q *Queue) poll(a queue.Ask, most int) queue.Sight {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := queue.Sight{Next: a.Cursor}
	now := q.now()
	r, err := q.find(a.Run)
	if err != nil {
		s.Err = err
		return s
	}
	from, err := parseCursor(r, a.Cursor)
	if err != nil {
		s.Err = err
		return s
	}
	s.Status, s.Records = q.status(r, now), r.unpack(from, most)
	s.Next, s.More = strconv.Itoa(from+len(s.Records)), from+len(s.Records) < len(r.records)
	if a.Awaited && s.Status.Suspended > 0 {
		s.Awaited = r.awaited()
	}
	return s
}
