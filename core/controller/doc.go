// Package controller owns the way of a run from accepted to recorded. It accepts a run into the
// ledger, puts it into the queue, records the queue's outcomes, and does what core/engine decides.
// It rebuilds a queue that was lost, or that came back older than the ledger.
//
// Each server has one loop for all runs together, with two helpers: putIn claims runs that the
// queue lacks, and listen gets news from the queue about the runs that have changed. A run without
// news is only an entry on the agenda.
//
// Any number of servers run a Controller each over one ledger and one queue. There is no leader:
//
//   - A claim in the ledger, which ends after a time, decides which server puts a run into the
//     queue. Doing it twice is the same as once, because Submit is idempotent by run id.
//   - A hash of the parts of the queue over the servers that are alive decides which server checks
//     a run. While two servers disagree, both check it: waves are released once either way, and
//     outcomes are recorded once by the cursor that the ledger compares.
//
// It must not know HTTP, who may do what, or how hosts are reached.
package controller
