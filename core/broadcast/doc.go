// Package broadcast owns the contract of what reaches every node and every watcher besides jobs:
// documents on a board, as the service windows, and messages of a feed, as the output of steps. The
// backends of core/queue implement both, beside their queue, and core/queue/queuetest holds the
// conformance suite.
//
// It must not know jobs and runs, nor what the bytes mean.
//
// # Where the rules leave room, this is meant
//
// Board. The versions of a document grow over its expiry, too, and none is 0: a caller that knows
// none says 0. A document that was posted without bytes is one: its data is empty and not nil.
//
// Feed. Messages of a topic are numbered from 1 in each life of it, and a cursor says life and
// number: so Lost counts what a slow follower missed. A follower is notified in milliseconds,
// or, where many follow, within a quarter of a second.
package broadcast
