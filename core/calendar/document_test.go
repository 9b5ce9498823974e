package calendar

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/core/broadcast"
	"github.com/turnus/turnus/windows"
)

const saturdays = `
window_sets:
  sat: {timezone: UTC, allow: [{id: sat, rrule: "FREQ=WEEKLY;BYDAY=SA", from: "22:00", to: "+1d 05:00"}]}
`

func calendarOf(t testing.TB, text string) *admission.Calendar {
	t.Helper()
	b, err := admission.NewCalendar([]windows.Document{{File: "w.yaml", Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDocumentTravels(t *testing.T) {
	b := calendarOf(t, saturdays)
	data, err := Encode(b)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(data)
	if err != nil {
		t.Fatal(got, err)
	}
	q := admission.Question{Set: "sat", Need: time.Hour}
	at := time.Date(2026, 12, 26, 22, 0, 0, 0, time.UTC)
	here, _ := b.Ask(at, q)
	there, err := got.Ask(at, q)
	if err != nil || here.Reason != there.Reason || !here.Next.Equal(there.Next) {
		t.Errorf("%+v here, %+v there, %v", here, there, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	large, _ := json.Marshal(document{Version: 1, Files: []file{{"a.yaml", strings.Repeat("#", broadcast.MaxDocument)}}})
	for _, c := range []struct{ text, says string }{
		{"", "unexpected end"},
		{"[]", "cannot unmarshal"},
		{"{}", "version 0"},
		{`{"version":2}`, "is this worker older"},
		{`{"version":1,"files":[{"file":"w.yaml","content":"window_sets: 3"}]}`, "w.yaml:1:14"},
		{string(large), "expected at most"},
	} {
		if _, err := Decode([]byte(c.text)); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.60q: %v, expected …%s…", c.text, err, c.says)
		}
	}
}

func TestEncodeRefusesWhatNoBoardTakes(t *testing.T) {
	docs := []windows.Document{{File: "w.yaml", Data: []byte(saturdays)}}
	for i := range broadcast.MaxDocument >> 19 {
		docs = append(docs, windows.Document{File: fmt.Sprint(i), Data: []byte("freezes: {}\n" + strings.Repeat("#", 1<<19))})
	}
	b, err := admission.NewCalendar(docs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Encode(b); !errors.Is(err, core.ErrInvalid) {
		t.Error(err)
	}
}

func FuzzDecode(f *testing.F) {
	data, err := Encode(calendarOf(f, saturdays))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"version":1,"files":[{"file":"a","content":"window_sets: {a: {timezone: UTC, allow: [{cron: \"* * * * *\", duration: 1h}]}}"}]}`))
	f.Add([]byte(`{"version":1,"created":"2026-01-01T00:00:00Z","files":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Decode(data)
		if err != nil {
			if !errors.Is(err, core.ErrInvalid) {
				t.Errorf("%q: %v", data, err)
			}
			return
		}
		again, err := Encode(got)
		if err != nil {
			return // JSON escapes make it larger than the bound
		}
		if _, err := Decode(again); err != nil {
			t.Errorf("%q cannot be read again: %v", again, err)
		}
	})
}
