package pages

import (
	"errors"
	"strings"

	"github.com/turnus/turnus/core/client"
)

// reasonOf returns what went wrong, in the words of the API.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok && e.Detail != "" {
		return strings.Join(append([]string{e.Detail}, e.More...), "\n")
	}
	return err.Error()
}
