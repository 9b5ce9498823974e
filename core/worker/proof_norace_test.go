//go:build !race

package worker

// proofScenarios is how many TestNoStepOutsideItsWindow plays unless told otherwise.
const proofScenarios = 60
