package calendar

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/turnus/turnus/core/admission"
	"github.com/turnus/turnus/windows"
)

// Files are windows in files that may be edited while runs are under way. Book and Edition are safe
// for concurrent use; Look is called by one goroutine.
type Files struct {
	paths []string // files and folders, as windows.Read takes them

	stamp, seen string             // of the files: as taken over, and as last seen
	draft       []windows.Document // what they said when their stamp last changed

	mu       sync.Mutex
	calendar *admission.Calendar
	data     []byte
}

// ReadFiles reads windows. Errors are those of windows.Read, admission.NewCalendar and Encode.
func ReadFiles(paths ...string) (*Files, error) {
	f := &Files{paths: paths}
	docs, err := windows.Read(paths...)
	if err != nil {
		return nil, err
	}
	return f, f.take(docs)
}

// Calendar is the newest valid windows.
func (f *Files) Calendar() *admission.Calendar {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calendar
}

// Edition is Book, for a Publisher.
func (f *Files) Edition() Edition {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Edition{Data: f.data}
}

func (f *Files) take(docs []windows.Document) error {
	cal, err := admission.NewCalendar(docs)
	if err != nil {
		return err
	}
	data, err := Encode(cal)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calendar, f.data = cal, data
	return nil
}

// Poll takes an edit over, and reports whether there was one. An error says that the edit is not
// valid: the windows before it stay, and Look returns the error once. Files that still change are
// left alone: half a file may be valid, and lack the freeze at its end.
func (f *Files) Poll() (changed bool, err error) {
	stamp := f.stampNow()
	if stamp == f.stamp || stamp != f.seen && !f.saysTheSame() {
		f.seen = stamp
		return false, nil
	}
	f.stamp, f.seen = stamp, stamp
	docs, err := windows.Read(f.paths...)
	if err != nil || slices.EqualFunc(docs, f.Calendar().Documents(), sameDocument) {
		return false, err
	}
	err = f.take(docs)
	return err == nil, err
}

// saysTheSame reports whether the files say what they said when they last changed: a tool that
// writes them again and again must not keep a freeze from being taken over.
func (f *Files) saysTheSame() bool {
	docs, err := windows.Read(f.paths...)
	if err != nil {
		docs = nil
	}
	same := docs != nil && slices.EqualFunc(docs, f.draft, sameDocument)
	f.draft = docs
	return same
}

func sameDocument(a, b windows.Document) bool { return a.File == b.File && bytes.Equal(a.Data, b.Data) }

// stampNow changes whenever the files do.
func (f *Files) stampNow() string {
	files, err := windows.Files(f.paths...)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			fmt.Fprintf(&b, "%s: %v\n", file, err)
			continue
		}
		fmt.Fprintf(&b, "%s %d %d\n", file, info.Size(), info.ModTime().UnixNano())
	}
	return b.String()
}
