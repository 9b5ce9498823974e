package sdk

import (
	"context"
	"fmt"
	"strings"

	"github.com/turnus/turnus/plugins/sdk/shell"
)

// Exists reports which of the absolute paths are there, dangling links included. It fails if the
// login may not enter a folder on the way to one that it does not see. One round trip.
func (h *Host) Exists(ctx context.Context, paths ...string) ([]bool, error) {
	var script strings.Builder
	script.WriteString(shell.Hidden)
	for _, p := range paths {
		q := Quote(p)
		fmt.Fprintf(&script, "if [ -e %s ] || [ -L %s ]; then echo y; elif hidden %s; then exit 1; else echo n; fi\n", q, q, q)
	}
	result := h.Query(ctx, script.String())
	if err := result.Err(); err != nil {
		return nil, err
	}
	answers := strings.Fields(result.Stdout)
	if len(answers) != len(paths) {
		return nil, fmt.Errorf("looking for %s: expected %d answers, found %q", QuoteAll(paths...), len(paths), lastLine(result.Stdout))
	}
	there := make([]bool, len(paths))
	for i, a := range answers {
		there[i] = a == "y"
	}
	return there, nil
}

// Guard skips what has been done: it is satisfied when creates exists, or removes
// does not. An empty path guards nothing.
type Guard struct {
	Creates string `json:"creates,omitempty" turnus:"pattern=^/" jsonschema:"skip when this path exists on the host"`
	Removes string `json:"removes,omitempty" turnus:"pattern=^/" jsonschema:"skip when this path does not exist on the host"`
}

// Satisfied reports why there is nothing to do; the reason is empty when there is.
func (g Guard) Satisfied(ctx context.Context, h *Host) (reason string, err error) {
	if g.Creates == "" && g.Removes == "" {
		return "", nil
	}
	there, err := h.Exists(ctx, g.Creates, g.Removes)
	if err != nil {
		return "", err
	}
	switch {
	case g.Creates != "" && there[0]:
		return g.Creates + " exists", nil
	case g.Removes != "" && !there[1]:
		return g.Removes + " does not exist", nil
	}
	return "", nil
}
