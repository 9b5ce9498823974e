package redis

import (
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/redisconn"
)

// leaseSteps is into how many steps a session's life is cut. The time between two calls of the
// queue counts as one step at most. So a leap of the clock takes no more of a lease than a step.
// That is less than the margin with which workers stop before the lease ends.
const leaseSteps = 6

// Shard is the only shard of a pool today. It is in the key names, so that a
// later version can split a pool without renaming anything.
const shard = "0"

// key is a name that Go and the scripts share. The names are written here and
// nowhere else: luaNames gives them to the scripts.
type key struct{ lua, name string }

// fixedKeys are the keys that a pool has once. They are KEYS[1], KEYS[2] … of every script.
func fixedKeys() []key {
	return []key{
		{"kMeta", "meta2"},          // hash: times, counters that only grow, V of the tenants, timekeeper, format. The name changes with the format
		{"kFormer", "meta"},         // string: the format; a hash while no program has taken the pool over that knows of formats
		{"kIDs", "ids"},             // hash: run id -> number
		{"kTenants", "tenants"},     // hash: tenant -> number
		{"kReady", "ready"},         // zset: tenants with a ready run, by rank
		{"kDue", "due"},             // zset: runs with something timed, by its earliest time
		{"kLocks", "locks"},         // hash: host and HA group locks -> RUN/INDEX
		{"kWait", "wait"},           // lexical zset: jobs suspended on locks, in order
		{"kSessions", "sessions"},   // zset: sessions by deadline
		{"kNodes", "nodes"},         // hash: session -> node
		{"kDone", "done"},           // zset: complete runs by when they are forgotten
		{"kSweep", "sweep"},         // zset: stopped runs that still have jobs to cancel
		{"kClosing", "closing"},     // zset: RUN/INDEX, with zeros in front, of jobs of runs that have ended, by when they are due for their cleanup
		{"kCancelled", "cancelled"}, // set: cancelled runs with jobs in flight
		{"kMark", "mark"},           // list: at most one marker that signals one idle node
		{"kSmall", "small"},         // hash: number of a run of few hosts -> all that there is of it
		{"kPayloads", "payloads"},   // hash: number of such a run -> its payload, if it is long
		{"kBoard", "board"},         // zset: names of documents by when they expire
		{"kGuests", "guests"},       // hash: host -> session, RUN/INDEX and token of its guest, or of one whose lease has ended
		{"kNews", "news"},           // stream: ids of runs in which something has happened
	}
}

// prefixes start the keys of one run, tenant, session, document or topic; its number, id or escaped
// name follows.
func prefixes() []key {
	return []key{{"pRun", "r"}, {"pTenant", "t"}, {"pSession", "s"}, {"pBoard", "b:"}, {"pFeed", "f:"}} // no fixed key has a colon
}

// suffixes end the keys of one run, tenant or session.
func suffixes() []key {
	return []key{
		{"xTargets", ":t"},   // run, hash: chunk number -> packed targets
		{"xData", ":d"},      // run, hash: index -> data too large for a chunk
		{"xPayload", ":p"},   // run, string
		{"xSegments", ":g"},  // run, zset: FROM:TO by due time
		{"xByIndex", ":i"},   // run, zset: the same by FROM, while targets are not released
		{"xRanges", ":r"},    // run, zset: FROM:TO that are ready, behind the current range
		{"xQueue", ":q"},     // run, zset: indexes that are ready again
		{"xWaiting", ":w"},   // run, zset: indexes by the time of their next attempt
		{"xSuspended", ":s"}, // run, zset: suspended indexes by time, +inf: event only
		{"xEvents", ":e"},    // run, lexical zset: event, index
		{"xJobs", ":j"},      // run, hash: index -> attempts, crashes, state, event, keeps locks, token and number of the last save (0 and the node after a crash), 1 of a job with a cleanup, 2 of one that is leased for that only
		{"xLeases", ":l"},    // session, hash: RUN/INDEX -> lease
		{"xBlocked", ":b"},   // run, hash: index -> its member in wait
		{"xHeirs", ":h"},     // run, hash: index for which a lock is kept -> its member in wait
		{"xOrder", ":f"},     // run, hash: index that blocked before, and is ready with no lock kept -> its former member
		{"xPlaces", ":n"},    // run, lexical zset: group, index that has a place
		{"xFinished", ":y"},  // run, string: 9 bytes a range that ended before it was submitted: from, count, outcome
		{"xLog", ":o"},       // run, stream: packed records
		{"xReady", ":z"},     // tenant, zset: ready runs by rank
		{"xRuns", ":u"},      // tenant, set: its runs
	}
}

// runSuffixes are those of a run's keys, its record apart.
func runSuffixes() []string {
	var out []string
	for _, k := range suffixes() {
		if k.lua != "xReady" && k.lua != "xRuns" && k.lua != "xLeases" {
			out = append(out, k.name)
		}
	}
	return out
}

// code returns the end of a reason of the scripts, as text in Lua.
func code(c core.ReasonCode) string {
	return "'" + strings.ReplaceAll(string(core.Because(c, "")), "\x1f", `\31`) + "'"
}

// luaNames are the names of keys as the scripts write them, and how lease time is counted: a
// session lives for ttl of it.
func luaNames(ttl time.Duration) map[string]string {
	names := map[string]string{
		"LEASE_TTL":   strconv.FormatInt(ttl.Microseconds(), 10),
		"LEASE_STEP":  strconv.FormatInt(max(ttl/leaseSteps, time.Microsecond).Microseconds(), 10),
		"UNFORMATTED": "'" + unformatted + "'",
		"DROPPED":     "'" + queue.Dropped + "'",
		"QUEUE_OLDER": code(core.QueueOlder),
		"WORKER_LOST": code(core.WorkerLost), "HOST_LOST": code(core.HostLost), "THRESHOLD_REACHED": code(core.ThresholdReached),
		"RUNKEYS": "{'" + strings.Join(runSuffixes(), "','") + "'}",
	}
	for i, k := range append(fixedKeys(), prefixes()...) {
		names[k.lua] = "KEYS[" + strconv.Itoa(i+1) + "]"
	}
	for _, k := range suffixes() {
		names[k.lua] = "'" + k.name + "'"
	}
	return names
}

// keyspace builds the key names of one pool.
type keyspace struct {
	prefix string   // {pool/0}:
	fixed  []string // KEYS of every script
	byLua  map[string]string
}

func newKeyspace(pool string) keyspace {
	ks := keyspace{prefix: "{" + escape(pool) + "/" + shard + "}:", byLua: map[string]string{}}
	for _, k := range append(fixedKeys(), prefixes()...) {
		name := ks.prefix + k.name
		ks.fixed = append(ks.fixed, name)
		ks.byLua[k.lua] = name
	}
	for _, k := range suffixes() {
		ks.byLua[k.lua] = k.name
	}
	return ks
}

// key is a fixed key by its Lua name.
func (ks keyspace) key(lua string) string { return ks.byLua[lua] }

// run is a key of run number no; suffix is a Lua name, "" is the record.
func (ks keyspace) run(no int64, suffix string) string {
	return ks.byLua["pRun"] + strconv.FormatInt(no, 10) + ks.byLua[suffix]
}

// escape makes any text safe inside a hash tag and readable in a key.
func escape(s string) string { return redisconn.EscapeKey(s) }
