package runview

import (
	"regexp"
	"sync"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// fingerprint is one of the texts that core.Generalize replaces, and people copy.
var fingerprint = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`SHA256:[A-Za-z0-9+/]+`) })

// reasonKey is equal for reasons that are the same except the host.
func reasonKey(r api.Result) string { return core.Generalize(r.Host, console.FirstLine(ReasonText(r))) }

// outputKey is equal for outputs that belong together: exact ones only if they are equal, others
// except the host.
func outputKey(host, text string, exact bool) string {
	if exact {
		return text
	}
	return core.Generalize(host, text)
}
