// Package queue owns the contract of the fair, scheduled, leased queue: its
// types, its rules, and the arithmetic of fairness that all implementations
// share. queuetest holds the conformance suite; memory and redis implement it.
//
// It must not know playbooks, hosts beyond their names and locks, plugins, or
// what a job's bytes mean.
//
// # Rules that every implementation keeps
//
//  1. Time is the queue's own clock, held monotone; a caller's clock never decides.
//  2. Submit is idempotent by run id, and O(segments) in work and memory for a
//     bulk run: no per-job state before a job is leased, blocked, or cancelled singly.
//  3. A lease is fenced by a token that only grows. An ack with another token, or
//     for a job that is not leased to that session, is counted, returned as
//     stale, and changes nothing.
//  4. Leases live as long as their session beats. When a session is silent for
//     SessionTTL, whichever node calls Turn next recovers its jobs, boundedly many a
//     call: OnLost retry counts the attempt and puts the job back after the
//     run's backoff (dead at MaxCrashes); OnLost hold ends it as lost.
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
//     same atomic step, before anything is leased in it.
//  8. Stop and cancel end every job of the run that is not leased as cancelled, in
//     work bounded per call. Cancel also lists the leased ones to their workers
//     (TurnResult.Stop, BeatResult.Stop); stop lets those finish. A Retry ack in a
//     stopped or cancelled run ends the job with Ack.Outcome; a Suspend or Return ends it as cancelled.
//  9. Order: the next job comes from the ready tenant with the lowest Rank, then
//     that tenant's ready flow with the lowest Rank, then its lowest index that is
//     ready (retries, resumed and unblocked jobs before fresh ones). See Rank.
//  10. A session leases at most what it wants; Turn does bounded work whatever is pending.
package queue
