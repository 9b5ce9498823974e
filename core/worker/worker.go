// Package worker owns the node: one poller, slots, heartbeat, the step machine
// of a job, gating at dispatch, timeouts and drain.
//
// It must not know where the queue lives, how a plugin process is kept, or how
// SSH works; it asks those rooms.
package worker
