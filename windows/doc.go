// Package windows owns maintenance windows: when disruptive steps of a host may run, and why not.
// It is a calculus of pure values. Definitions are read from YAML and compiled once per window set
// for a horizon. The compiled set answers Next, Explain, Occurrences and Lint without I/O, locks or
// clocks of its own.
//
// Times are half-open intervals [open, close). Wall clock times are computed as civil time and
// resolved once (package windows/civil). An unknown time is closed, and Explain reports why.
//
// It must not know hosts, runs or queues; of the rest of Turnus it imports core/yamlread only.
package windows
