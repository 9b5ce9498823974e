// Package scale owns how many workers a pool should have, and telling it to whoever starts and
// stops them: the formula, its hysteresis, which workers may go, and the calls of a hook.
//
// It must not know queues, the ledger or HTTP routes: what there is to do and which workers there
// are come as plain values.
package scale
