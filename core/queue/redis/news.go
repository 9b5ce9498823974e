package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/redisconn"
)

const (
	newsPage  = 1024            // entries of one answer
	newsCheck = 2 * time.Second // how often a reader that sleeps checks that the log is still the same
)

// newsID is the id of an entry of the log.
type newsID struct{ ms, seq uint64 }

func (a newsID) compare(b newsID) int {
	return cmp.Or(cmp.Compare(a.ms, b.ms), cmp.Compare(a.seq, b.seq))
}

func (a newsID) String() string {
	return strconv.FormatUint(a.ms, 10) + "-" + strconv.FormatUint(a.seq, 10)
}

var newsCursor = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\d{1,18})-(\d{1,18})$`) })

// parseNewsID reads an id; what is none comes before every entry.
func parseNewsID(s string) (id newsID) {
	if m := newsCursor().FindStringSubmatch(s); m != nil {
		id.ms, _ = strconv.ParseUint(m[1], 10, 64) // 18 digits fit
		id.seq, _ = strconv.ParseUint(m[2], 10, 64)
	}
	return id
}

// News names the runs that have changed. The parts share one log: a cursor is an entry that was
// there.
func (q *Queue) News(ctx context.Context, from map[int]string, wait time.Duration) (queue.News, error) {
	if err := queue.ValidateNews(from); err != nil {
		return queue.News{}, err
	}
	for end := time.Now().Add(wait); ; {
		if err := ctx.Err(); err != nil {
			return queue.News{}, err
		}
		news, last, err := q.newsSince(ctx, from)
		if err != nil {
			return queue.News{}, fmt.Errorf("news: %w", err)
		}
		left := time.Until(end)
		if left <= 0 || len(news.Runs)+len(news.Lost) > 0 {
			return news, nil
		}
		from = news.Next // what there was is of parts that were not asked for
		if _, err := q.blocked(ctx, min(left, newsCheck), "xread", "count", 1, "block", redisconn.BlockTime{}, "streams", q.keys.key("kNews"), last); err != nil {
			return queue.News{}, fmt.Errorf("news: %w", err)
		}
	}
}

// newsSince returns the news that there is now, and the entry behind which there may be more.
func (q *Queue) newsSince(ctx context.Context, from map[int]string) (news queue.News, last string, err error) {
	parts := map[int]newsID{}
	var cursors []newsID
	for part, c := range from {
		parts[part] = parseNewsID(c)
		cursors = append(cursors, parts[part])
	}
	slices.SortFunc(cursors, newsID.compare)
	cursors = slices.Compact(cursors)
	args := []any{newsPage}
	for _, id := range cursors {
		args = append(args, id.String())
	}
	v, err := q.eval(ctx, q.scripts.news, args...)
	if err != nil {
		return news, "", err
	}
	r := newReply(v)
	end, there := parseNewsID(r.text()), r.list()
	kept := map[newsID]bool{}
	for _, id := range cursors {
		kept[id] = there.int() == 1
	}
	for part, id := range parts {
		if !kept[id] {
			news.Lost, parts[part] = append(news.Lost, part), end
		}
	}
	slices.Sort(news.Lost)
	at, err := readHints(r.list(), parts, &news)
	if err = errors.Join(err, there.end("news"), r.end("news")); err != nil {
		return news, "", err
	}
	news.Next = map[int]string{}
	least := end
	for part, id := range parts {
		if id.compare(at) < 0 {
			id = at
		}
		if id.compare(least) < 0 {
			least = id
		}
		news.Next[part] = id.String()
	}
	return news, least.String(), nil
}

// readHints takes the runs of parts out of entries that come behind the parts' cursors, and returns
// the last entry.
func readHints(list *reply, parts map[int]newsID, news *queue.News) (last newsID, err error) {
	seen := map[string]bool{}
	for !list.empty() {
		last = parseNewsID(list.text())
		w := &wire{s: list.text()}
		for range w.list() {
			id := w.text()
			if at, asked := parts[queue.Part(id)]; asked && at.compare(last) < 0 && !seen[id] {
				id = strings.Clone(id)
				seen[id] = true
				news.Runs = append(news.Runs, id)
			}
		}
		if err := w.end("news"); err != nil {
			return last, err
		}
	}
	return last, list.end("news")
}
