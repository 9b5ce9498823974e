// Package catalog owns what the service currently runs by: the newest valid definitions, the
// windows that workers ask, and the schedules.
//
// The truth is in the ledger, and everything else follows from it:
//
//   - definitions are one document, changed by compare-and-set on its version, by whoever: a server
//     that follows a git branch or a folder, or a person through the API. Every server looks for a
//     newer version each second; one that it cannot read changes nothing, and Status says so.
//   - their windows stand on the queue's board under one name, BoardName, for all runs. Whoever
//     finds the board without them, or with others, publishes
//     them (core/calendar).
//   - schedules are those of the playbooks, and those that people made, which are documents of
//     their own. The store of schedules is brought in line with them again and again. What only the
//     store knows, because it came about there (what is paused, what waits, how far fires are
//     decided), is kept in the ledger besides, seconds behind: a store that was lost goes on where
//     it was. A fire that was launched already is launched under the same run id: once.
//
// Any number of servers run a Catalog each. It must not know HTTP, nor who may do what.
package catalog
