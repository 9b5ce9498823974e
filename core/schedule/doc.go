// Package schedule owns recurrence: definitions that launch something again and again by a
// cron expression in civil time, or once at a time, the pure decisions about each fire, their rows
// in the ledger, and the Engine that a server runs.
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
//	overlap       of a fire that is on time, while a run of the schedule is not complete. skip: dropped;
//	              queue: one fire waits, the next ones are dropped; cancel_running: the running ones are
//	              cancelled, then it is launched, without waiting for their end
//	late fires    missed ones that are caught up and those of a backfill cancel nothing and wait until no
//	              run is left, whatever overlap says; start_within still ends the wait of those caught up
//	pause         fires are passed over in silence; resume goes on with the next one, nothing is caught up
//	backfill      launches the fires of a past range, at most MaxBackfill, under the run ids they have anyway:
//	              what was launched before is not repeated. Neither pause nor start_within binds it
//	trigger       launches once at once, under a run id of its own, made of the caller's key. Neither pause
//	              nor overlap nor start_within binds it
//	once          a schedule with At fires once. Missed, it is launched late (catch_up once), start_within permitting.
//	              KeepOnce after its time it is removed
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
// A schedule is one row of the ledger: definition, state, a version, and the time at which somebody
// has to check it. The row is the only truth.
//
//  1. An engine reads the rows that are due, and asks which of their runs are complete.
//  2. It decides, and prepares the runs that are to be launched. Nothing is written yet.
//  3. One transaction for up to 128 rows: of each row whose version matches, the runs are inserted
//     and the row becomes what the decision and the ledger's answers make of it.
//
// A server that dies before the commit has changed nothing. Of two servers that decide on one row
// the second finds another version, and changes nothing. The primary key of runs lets no run in
// twice, even where a row comes back from an older copy of the ledger.
//
// Time is the ledger's: PostgreSQL's clock, which all servers share, or that of the process that
// has the SQLite file. Whatever that clock does, a nominal time up to State.Since is decided and is
// not decided again.
package schedule
