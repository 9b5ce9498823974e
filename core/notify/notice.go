package notify

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnus/turnus/core/notify/policy"
)

// Notice is the message to a channel. Its JSON is the body of a webhook.
type Notice struct {
	ID       string          `json:"id"` // the same however often it is sent
	Kind     string          `json:"kind"`
	Severity policy.Severity `json:"severity"`
	At       time.Time       `json:"at"`     // when it happened
	Server   string          `json:"server"` // which made it
	Tenant   string          `json:"tenant,omitempty"`
	Title    string          `json:"title"` // one line
	Text     string          `json:"text"`  // all of it, in lines
	Run      string          `json:"run,omitempty"`
	Playbook string          `json:"playbook,omitempty"`
	Schedule string          `json:"schedule,omitempty"`
	Window   string          `json:"window,omitempty"`
	Count    int             `json:"count,omitempty"` // how often it happened, where more than once
	Outcomes map[string]int  `json:"outcomes,omitempty"`
	Groups   []Group         `json:"groups,omitempty"` // hosts that did not do well, by what went wrong
	Poll     string          `json:"look,omitempty"`   // the command that shows more
}

// Group is hosts that ended for the same reason.
type Group struct {
	Outcome string   `json:"outcome"`
	Reason  string   `json:"reason"`
	Count   int      `json:"hosts"`
	Hosts   []string `json:"examples"`
}

// Bounds of a notice. Reasons may quote outputs, so they are cut.
const (
	maxTitle  = 200  // bytes
	maxReason = 300  // bytes
	maxText   = 4000 // bytes of a text that somebody else wrote
	maxGroups = 8
	maxNamed  = 3 // hosts of a group that are named
	maxHost   = 100
)

// line makes one line of text that steers neither a terminal nor a header: without control
// characters and marks of direction.
func line(s string, most int) string {
	return strings.Join(strings.Fields(block(strings.ReplaceAll(s, "\n", " "), most)), " ")
}

// block is line for text of several lines.
func block(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t':
			return ' '
		case r < ' ', r >= 0x7f && r < 0xa0, r == '\u2028', r == '\u2029':
			return ' '
		case r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069', r == '\u200e', r == '\u200f', r == '\ufeff':
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > most {
		cut := most - len("…")
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strings.TrimSpace(s)
}

// compose writes the text of a notice from its parts.
func (n *Notice) compose(detail string) {
	n.Title = line(n.Title, maxTitle)
	lines := []string{n.Title}
	if detail != "" {
		lines = append(lines, block(detail, maxText))
	}
	for _, g := range n.Groups {
		lines = append(lines, g.String())
	}
	if n.Count > 1 {
		lines = append(lines, fmt.Sprintf("It happened %d times since the last notification.", n.Count))
	}
	if n.Poll != "" {
		lines = append(lines, "Next: "+n.Poll)
	}
	n.Text = strings.Join(lines, "\n")
}

// String is a group in a line: "37 hosts unreachable: dial timeout (fw-1, fw-2, fw-3, …)".
func (g Group) String() string {
	names := strings.Join(g.Hosts, ", ")
	if g.Count > len(g.Hosts) {
		names += ", …"
	}
	text := fmt.Sprintf("%s %s", hosts(g.Count), g.Outcome)
	if g.Reason != "" {
		text += ": " + g.Reason
	}
	if names != "" {
		text += " (" + names + ")"
	}
	return text
}

func hosts(n int) string {
	if n == 1 {
		return "1 host"
	}
	return fmt.Sprintf("%d hosts", n)
}

func jobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}
