//go:build race

package worker

// proofScenarios is how many TestNoStepOutsideItsWindow plays unless a flag says otherwise: the
// race detector makes each many times slower.
const proofScenarios = 10
