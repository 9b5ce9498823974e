package fleet

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"
)

// linesOf gives the lines of r, each with its end. A line beyond the bound ends them.
func linesOf(r io.Reader) iter.Seq[string] { return until(r, '\n') }

// until gives what lies between the ends that a byte marks, each with its end.
func until(r io.Reader, end byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		s := bufio.NewScanner(r)
		s.Buffer(nil, maxCommand)
		s.Split(func(data []byte, eof bool) (int, []byte, error) {
			if i := bytes.IndexByte(data, end); i >= 0 {
				return i + 1, data[:i+1], nil
			}
			if eof && len(data) > 0 {
				return len(data), data, nil
			}
			return 0, nil, nil
		})
		for s.Scan() {
			if !yield(s.Text()) {
				return
			}
		}
	}
}

// expression compiles a regular expression of POSIX: a basic one, or an extended one.
func expression(text string, extended bool) (*regexp.Regexp, error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '[':
			n := bracket(text[i:])
			b.WriteString(strings.ReplaceAll(text[i:i+n], `\`, `\\`))
			i += n - 1
		case c == '\\' && i+1 < len(text):
			i++
			if extended || strings.IndexByte("(){}|+?", text[i]) < 0 { // else the special one of basic expressions
				b.WriteByte('\\')
			}
			b.WriteByte(text[i])
		case !extended && strings.IndexByte("(){}|+?", c) >= 0, !extended && c == '*' && (i == 0 || text[i-1] == '^' || strings.HasSuffix(text[:i], `\(`)):
			b.WriteString(`\` + string(c))
		default:
			b.WriteByte(c)
		}
	}
	re, err := regexp.Compile(b.String())
	if err != nil {
		return nil, fmt.Errorf("invalid regular expression %q", text)
	}
	re.Longest()
	return re, nil
}

// bracket is the length of a bracket expression.
func bracket(text string) int {
	i := 1
	if strings.HasPrefix(text[i:], "^") {
		i++
	}
	for first := i; i < len(text); i++ {
		switch {
		case text[i] == ']' && i > first:
			return i + 1
		case strings.HasPrefix(text[i:], "[:"):
			if n := strings.Index(text[i:], ":]"); n > 0 {
				i += n + 1
			}
		}
	}
	return len(text)
}
