package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
)

// former makes a pool that looks as the version without formats left it.
func (b bench) former(sessions ...any) {
	b.Helper()
	b.do("hset", b.key("kFormer"), "clock", 1_700_000_000_000_000, "seq", 40, "run", 7, "age", 9)
	for i := 0; i < len(sessions); i += 2 {
		b.do("zadd", b.key("kSessions"), sessions[i+1], sessions[i])
		b.do("hset", b.key("kNodes"), sessions[i], "node of "+sessions[i].(string))
	}
}

// formerCall is how each script of the version without formats begins, and its upload of a large
// run.
func (b bench) formerCall() error {
	return errors.Join(b.c.HMGet(b.Context(), b.key("kFormer"), "clock", "seq").Err(), b.c.HIncrBy(b.Context(), b.key("kFormer"), "run", 1).Err())
}

// refused fails the test unless the error names both formats and has these words, and nothing was
// changed.
func (b bench) refused(what string, words ...string) {
	b.Helper()
	b.unchanged(what, func() {
		err := b.q.takeOver(b.Context())
		for _, w := range append(words, "pool", "format", "speaks 2", "hint: ") {
			if !errors.Is(err, core.ErrConflict) || !strings.Contains(err.Error(), w) {
				b.Errorf("%s: %v; expected it to contain %q", what, err, w)
			}
		}
	})
}

// formatOfAnEmptyPool: the first caller sets the format, whatever its first call; the former
// version is kept out from then on.
func formatOfAnEmptyPool(b bench) {
	b.must(b.formerCall()) // negative: without the format it is let in
	b.must(b.c.Del(b.Context(), b.key("kFormer")).Err())
	b.open()
	b.has("2", "hget", b.key("kMeta"), "format")
	b.unchanged("a call of the former version", func() {
		if err := b.formerCall(); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			b.Errorf("the former version is let in: %v", err)
		}
	})
	b.unchanged("a second look", func() { b.must(b.q.takeOver(b.Context())) })
}

// formatTakesOver: what the former version kept continues under the new name.
func formatTakesOver(b bench) {
	b.former()
	b.must(b.q.takeOver(b.Context()))
	b.has("40 7 9 2", "hmget", b.key("kMeta"), "seq", "run", "age", "format")
	b.has("2", "get", b.key("kFormer"))
	if no := b.submit("r", 1); no != 8 {
		b.Errorf("the next run has number %d, expected 8", no)
	}
}

// formatWaitsForSessions: sessions that do not call for as long as one lives have ended; one that
// calls is alive.
func formatWaitsForSessions(b bench) {
	b.q.opt.SessionTTL = 0 // the second that is waited for beyond it remains
	b.former("dead", 100, "beats", 100)
	ctx, stop := context.WithCancel(b.Context())
	var beats sync.WaitGroup
	beats.Go(func() {
		for err := error(nil); err == nil; {
			err = b.c.ZIncrBy(ctx, b.key("kSessions"), 1, "beats").Err()
		}
	})
	err := b.q.takeOver(ctx)
	if !errors.Is(err, core.ErrConflict) || !strings.Contains(err.Error(), "at work: node of beats; nothing was changed") {
		b.Errorf("beside a worker that beats: %v", err)
	}
	stop()
	beats.Wait()
	b.unchanged("a session that called after it was read", func() {
		if v := show(b.call(b.q.scripts.format, format, "dead 100 beats 100")); !strings.HasPrefix(v, "1 dead 100 beats ") {
			b.Errorf("the answer is %s", v)
		}
	})
	b.has("0", "exists", b.key("kMeta"))
	b.must(b.q.takeOver(b.Context()))
	b.has("2", "hget", b.key("kMeta"), "format")
	b.has("2", "zcard", b.key("kSessions")) // their jobs are recovered as those of any worker that died
}

// formatRefuses: a pool of a newer version, and one that both versions wrote to.
func formatRefuses(b bench) {
	b.do("set", b.key("kMeta"), "3")
	b.refused("a newer pool", "is of format 3", "newer turnus")
	if _, err := b.q.Open(b.Context(), "node"); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "is of format 3") {
		b.Errorf("a session on a newer pool: %v", err)
	}
	large := queue.Run{ID: "large"}
	for i := range 100 {
		large.Targets = append(large.Targets, queue.Target{Host: strconv.Itoa(i)})
	}
	if _, err := queue.SubmitOne(b.Context(), b.q, large); !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "is of format 3") {
		b.Errorf("an upload to a newer pool: %v", err)
	}
	if _, err := b.q.Runs(b.Context()); err != nil { // there is none
		b.Error(err)
	}
	b.must(b.c.Del(b.Context(), b.key("kMeta")).Err())
	b.open()
	b.must(b.c.Del(b.Context(), b.key("kFormer")).Err())
	b.former()
	b.refused("a pool of two versions", "processes of both")
}

// formatComesBack: a Redis that was emptied, or came back from a file of the former version, under
// a process that is at work.
func formatComesBack(b bench) {
	b.submit("a", 1)
	for k := range b.keys() {
		b.do("del", k)
	}
	b.submit("b", 100)
	b.has("2", "hget", b.key("kMeta"), "format")
	for k := range b.keys() {
		b.do("del", k)
	}
	b.former()
	if no := b.submit("c", 100); no != 8 {
		b.Errorf("the next run has number %d, expected 8", no)
	}
	b.sound()
}
