//go:build linux && !race

package e2e

// raceEnabled also builds the binary under test with the race detector, and makes fleets smaller.
const raceEnabled = false
