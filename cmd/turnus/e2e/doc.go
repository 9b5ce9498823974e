// Package e2e owns the proofs that need whole processes: the real binary, killed,
// stopped and interrupted, with a real Redis, simulated hosts, and a plugin from a
// module of its own. It holds tests only.
//
// It must not know how any room keeps its promise; it checks what a process prints, returns and
// leaves behind, and the queue's records.
package e2e
