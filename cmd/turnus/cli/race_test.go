//go:build race

package cli

// raceEnabled reports whether these tests have the race detector.
const raceEnabled = true
