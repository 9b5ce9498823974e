package gate

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/windows"
)

func TestDocumentTravels(t *testing.T) {
	b, created := book(t, saturdays), utc(t, "2026-11-20T10:00:00Z")
	data, err := Encode(b, created)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(data)
	if err != nil || !got.Created.Equal(created) {
		t.Fatal(got, err)
	}
	q := Question{Set: "sat", Need: time.Hour}
	at := utc(t, "2026-12-26T22:00:00Z")
	here, _ := b.Ask(at, q)
	there, err := got.Book.Ask(at, q)
	if err != nil || here.Reason != there.Reason || !here.Next.Equal(there.Next) {
		t.Errorf("%+v here, %+v there, %v", here, there, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	large, _ := json.Marshal(encoded{Version: 1, Files: []encodedFile{{"a.yaml", strings.Repeat("#", MaxEncoded)}}})
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
	b := book(t, saturdays)
	b.docs = []windows.Document{{File: "w.yaml", Data: []byte(strings.Repeat("#", MaxEncoded))}}
	if _, err := Encode(b, time.Now()); !errors.Is(err, core.ErrInvalid) {
		t.Error(err)
	}
}

func TestBoardNamesFitTheBoard(t *testing.T) {
	for _, run := range []string{"r", strings.Repeat("r", 120), strings.Repeat("r", 121), strings.Repeat("ü", 64)} {
		if name := BoardName(run); len(name) > 128 || !strings.HasPrefix(name, "windows/") {
			t.Errorf("%d bytes: %s", len(name), name)
		}
	}
	if BoardName(strings.Repeat("a", 128)) == BoardName(strings.Repeat("a", 127)+"b") {
		t.Error("two runs share a name")
	}
}

func FuzzDecode(f *testing.F) {
	data, err := Encode(book(f, saturdays), utc(f, "2026-11-20T10:00:00Z"))
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
		again, err := Encode(got.Book, got.Created)
		if err != nil {
			return // JSON escapes make it larger than the bound
		}
		if _, err := Decode(again); err != nil {
			t.Errorf("%q cannot be read again: %v", again, err)
		}
	})
}
