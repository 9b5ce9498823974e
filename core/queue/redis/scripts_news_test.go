package redis

import (
	"fmt"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// newsBegins: a log is begun by its first reader, so that a cursor is there as long as the log is.
func newsBegins(b bench) {
	v := fmt.Sprint(b.call(b.q.scripts.news, 10, "1-1"))
	id := b.do("xrange", b.key("kNews"), "-", "+").([]any)[0].([]any)[0]
	if want := fmt.Sprintf("[%v [0] []]", id); v != want {
		b.Errorf("news is %s, expected %s", v, want)
	}
	b.unchanged("news", func() { b.returns(b.q.scripts.news, fmt.Sprintf("[%v [0 1] []]", id), 10, "1-1", id) })
	b.submit("a", 1)
	b.submit("b", 9)
	b.has("3", "xlen", b.key("kNews"))
	list := b.call(b.q.scripts.news, 10, id).([]any)[2].([]any)
	if len(list) != 4 || !strings.HasSuffix(fmt.Sprint(list[1]), "\xa1a") || !strings.HasSuffix(fmt.Sprint(list[3]), "\xa1b") {
		b.Errorf("behind the first entry there is %q", list)
	}
	b.returns(b.q.scripts.news, fmt.Sprintf("[%v [1] [%v %v]]", list[2], list[0], list[1]), 1, id)
}

// newsTrimmed: the log is short, and a reader that was away for too long is informed. So is one
// that comes back to an older state, or an empty one.
func newsTrimmed(b bench) {
	from := map[int]string{}
	for part := range queue.Parts {
		from[part] = ""
	}
	lost := func(what string, want int) {
		b.Helper()
		news, err := b.q.News(b.Context(), from, 0)
		b.must(err)
		if len(news.Lost) != want {
			b.Errorf("%s %d parts are lost, expected %d", what, len(news.Lost), want)
		}
		from = news.Next
	}
	lost("at first", queue.Parts)
	lost("then", 0)
	b.do("xadd", b.key("kNews"), "*", "r", "\x91\xa1a")
	lost("with an entry more", 0)
	b.submit("r", 2)
	older := b.c.Dump(b.Context(), b.key("kNews")).Val()
	b.submit("s", 1)
	lost("with a run more", 0)
	b.must(b.c.RestoreReplace(b.Context(), b.key("kNews"), 0, older).Err())
	lost("after a rollback", queue.Parts)
	lost("then", 0)
	s := b.open()
	pipe := b.c.Pipeline()
	for range 9000 {
		pipe.XAdd(b.Context(), &goredis.XAddArgs{Stream: b.key("kNews"), Values: []string{"r", "\x91\xa1a"}})
	}
	_, err := pipe.Exec(b.Context())
	b.must(err)
	b.ack(s, b.lease(s, 2), func(a *queue.Ack) { a.Outcome = core.Failed })
	if n := b.do("xlen", b.key("kNews")).(int64); n > 8192+200 {
		b.Errorf("the log has %d entries", n)
	}
	lost("after many entries", queue.Parts)
	for b.c.Time(b.Context()).Val().UnixMilli() <= int64(parseNewsID(from[0]).ms) { // an id is of a millisecond
		b.must(b.Context().Err())
	}
	b.do("del", b.key("kNews"))
	lost("of an empty log", queue.Parts)
	began := time.Now()
	news, err := b.q.News(b.Context(), from, 30*time.Millisecond)
	if b.must(err); len(news.Lost)+len(news.Runs) > 0 || time.Since(began) < 20*time.Millisecond {
		b.Errorf("then %+v after %v", news, time.Since(began))
	}
}

func pollReads(b bench) {
	b.submit("small", 1)
	b.submit("large", 9)
	s := b.open()
	b.ack(s, b.lease(s, 4), nil)
	b.unchanged("look", func() {
		for i, got := range b.q.Poll(b.Context(), 100, queue.Ask{Run: "small"}, queue.Ask{Run: "none"}, queue.Ask{Run: "large"}) {
			if i == 1 {
				continue
			}
			if got.Err != nil || len(got.Records) == 0 || len(got.Records) != got.Status.Ended() || got.More {
				b.Errorf("run %d: %+v", i, got)
			}
		}
	})
}

// pollBounded: of a run at most 128 entries, and no more bytes than are good; the rest comes with
// the next call.
func pollBounded(b bench) {
	s := b.open()
	big := strings.Repeat("x", 200<<10)
	for name, detail := range map[string]string{"entries": "", "bytes": big} {
		n := map[string]int{"entries": 200, "bytes": 12}[name]
		b.submit(name, n)
		for _, l := range b.lease(s, n) {
			b.ack(s, []queue.Lease{l}, func(a *queue.Ack) { a.Detail = []byte(detail) })
		}
	}
	for name, want := range map[string][]int{"entries": {128, 72}, "bytes": {2, 2, 2, 2, 2, 2}} {
		cursor := ""
		for i, n := range want {
			got := b.q.Poll(b.Context(), 1000, queue.Ask{Run: name, Cursor: cursor})[0]
			if got.Err != nil || len(got.Records) != n || got.More != (i < len(want)-1) {
				b.Errorf("%s, page %d: %d records, more %t, %v, expected %d", name, i, len(got.Records), got.More, got.Err, n)
			}
			cursor = got.Next
		}
	}
	// A run behind others that filled the answer is served once they are through.
	asks := make([]queue.Ask, 64)
	for i := range asks {
		asks[i].Run = "bytes"
	}
	whole := 0
	for round := 0; whole < len(asks); round++ {
		if round > 12*len(asks) {
			b.Fatalf("%d of 64 runs were read to their ends", whole)
		}
		read := 0
		for i, got := range b.q.Poll(b.Context(), 1000, asks[whole:]...) {
			b.must(got.Err)
			read += len(got.Records)
			asks[whole+i].Cursor = got.Next
		}
		if read == 0 || read > 16 {
			b.Fatalf("round %d gives %d records of 200 KiB", round, read)
		}
		for whole < len(asks) && !b.q.Poll(b.Context(), 1, asks[whole])[0].More && b.q.Poll(b.Context(), 1, asks[whole])[0].Records == nil {
			whole++
		}
	}
}
