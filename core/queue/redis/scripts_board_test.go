package redis

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
)

func postWrites(b bench) {
	k := b.key("pBoard") + "w%7B%3A"
	before := b.keys()
	v := b.call(b.q.scripts.post, "w%7B%3A", "text", 5000, "w{:").(int64)
	if us := b.do("hget", b.key("kMeta"), "clock"); us != strconv.FormatInt(v, 10) {
		b.Errorf("version %d, expected the clock %v", v, us)
	}
	b.has(strconv.FormatInt(v, 10)+" text", "hmget", k, "v", "b")
	b.has(strconv.FormatInt(v, 10), "hget", b.key("kMeta"), "post")
	if ttl := b.c.PTTL(b.Context(), k).Val(); ttl <= 0 || ttl > 5*time.Second {
		b.Errorf("the document lives for %v, expected 5s", ttl)
	}
	if now := b.keys(); len(now) != len(before)+2 { // it, and its name
		b.Errorf("%d keys after the first post, %d before", len(now), len(before))
	}
	if name := b.q.keys.prefix + "b:w%7B%3A"; k != name {
		b.Errorf("the document is in %s, expected %s: its name is escaped, and in the slot of the pool", k, name)
	}
	b.must(b.c.Del(b.Context(), k).Err())
	if again := b.call(b.q.scripts.post, "w%7B%3A", "text", 1000, "w{:").(int64); again <= v {
		b.Errorf("version %d after %d", again, v)
	}
}

// namesPrunes: the index holds what is on the board, whatever was posted in a year.
func namesPrunes(b bench) {
	for i := range 1300 {
		b.do("zadd", b.key("kBoard"), i, "old"+strconv.Itoa(i)) // expired in 1970
	}
	b.call(b.q.scripts.post, "n", "text", 60_000, "new")
	b.has("1293", "zcard", b.key("kBoard"))
	b.call(b.q.scripts.names, "0", "")
	b.has("781", "zcard", b.key("kBoard"))
	if list, err := b.q.Names(b.Context(), ""); err != nil || len(list) != 1 || list[0] != "new" {
		b.Errorf("Names is %q, %v", list, err)
	}
	for range 3 {
		b.call(b.q.scripts.names, "0", "")
	}
	b.has("1", "zcard", b.key("kBoard"))
	b.returns(b.q.scripts.names, "[0 [new]]", "0", "n")
	b.returns(b.q.scripts.names, "[0 []]", "0", "nn")
}

// publishWrites: a topic is one stream of numbered messages that Redis trims and forgets.
func publishWrites(b bench) {
	k := b.key("pFeed") + "t%7B"
	b.returns(b.q.scripts.publish, "2", "t%7B", 20_000, 5000, "one", "two")
	b.returns(b.q.scripts.publish, "3", "t%7B", 20_000, 60_000, "three")
	page := b.c.XRange(b.Context(), k, "-", "+").Val()
	if len(page) != 3 || page[0].Values["m"] != "one" || page[2].Values["m"] != "three" {
		b.Fatalf("the stream has %v", page)
	}
	life, _, _ := strings.Cut(page[0].ID, "-")
	if page[0].ID != life+"-1" || page[2].ID != life+"-3" {
		b.Errorf("the messages are numbered %s … %s", page[0].ID, page[2].ID)
	}
	if ttl := b.c.PTTL(b.Context(), k).Val(); ttl <= 5*time.Second || ttl > time.Minute {
		b.Errorf("the topic lives for %v, expected a minute", ttl)
	}
	many := make([]any, 3, 3+board.MaxPublish)
	many[0], many[1], many[2] = "t%7B", 100, 60_000
	for range board.MaxPublish {
		many = append(many, "x")
	}
	for range 4 {
		b.call(b.q.scripts.publish, many...)
	}
	if n := b.c.XLen(b.Context(), k).Val(); n < 100 || n > 100+100 { // ~: a node of the stream more
		b.Errorf("%d messages are kept, expected about 100", n)
	}
	b.must(b.c.Del(b.Context(), k).Err())
	b.returns(b.q.scripts.publish, "1", "t%7B", 100, 5000, "anew")
	if id := b.c.XRange(b.Context(), k, "-", "+").Val()[0].ID; id <= life {
		b.Errorf("the next life has the name %s, the last one %s", id, life)
	}
	// A cursor of a life that Redis' clock puts later does not hide what is there.
	list, _, err := b.q.Follow(b.Context(), "t{", "999999999999999999-5", 10, 0)
	if err != nil || len(list) != 1 || string(list[0]) != "anew" {
		b.Errorf("Follow from a later life gives %q, %v", list, err)
	}
}

// postGrows: whatever a failover took, and however the clocks differ, a version is larger than what
// is there.
func postGrows(b bench) {
	v, err := b.q.Post(b.Context(), "w", []byte("x"), time.Hour)
	b.must(err)
	for _, tc := range []struct {
		what string
		lose func()
	}{
		{"the counter", func() { b.must(b.c.HDel(b.Context(), b.key("kMeta"), "post").Err()) }},
		{"the document", func() { b.must(b.c.Del(b.Context(), b.key("pBoard")+"w").Err()) }},
		{"both", func() { b.must(b.c.Del(b.Context(), b.key("pBoard")+"w", b.key("kMeta")).Err()) }},
		{"a clock that is as far as it was", func() {
			v += 1e9
			b.must(b.c.HSet(b.Context(), b.key("kMeta"), "post", v).Err())
		}},
		{"the document and such a clock", func() { b.must(b.c.Del(b.Context(), b.key("pBoard")+"w").Err()) }},
	} {
		tc.lose()
		next, err := b.q.Post(b.Context(), "w", []byte("x"), time.Hour)
		b.must(err)
		if next <= v {
			b.Errorf("without %s the version is %d, it was %d", tc.what, next, v)
		}
		v = next
	}
}

func postedReads(b bench) {
	b.returns(b.q.scripts.posted, "[]", "w", "0")
	v := strconv.FormatInt(b.call(b.q.scripts.post, "w", "text", 60_000, "w").(int64), 10)
	b.returns(b.q.scripts.posted, "["+v+" text]", "w", "0")
	b.returns(b.q.scripts.posted, "["+v+" text]", "w", v+"0")
	b.returns(b.q.scripts.posted, "["+v+"]", "w", v)
	b.unchanged("posted", func() { b.returns(b.q.scripts.posted, "["+v+"]", "w", v) }, b.key("kMeta")) // it writes the times
}

// postedRefusesOnAReplica: a server that is the master no more would show what it had; the queue's
// error shows that nothing was read.
func postedRefusesOnAReplica(b bench) {
	_, err := b.q.Post(b.Context(), "w", []byte("old"), time.Hour)
	b.must(err)
	for _, how := range []struct {
		what         string
		demote, back []any
	}{
		{"cut off from its replicas", []any{"config", "set", "min-replicas-to-write", 1}, []any{"config", "set", "min-replicas-to-write", 0}},
		{"a replica", []any{"replicaof", "127.0.0.1", "1"}, []any{"replicaof", "no", "one"}},
	} {
		b.do(how.demote...)
		data, _, err := b.q.Posted(b.Context(), "w", 0)
		_, errPost := b.q.Post(b.Context(), "w", []byte("new"), time.Hour)
		b.do(how.back...)
		for _, err := range []error{err, errPost} {
			if !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), `"w"`) {
				b.Errorf("a server that is %s answers %q, %v, expected core.ErrUnavailable", how.what, data, err)
			}
		}
	}
	if data, _, err := b.q.Posted(b.Context(), "w", 0); err != nil || string(data) != "old" {
		b.Errorf("then it answers %q, %v", data, err)
	}
}
