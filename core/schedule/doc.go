// Package schedule owns recurrence: definitions that launch something again and again by a cron
// expression in civil time, or one time at an instant. It has the pure decisions about each fire
// time, their rows in the ledger, and the Engine that a server runs.
//
// It must not know playbooks, runs beyond their ids, queues, or what a payload means.
//
// # Which triggers are launched when
//
// A trigger is a fire time of a schedule that has come, or a request of a person.
//
//	nominal       the fire time of the cron expression in the schedule's zone, by package civil
//	start         nominal + jitter; the jitter is a share of Definition.Jitter fixed by the schedule's
//	              id, the same on every server, and less than the gap to the next nominal time
//	on time       checked before Grace has passed since its start; else the trigger is missed
//	start_within  no trigger of the cron expression is launched later than this after its nominal time
//
//	catch_up      skip: missed triggers are dropped; once: of those missed only the latest is launched;
//	              all: each, oldest first, one after the other, of the newest MaxCatchUp; triggers that
//	              come while one of them runs follow behind
//	overlap       of a trigger that is on time, while a run of the schedule is not complete. skip:
//	              dropped; queue: one waits, the next ones are dropped; cancel_running: the running
//	              ones are cancelled, then it is launched, without waiting for their end
//	late          missed triggers that are caught up, and those of a backfill, cancel nothing and wait
//	              until all runs have ended, with any overlap; start_within still ends the wait of
//	              those caught up
//	pause         fire times pass without a report; resume continues with the next one, none is caught up
//	backfill      launches the triggers of a past range, at most MaxBackfill, under their usual run ids:
//	              one that was launched before is not repeated. Neither pause nor start_within applies
//	trigger       launches one time, immediately, under a run id of its own, made of the caller's key.
//	              Neither pause nor overlap nor start_within applies
//	once          a schedule with At has one trigger. If missed, it is launched late (catch_up once),
//	              within start_within. KeepOnce after its time the schedule is removed
//	failed        a launch that fails is tried again after 1 s, 2 s, … 30 s, until start_within (RetryFor
//	              without one) has passed since its decision; then it is skipped
//
// Every trigger that is not launched is reported once, with the reason, among the schedule's
// results. If an engine dropped it, it is also an event; many of one cause and schedule are one
// range. A launched trigger has the run id RunID, which is a function of the schedule and the
// nominal time.
//
// # Exactly once
//
// A schedule is one row of the ledger: definition, state, a version, and the time of its next
// check. The row is the only truth.
//
//  1. An engine reads the rows that are due, and asks which of their runs are complete.
//  2. It decides, and prepares the runs to launch. Nothing is written yet.
//  3. It writes up to 128 rows in one transaction. For each row whose version matches it inserts
//     the runs, and updates the row by the decision and the ledger's answers.
//
// A server that dies before the commit has changed nothing. Of two servers that decide on one row
// the second finds another version, and changes nothing. The ids of runs are unique, so a run is
// refused a second time, even if a row comes back from an older copy of the ledger.
//
// Time is the ledger's: PostgreSQL's clock, which all servers share, or that of the process that
// has the SQLite file. A nominal time up to State.Since is decided, and never decided again, even
// if that clock leaps.
package schedule
