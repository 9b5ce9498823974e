package pictures

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// SVG builds a picture.
type SVG struct{ strings.Builder }

// Add writes a line of markup. Arguments that are texts are escaped.
func (s *SVG) Add(format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = escape(text)
		}
	}
	fmt.Fprintf(s, format+"\n", args...)
}

// Raw writes what is markup already.
func (s *SVG) Raw(markup string) { _, _ = s.WriteString(markup) }

// escape makes text fit for XML; what XML cannot hold becomes U+FFFD.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder does not fail
	return b.String()
}
