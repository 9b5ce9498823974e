package gate

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/windows"
)

// MaxEncoded bounds an encoded document, in bytes.
const MaxEncoded = 4 << 20

// documentVersion is the version that Encode writes. Decode reads it and all before it.
const documentVersion = 1

// Posted is window definitions on their way to other nodes.
type Posted struct {
	Created time.Time
	Book    *Book
}

type encoded struct {
	Version int           `json:"version"`
	Created time.Time     `json:"created"`
	Files   []encodedFile `json:"files"`
}

type encodedFile struct {
	File    string `json:"file"`
	Content string `json:"content"`
}

// BoardName is the name under which a run's windows are posted on the queue's board.
func BoardName(run string) string {
	const prefix, most = "windows/", 128
	if len(prefix)+len(run) > most {
		return prefix + hash([]byte(run))
	}
	return prefix + run
}

// Encode writes a book's documents for the board. More than MaxEncoded is core.ErrInvalid.
func Encode(b *Book, created time.Time) ([]byte, error) {
	e := encoded{Version: documentVersion, Created: created.UTC(), Files: []encodedFile{}}
	for _, d := range b.Documents() {
		e.Files = append(e.Files, encodedFile{d.File, string(d.Data)})
	}
	data, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("write window definitions: %w", err)
	}
	if len(data) > MaxEncoded {
		return nil, fmt.Errorf("window definitions have %d bytes: at most %d can be given to the workers: %w", len(data), MaxEncoded, core.ErrInvalid)
	}
	return data, nil
}

// Decode reads what Encode wrote. Errors wrap core.ErrInvalid.
func Decode(data []byte) (Posted, error) {
	if len(data) > MaxEncoded {
		return Posted{}, fmt.Errorf("read window definitions: %d bytes, expected at most %d: %w", len(data), MaxEncoded, core.ErrInvalid)
	}
	var e encoded
	if err := json.Unmarshal(data, &e); err != nil {
		return Posted{}, fmt.Errorf("read window definitions: %w: %w", core.ErrInvalid, err)
	}
	if e.Version < 1 || e.Version > documentVersion {
		return Posted{}, fmt.Errorf("read window definitions: version %d, expected 1 to %d; is this worker older than the launcher? %w", e.Version, documentVersion, core.ErrInvalid)
	}
	docs := make([]windows.Document, len(e.Files))
	for i, f := range e.Files {
		docs[i] = windows.Document{File: f.File, Data: []byte(f.Content)}
	}
	book, err := NewBook(docs)
	if err != nil {
		return Posted{}, fmt.Errorf("read window definitions: %w: %w", core.ErrInvalid, err)
	}
	return Posted{Created: e.Created, Book: book}, nil
}
