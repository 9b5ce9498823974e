// Package catalog owns the state that the service currently runs by: the newest valid definitions,
// the windows that workers ask, and the schedules.
//
// The truth is in the ledger, and everything else follows from it:
//
//   - Definitions are one document, changed by compare-and-set on its version, by a server that
//     follows a git branch or a folder, or by a person through the API. Every server polls for a
//     newer version each second. If it cannot read one, it keeps its present version, and Status
//     reports why.
//   - Their windows are on the board under one name, BoardName, for all runs. A server that
//     finds the board without them, or with others, publishes them (core/admission).
//   - Schedules are those of the playbooks, and those that people made, which are documents of
//     their own. The store of schedules is brought in line with them again and again. Some state
//     exists in the store only: paused schedules, waiting triggers, and the last fire time that was
//     decided. The ledger has a copy of it, seconds behind, so a store that was lost continues from
//     there. A trigger that was launched before has the same run id again, so it launches one run.
//   - Hosts of sources (core/inventory/sources) are beside the project's. One server fetches them,
//     and every server checks the ledger for newer ones each second.
//
// Any number of servers run a Catalog each. It must not know HTTP, nor who may do what.
package catalog
