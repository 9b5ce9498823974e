package redis

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/testparts/servers"
)

// bench is a queue whose scripts are called one by one, and the keys that they leave.
type bench struct {
	*testing.T
	q *Queue
	c *goredis.Client
}

// TestScripts calls each script on a real server and holds it to its header: what it needs, its
// effect on each key, what it returns, how much it does a call, and that it refuses before it
// writes.
func TestScripts(t *testing.T) { //nolint:tparallel // its scripts share one server, one after the other
	t.Parallel()
	tests := map[string][]func(bench){
		"accept":    {acceptWrites, acceptRefuses, acceptUploaded, acceptFinished, acceptForgetsTwo},
		"adjust":    {adjustWaves, adjustBounded, adjustShares, adjustRefuses},
		"adopt":     {adoptPages},
		"beat":      {beatMoves, beatForgetsEight},
		"cancel":    {cancelBounded, cancelUnknown},
		"close":     {closeBounded},
		"awaited":   {awaitedBounded},
		"drop":      {dropEndsUnderItsNumber, dropRefuses},
		"event":     {eventBounded, eventDismisses},
		"explain":   {explainReads},
		"holders":   {holdersReads},
		"leased":    {leasedPages},
		"format":    {formatOfAnEmptyPool, formatTakesOver, formatWaitsForSessions, formatRefuses, formatComesBack},
		"guest":     {guestAlone, guestEntersAgain, guestRefuses},
		"names":     {namesPrunes},
		"news":      {newsBegins, newsTrimmed},
		"open":      {openOnce},
		"pool":      {poolMends, poolFindsNewRuns},
		"post":      {postWrites, postGrows},
		"posted":    {postedReads, postedRefusesOnAReplica},
		"publish":   {publishWrites},
		"recovery":  {recoveryHolds},
		"save":      {saveWrites, saveRefuses},
		"look":      {pollOfSmall, pollReads, pollBounded, statusReads, statusByTheClock, statusOfAStoppedRun},
		"payload":   {payloadOfSmall},
		"submit":    {submitWrites, submitSpans, submitPassesBounded, submitGrows, submitForgets},
		"tidy":      {tidyMendsSmall, tidyMends, tidyMendsDeferred, tidyMendsCleanup, tidyReadsFinished},
		"turn":      {turnLeases, turnRefuses, turnReapsBounded, turnSweepsBounded, turnActivatesBounded, turnLocks, turnClosesBounded, turnFairAfterYears},
		"signaljob": {signalJobOnce},
		"wait":      {waitKeepsTime},
	}
	server := servers.StartRedis(t)
	c, user := server.Client(), server.User(t)
	t.Cleanup(func() { _ = c.Close() })
	files, err := filepath.Glob("lua/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".lua")
		if text, err := os.ReadFile(f); err != nil || !strings.Contains(string(text), "ARGV:") {
			if err != nil {
				t.Fatal(err)
			}
			continue // a library
		}
		if len(tests[name]) == 0 {
			t.Errorf("script %s has no test", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		for i, test := range tests[name] {
			t.Run(fmt.Sprintf("%s/%d", name, i+1), func(t *testing.T) {
				q, err := New(user, Options{Pool: fmt.Sprintf("%s %d", name, i), SessionTTL: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				if name != "format" {
					bench{t, q, c}.must(q.takeOver(t.Context()))
				}
				test(bench{t, q, c})
			})
		}
	}
}

func (b bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// call runs a script as it is.
func (b bench) call(s *script, args ...any) any {
	b.Helper()
	v, err := b.q.eval(b.Context(), s, args...)
	b.must(err)
	return v
}

func (b bench) returns(s *script, want string, args ...any) {
	b.Helper()
	if got := fmt.Sprint(b.call(s, args...)); got != want {
		b.Errorf("%s %v returns %s, expected %s", s.Name, args, got, want)
	}
}

// do sends a command to a key of the pool.
func (b bench) do(args ...any) any {
	b.Helper()
	v, err := b.c.Do(b.Context(), args...).Result()
	if err != nil && err != goredis.Nil { //nolint:errorlint // the client gives it bare
		b.Fatal(args, err)
	}
	return v
}

// has compares the answer of a command that reads.
func (b bench) has(want string, args ...any) {
	b.Helper()
	if got := show(b.do(args...)); got != want {
		b.Errorf("%v is %s, expected %s", args, got, want)
	}
}

// show writes scores as whole numbers, and lists flat.
func show(v any) string {
	switch v := v.(type) {
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		words := make([]string, len(v))
		for i := range v {
			words[i] = show(v[i])
		}
		return strings.Join(words, " ")
	default:
		return fmt.Sprint(v)
	}
}

func (b bench) key(lua string) string           { return b.q.keys.key(lua) }
func (b bench) run(no int64, lua string) string { return b.q.keys.run(no, lua) }
func (b bench) leases(session string) string {
	return b.key("pSession") + session + b.key("xLeases")
}

// keys are the contents of the pool's keys, the counts of turns apart.
func (b bench) keys() map[string]string {
	b.Helper()
	names, err := b.c.Keys(b.Context(), strings.NewReplacer("{", `\{`, "}", `\}`, "%", `\%`).Replace(b.q.keys.prefix)+"*").Result()
	b.must(err)
	out := map[string]string{}
	for _, k := range names {
		out[k] = b.c.Dump(b.Context(), k).Val()
	}
	return out
}

// unchanged runs f and compares all keys.
func (b bench) unchanged(what string, f func(), but ...string) {
	b.Helper()
	before := b.keys()
	f()
	for k, v := range b.keys() {
		if before[k] != v && !slices.Contains(but, k) {
			b.Errorf("%s changed %s", what, k)
		}
		delete(before, k)
	}
	for k := range before {
		b.Errorf("%s removed %s", what, k)
	}
}

func (b bench) open() string {
	b.Helper()
	s, err := b.q.Open(b.Context(), "node")
	b.must(err)
	return s
}

// submit accepts a run of n hosts of its own and returns its number.
func (b bench) submit(id string, n int, change ...func(*queue.Run)) int64 {
	b.Helper()
	r := queue.Run{ID: id}
	for i := range n {
		r.Targets = append(r.Targets, queue.Target{Host: id + "-" + strconv.Itoa(i)})
	}
	for _, f := range change {
		f(&r)
	}
	_, err := queue.SubmitOne(b.Context(), b.q, r)
	b.must(err)
	no, err := b.c.HGet(b.Context(), b.key("kIDs"), id).Int64()
	b.must(err)
	return no
}

func (b bench) turn(session string, want int, acks ...queue.Ack) queue.TurnResult {
	b.Helper()
	res, err := b.q.Turn(b.Context(), queue.Turn{Session: session, Want: want, Acks: acks})
	b.must(err)
	return res
}

// lease takes n jobs, in as many turns as that needs.
func (b bench) lease(session string, n int) []queue.Lease {
	b.Helper()
	var all []queue.Lease
	for len(all) < n {
		res := b.turn(session, min(n-len(all), queue.MaxLeasesTurn))
		if len(res.Leases) == 0 {
			b.Fatalf("%d jobs were leased, expected %d", len(all), n)
		}
		all = append(all, res.Leases...)
	}
	return all
}

func (b bench) ack(session string, leases []queue.Lease, change func(*queue.Ack)) {
	b.Helper()
	for part := range slices.Chunk(leases, queue.MaxAcksPerTurn) {
		var acks []queue.Ack
		for _, l := range part {
			a := queue.Ack{Job: l.Job, Token: l.Token, Kind: queue.AckDone, Outcome: core.Changed}
			if change != nil {
				change(&a)
			}
			acks = append(acks, a)
		}
		if res := b.turn(session, 0, acks...); len(res.Stale) > 0 {
			b.Fatalf("stale: %v", res.Stale)
		}
	}
}

// expire makes a session one that was silent for too long.
func (b bench) expire(session string) {
	b.Helper()
	b.do("zadd", b.key("kSessions"), "xx", 1, session)
}

func (b bench) status(id string) queue.Status {
	b.Helper()
	st, err := b.q.Status(b.Context(), id)
	b.must(err)
	return st
}

// poll reads the status of a run and at most 9 records behind cursor.
func (b bench) poll(id, cursor string) queue.Sight {
	b.Helper()
	return b.q.Poll(b.Context(), 9, queue.Ask{Run: id, Cursor: cursor})[0]
}

// sound is Check without a finding.
func (b bench) sound() {
	b.Helper()
	found, err := b.q.Check(b.Context(), false)
	b.must(err)
	if len(found) > 0 {
		b.Errorf("Check: %v", found)
	}
}
