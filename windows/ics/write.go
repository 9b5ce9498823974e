// Package ics turns the windows of a set into an iCalendar feed, and events of an iCalendar
// file into a window set.
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

// Feed is the content of an iCalendar feed.
type Feed struct {
	Set      string
	Zone     *time.Location   // of the local dates in UIDs
	Windows  []windows.Window // in order of opening
	Stamp    time.Time        // when the definition was last changed
	Sequence int              // grows with each change of the definition
}

// Write writes the feed as RFC 5545: one event in UTC per window, so that no reader's zone data
// matters. A window keeps its UID as long as its rule and local date stay. Windows that are not
// approved are TENTATIVE. It uses no library, because those that exist either do not fold long
// lines or bring a test framework into the module.
func Write(w io.Writer, f Feed) error {
	var b strings.Builder
	line(&b, "BEGIN", "VCALENDAR")
	line(&b, "VERSION", "2.0")
	line(&b, "PRODID", "-//Turnus//Service windows//EN")
	line(&b, "CALSCALE", "GREGORIAN")
	line(&b, "METHOD", "PUBLISH")
	line(&b, "X-WR-CALNAME", escape("Service windows "+f.Set))
	used := map[string]int{}
	for _, win := range f.Windows {
		writeEvent(&b, f, win, used)
	}
	line(&b, "END", "VCALENDAR")
	_, err := io.WriteString(w, b.String())
	return err
}

func writeEvent(b *strings.Builder, f Feed, win windows.Window, used map[string]int) {
	const utc = "20060102T150405Z"
	uid := strings.Join(win.Rules, "+") + "-" + win.Open.In(f.Zone).Format("20060102")
	used[uid]++
	if n := used[uid]; n > 1 {
		uid = fmt.Sprintf("%s-%d", uid, n)
	}
	status, summary, notes := "CONFIRMED", "Service window "+f.Set, win.Notes
	if win.Unapproved != "" {
		status, summary = "TENTATIVE", "Not approved: service window "+f.Set
		notes = append(slices.Clip(notes), win.Unapproved)
	}
	line(b, "BEGIN", "VEVENT")
	line(b, "UID", escape(uid+"@"+f.Set+".turnus"))
	line(b, "DTSTAMP", f.Stamp.UTC().Format(utc))
	line(b, "SEQUENCE", fmt.Sprint(f.Sequence))
	line(b, "DTSTART", win.Open.UTC().Format(utc))
	line(b, "DTEND", win.Close.UTC().Format(utc))
	line(b, "SUMMARY", escape(summary))
	line(b, "STATUS", status)
	if len(notes) > 0 {
		line(b, "DESCRIPTION", escape(strings.Join(notes, "\n")))
	}
	line(b, "END", "VEVENT")
}

func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, ";", `\;`, ",", `\,`, "\r\n", `\n`, "\n", `\n`, "\r", `\n`).Replace(text)
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
