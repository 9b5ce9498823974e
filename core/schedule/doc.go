// Package schedule owns recurrence: definitions that launch something again and again by a
// cron expression in civil time, the pure decisions about each fire, the contract of the
// store that keeps them, and the Engine that a server runs. scheduletest holds the
// conformance suite; memory and redis implement the store.
//
// It must not know playbooks, runs beyond their ids, queues, or what a payload means.
//
// # What fires when
//
//	nominal       what the cron expression says in the schedule's zone, by package civil
//	start         nominal + jitter; the jitter is a share of Definition.Jitter fixed by the schedule's
//	              id, the same on every server, and less than the gap to the next nominal time
//	on time       looked at before Grace has passed since its start; else the fire is missed
//	start_within  no fire of the cron expression is launched later than this after its nominal time
//
//	catch_up      skip: missed fires are dropped; once: of those missed only the latest is launched;
//	              all: each, oldest first, one after the other, of the newest MaxCatchUp; fires that come
//	              while one of them runs follow behind
//	overlap       of a fire that is on time, while a run of the schedule is not complete (asked once it is
//	              known what came of the launch before). skip: dropped; queue: one fire waits, the next
//	              ones are dropped; cancel_running: the running ones are cancelled, then it is launched,
//	              without waiting for their end
//	late fires    missed ones that are caught up and those of a backfill cancel nothing and wait until no
//	              run is left, whatever overlap says; start_within still ends the wait of those caught up
//	pause         fires are passed over in silence; resume goes on with the next one, nothing is caught up
//	backfill      launches the fires of a past range, at most MaxBackfill, under the run ids they have anyway:
//	              what was launched before is not repeated. Neither pause nor start_within binds it
//	trigger       launches once at once, under a run id of its own, made of the caller's key. Neither pause
//	              nor overlap nor start_within binds it
//	failed        a launch that fails is tried again after 1 s, 2 s, … 30 s, until start_within (RetryFor
//	              where there is none) has passed since its decision; then it is skipped
//
// Every fire that is not launched is reported once, with the reason, among the schedule's results
// and, where an engine dropped it, as an event; many of one cause and schedule as one range. A fire
// that is launched is launched under RunID, and RunID is a function of the schedule and the nominal
// time.
//
// # Exactly once
//
// Nothing is decided twice: the state advances by compare-and-set on a version.
//
//  1. Take: the store hands out what is due, each record to one server, for TTL.
//  2. Claim: the decision (the new state, with what is to be launched under which run id) is
//     written with the version that Take gave. From here on the decision stands, whoever carries it out.
//  3. Launch, through the caller's Launcher, which is idempotent by run id.
//  4. Settle: what was launched moves from the claim to the results, by compare-and-set.
//
// A server that dies before 2 has changed nothing; after it, the record is due again after TTL, and
// whoever takes it finds the claim and carries it out under the same run ids. A server that was only
// slow loses the compare-and-set, and the launch that it repeats is the same launch.
//
// # Rules that every store keeps
//
//  1. Time is the store's own clock (Redis TIME), never a caller's. Due times are kept to the
//     millisecond, rounded up: a record is never handed out early.
//  2. Versions grow over the whole store: a version is never given twice, not to another record, and not
//     to one that was deleted and made again. Every write and every Take gives a record a new one.
//  3. Take is atomic: of two concurrent calls, no record is in both. What it returns is due hold later.
//  4. A Write of many changes is atomic for each change, not for all together; a change whose
//     Version does not match changes nothing and says so. Changes of one call are applied in order.
//  5. Data is opaque and comes back as it was given. Nothing else decides when a record is due but Due and Hold.
//  6. Every call does bounded work; Take and Wait do the same whatever number of records is not due.
//  7. A call is validated as a whole before anything is changed; what is wrong is core.ErrInvalid.
//  8. A backend that is away is core.ErrUnavailable, a reply that was lost core.ErrUnknown; a call that changes
//     something is sent once, never blindly repeated.
//
// # What the conformance suite checks
//
//	Write       creates with version 0 and only then; replaces, keeps data (Keep), deletes with the right version only; a wrong
//	            version changes nothing and is told apart within a batch; versions grow, also over delete and create;
//	            several changes of one record in a batch; MaxBatch, ids, data, Due and Hold out of bounds
//	Take        only what is due, by the store's clock; oldest first; at most max, More; hold hides and brings back; a new
//	            version each time; Next is the earliest due of the rest; never-due records stay; concurrent takers
//	            share nothing and lose nothing; sub-millisecond due times are not early
//	Get         in the order asked, missing ones absent; does not change versions; duplicates
//	List        every record once, over pages of any size, of one tenant or of all; while others are written
//	Wait        returns when until is reached, when an earlier due time is written by anybody, at once when something is due
//	            already, with ctx; many waiters
//	Concurrent  N servers increment through compare-and-set: no update is lost (negative control: without the version it is)
//	Sequences   random calls on the store and on the memory store give the same
//	Engine      the engine's traps with real crashes over this store: exactly the fires of civil.Cron, each once
package schedule
