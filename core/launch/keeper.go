package launch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/gate"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/windows"
)

const (
	lookEvery   = time.Second         // at the window files
	postedKeep  = 14 * 24 * time.Hour // should the launcher be away so long, windows are closed
	repostEvery = time.Hour
)

// KeeperOptions say what a Keeper watches and whom it tells. All but OnEvent must be set.
type KeeperOptions struct {
	Paths []string // files and folders, as windows.Read takes them
	Board queue.Board
	Wake  func(ctx context.Context, run, event string) (int, error) // queue.Control has it
	// OnEvent gets what an operator should be told, from one goroutine at a time.
	OnEvent func(KeeperEvent)
}

// KeeperEventKind says what became of the windows.
type KeeperEventKind string

// The kinds of a keeper's events.
const (
	WindowsChanged KeeperEventKind = "changed" // the edit is posted, and waiting jobs ask again
	WindowsBroken  KeeperEventKind = "broken"  // the edit is not valid: the last good ones stay
	WindowsAway    KeeperEventKind = "away"    // they cannot be posted; it is tried again
)

// KeeperEvent is something that an operator should be told of the windows of runs.
type KeeperEvent struct {
	Kind KeeperEventKind
	Err  error // of WindowsBroken and WindowsAway
}

// wakeAgain is when waiting jobs are woken once more after an edit: a worker that read the windows before the edit
// may give its job back after the first wake, but not after its session.
const wakeAgain = 2 * queue.SessionTTL

// Keeper keeps the windows of runs on the queue's board while the runs are under way. An edit
// of the files reaches every node within seconds; a broken one is told and changes nothing.
// Book is safe for concurrent use; Post and Run are called by one goroutine.
type Keeper struct {
	o KeeperOptions

	mu   sync.Mutex
	book *gate.Book

	stamp, seen string             // of the files: what book is of, and what was last seen
	draft       []windows.Document // what they last said while their stamp changed
	posts       map[string]*posting
}

// posting is the windows of one run on the board.
type posting struct {
	runs   []string // to wake
	at     time.Time
	book   *gate.Book // that was posted
	asleep bool       // the runs' waiting jobs do not know of it
	again  time.Time  // when they are woken once more; zero: not
	away   bool       // that posting fails was told
}

// NewKeeper keeps a book that was read from the paths.
func NewKeeper(book *gate.Book, o KeeperOptions) *Keeper {
	if o.OnEvent == nil {
		o.OnEvent = func(KeeperEvent) {}
	}
	return &Keeper{o: o, book: book, posts: map[string]*posting{}}
}

// Book is the newest valid windows.
func (k *Keeper) Book() *gate.Book {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.book
}

// Post puts the windows of a launch on the board, which has to be before it is submitted. A
// launch that waits for no window needs none.
func (k *Keeper) Post(ctx context.Context, l *Launch) error {
	if l.Snapshot.Windows == nil {
		return nil
	}
	name := l.Snapshot.Windows.Board
	p := k.posts[name]
	if p == nil {
		p = &posting{}
		k.posts[name] = p
	}
	p.runs = append(p.runs, l.Run.ID)
	return k.post(ctx, name, p)
}

// Run looks at the files and keeps the board until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.look()
			k.keep(ctx)
		}
	}
}

// look takes in an edit. Files that still change are left alone: half a file may be valid, and
// lack the freeze that stands at its end.
func (k *Keeper) look() {
	stamp := stampOf(k.o.Paths)
	if stamp == k.stamp || stamp != k.seen && !k.saysTheSame() {
		k.seen = stamp
		return
	}
	k.stamp, k.seen = stamp, stamp
	book, err := k.read()
	switch {
	case err != nil:
		k.o.OnEvent(KeeperEvent{Kind: WindowsBroken, Err: err})
	case book != nil:
		k.mu.Lock()
		k.book = book
		k.mu.Unlock()
	}
}

// saysTheSame tells whether the files say what they said when they last changed: somebody who writes them again
// and again must not keep a freeze from being taken over.
func (k *Keeper) saysTheSame() bool {
	docs, err := windows.Read(k.o.Paths...)
	if err != nil {
		docs = nil
	}
	same := docs != nil && slices.EqualFunc(docs, k.draft, sameDocument)
	k.draft = docs
	return same
}

func sameDocument(a, b windows.Document) bool { return a.File == b.File && bytes.Equal(a.Data, b.Data) }

// read is the book of the files; nil if it says what the present one says.
func (k *Keeper) read() (*gate.Book, error) {
	docs, err := windows.Read(k.o.Paths...)
	if err != nil {
		return nil, err
	}
	if slices.EqualFunc(docs, k.Book().Documents(), sameDocument) {
		return nil, nil
	}
	book, err := gate.NewBook(docs)
	if err != nil {
		return nil, err
	}
	_, err = gate.Encode(book, time.Now())
	return book, err
}

// stampOf changes whenever the files do.
func stampOf(paths []string) string {
	files, err := windows.Files(paths...)
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

// keep posts what changed, or was posted long ago, and wakes the jobs that wait.
func (k *Keeper) keep(ctx context.Context) {
	book, changed := k.Book(), false
	for name, p := range k.posts {
		if p.book != book || time.Since(p.at) >= repostEvery {
			edited := p.book != book
			if err := k.post(ctx, name, p); err != nil {
				if !p.away && ctx.Err() == nil {
					p.away = true
					k.o.OnEvent(KeeperEvent{Kind: WindowsAway, Err: err})
				}
				continue
			}
			p.away, p.asleep = false, p.asleep || edited
			if edited {
				p.again = time.Now().Add(wakeAgain)
			}
		}
		if !p.again.IsZero() && !time.Now().Before(p.again) && k.wake(ctx, p) {
			p.again = time.Time{}
		}
		if p.asleep && k.wake(ctx, p) {
			p.asleep, changed = false, true
		}
	}
	if changed {
		k.o.OnEvent(KeeperEvent{Kind: WindowsChanged})
	}
}

func (k *Keeper) post(ctx context.Context, name string, p *posting) error {
	book := k.Book()
	data, err := gate.Encode(book, time.Now())
	if err != nil {
		return err
	}
	if _, err := k.o.Board.Post(ctx, name, data, postedKeep); err != nil {
		return fmt.Errorf("give the windows to the workers: %w", err)
	}
	p.book, p.at = book, time.Now()
	return nil
}

// wake makes the waiting jobs of a document's runs ask again. A run that is over has none.
func (k *Keeper) wake(ctx context.Context, p *posting) bool {
	all := true
	for _, run := range p.runs {
		if _, err := k.o.Wake(ctx, run, queue.EventWindow); err != nil && !errors.Is(err, core.ErrNotFound) {
			all = false
		}
	}
	return all
}
