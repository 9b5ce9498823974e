package worker

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// streamKeep is how much of one stream of one step is kept: the first half and the last half, since
// the one shows what began and the other how it ended.
const streamKeep = 64 << 10

// capture keeps the head and the tail of a stream in bounded memory.
type capture struct {
	before string // text of the attempt's earlier calls, as results have it
	head   []byte
	tail   []byte // a ring once it is full
	next   int    // where the ring continues
	total  int64
	whole  spool // has all of it once it is more than head and tail hold
}

func (c *capture) write(p []byte) {
	if c.whole.used != nil && int64(len(c.before))+c.total+int64(len(p)) > streamKeep {
		if c.whole.file == nil && c.whole.err == nil {
			c.whole.write([]byte(c.before))
			c.whole.write(c.head)
			c.whole.write(c.tail) // not yet a ring
		}
		c.whole.write(p)
	}
	c.total += int64(len(p))
	const half = streamKeep / 2
	if room := half - len(c.head); room > 0 {
		n := min(room, len(p))
		c.head = append(c.head, p[:n]...)
		p = p[n:]
	}
	if len(p) > half {
		p = p[len(p)-half:]
	}
	if room := half - len(c.tail); room > 0 {
		n := min(room, len(p))
		c.tail = append(c.tail, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(c.tail[c.next:], p)
		c.next = (c.next + n) % half
		p = p[n:]
	}
}

// text returns the kept text of all calls, with a line in the middle that counts the bytes cut.
func (c *capture) text() (s string, cut bool) {
	s, cut = c.own()
	if c.before == "" {
		return s, cut
	}
	all := shorten(c.before+s, streamKeep)
	return all, cut || len(all) < len(c.before)+len(s)
}

// own is the text of the present call.
func (c *capture) own() (s string, cut bool) {
	tail := string(c.tail[c.next:]) + string(c.tail[:c.next])
	if gap := c.total - int64(len(c.head)) - int64(len(tail)); gap > 0 {
		return joinCut(escape(string(wholeRunes(c.head))), gap, escape(fromRune(tail))), true
	}
	return escape(string(c.head) + tail), false
}

func joinCut(head string, gap int64, tail string) string {
	return fmt.Sprintf("%s\n[… %d bytes cut …]\n%s", head, gap, tail)
}

var cutLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\n\[… ([0-9]{1,15}) bytes cut …\]\n`) })

// cutBytes counts the bytes of s, and for a line of joinCut those that it stands for.
func cutBytes(s string) int64 {
	n := int64(len(s))
	for _, m := range cutLine().FindAllStringSubmatch(s, -1) {
		more, _ := strconv.ParseInt(m[1], 10, 64) // at most 15 digits
		n += more - int64(len(m[0]))
	}
	return n
}

// wholeRunes cuts off a rune that was split at the end.
func wholeRunes(p []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax, len(p)); i++ {
		if b := p[len(p)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(p[len(p)-i:]) {
				return p[:len(p)-i]
			}
			break
		}
	}
	return p
}

// fromRune cuts off the rest of a rune that was split at the beginning.
func fromRune(s string) string {
	for i := 0; i < min(utf8.UTFMax, len(s)); i++ {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return s
}

// escape makes valid, printable UTF-8 of what a host sent: bytes that are none, and control
// characters other than tab, newline and return, become \xNN. So no host can move the cursor of a
// report's reader.
func escape(s string) string {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		b := s[i]
		plain = b < utf8.RuneSelf && (b >= ' ' && b != 0x7f || b == '\n' || b == '\t' || b == '\r')
	}
	if plain {
		return s
	}
	var out strings.Builder
	out.Grow(len(s) + len(s)/8)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&out, `\x%02x`, s[i])
		case r < ' ' && r != '\n' && r != '\t' && r != '\r', r >= 0x7f && r < 0xa0:
			fmt.Fprintf(&out, `\x%02x`, r)
		default:
			out.WriteString(s[i : i+n])
		}
		i += n
	}
	return out.String()
}

// shorten keeps the head and the tail of a text, about keep bytes in all.
func shorten(s string, keep int) string {
	if len(s) <= keep {
		return s
	}
	half := keep / 2
	head, tail := wholeRunes([]byte(s[:half])), fromRune(s[len(s)-half:])
	short := joinCut(string(head), cutBytes(s[len(head):len(s)-len(tail)]), tail)
	if len(short) >= len(s) {
		return s
	}
	return short
}
