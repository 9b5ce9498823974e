//go:build linux

package e2e

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// seen searches what it is shown for secrets and for the marker, and remembers where it found them.
type seen struct {
	t     *testing.T
	forms map[string]string // what is searched for, to what it is
	marks []string          // forms of the marker

	mu     sync.Mutex
	leaks  map[string]int // place and form
	marked map[string]bool
	looked map[string]int // bytes, by place
}

func newSeen(t *testing.T) *seen {
	s := &seen{t: t, forms: map[string]string{}, leaks: map[string]int{}, marked: map[string]bool{}, looked: map[string]int{}}
	for i, secret := range tenSecrets {
		for name, form := range formsOf(secret) {
			s.forms[form] = fmt.Sprintf("S%d %s", i, name)
		}
		if lines := strings.Split(secret, "\n"); len(lines) > 1 {
			s.forms[lines[1]], s.forms[lines[2]] = fmt.Sprintf("S%d line", i), fmt.Sprintf("S%d line", i)
		}
	}
	for _, form := range formsOf(marker) {
		s.marks = append(s.marks, form)
	}
	return s
}

// formsOf returns the forms of a value: plain, in JSON, hex, a URL, and base64 at each offset in
// the encoded text.
func formsOf(value string) map[string]string {
	quoted, _ := json.Marshal(value)
	out := map[string]string{
		"plain": value, "json": string(quoted[1 : len(quoted)-1]), "hex": hex.EncodeToString([]byte(value)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(value))),
		"url": url.QueryEscape(value), "url path": url.PathEscape(value),
	}
	for before := range 3 {
		text := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + value))
		out[fmt.Sprint("base64 ", before)] = text[(before*8+5)/6 : (before+len(value))*8/6]
	}
	return out
}

// text checks one text.
func (s *seen) text(place, text string) { s.bytes(place, []byte(text)) }

func (s *seen) json(place string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		s.t.Fatal(err)
	}
	s.bytes(place, text)
}

func (s *seen) bytes(place string, text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked[place] += len(text)
	for form, what := range s.forms {
		if at := bytes.Index(text, []byte(form)); at >= 0 {
			where := place + ": " + what
			if s.leaks[where]++; s.leaks[where] == 1 {
				s.t.Errorf("%s: …%q…", where, text[max(0, at-80):min(len(text), at+len(form)+40)])
			}
		}
	}
	for _, form := range s.marks {
		s.marked[place] = s.marked[place] || bytes.Contains(text, []byte(form))
	}
}

// files checks files, and all files in folders.
func (s *seen) files(place, pattern string) {
	s.t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, path := range paths {
		err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil //nolint:nilerr // what is gone by now is not there
			}
			text, err := os.ReadFile(path)
			if err == nil {
				s.bytes(place, append([]byte(path+"\n"), text...))
			}
			return nil
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// ledger checks each value of each table, unpacked as the ledger packs it.
func (s *seen) ledger(path string) {
	s.t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.Query(`SELECT name FROM sqlite_master WHERE type = 'table'`)
	if err != nil {
		s.t.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			s.t.Fatal(err)
		}
		tables = append(tables, name)
	}
	_ = rows.Close()
	unpack, _ := zstd.NewReader(nil)
	defer unpack.Close()
	for _, table := range tables {
		rows, err := db.Query(`SELECT * FROM ` + table)
		if err != nil {
			s.t.Fatal(err)
		}
		columns, _ := rows.Columns()
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(sql.RawBytes)
		}
		for rows.Next() {
			if err := rows.Scan(values...); err != nil {
				s.t.Fatal(err)
			}
			for _, v := range values {
				raw := *v.(*sql.RawBytes)
				if len(raw) > 1 && raw[0] == 1 {
					if plain, err := unpack.DecodeAll(raw[1:], nil); err == nil {
						raw = plain
					}
				}
				s.bytes("ledger", raw)
			}
		}
		if err := rows.Err(); err != nil {
			s.t.Fatal(err)
		}
		_ = rows.Close()
	}
}

// processes checks the command lines of all processes that begin from now on, again and again,
// until it is stopped.
func (s *seen) processes() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	old := map[string]bool{} // to read those of the whole machine takes a core
	for _, line := range commandLines() {
		old[line] = true
	}
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		known := map[string]bool{}
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			for _, line := range commandLines() {
				if old[line] {
					continue
				}
				text, err := os.ReadFile(line)
				if err == nil && len(text) > 0 && !known[string(text)] {
					known[string(text)] = true
					s.bytes("command lines", text)
				}
			}
		}
	}()
	return func() { close(quit); <-done }
}

// commandLines are the files of the processes that there are.
func commandLines() (paths []string) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if name[0] >= '1' && name[0] <= '9' {
			paths = append(paths, "/proc/"+name+"/cmdline")
		}
	}
	return paths
}

// judge fails the test where the marker was not found: the search would find no secret there
// either.
func (s *seen) judge(places ...string) {
	s.t.Helper()
	for _, place := range places {
		if !s.marked[place] {
			s.t.Errorf("the marker is not in %s (%d bytes): secrets there would not be seen", place, s.looked[place])
		}
	}
	s.t.Logf("searched, in bytes: %v", s.looked)
}
