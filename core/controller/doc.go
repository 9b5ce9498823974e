// Package controller owns what lies between "accepted" and "recorded": a run is accepted into
// the ledger, then put into the queue; its waves are driven, its outcomes recorded; and a queue
// that was lost, or that came back older than the ledger, is rebuilt.
//
// Any number of servers run a Controller each over one ledger and one queue. There is no leader:
//
//   - Which server puts a run into the queue is settled by a claim in the ledger that ends by itself.
//     Doing it twice is the same as once, for Submit is idempotent by run id.
//   - Which server follows a run is settled by hashing over the servers that lately said they live. While
//     two disagree, both follow: waves are released once either way, and outcomes are recorded once by the
//     cursor that the ledger compares.
//
// It must not know HTTP, who may do what, or how hosts are reached.
package controller
