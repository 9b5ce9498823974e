//go:build race

package worker

// proofScenarios is how many TestNoStepOutsideItsWindow plays unless a flag sets another number:
// the race detector makes each many times slower.
const proofScenarios = 10
