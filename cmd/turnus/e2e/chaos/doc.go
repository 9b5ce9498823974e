// Package chaos owns the proof that Turnus keeps its promises under faults. It starts servers,
// workers, Redis, a ledger and hosts with OpenSSH, breaks them by a plan that a seed decides, and
// judges by what the hosts noted themselves. It holds tests only.
//
// It must not know how a room keeps its promise, and never takes the queue's word for what ran.
package chaos
