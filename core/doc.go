// Package core owns the vocabulary of Turnus as plain values: hosts, jobs,
// outcomes, the transition table of a job, backoff, the pulse of a loop, the signature of a
// webhook, and the errors that cross rooms. Every other package speaks these words.
//
// It does no I/O, starts no goroutine, and must not know queues, plugins,
// transports, playbooks, or how anything is stored or shown.
package core
