package pages

import (
	"errors"

	"github.com/turnus/turnus/core/client"
)

// reasonOf is what went wrong, as the API says it.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok && e.Detail != "" {
		text := e.Detail
		for _, more := range e.More {
			text += "\n" + more
		}
		return text
	}
	return err.Error()
}
