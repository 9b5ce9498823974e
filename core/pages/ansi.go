package pages

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/turnus/turnus/core/api"
)

// piece is text of one colour; Class is "" or one of the style sheet.
type piece struct {
	Class string `json:"c,omitempty"`
	Text  string `json:"t"`
}

// piecesOf makes text of a line of a terminal. Colours become classes; all other control of the
// terminal, and all control characters, are left out, except tabs. It is text, never markup.
func piecesOf(line string) []piece {
	line = strings.TrimRight(line, "\r\n")
	if len(line) > logLine {
		line = strings.ToValidUTF8(line[:logLine], "") + "…"
	}
	var pieces []piece
	class := ""
	add := func(text string) {
		text = strings.Map(func(r rune) rune {
			if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
				return -1
			}
			return r
		}, text)
		if text != "" {
			pieces = append(pieces, piece{class, text})
		}
	}
	for {
		before, rest, found := strings.Cut(line, "\x1b")
		add(before)
		if !found {
			return pieces
		}
		codes, color, after := escapeOf(rest)
		if color {
			class = classOf(class, codes)
		}
		line = after
	}
}

// escapeOf reads what follows an escape character: codes of a colour, or something else, which is
// skipped. An operating system command ends with BEL or ST.
func escapeOf(s string) (codes string, color bool, after string) {
	switch {
	case strings.HasPrefix(s, "["):
		end := strings.IndexFunc(s[1:], func(r rune) bool { return r >= '@' && r <= '~' })
		if end < 0 {
			return "", false, ""
		}
		return s[1 : end+1], s[end+1] == 'm', s[end+2:]
	case strings.HasPrefix(s, "]"):
		end := strings.IndexAny(s, "\a\x1b")
		if end < 0 {
			return "", false, ""
		}
		return "", false, strings.TrimPrefix(s[end+1:], "\\")
	case s == "":
		return "", false, ""
	}
	return "", false, s[1:]
}

// classOf is the class after the codes of a colour: the 8 colours and their bright forms, and bold.
// Backgrounds and other codes change nothing, so that text is legible on the page.
func classOf(class, codes string) string {
	color, bold := class, false
	if rest, ok := strings.CutSuffix(class, " ab"); ok {
		color, bold = rest, true
	} else if class == "ab" {
		color, bold = "", true
	}
	parts := strings.Split(codes, ";")
	for i := 0; i < len(parts); i++ {
		switch n, err := strconv.Atoi(parts[i]); {
		case parts[i] == "" || n == 0 && err == nil:
			color, bold = "", false
		case n == 1:
			bold = true
		case n == 22:
			bold = false
		case n == 39:
			color = ""
		case n >= 30 && n <= 37:
			color = "a" + strconv.Itoa(n-30)
		case n >= 90 && n <= 97:
			color = "a" + strconv.Itoa(n-90)
		case n == 38 || n == 48: // a colour of many: its numbers follow
			if i+1 < len(parts) && parts[i+1] == "5" {
				i += 2
			} else {
				i += 4
			}
		}
	}
	if bold {
		return strings.TrimSpace(color + " ab")
	}
	return color
}

// logEvent is an event of a host for the script of its log: lines in pieces, or what happened. It
// is "" where there is nothing to show.
func logEvent(e api.Event) string {
	var said struct {
		Stream string    `json:"s,omitempty"`
		Lines  [][]piece `json:"l,omitempty"`
		Head   string    `json:"h,omitempty"`
	}
	switch e.Event {
	case "output":
		text := e.Stdout
		if text == "" {
			text, said.Stream = e.Stderr, "stderr"
		}
		for line := range strings.Lines(text) {
			said.Lines = append(said.Lines, piecesOf(line))
		}
	case "step_started":
		said.Head = "step " + e.Step
		if e.Attempt > 1 {
			said.Head += ", attempt " + strconv.Itoa(e.Attempt)
		}
	case "step_done":
		if e.Detail != nil {
			said.Head = strings.TrimSuffix("step "+e.Detail.Name+": "+string(e.Detail.Outcome)+": "+e.Detail.Reason, ": ")
		}
	case "job_suspended", "step_retry", api.EventsLost:
		said.Head = e.Text
	case api.JobDone:
		if e.Result != nil {
			said.Head = strings.TrimSuffix("ended: "+string(e.Result.Outcome)+": "+e.Result.Reason, ": ")
		}
	}
	if said.Head == "" && len(said.Lines) == 0 {
		return ""
	}
	text, _ := json.Marshal(said) // texts
	return string(text)
}
