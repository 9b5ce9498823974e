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
//   - What a method returned without an error is on disk: a killed process or a
//     machine without power loses none of it.
//   - Accept is idempotent by run id, and by key within a tenant.
//   - Each job's outcome counts once, however often and by however many servers it is
//     delivered; the counts of a run always are the outcomes that can be read.
//   - Every change that a person asked for stands in the audit log, written in the same
//     transaction. Nothing in that log can be changed or removed through this package or by
//     plain SQL; whoever gets around that breaks a chain of hashes (VerifyAudit).
//   - What a person reads is limited by a Scope, which is a parameter of each such
//     method. Methods without one are for the service itself.
//
// Two databases hold a ledger: SQLite in a file, for one server or several on one
// machine, and PostgreSQL, for any number. Everything but a handful of words of SQL is the same.
//
// Large outputs are objects in a folder or a bucket of S3. OpenBucket opens such a place, also for
// backups.
//
// All methods are safe for concurrent use. Errors wrap core.ErrNotFound, ErrConflict,
// ErrInvalid, ErrUnavailable (later may succeed) or ErrUnknown (it may have happened: ask,
// or repeat what is idempotent), or the context's. What is outside a Scope is not found.
package ledger
