package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	minLine = 8  // bytes of one line of a value that is looked for on its own
	maxGap  = 16 // bytes of white space that may stand within a loose form, at one place
)

type form struct {
	text  string
	loose bool
}

// formsOf lists what a value may look like. Each has at least 4 bytes.
func formsOf(value []byte) []form {
	plain := string(value)
	var out []form
	exact := func(texts ...string) {
		for _, text := range texts {
			out = append(out, form{text: text})
		}
	}
	exact(plain)
	if lines := bytes.Split(value, []byte("\n")); len(lines) > 1 {
		for _, line := range lines {
			if line = bytes.TrimSpace(line); len(line) >= minLine && !bytes.HasPrefix(line, []byte("-----")) { // what frames a key is no secret
				exact(string(line))
			}
		}
	}
	query := url.QueryEscape(plain)
	component := strings.ReplaceAll(query, "+", "%20")
	python := strings.ReplaceAll(component, "%2F", "/")
	script := strings.NewReplacer("%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").Replace(component) // encodeURIComponent
	whole := strings.NewReplacer("%3B", ";", "%2C", ",", "%2F", "/", "%3F", "?", "%3A", ":", "%40", "@", "%26", "&", "%3D", "=", "%2B", "+", "%24", "$", "%23", "#").Replace(script)
	for _, text := range []string{query, component, url.PathEscape(plain), python, script, whole} {
		exact(text, lowerPercent(text))
	}
	exact(strings.ReplaceAll(plain, "'", `'\''`))
	for _, text := range []string{jsonText(plain, true), jsonText(plain, false)} {
		exact(text, asciiJSON(text)) // the second is Python's
	}
	page := html.EscapeString(plain)
	for _, double := range []string{"&#34;", "&quot;", `"`} {
		for _, single := range []string{"&#39;", "&#x27;", "&apos;", "&#039;", "'"} {
			exact(strings.NewReplacer("&#34;", double, "&#39;", single).Replace(page))
		}
	}
	for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			out = append(out, form{encoded(alphabet, value, before), true})
		}
	}
	digits := hex.EncodeToString(value)
	return append(out, form{digits, true}, form{strings.ToUpper(digits), true})
}

// encoded returns the part of a value's base64 that does not depend on its neighbours, when it
// stands behind that many bytes.
func encoded(alphabet *base64.Encoding, value []byte, before int) string {
	text := alphabet.EncodeToString(append(make([]byte, before), value...))
	return text[(before*8+5)/6 : (before+len(value))*8/6]
}

// asciiJSON writes what is not ASCII in the text of JSON by escapes of four digits.
func asciiJSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r < utf8.RuneSelf {
			b.WriteByte(byte(r))
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// jsonText is a text as it stands between the quotes of JSON; what is no UTF-8 stays as it is.
func jsonText(plain string, escapeHTML bool) string {
	var b bytes.Buffer
	if !utf8.ValidString(plain) {
		return plain
	}
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escapeHTML)
	if e.Encode(plain) != nil {
		return plain
	}
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(b.String(), "\n"), `"`), `"`)
}

// lowerPercent writes %2F as %2f.
func lowerPercent(text string) string {
	out := []byte(text)
	for i := 0; i+2 < len(out); i++ {
		if out[i] == '%' {
			copy(out[i+1:], bytes.ToLower(out[i+1:i+3]))
		}
	}
	return string(out)
}
