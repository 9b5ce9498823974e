package backup

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/turnus/turnus/core/ledger"
)

var threeColumns = []ledger.Column{{Name: "i", Kind: ledger.Integer}, {Name: "t", Kind: ledger.Text}, {Name: "b", Kind: ledger.Bytes}}

// A written row comes back, and is JSON that anybody reads.
func FuzzRowsComeBack(f *testing.F) {
	f.Add(int64(-1), "plain", []byte("bytes"), uint8(0))
	f.Add(int64(1<<62), "quote \" back \\ line \n \u2028 <html> wörd", []byte{0, 255, '"'}, uint8(0))
	f.Add(int64(0), "", []byte{}, uint8(7))
	f.Fuzz(func(t *testing.T, i int64, s string, b []byte, null uint8) {
		row := []any{i, s, b}
		for at := range row {
			if null&(1<<at) != 0 {
				row[at] = nil
			}
		}
		line, err := appendRow(nil, threeColumns, row)
		if bad := !utf8.ValidString(s) && row[1] != nil; bad != (err != nil) {
			t.Fatalf("%q: %v", row, err)
		} else if bad {
			return
		}
		var asJSON []any
		if err := json.Unmarshal(line, &asJSON); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if row[1] != nil && asJSON[1] != s || row[2] != nil && asJSON[2] != base64.StdEncoding.EncodeToString(b) {
			t.Errorf("%s is read as %q", line, asJSON)
		}
		got := make([]any, 3)
		if err := readRow(line[:len(line)-1], threeColumns, got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if data, ok := got[2].([]byte); ok && len(data) == 0 {
			got[2] = b // nothing is nothing
		}
		if !reflect.DeepEqual(got, row) {
			t.Errorf("%q, expected %q", got, row)
		}
	})
}

// With any text in a line, reading ends, and a row that it accepts has such columns.
func FuzzReadRow(f *testing.F) {
	for _, line := range []string{`[1,"a","YQ=="]`, `[null,null,null]`, `[1,"a\u00e4","!"]`, `[1,"a"]`, `[1,"a","YQ==",4]`, `["1","a",""]`, `[1,"`, `[`, ``, `[1.5,"a",""]`} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		row := make([]any, 3)
		if readRow(line, threeColumns, row) != nil {
			return
		}
		again, err := appendRow(nil, threeColumns, row)
		if err != nil {
			t.Fatalf("%q is read as %q: %v", line, row, err)
		}
		second := make([]any, 3)
		if err := readRow(again[:len(again)-1], threeColumns, second); err != nil || !reflect.DeepEqual(second, row) {
			t.Errorf("%q, then %q, %v", row, second, err)
		}
	})
}

func TestNamesOfABackupStayInIt(t *testing.T) {
	for key, good := range map[string]bool{
		"output/12/0/00ff": true, "a/b": true, "output": false, "": false, "/a/b": false, "a//b": false, "../a": false, "a/../b": false, "a/..": false, "a/.": false,
		`a/b\c`: false, "a/b\x00": false, "a/b c": false, "a/b.c": true,
	} {
		_, err := objectOf([]any{int64(1), int64(2), "n", key})
		if (err == nil) != good {
			t.Errorf("%q: %v", key, err)
		}
	}
	for name, good := range map[string]bool{"runs": true, "audit_head": true, "objects": false, "../runs": false, "": false, "Runs": false} {
		m := Manifest{Format: format, ID: "x", Tables: []Table{{Table: ledger.Table{Name: name, Columns: threeColumns}}}}
		if err := m.check("x"); (err == nil) != good {
			t.Errorf("table %q: %v", name, err)
		}
	}
}
