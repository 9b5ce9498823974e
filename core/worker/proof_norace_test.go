//go:build !race

package worker

// proofScenarios is how many TestNoStepOutsideItsWindow plays unless a flag says otherwise.
const proofScenarios = 60
