package core

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// particulars are the parts of a text that differ from host to host though the failure is the same:
// addresses with ports, times, durations, temporary names, process numbers. Other numbers stay, as
// exit codes and line numbers do.
var particulars = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(strings.Join([]string{
		`SHA256:[A-Za-z0-9+/]+`,           // a fingerprint
		`\([^() ]*:\d+\)`,                 // (address:port)
		`\[[0-9a-fA-F:.]+(?:%\w+)?\]:\d+`, // [::1]:22
		`\b\d{1,3}(?:\.\d{1,3}){3}:\d+`,   // 192.0.2.7:40022
		`\bHOST(?:[-\w.]*):\d+`,           // the host's own name and port
		`\bport \d+`,                      // as ssh writes it
		`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?`, // a time
		`\b\d\d:\d\d:\d\d(?:[.,]\d+)?`,                                              // a time of day
		`\b(?:\d+(?:\.\d+)?(?:ns|µs|us|ms|s|m|h))+\b`,                               // 1m20.5s
		`\b\d+(?:\.\d+)? (?:millisecond|second|minute|hour)s?\b`,
		`(?:/var)?/tmp/[^\s:;,'"()]+`,       // temporary files
		`\b(?:pid|process) \d+`, `\[\d+\]:`, // nginx[4711]:
		`\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b`, // a UUID
		`\b\d{8}-\d{6}-[a-z0-9]{8}\b`,                              // a run
		`\b0x[0-9a-f]{6,}\b`,                                       // an address in memory
	}, "|"))
})

// maxGeneral bounds the texts that Generalize works on, in bytes.
const maxGeneral = 16 << 10

// Generalize returns the text of a host without what differs from host to host, so that equal
// failures have equal texts: HOST replaces the host's name, and … replaces addresses, ports, times,
// durations, temporary names and fingerprints. Texts of more than 16 KiB stay as they are.
func Generalize(host, text string) string {
	if text == "" || len(text) > maxGeneral {
		return text
	}
	return particulars().ReplaceAllString(ReplaceHost(host, text), "…")
}

// ReplaceHost returns the text with HOST in place of a host's name where it is a word, or the
// beginning of a longer name.
func ReplaceHost(host, text string) string {
	if host == "" {
		return text
	}
	var b strings.Builder
	before := rune(0)
	for {
		at := strings.Index(text, host)
		if at < 0 {
			return b.String() + text
		}
		if at > 0 {
			before, _ = utf8.DecodeLastRuneInString(text[:at])
		}
		b.WriteString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[at+len(host):])
		if inName(before) || inName(after) {
			b.WriteString(host)
		} else {
			b.WriteString("HOST")
		}
		before, _ = utf8.DecodeLastRuneInString(host)
		text = text[at+len(host):]
	}
}

func inName(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }
