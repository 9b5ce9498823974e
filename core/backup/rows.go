package backup

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// appendRow writes a row as a line: a JSON array of its values in the order of the columns.
func appendRow(to []byte, columns []ledger.Column, row []any) ([]byte, error) {
	to = append(to, '[')
	for i, v := range row {
		if i > 0 {
			to = append(to, ',')
		}
		switch v := v.(type) {
		case nil:
			to = append(to, "null"...)
		case int64:
			to = strconv.AppendInt(to, v, 10)
		case string:
			if !utf8.ValidString(v) {
				return nil, fmt.Errorf("column %s: text that is not UTF-8, which a database may refuse when it is restored", columns[i].Name)
			}
			to = appendText(to, v)
		case []byte:
			to = append(to, '"')
			to = base64.StdEncoding.AppendEncode(to, v)
			to = append(to, '"')
		default:
			return nil, fmt.Errorf("column %s: a %T", columns[i].Name, v)
		}
	}
	return append(to, "]\n"...), nil
}

// appendText quotes a text. Nearly all are plain.
func appendText(to []byte, s string) []byte {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == '"' || s[i] == '\\' || s[i] >= 0x7f {
			quoted, _ := json.Marshal(s) // a string always marshals
			return append(to, quoted...)
		}
	}
	to = append(to, '"')
	to = append(to, s...)
	return append(to, '"')
}

// readRow reads a line into row, which has a place for each column. Bytes and strings are the row's
// own.
func readRow(line []byte, columns []ledger.Column, row []any) error {
	bad := func(i int, what string) error {
		name := "the end"
		if i < len(columns) {
			name = "column " + columns[i].Name
		}
		return fmt.Errorf("%s: %s: %w", name, what, core.ErrInvalid)
	}
	if len(line) < 2 || line[0] != '[' {
		return bad(0, "expected a JSON array")
	}
	rest := line[1:]
	for i, c := range columns {
		if i > 0 {
			if len(rest) == 0 || rest[0] != ',' {
				return bad(i, "expected a comma")
			}
			rest = rest[1:]
		}
		n, quoted := value(rest)
		if n == 0 {
			return bad(i, "expected a value")
		}
		token := rest[:n]
		rest = rest[n:]
		var err error
		switch {
		case string(token) == "null":
			row[i] = nil
		case c.Kind == ledger.Integer && !quoted:
			row[i], err = strconv.ParseInt(string(token), 10, 64)
		case c.Kind == ledger.Text && quoted:
			row[i], err = text(token)
		case c.Kind == ledger.Bytes && quoted:
			row[i], err = base64.StdEncoding.AppendDecode([]byte{}, token[1:len(token)-1])
		default:
			return bad(i, "expected "+string(c.Kind))
		}
		if err != nil {
			return bad(i, err.Error())
		}
	}
	if string(rest) != "]" {
		return bad(len(columns), "there is more than the columns have")
	}
	return nil
}

// value is how long the number, null or string is that a text begins with.
func value(s []byte) (n int, quoted bool) {
	if len(s) > 0 && s[0] == '"' {
		for i := 1; i < len(s); i++ {
			switch s[i] {
			case '\\':
				i++
			case '"':
				return i + 1, true
			}
		}
		return 0, true
	}
	for n < len(s) && s[n] != ',' && s[n] != ']' {
		n++
	}
	return n, false
}

func text(token []byte) (string, error) {
	inner := token[1 : len(token)-1]
	for _, b := range inner {
		if b == '\\' || b < 0x20 || b >= 0x7f {
			var s string
			if !utf8.Valid(inner) {
				return "", fmt.Errorf("text that is not UTF-8")
			}
			err := json.Unmarshal(token, &s)
			return s, err
		}
	}
	return string(inner), nil
}
