package remote

import (
	"errors"
	"fmt"
	"strings"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/client"
)

// afterRefusal returns the command to type after a server refused a request; "" if the refusal
// names it itself, or the help of the command has it.
func afterRefusal(e *client.Error) string {
	switch {
	case errors.Is(e, client.ErrForbidden):
		_, role, ok := strings.Cut(e.Detail, "this needs ")
		if !ok || e.Local() || strings.Contains(role, " ") {
			return ""
		}
		return "use a token of the role " + role + ": --token-file FILE; an admin makes one: turnus admin tokens create NAME --role " + role
	case errors.Is(e, core.ErrConflict):
		if id := runOf(e.What); id != "" {
			return "turnus runs show " + id + " shows its state"
		}
	}
	if _, count, ok := strings.Cut(e.Detail, ": no window fits "); ok {
		next := "turnus windows approvals --waiting lists windows that wait for an approval"
		var hosts, total int
		if n, _ := fmt.Sscanf(count, "%d of %d", &hosts, &total); n == 2 && hosts < total {
			next += "; --skip-no-window runs on the other hosts"
		}
		return next
	}
	return ""
}

// runOf returns the id of the run in what was asked of a server, as "pause run ID"; "" without one.
func runOf(what string) string {
	_, id, _ := strings.Cut(what, " run ")
	id, _, _ = strings.Cut(id, " ")
	return id
}
