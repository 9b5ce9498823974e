package runview

import (
	"strings"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// Bounds of the failures that a live view keeps.
const (
	maxFailures = 200 // different reasons; the last one also counts the rest
	tailBytes   = 4096
	tailLines   = 40
)

// failure is hosts that failed for the same reason.
type failure struct {
	outcome core.Outcome
	host    string // the first one
	reason  string // its reason, on one line
	hosts   int
	tail    string // the end of its output
}

// failures folds failed hosts by reason, in the order of their first host.
type failures struct {
	list []failure
	at   map[string]int // by outcome and reason
}

// add counts a host. It returns whether its reason is new.
func (f *failures) add(r api.Result) bool {
	key := string(r.Outcome) + " " + reasonKey(r)
	if i, ok := f.at[key]; ok {
		f.list[i].hosts++
		return false
	}
	if len(f.list) == maxFailures {
		f.list[maxFailures-1].hosts++
		return false
	}
	if f.at == nil {
		f.at = map[string]int{}
	}
	f.at[key] = len(f.list)
	f.list = append(f.list, failure{outcome: r.Outcome, host: r.Host, reason: console.FirstLine(ReasonText(r)), hosts: 1, tail: resultTail(r)})
	return true
}

// line returns the message about a reason.
func (f *failure) line(con *console.Console) string {
	hosts := f.host
	if f.hosts > 1 {
		hosts = core.Plural(f.hosts, "host")
	}
	return con.Paint(console.OutcomeColor(f.outcome), string(f.outcome)) + " " + hosts + ": " + console.CutText(console.Printable(f.reason), 200)
}

// resultTail returns the end of the output of a host, with its reason.
func resultTail(r api.Result) string {
	var b strings.Builder
	for _, s := range r.Steps {
		if text := stepText(s); text != "" {
			b.WriteString(text + "\n")
		}
	}
	return tail(b.String() + ReasonText(r))
}

// tail returns the last tailBytes of a text, from the start of a character.
func tail(text string) string {
	if len(text) <= tailBytes {
		return text
	}
	return strings.ToValidUTF8(text[len(text)-tailBytes:], "")
}
