// Package scale owns how many workers a pool should have: the formula, its hysteresis, which
// workers may go, and the calls of a hook that starts and stops them.
//
// It must not know queues, the ledger or HTTP routes: remaining work and present workers come as
// plain values.
package scale
