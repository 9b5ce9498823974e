package admission

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnus/turnus/core"
)

// ChangeHash returns the hash that an approval's change: is bound to: of the playbook's bytes and
// the vars given with -e, as sha256:HEX. The error is core.ErrInvalid for vars that are no JSON
// values.
func ChangeHash(source []byte, vars map[string]any) (string, error) {
	text, err := json.Marshal(vars)
	if err != nil {
		return "", fmt.Errorf("vars: %w: %w", core.ErrInvalid, err)
	}
	var plain map[string]any // numbers become what JSON makes of them, however they were read
	if err := json.Unmarshal(text, &plain); err != nil {
		return "", fmt.Errorf("vars: %w: %w", core.ErrInvalid, err)
	}
	if plain == nil {
		plain = map[string]any{}
	}
	text, err = json.Marshal(struct {
		Source []byte         `json:"source"`
		Vars   map[string]any `json:"vars"`
	}{source, plain})
	if err != nil {
		return "", fmt.Errorf("vars: %w: %w", core.ErrInvalid, err)
	}
	return hash(text), nil
}

// TargetsHash returns the hash that an approval's targets: is bound to: of the names of the run's
// hosts in a window set, in any order, as sha256:HEX.
func TargetsHash(hosts []string) string {
	sorted := slices.Sorted(slices.Values(hosts))
	text, err := json.Marshal(slices.Compact(sorted))
	if err != nil {
		return "" // texts only: it cannot fail; an empty hash equals none that is written down
	}
	return hash(text)
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
