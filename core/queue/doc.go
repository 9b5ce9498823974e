// Package queue owns the contract of the fair, scheduled, leased queue: its
// types, its rules, and the arithmetic of fairness that all implementations
// share. queuetest holds the conformance suite; memory and redis implement it.
//
// It must not know playbooks, hosts beyond their names and locks, plugins, or
// what a job's bytes mean.
//
// # Rules that every implementation keeps
//
//  1. Time is the queue's own; a caller's clock never decides. A segment's Due is a time of day,
//     and follows the queue's clock whichever way that leaps. A delay goes on through a leap: none
//     takes longer for it. A session's life is counted in what passes between calls: a leap takes
//     at most a sixth of it, and no silence that is everybody's ends one.
//  2. Submit is idempotent by run id, and O(segments + settled) in work and memory for a
//     bulk run: no per-job state before a job is leased, blocked, or cancelled singly.
//  3. A lease is fenced by a token that only grows, also over a restart, a rollback and an emptying
//     of the queue: none is below the queue's clock in µs. Where the clock is set back as well, it
//     may fall. An ack with another token, or for a job that is not leased to that session, is
//     counted, returned as stale, and changes nothing.
//  4. Leases live as long as their session beats. When a session is silent for
//     SessionTTL, whichever node calls Turn next recovers its jobs, boundedly many a
//     call: OnLost retry counts the attempt and puts the job back
//     (lost at the MaxCrashes-th crash); OnLost hold ends it as lost.
//  5. Two leased jobs never share a Target.Host, whatever their runs, nor, where
//     their runs are Disruptive, a Target.HAGroup. Within a run at most PerGroup
//     jobs of one Target.Group are leased at once. A job that meets a held lock
//     is Blocked: it holds no slot and lets those behind it pass. When the lock
//     comes free the job that blocked on it first is the next to have it.
//  6. No job is leased beyond Limit, beyond MaxInFlight, before its segment is
//     due, while its run is paused, or after its run was stopped or cancelled.
//  7. Budget: when an applied ack brings the number of outcomes that
//     core.Outcome.SpendsBudget to StopAfter, or of unreachable to
//     StopUnreachable, or when any job ends as lost, the run is stopped in the
//     same atomic step, before anything is leased in it. Adjust.Stop stops a run too.
//  8. Stop and cancel end every job of the run that is not leased as cancelled (as lost, where its
//     last lease crashed and no Save, Retry or Suspend came since: nobody knows what the host saw),
//     in work bounded per call. Cancel also lists the leased ones to their workers
//     (TurnResult.Stop, BeatResult.Stop); stop lets those finish. A Retry ack in a
//     stopped or cancelled run ends the job with Ack.Outcome; a Suspend or Return ends it so.
//  9. Order: the next job comes from the ready tenant with the lowest Rank, then
//     that tenant's ready flow with the lowest Rank, then its lowest index that is
//     ready (retries, resumed and unblocked jobs before fresh ones). See Rank.
//  10. A session leases at most what it wants; Turn does bounded work whatever is pending.
//
// # Where the rules leave room, this is meant
//
// Sessions. Turn and Beat keep a session alive. A session that was silent for SessionTTL is gone
// for its node at once, reaped or not: Turn, Beat, Adopt, Save and Close return ErrSessionGone and
// change nothing. Wait does not check the session. An id that was never opened is gone too. A node
// name is 1 to MaxIDLength bytes; else Open is core.ErrInvalid. Stop lists are repeated with each
// call until the job is acknowledged. A node without a free slot does not Wait: Wait returns
// immediately while jobs are ready.
//
// Turn. It is validated as a whole before anything is changed: more than MaxAcksPerTurn acks,
// Want outside 0 … MaxLeasesTurn, an unknown kind, a Done or Retry without a valid Outcome, Detail
// or State over MaxDetail are core.ErrInvalid. Order within it: reap, acks one by one as listed (a
// second ack of the same job is stale), activate what is due, lease. A negative After is 0.
//
// Saves. A lease's saves are applied in the order of their Seq: one that arrives late does not undo
// a later one. Acks rule over them: Retry and Suspend replace what was saved, Return and a crash
// keep it, and what ends the job drops it. Save does not keep a session alive. In a run that is
// stopped or cancelled it works as in any other: a leased job may end what it began.
//
// Acks. Retry replaces the job's State and counts the attempt; Suspend replaces it and counts none;
// Return keeps it. Suspend with an Event and After 0 waits for the event only; without an Event,
// After 0 is due at once. All of them, and reaping, add the time since the lease to Served.
//
// Crashes. A job whose session is reaped is due again at once;
// at the MaxCrashes-th crash it ends as lost. In a run that is stopped or cancelled it
// ends as lost instead of being tried again. A crash keeps the job's State.
//
// Locks. They are taken in the order host, HA group, group; a job blocks on the first that is held,
// and holds nothing while it is blocked. PerGroup is a lock with PerGroup places, within the run.
// KeepLocks keeps all of them, the group's place too. When a place comes free, the job that blocked
// on it first, among those whose run could lease now (active, below MaxInFlight), becomes pending
// and the place is kept for it until it is leased, blocks on another lock, ends, or its run cannot
// lease any more; then the next has it. A job keeps its place in that order until it is leased.
// Waiters whose run cannot lease now do not bar others.
//
// Phases. Cancel of a stopped run that is not complete makes it cancelled; of a complete or
// cancelled run it has no effect. Stop never undoes cancel. A run whose last ack reaches the
// threshold is stopped, and complete. Adjust on a run that is stopped, cancelled or complete has no
// effect; a Limit lower than the present one has none either; a Weight outside 1 … MaxWeight or a
// negative Limit is core.ErrInvalid.
//
// Segments. Each is a timed entry of its own: what is not due never keeps later targets of its run
// from starting. A Limit cuts through a segment: of that one, only the targets below it are
// released. Limit and due time both have to be met.
// A large wave may be released in steps: after an error of Adjust a part of it may be released, and
// Adjust again releases the rest.
//
// Settled. A settled target has ended: it is passed over by leases, segments, waves and Cancel, is
// not deferred, and is explained as ended. What is settled counts in the thresholds (rule 7) when
// the run is submitted: one whose threshold that spends, or that has a settled lost one, is stopped
// at once, and the rest of it cancelled as after any stop; one that is all settled is complete.
// A target may be settled beyond Limit. The same run submitted again is accepted without effect,
// whatever is settled by then and whether it is paused.
//
// Deferred. What counts is the queue's clock, not whether a turn has looked: a segment that is due,
// and a suspended job whose After has passed, are not deferred any more. In a paused run jobs are
// deferred as in an active one; in a run that is stopped, cancelled or complete none is. Jobs
// beyond Limit, and those that wait for another event, for a time without an event, a retry or a
// lock, are not deferred.
//
// Wake wakes every job that waited for the event when it was called, each at most once however
// often it is suspended again meanwhile. It works in steps of bounded size with turns of others in
// between, so the first may be leased before the last is woken. After core.ErrUnknown or
// core.ErrUnavailable some may be woken: call it again.
//
// Dismiss ends them as Cancel ends a suspended job: locks that they kept are given free, no
// threshold is reached, and the run goes on, complete where these were the last. In a run that is
// over it has no effect beside the sweep's own.
//
// Awaited counts what waits for an event until it is woken, its time has come, or it ends; what is
// due counts until a turn has looked. Of a run that is over nothing is promised.
//
// News. There is news of a run when it is submitted, a record is added, its phase or limit changes,
// a job is suspended, or a suspension ends. A lease, a beat, a save, a retry, a return and a crash
// that is tried again are none. It is there when the call that made it has returned, and a call
// makes it once. A cursor that News did not give out is one that is Lost.
//
// Look gives of each run what was there at one moment, but runs one after the other. It may give
// fewer records than it was asked for, even none, and then says More: so the answer has some MiB at
// most. Where several share an answer, those in front are served first.
//
// Records. Attempt is the number of attempts made, 0 for a job that was never tried. Reason of a
// cancelled job is that of Cancel or of the stop. A cursor that Look did not give out, and most
// below 1, are core.ErrInvalid.
//
// Order. Ranks take tags in units of TagUnit, but tags add up in finer steps, so that short jobs
// count. A flow is ready while a job of it could be leased: paused, at MaxInFlight or with nothing
// but blocked jobs it is not, and when it is again its tag is max(tag, V). Tenants have tags and V
// of their own, and no head start; equal ranks go by when the tenant's first run was submitted. A
// tenant whose runs are all complete may be forgotten.
//
// Submit takes up to MaxSubmit runs; more are core.ErrInvalid, each. Every run is accepted or
// refused by itself, in order, as if it had been submitted alone: of two with one id the second is
// the same run again, or a conflict. Runs of one Submit are not accepted in one atomic step.
// Submit refuses: no targets; ids that are empty (run, host), not UTF-8 or longer than MaxIDLength;
// Segments that are negative, empty or do not add up to the targets; negative numbers; weights over
// MaxWeight (0 is 1); a Priority out of bounds; Settled that is unsorted, overlaps, leaves the
// targets or has more than MaxSettled ranges; an unknown OnLost. The
// caller must not change a run's slices afterwards.
//
// A complete run is kept for a retention that the implementation's options say (a day or more),
// then forgotten: its id is then unknown, and free.
package queue
