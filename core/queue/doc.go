// Package queue owns the contract of the fair, scheduled, leased queue: its types, its rules, and
// the arithmetic of fairness that all implementations share. queuetest holds the conformance suite;
// memory and redis implement it.
//
// It must not know playbooks, hosts beyond their names and locks, plugins, or what a job's bytes
// mean.
//
// # Rules that every implementation keeps
//
//  1. The queue has a clock of its own; a caller's clock never decides. A segment's Due is a time
//     of day, and follows the queue's clock in whichever direction that leaps. A delay continues
//     through a leap and does not become longer. A session's life is the time between its calls: a
//     leap shortens it by at most a sixth, and a silence of all sessions ends none.
//  2. Submit is idempotent by run id, and O(segments + finished) in work and memory for a bulk run:
//     a job has no state of its own before it is leased, blocked, or cancelled singly.
//  3. A token fences each lease. Tokens only grow, also over a restart, a rollback and an emptying
//     of the queue, because none is below the queue's clock in µs. They may fall if the clock is
//     set back as well. An ack with another token, or for a job that is not leased to that session,
//     is counted, returned as stale, and changes nothing.
//  4. A lease lives as long as its session beats. When a session is silent for SessionTTL, the next
//     node that calls Turn recovers its jobs, a bounded number for each call. OnLost retry counts
//     the attempt and puts the job back; at the MaxCrashes-th crash the job ends as lost. OnLost
//     hold ends it as lost.
//  5. Two leased jobs never share a Target.Host, in the same run or in two, nor a Target.HAGroup if
//     their runs are Disruptive. Within a run at most PerGroup jobs of one Target.Group are leased
//     at the same time. A job that meets a held lock is Blocked: it takes up no concurrency, and
//     jobs behind it pass. The job that blocked first on a lock is the next to have it.
//  6. No job is leased beyond Limit, beyond MaxInFlight, before its segment is due, while its run
//     is paused, or after its run was stopped or cancelled. Only a job with a cleanup is leased
//     then: see Cleanup.
//  7. Thresholds: an applied ack stops its run when it brings the outcomes that
//     core.Outcome.CountsAsFailure counts to StopAfter, or unreachable ones to StopUnreachable. A
//     job that ends as lost also stops its run. The run is stopped in the same atomic step, before
//     anything is leased in it. Adjust.Stop also stops a run.
//  8. Stop and cancel end every job of the run that is not leased, with the outcome cancelled and
//     in work bounded for each call. A job ends as lost instead if its last lease crashed and no
//     Save, Retry or Suspend came since, because nobody knows what the host saw. Cancel also lists
//     the leased jobs to their workers (TurnResult.Stop, BeatResult.Stop); stop lets them finish.
//     In a stopped or cancelled run a Retry ack ends the job with Ack.Outcome; a Suspend or Return
//     ends it as stop and cancel do.
//  9. Order: the next job comes from the ready tenant with the lowest Rank, then that tenant's
//     ready flow with the lowest Rank, then its lowest index that is ready (retries, resumed and
//     unblocked jobs before jobs that were never leased). See Rank.
//  10. A session leases at most as many jobs as it wants. Turn does bounded work, however many jobs
//     are pending.
//
// # Where the rules leave room
//
// Sessions. Turn and Beat keep a session alive. A session that was silent for SessionTTL has ended
// for its node immediately, recovered or not: Turn, Beat, Adopt, Save and Close return
// ErrSessionGone and change nothing. So does an id that was never opened. Wait does not check the
// session. A node name is 1 to MaxIDLength bytes; else Open is core.ErrInvalid. Stop lists are
// repeated with each call until the job is acknowledged. A node that has reached its concurrency
// does not call Wait, because Wait returns immediately while jobs are ready.
//
// Turn. It is validated as a whole before anything is changed. More than MaxAcksPerTurn acks, Want
// outside 0 … MaxLeasesTurn, an unknown kind, a Done or Retry without a valid Outcome, and Detail
// or State over MaxDetail are core.ErrInvalid. Order within it: recovery of sessions, acks one by
// one as listed (a second ack of the same job is stale), activating jobs that are due, leases. A
// negative After is 0.
//
// Saves. A lease's saves are applied in the order of their Seq: one that arrives late does not undo
// a later one. Acks come before them: Retry and Suspend replace the saved state, Return and a crash
// keep it, and the end of the job drops it. Save does not keep a session alive. In a run that is
// stopped or cancelled it works as in any other: a leased job may end what it began.
//
// Acks. Retry replaces the job's State and counts the attempt; Suspend replaces it and counts none;
// Return keeps it. Suspend with an Event and After 0 waits for the event only; without an Event,
// After 0 is due immediately. All of them, and recovery, add the time since the lease to Served.
//
// Crashes. A job whose session is recovered is due again immediately; at the MaxCrashes-th crash it
// ends as lost. In a run that is stopped or cancelled it ends as lost instead of being tried again.
// A crash keeps the job's State.
//
// Cleanup. A job whose last Suspend or Retry had Cleanup does not end with its run: in place of
// rule 8, stop and cancel make it due immediately, with its state and the locks that it kept. Its
// leases have Over, and are in no Stop list. Such leases come before all others, at most 16 each
// turn. They keep to locks and MaxInFlight, and tags do not count. The same is true of a Suspend or
// Retry with Cleanup, and a Return of such a job, that comes after its run has ended. From the
// first lease with Over on, After counts, and an event does not: a Suspend with an event and no
// After ends the job as cancelled. A crash of such a lease is tried again as in any other run.
// Dismiss, Drop, and an end for which Cleans is false, pass Cleanup over.
//
// Locks. They are taken in the order host, HA group, group. A job blocks on the first lock that
// another job holds, and holds nothing while it is blocked. PerGroup is a lock with PerGroup
// places, within the run. KeepLocks keeps all of them, also the group's place. When a place comes
// free, it goes to the job that blocked on it first, among those whose run could lease now (active,
// below MaxInFlight). That job becomes pending, and the place is kept for it until it is leased,
// blocks on another lock, ends, or its run cannot lease any more; then the next has it. A job keeps
// its place in that order until it is leased. Waiters whose run cannot lease now do not bar others.
//
// Phases. Cancel of a stopped run that is not complete makes it cancelled; of a complete or
// cancelled run it has no effect. Stop never undoes cancel. A run whose last ack reaches the
// threshold is stopped, and complete. Adjust has no effect on a run that is stopped, cancelled or
// complete, nor has a Limit lower than the present one. A Weight outside 1 … MaxWeight or a
// negative Limit is core.ErrInvalid.
//
// Segments. Each is a timed entry of its own: a segment that is not due does not delay later
// targets of its run. A Limit may cut through a segment: it releases the targets of the segment
// below it. A job needs both: it is released, and it is due. A large wave may be released in steps:
// after an error of Adjust a part of it may be released, and Adjust again releases the rest.
//
// Finished jobs. A target of Run.FinishedJobs has ended: leases, segments, waves and Cancel pass
// over it, it is not deferred, and Explain reports it as ended. Finished jobs count in the
// thresholds (rule 7) when the run is submitted. A run is stopped immediately if they reach a
// threshold, or if one is lost; its remaining jobs are cancelled as after any stop. A run with
// finished jobs only is complete. A finished target may be beyond Limit. The same run submitted
// again is accepted without effect, also with other finished jobs or another Paused.
//
// Deferred. The queue's clock decides, also before the next Turn: a segment that is due, and a
// suspended job whose After has passed, are not deferred any more. In a paused run jobs are
// deferred as in an active one; in a run that is stopped, cancelled or complete none is. Jobs
// beyond Limit, and those that wait for another event, for a time without an event, a retry or a
// lock, are not deferred.
//
// Signal ends the suspension of every job that waited for the event when it was called, of each job
// one time, however often it is suspended again meanwhile. It works in steps of bounded size with
// turns of others in between, so the first job may be leased before the last is signalled. After
// core.ErrUnknown or core.ErrUnavailable some may be signalled: call it again.
//
// Dismiss ends them as Cancel ends a suspended job: it frees locks that they kept and reaches no
// threshold. The run continues, or is complete if these were its last jobs. In a run that is
// stopped or cancelled the stop or cancel ends such jobs; Dismiss adds nothing.
//
// Awaited counts jobs that wait for an event until they are signalled, their time has come, or they
// end. Jobs that are due count until the next Turn. For a run that is stopped, cancelled or
// complete the count has no guarantee.
//
// News. There is news of a run when it is submitted, a record is added, its phase or limit changes,
// a job is suspended, or a suspension ends. A lease, a beat, a save, a retry, a return and a crash
// that is tried again are none. News is there when the call that made it has returned, and a call
// makes it once. A part with a cursor that News did not give out is Lost.
//
// Poll reads each run at one moment, but runs one after the other. It may give fewer records than
// it was asked for, even none, and then sets More, so the answer has some MiB at most. If several
// runs share an answer, the first ones are served first.
//
// Records. Attempt is the number of attempts made, 0 for a job that was never tried. Reason of a
// cancelled job is that of Cancel or of the stop. A cursor that Poll did not give out, and most
// below 1, are core.ErrInvalid.
//
// Order. Ranks round tags to TagUnit, and above 2^31 of these units to a 2^26th of the tag. Tags
// add up in finer steps, so that short jobs count. A flow is ready while a job of it could be
// leased. It is not ready while it is paused, at MaxInFlight, or all its jobs are blocked; when it
// is ready again its tag is max(tag, V). Tenants have tags and V of their own, and no head start;
// equal ranks go by when the tenant's first run was submitted. A tenant whose runs are all complete
// may be forgotten.
//
// Submit takes up to MaxSubmit runs; more are core.ErrInvalid, each. Every run is accepted or
// refused alone, in order, as if it had been submitted alone: of two with one id the second is the
// same run again, or a conflict. Runs of one Submit are not accepted in one atomic step. Submit
// refuses:
//
//   - no targets;
//   - ids that are empty (run, host), not UTF-8 or longer than MaxIDLength;
//   - Segments that are negative, empty or do not add up to the targets;
//   - negative numbers, weights over MaxWeight (0 is 1), and a Priority out of bounds;
//   - FinishedJobs that are unsorted, overlap, leave the targets or have more than MaxFinished
//     ranges;
//   - an unknown OnLost.
//
// The caller must not change a run's slices afterwards.
//
// A complete run is kept for a retention that the implementation's options set (a day or more),
// then forgotten: its id is then unknown, and free.
package queue
