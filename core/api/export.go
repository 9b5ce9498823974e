package api

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
)

// AppendNDJSON writes a row of an export as one line of JSON: an object with each column. Values
// are string, int64, core.Seconds, time.Time (null when zero) and json.RawMessage (null when
// empty).
func AppendNDJSON(to []byte, columns []string, row []any) ([]byte, error) {
	to = append(to, '{')
	for i, v := range row {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, '"')
		to = append(to, columns[i]...)
		to = append(to, `":`...)
		switch v := v.(type) {
		case int64:
			to = strconv.AppendInt(to, v, 10)
		case core.Seconds:
			to = strconv.AppendFloat(to, float64(v), 'f', -1, 64)
		case time.Time:
			if v.IsZero() {
				to = append(to, "null"...)
				continue
			}
			to = v.UTC().AppendFormat(to, `"`+time.RFC3339Nano+`"`)
		case json.RawMessage:
			if len(v) == 0 {
				v = json.RawMessage("null")
			}
			data, err := json.Marshal(v) // on one line
			if err != nil {
				return nil, err
			}
			to = append(to, data...)
		default:
			data, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			to = append(to, data...)
		}
	}
	return append(to, "}\n"...), nil
}

// AppendHeader writes the line of CSV that names the columns.
func AppendHeader(to []byte, columns []string) []byte {
	for i, c := range columns {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, c...)
	}
	return append(to, "\r\n"...)
}

// AppendCSV writes a row as RFC 4180 has it. A zero time, and no JSON, is nothing between two
// commas.
func AppendCSV(to []byte, row []any) []byte {
	for i, v := range row {
		if i > 0 {
			to = append(to, ',')
		}
		switch v := v.(type) {
		case int64:
			to = strconv.AppendInt(to, v, 10)
		case core.Seconds:
			to = strconv.AppendFloat(to, float64(v), 'f', -1, 64)
		case time.Time:
			if !v.IsZero() {
				to = v.UTC().AppendFormat(to, time.RFC3339Nano)
			}
		case json.RawMessage:
			to = appendCell(to, string(v))
		case string:
			to = appendCell(to, v)
		default:
			to = appendCell(to, fmt.Sprint(v))
		}
	}
	return append(to, "\r\n"...)
}

// appendCell writes text that no spreadsheet takes for a formula: a ' goes before what one would,
// and before a ' itself where that could be such a one.
func appendCell(to []byte, s string) []byte {
	if s != "" && strings.ContainsRune("=+-@\t\r\n'", rune(s[0])) {
		s = "'" + s
	}
	if !strings.ContainsAny(s, ",\"\r\n") {
		return append(to, s...)
	}
	to = append(to, '"')
	to = append(to, strings.ReplaceAll(s, `"`, `""`)...)
	return append(to, '"')
}
