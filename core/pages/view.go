package pages

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core/api"
)

// Bounds of what a view keeps for browsers that come back or read slowly. Beyond it they get the
// whole of it.
const (
	keptStates = 64
	keptCells  = 64
)

// viewKey names a view: all browsers with the same one may see the same.
type viewKey struct {
	rights string // tenant, roles and permissions, as the API reports them
	host   string // by which the browser reaches the server
	path   string // of the page, with its query
}

// watcher is one browser that has a view open.
type watcher struct {
	visit visit
	gone  <-chan struct{}    // closed when it leaves
	leave context.CancelFunc // has it leave

	mu    sync.Mutex // held while the API is asked: all views of the browser share the answer
	known string     // rights
	until time.Time  // when they are asked again
}

// view is the newest state of a page, made once for all who have it open. It asks the API as the
// first of them; a browser that the API would refuse does not get it.
type view struct {
	key   viewKey
	rule  *livePage
	stop  context.CancelFunc
	ended chan struct{} // closed when nothing makes the view any more

	mu       sync.Mutex
	watchers []*watcher
	version  int            // grows with each change; 0: nothing was read yet
	seen     string         // names the present state
	states   map[string]int // seen → version of the last states
	order    []string       // of states, oldest first
	shape    string         // the page without its parts
	shapeAt  int            // version of the last change of the shape
	parts    []part
	said     *changes // of a run; nil before its events are read
	cells    []cellBatch
	reread   int    // version behind which cells do not show all
	away     string // why the state is not the newest; "" where it is
	over     bool   // it does not change any more
	news     chan struct{}
}

// part is an element of a page that changes alone.
type part struct {
	html string
	at   int // version of its last change
}

type cellBatch struct {
	at   int
	text string
}

// Marks of parts in a page. Templates escape all text of others, so that no text has them.
const (
	partBegin = " data-part>"
	partEnd   = "<!--part-->"
)

// cutParts takes the parts out of a page. A part begins at the tag that has partBegin.
func cutParts(html string) (shape string, parts []string) {
	var rest strings.Builder
	for {
		mark := strings.Index(html, partBegin)
		if mark < 0 {
			break
		}
		from := strings.LastIndexByte(html[:mark], '<')
		to := strings.Index(html[mark:], partEnd)
		if from < 0 || to < 0 {
			break
		}
		rest.WriteString(html[:from])
		rest.WriteString(partEnd)
		parts = append(parts, html[from:mark+to])
		html = html[mark+to+len(partEnd):]
	}
	rest.WriteString(html)
	return rest.String(), parts
}

// tagOf is the beginning of a part, which has its id. A page finds a part by it: with other ids, or
// in another order, they are another page.
func tagOf(html string) string {
	tag, _, _ := strings.Cut(html, partBegin)
	return tag
}

// seenOf names a state of a page.
func seenOf(html string) string {
	sum := sha256.Sum256([]byte(html))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// put takes the newest state of the page. The same state again is no change.
func (v *view) put(html string) {
	seen := seenOf(html)
	v.mu.Lock()
	defer v.mu.Unlock()
	back := v.away != ""
	v.away = ""
	if seen == v.seen {
		if back {
			v.notify()
		}
		return
	}
	v.version++
	shape, parts := cutParts(html)
	same := v.shape == shape && slices.EqualFunc(v.parts, parts, func(a part, b string) bool { return tagOf(a.html) == tagOf(b) })
	if !same {
		v.shape, v.shapeAt, v.parts = shape, v.version, make([]part, len(parts))
	}
	for i := range parts {
		if v.parts[i].html != parts[i] {
			v.parts[i] = part{parts[i], v.version}
		}
	}
	v.seen = seen
	if v.states[seen] == 0 {
		v.order = append(v.order, seen)
	}
	v.states[seen] = v.version
	if len(v.order) > keptStates {
		delete(v.states, v.order[0])
		v.order = slices.Delete(v.order, 0, 1)
	}
	v.notify()
}

// change takes changed cells of a grid in JSON, or that cells are missing.
func (v *view) change(cells string, reread bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.version++
	if reread {
		v.reread, v.cells = v.version, nil
	}
	if cells != "" {
		v.cells = append(v.cells, cellBatch{v.version, cells})
	}
	if len(v.cells) > keptCells {
		v.reread = v.cells[0].at
		v.cells = slices.Delete(v.cells, 0, 1)
	}
	v.notify()
}

// fail notes why the state is not the newest.
func (v *view) fail(why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.away != why {
		v.away = why
		v.notify()
	}
}

func (v *view) finish() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
	v.notify()
}

// notify lets all watchers read again. It needs v.mu.
func (v *view) notify() {
	close(v.news)
	v.news = make(chan struct{})
}

// message is one event for a browser.
type message struct{ name, data string }

// cursor is how far one browser is.
type cursor struct {
	seen    string // that it came with, until the first message
	begun   bool
	version int
	away    string
}

// next returns what a browser lacks, and moves its cursor. A browser that is slow, or was away,
// gets the newest state of what changed, never a backlog.
func (v *view) next(c *cursor) (all []message, seen string, over bool, news chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	defer func() { // last: a page takes each other event for its newest state
		if v.away != c.away {
			c.away = v.away
			all = append(all, message{"away", v.away})
		}
	}()
	if v.version == 0 {
		return all, c.seen, v.over, v.news
	}
	from := c.version
	if !c.begun {
		from = v.states[c.seen]
		c.begun = true
		if v.rule.cells {
			all = append(all, v.begin())
		}
		if from > 0 && c.seen == v.seen {
			all = append(all, message{"same", "1"})
		}
	} else if v.rule.cells && from < v.version {
		if v.reread > from {
			all = append(all, message{"reread", "1"})
		}
		for _, b := range v.cells {
			if b.at > from {
				all = append(all, message{"cells", b.text})
			}
		}
	}
	if v.shapeAt > from {
		all = append(all, message{"page", v.whole()})
	} else {
		var changed strings.Builder
		for i := range v.parts {
			if v.parts[i].at > from {
				changed.WriteString(v.parts[i].html)
				changed.WriteString(partEnd) // HTML that begins with a p drops a tr: each part is read alone
			}
		}
		if changed.Len() > 0 {
			all = append(all, message{"parts", changed.String()})
		}
	}
	if v.over {
		all = append(all, message{"done", "1"})
	}
	c.version = v.version
	return all, v.seen, v.over, v.news
}

// begin returns the cells that changed before a browser came. It needs v.mu.
func (v *view) begin() message {
	if v.said != nil {
		if cells, ok := v.said.all(); ok {
			return message{"cells", cmp.Or(cells, "[]")}
		}
	}
	return message{"reread", "1"}
}

// startCells notes where all changed cells are.
func (v *view) startCells(said *changes) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.said = said
}

// whole puts the page together again. It needs v.mu.
func (v *view) whole() string {
	var all strings.Builder
	rest := v.shape
	for i := range v.parts {
		before, after, _ := strings.Cut(rest, partEnd)
		all.WriteString(before)
		all.WriteString(v.parts[i].html)
		all.WriteString(partEnd)
		rest = after
	}
	all.WriteString(rest)
	return all.String()
}

// lender returns the watcher as whom the API is asked; nil if all have left.
func (v *view) lender() *watcher {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, w := range v.watchers {
		if !w.left() {
			return w
		}
	}
	return nil
}

func (w *watcher) left() bool {
	select {
	case <-w.gone:
		return true
	default:
		return false
	}
}

// rightsOf names what a person may see and do.
func rightsOf(me api.Whoami) string {
	me.Name, me.Token, me.Expires = "", "", time.Time{}
	text, _ := json.Marshal(me) // texts
	return string(text)
}

// rightsKeep is how long an answer of the API about a session counts. The API itself may believe
// its token for as long, and both together are the second in which a logout takes effect.
const rightsKeep = 500 * time.Millisecond

// rights returns what the watcher's session may see, as of rightsKeep ago at most: a page of a run
// gets several messages a second.
func (w *watcher) rights(ctx context.Context) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); !now.Before(w.until) {
		me, err := w.visit.client.Whoami(ctx)
		if err != nil {
			return "", err
		}
		w.known, w.until = rightsOf(me), now.Add(rightsKeep)
	}
	return w.known, nil
}

// ends reports whether an error means that the session has ended.
func ends(err error) bool {
	if err == nil {
		return false
	}
	status, _ := statusOf(err)
	return status == http.StatusUnauthorized
}
