// Package controller owns what lies between "accepted" and "recorded": a run is accepted into
// the ledger, then put into the queue; what the queue says of it is recorded, and what core/engine
// decides is done; and a queue that was lost, or that came back older than the ledger, is rebuilt.
//
// One loop a server does it, for all runs together, with two helpers: putIn claims runs that the
// queue lacks, listen hears from the queue in which runs something has happened. Nothing is kept
// for a run but its place on the agenda.
//
// Any number of servers run a Controller each over one ledger and one queue. There is no leader:
//
//   - Which server puts a run into the queue is settled by a claim in the ledger that ends by
//     itself. Doing it twice is the same as once, for Submit is idempotent by run id.
//   - Which server looks at a run is settled by hashing the parts of the queue over the servers
//     that lately said they live. While two disagree, both look: waves are released once either
//     way, and outcomes are recorded once by the cursor that the ledger compares.
//
// It must not know HTTP, who may do what, or how hosts are reached.
package controller
