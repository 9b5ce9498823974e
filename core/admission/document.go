package admission

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/windows"
)

// documentVersion is the version that EncodeCalendar writes. DecodeCalendar reads it and all before
// it.
const documentVersion = 1

type document struct {
	Version int       `json:"version"`
	Created time.Time `json:"created"` // zero: servers of all versions must write the same bytes
	Files   []file    `json:"files"`
}

type file struct {
	File    string `json:"file"`
	Content string `json:"content"`
}

// EncodeCalendar writes windows for the board. The same windows are the same bytes, whichever
// process writes them. More than board.MaxDocument bytes are core.ErrInvalid.
func EncodeCalendar(b *Calendar) ([]byte, error) {
	d := document{Version: documentVersion, Files: []file{}}
	for _, doc := range b.Documents() {
		d.Files = append(d.Files, file{doc.File, string(doc.Data)})
	}
	data, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("write window definitions: %w", err)
	}
	if len(data) > board.MaxDocument {
		return nil, fmt.Errorf("window definitions have %d bytes: at most %d can be published to the workers: %w", len(data), board.MaxDocument, core.ErrInvalid)
	}
	return data, nil
}

// DecodeCalendar reads what EncodeCalendar wrote. Errors wrap core.ErrInvalid.
func DecodeCalendar(data []byte) (*Calendar, error) {
	if len(data) > board.MaxDocument {
		return nil, fmt.Errorf("read window definitions: %d bytes, expected at most %d: %w", len(data), board.MaxDocument, core.ErrInvalid)
	}
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("read window definitions: %w: %w", core.ErrInvalid, err)
	}
	if d.Version < 1 || d.Version > documentVersion {
		return nil, fmt.Errorf("read window definitions: version %d, expected 1 to %d; is this worker older than the launcher? %w", d.Version, documentVersion, core.ErrInvalid)
	}
	docs := core.Map(d.Files, func(f file) windows.Document { return windows.Document{File: f.File, Data: []byte(f.Content)} })
	cal, err := NewCalendar(docs)
	if err != nil {
		return nil, fmt.Errorf("read window definitions: %w: %w", core.ErrInvalid, err)
	}
	return cal, nil
}
