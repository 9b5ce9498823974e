package admission

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/windows"
)

// WindowFiles are windows in files that may be edited while runs are under way. Calendar and
// Edition are safe for concurrent use; Look is called by one goroutine.
type WindowFiles struct {
	paths []string // files and folders, as windows.Read takes them

	stamp, seen string             // of the files: as taken over, and as last seen
	draft       []windows.Document // their contents when their stamp last changed

	mu       sync.Mutex
	calendar *Calendar
	data     []byte
}

// ReadWindowFiles reads windows. Errors are those of windows.Read, NewCalendar and EncodeCalendar.
func ReadWindowFiles(paths ...string) (*WindowFiles, error) {
	f := &WindowFiles{paths: paths}
	docs, err := windows.Read(paths...)
	if err != nil {
		return nil, err
	}
	return f, f.take(docs)
}

// Calendar is the newest valid windows.
func (f *WindowFiles) Calendar() *Calendar { return core.Locked(&f.mu, &f.calendar) }

// Edition is Calendar, for a Publisher.
func (f *WindowFiles) Edition() Edition {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Edition{Data: f.data}
}

func (f *WindowFiles) take(docs []windows.Document) error {
	cal, err := NewCalendar(docs)
	if err != nil {
		return err
	}
	data, err := EncodeCalendar(cal)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calendar, f.data = cal, data
	return nil
}

// Poll takes an edit over, and reports whether there was one. An error means that the edit is not
// valid: the earlier windows stay, and Look returns the error once. Files that still change are
// left alone: half a file may be valid, and lack the freeze at its end.
func (f *WindowFiles) Poll() (changed bool, err error) {
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

// saysTheSame reports whether the files have the contents of their last change: a tool that writes
// them again and again must not keep a freeze from being taken over.
func (f *WindowFiles) saysTheSame() bool {
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
func (f *WindowFiles) stampNow() string {
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
