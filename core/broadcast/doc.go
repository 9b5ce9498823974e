// Package broadcast owns the contract of data other than jobs that reaches every node and every
// watcher: documents on a board, as the service windows, and messages of a feed, as the output of
// steps. The backends of core/queue implement both, beside their queue, and core/queue/queuetest
// holds the conformance suite.
//
// It must not know jobs and runs, nor what the bytes mean.
//
// # Where the rules leave room
//
// Board. The versions of a document also grow over its expiry, and none is 0: 0 means that the
// caller knows none. A document that was posted without bytes is one: its data is empty and not
// nil.
//
// Feed. Messages of a topic are numbered from 1 in each life of it. A cursor has life and number,
// so Lost counts the messages that a slow follower missed. A follower is notified in milliseconds,
// or, with many followers, within a quarter of a second.
package broadcast
