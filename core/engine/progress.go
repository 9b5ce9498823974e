package engine

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
)

// Encode writes what DecodeProgress reads: "" for the zero value, so that most runs never have any.
func (p Progress) Encode() (string, error) {
	if p.Until = (time.Time{}); p == (Progress{}) {
		return "", nil
	}
	data, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("write the progress of a run: %w", err)
	}
	return string(data), nil
}

// DecodeProgress reads what Encode wrote. Fields of a newer version are passed over.
func DecodeProgress(text string) (p Progress, err error) {
	if text == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return Progress{}, fmt.Errorf("read the progress of a run: %w: %w", core.ErrInvalid, err)
	}
	return p, nil
}
