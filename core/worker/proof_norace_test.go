//go:build !race

package worker

// proofScenarios is how many TestNoStepOutsideItsWindow plays unless a flag sets another number.
const proofScenarios = 60
