// Package ics turns the windows of sets into an iCalendar feed, and events of an iCalendar file
// into a window set.
//
// It must not know where files come from or who subscribes.
package ics

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/turnus/turnus/windows"
)

// freezeCategory marks events that close windows: Read leaves them out.
const freezeCategory = "Freeze"

// Calendar is the content of an iCalendar feed.
type Calendar struct {
	Name     string
	Note     string // about the whole; may be empty
	Feeds    []Feed
	Freezes  []Freeze
	Stamp    time.Time // when a definition or an approval was last changed
	Sequence int       // grows with each change of the definitions
}

// Feed is the windows of one set.
type Feed struct {
	Set     string
	About   string           // for the description of each window; may be empty
	Zone    *time.Location   // of the local dates in UIDs
	Windows []windows.Window // in order of opening
	// From leaves out windows that end before. Their UIDs are still counted: list windows from two
	// days earlier, and no UID changes when a day ends.
	From time.Time
}

// Freeze is a time during which windows do not open.
type Freeze struct {
	Name, About string
	From, To    time.Time
}

// Write writes the feed as RFC 5545: one event in UTC per window, so that no reader's zone data
// matters. A window keeps its UID as long as its rule and local date stay. Windows that are not
// approved are TENTATIVE. It uses no library, because those that exist either do not fold long
// lines or bring a test framework into the module.
func Write(w io.Writer, c Calendar) error {
	var b strings.Builder
	line(&b, "BEGIN", "VCALENDAR")
	line(&b, "VERSION", "2.0")
	line(&b, "PRODID", "-//Turnus//Maintenance windows//EN")
	line(&b, "CALSCALE", "GREGORIAN")
	line(&b, "METHOD", "PUBLISH")
	line(&b, "X-WR-CALNAME", escape(c.Name))
	if c.Note != "" {
		line(&b, "X-WR-CALDESC", escape(c.Note))
	}
	for _, f := range c.Feeds {
		used := map[string]int{}
		for _, win := range f.Windows {
			e := eventOf(f, win, used)
			if win.Close.After(f.From) {
				c.write(&b, e)
			}
		}
	}
	for _, f := range c.Freezes {
		c.write(&b, written{
			uid: "freeze-" + f.Name + "-" + f.From.UTC().Format(utc) + "@turnus", from: f.From, to: f.To,
			summary: "Freeze " + f.Name, status: "CONFIRMED", category: freezeCategory, notes: []string{f.About},
		})
	}
	line(&b, "END", "VCALENDAR")
	_, err := io.WriteString(w, b.String())
	return err
}

const utc = "20060102T150405Z"

// written is an event before it is written.
type written struct {
	uid, summary, status, category string
	from, to                       time.Time
	notes                          []string
}

func eventOf(f Feed, win windows.Window, used map[string]int) written {
	uid := strings.Join(win.Rules, "+") + "-" + win.Open.In(f.Zone).Format("20060102")
	used[uid]++
	if n := used[uid]; n > 1 {
		uid = fmt.Sprintf("%s-%d", uid, n)
	}
	e := written{uid: uid + "@" + f.Set + ".turnus", from: win.Open, to: win.Close, summary: "Maintenance window " + f.Set, status: "CONFIRMED"}
	e.notes = append([]string{f.About}, win.Notes...)
	if win.Unapproved != "" {
		e.status, e.summary = "TENTATIVE", "Not approved: maintenance window "+f.Set
		e.notes = append(e.notes, win.Unapproved)
	}
	return e
}

func (c *Calendar) write(b *strings.Builder, e written) {
	line(b, "BEGIN", "VEVENT")
	line(b, "UID", escape(e.uid))
	line(b, "DTSTAMP", c.Stamp.UTC().Format(utc))
	line(b, "SEQUENCE", fmt.Sprint(c.Sequence))
	line(b, "DTSTART", e.from.UTC().Format(utc))
	line(b, "DTEND", e.to.UTC().Format(utc))
	line(b, "SUMMARY", escape(e.summary))
	line(b, "STATUS", e.status)
	if e.category != "" {
		line(b, "CATEGORIES", e.category)
	}
	if notes := slices.DeleteFunc(e.notes, func(note string) bool { return note == "" }); len(notes) > 0 {
		line(b, "DESCRIPTION", escape(strings.Join(notes, "\n")))
	}
	line(b, "END", "VEVENT")
}

// escape writes a text as RFC 5545 has it, without control characters, which no text may have.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\\`, ";", `\;`, ",", `\,`, "\r\n", `\n`, "\n", `\n`, "\r", `\n`).Replace(text)
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, text)
}

// line writes one property, folded at 75 octets between characters.
func line(b *strings.Builder, name, value string) {
	const most = 75
	width := 0
	for _, r := range name + ":" + value {
		n := utf8.RuneLen(r)
		if n < 0 {
			continue
		}
		if width+n > most {
			b.WriteString("\r\n ")
			width = 1
		}
		b.WriteRune(r)
		width += n
	}
	b.WriteString("\r\n")
}
