// Package launch owns the step from a playbook and an inventory to a run: which
// hosts, in which order and waves, the snapshot that later edits cannot change,
// and driving the run through its waves until it is complete.
//
// It must not know how hosts are reached, how plugins run, or how things are shown.
package launch
