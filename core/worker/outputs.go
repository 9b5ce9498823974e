package worker

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/turnus/turnus/core"
)

// maxOutputs bounds the outputs of one step, in bytes of JSON.
const maxOutputs = 32 << 10

// exitCode is the command's, where the job type has one among its outputs.
func exitCode(outputs map[string]any) *int {
	var code int
	switch v := outputs["exit_code"].(type) {
	case int:
		code = v
	case int64:
		code = int(v)
	case float64:
		code = int(v)
	case json.Number:
		n, err := v.Int64()
		if err != nil {
			return nil
		}
		code = int(n)
	default:
		return nil
	}
	return &code
}

// cutStreams keeps the beginnings of what a command printed, stdout and stderr among outputs that
// have size bytes as JSON, so that all fit. It reports false where something else is what is too
// large.
func cutStreams(outputs map[string]any, size int) (map[string]any, bool) {
	outputs = maps.Clone(outputs)
	for size > maxOutputs {
		name := "stdout"
		text, _ := outputs[name].(string)
		if other, _ := outputs["stderr"].(string); len(other) > len(text) {
			name, text = "stderr", other
		}
		const worthCutting = 1 << 10
		if len(text) < worthCutting {
			return nil, false
		}
		// A byte takes up to six in JSON: halving comes to an end where subtracting would cut too much.
		outputs[name] = string(wholeRunes([]byte(text[:max(len(text)/2, len(text)-(size-maxOutputs))])))
		data, err := json.Marshal(outputs)
		if err != nil {
			return nil, false
		}
		size = len(data)
	}
	return outputs, true
}

// boundOutputs cuts what a command printed where it is too long for outputs, and fails a step
// whose outputs cannot be kept even so: later steps would miss them.
func boundOutputs(sr core.StepResult) core.StepResult {
	if len(sr.Outputs) == 0 {
		return sr
	}
	data, err := json.Marshal(sr.Outputs)
	if err == nil && len(data) <= maxOutputs {
		return sr
	}
	if cut, ok := cutStreams(sr.Outputs, len(data)); err == nil && ok {
		sr.Outputs, sr.Truncated = cut, true
		return sr
	}
	sr.Outputs, sr.Truncated = nil, true
	if sr.Outcome.Good() {
		sr.Outcome = core.Failed
		sr.Reason = fmt.Sprintf("the step's outputs have %d bytes: at most %d are kept", len(data), maxOutputs)
		if err != nil {
			sr.Reason = "the step's outputs are not JSON: " + err.Error()
		}
	}
	return sr
}
