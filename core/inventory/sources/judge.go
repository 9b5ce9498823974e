package sources

import (
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
)

// Rules define when a person must approve a generation before it is used.
type Rules struct {
	Removed float64 `json:"removed"` // percent of the last generation's hosts that may go
}

// Summary is the input of Judge about a generation.
type Summary struct {
	ID      string // of its content
	Fetched time.Time
	Hosts   []string // names, sorted
}

// Decision is the result of Judge for a generation.
type Decision string

// The decisions.
const (
	Accept Decision = "accept" // it takes the place of the last one
	Hold   Decision = "hold"   // a person must approve it; the last one stays in use
	Reject Decision = "reject" // it is older than the last one
)

// maxNamed is how many hosts a reason names.
const maxNamed = 5

// Judge decides what becomes of the next generation of a source, and why. last is nil before the
// first one.
func Judge(last *Summary, next Summary, r Rules) (Decision, string) {
	if last != nil && next.Fetched.Before(last.Fetched) {
		return Reject, fmt.Sprintf("it was fetched at %s, before the one in use", next.Fetched.UTC().Format(time.RFC3339))
	}
	if last != nil && next.ID == last.ID {
		return Accept, ""
	}
	if len(next.Hosts) == 0 {
		return Hold, "it is empty"
	}
	if last == nil {
		return Accept, ""
	}
	removed := missing(last.Hosts, next.Hosts)
	part := 100 * float64(len(removed)) / float64(max(len(last.Hosts), 1))
	if len(removed) > 0 && part > r.Removed {
		return Hold, fmt.Sprintf("it lacks %d of %d hosts (%.1f %%, review is %g %%): %s", len(removed), len(last.Hosts), part, r.Removed, core.Few(removed, maxNamed))
	}
	return Accept, ""
}

// missing are the names of the first sorted list that the second lacks.
func missing(from, in []string) (all []string) {
	for _, name := range from {
		if _, ok := slices.BinarySearch(in, name); !ok {
			all = append(all, name)
		}
	}
	return all
}
