package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/windows"
)

func TestDocumentTravels(t *testing.T) {
	b := calendarOf(t, saturdays)
	data, err := EncodeCalendar(b)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeCalendar(data)
	if err != nil {
		t.Fatal(got, err)
	}
	q := Question{Set: "sat", Need: time.Hour}
	at := time.Date(2026, 12, 26, 22, 0, 0, 0, time.UTC)
	here, _ := b.Ask(at, q)
	there, err := got.Ask(at, q)
	if err != nil || here.Reason != there.Reason || !here.Next.Equal(there.Next) {
		t.Errorf("%+v here, %+v there, %v", here, there, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	large, _ := json.Marshal(document{Version: 1, Files: []file{{"a.yaml", strings.Repeat("#", board.MaxDocument)}}})
	for _, c := range []struct{ text, says string }{
		{"", "unexpected end"},
		{"[]", "cannot unmarshal"},
		{"{}", "version 0"},
		{`{"version":2}`, "is this worker older"},
		{`{"version":1,"files":[{"file":"w.yaml","content":"window_sets: 3"}]}`, "w.yaml:1:14"},
		{string(large), "expected at most"},
	} {
		if _, err := DecodeCalendar([]byte(c.text)); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.60q: %v, expected …%s…", c.text, err, c.says)
		}
	}
}

func TestEncodeRefusesWhatNoBoardTakes(t *testing.T) {
	docs := []windows.Document{{File: "w.yaml", Data: []byte(saturdays)}}
	for i := range board.MaxDocument >> 19 {
		docs = append(docs, windows.Document{File: fmt.Sprint(i), Data: []byte("freezes: {}\n" + strings.Repeat("#", 1<<19))})
	}
	b, err := NewCalendar(docs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := EncodeCalendar(b); !errors.Is(err, core.ErrInvalid) {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	data, err := EncodeCalendar(calendarOf(f, saturdays))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"version":1,"files":[{"file":"a","content":"window_sets: {a: {timezone: UTC, allow: [{cron: \"* * * * *\", duration: 1h}]}}"}]}`))
	f.Add([]byte(`{"version":1,"created":"2026-01-01T00:00:00Z","files":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := DecodeCalendar(data)
		if err != nil {
			if !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		again, err := EncodeCalendar(got)
		if err != nil {
			return // JSON escapes make it larger than the bound
		}
		if _, err := DecodeCalendar(again); err != nil {
			t.Errorf("%q cannot be read again: %v", again, err)
		}
	})
}
