//go:build race

package cli

// raceEnabled says whether these tests have the race detector.
const raceEnabled = true
