// Package ledger owns the durable record of the service: runs with everything
// needed to run them again, the outcome of every job, earlier attempts, output,
// approvals, the audit log, tokens and named documents. It is the one place from
// which a lost queue can be rebuilt, and the one that answers for years.
//
// It must not know queues, playbooks, hosts beyond their names, HTTP or roles.
// Snapshots, the queue's run, details and documents are opaque bytes to it.
//
// # Promises
//
//   - Once a method returned without an error, its change is on disk: a killed process or a
//     power failure loses none of it.
//   - Accept is idempotent by run id, and by key within a tenant.
//   - Each job's outcome counts once, however often and by however many servers it is
//     delivered; the counts of a run always are the outcomes that can be read.
//   - The audit log contains every change that a person asked for, written in the same
//     transaction. Nothing in that log can be changed or removed through this package or by
//     plain SQL. A change by other means breaks a chain of hashes (VerifyAudit).
//   - A Scope limits what a person reads. It is a parameter of each such method. Methods
//     without one are for the service itself.
//
// A ledger is in SQLite, a file for one server or several on one machine, or in PostgreSQL, for any
// number of servers. Almost all SQL is the same for both.
//
// Large outputs are objects in a folder or a bucket of S3. OpenBucket opens such a place, also for
// backups.
//
// All methods are safe for concurrent use. Errors wrap core.ErrNotFound, ErrConflict,
// ErrInvalid, ErrUnavailable (later may succeed) or ErrUnknown (it may have happened: ask,
// or repeat what is idempotent), or the context's. Rows outside a
// Scope are core.ErrNotFound.
package ledger
