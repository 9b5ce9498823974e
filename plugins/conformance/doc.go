// Package conformance owns the black-box suite of plugins: it starts a program, speaks the wire
// with it as a worker does, lends it simulated hosts, and reports for each promise of a plugin
// whether it is kept. The program may be written in any language.
//
// It must not know the sdk, runs or playbooks.
package conformance
