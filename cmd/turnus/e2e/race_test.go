//go:build linux && race

package e2e

// raceEnabled builds the binary under test with the race detector too, and makes fleets smaller.
const raceEnabled = true
