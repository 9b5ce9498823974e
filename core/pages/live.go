package pages

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// How often a page that is open gets changes, at most: cells of the grid, and all else.
const (
	cellsEvery = 250 * time.Millisecond
	stateEvery = time.Second
	awayEvery  = 5 * time.Second // while the queue does not answer, which nothing may report
)

// writeWithin bounds a write to a browser: one that does not read is let go, and comes again.
const writeWithin = 30 * time.Second

// changedCells bounds how many cells are sent one by one. Behind it the page reads the grid again.
const changedCells = 5000

// cell is a place of the grid; step -1 is the outcome of the host.
type cell struct{ index, step int }

// changes gathers what happened to a run since the page was last notified. The newest letter of
// each cell counts, so that a slow reader has no backlog.
type changes struct {
	mu      sync.Mutex
	columns map[string]int // of steps; those that share their name have none
	cells   map[cell]byte
	known   map[cell]byte // all so far; nil: too many, or some are missing
	state   bool          // something happened
	reread  bool          // the cells do not show all that happened
}

func newChanges(steps []api.GridStep) *changes {
	c := &changes{columns: map[string]int{}, cells: map[cell]byte{}, known: map[cell]byte{}}
	for i, s := range steps {
		if _, twice := c.columns[s.Name]; twice {
			i = -1
		}
		c.columns[s.Name] = i
	}
	return c
}

// note takes an event of the run.
func (c *changes) note(e api.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = true
	if id, err := core.ParseJobID(e.Job); err == nil {
		c.cell(id.Index, e)
	} else if e.Event == api.EventsLost {
		c.reread = true
	}
	if len(c.cells) > changedCells {
		clear(c.cells)
		c.reread = true
	}
	if c.reread || len(c.known) > changedCells {
		c.known = nil
	}
}

func (c *changes) cell(index int, e api.Event) {
	step := func(name string, letter byte) {
		if k, known := c.columns[name]; !known || k < 0 {
			c.reread = c.reread || letter != 'R'
		} else {
			c.set(index, k, letter)
		}
	}
	switch {
	case e.Event == "job_started":
		c.set(index, -1, 'R')
	case e.Event == "step_started":
		step(e.Step, 'R')
	case e.Event == "step_done" && e.Detail != nil:
		step(e.Detail.Name, e.Detail.Outcome.Letter())
	case e.Event == "job_suspended":
		c.set(index, -1, 'W')
	case e.Event == api.JobDone && e.Result != nil:
		c.set(index, -1, e.Result.Outcome.Letter())
		for _, s := range e.Result.Steps {
			step(s.Name, s.Outcome.Letter())
		}
	}
}

func (c *changes) set(index, step int, letter byte) {
	c.cells[cell{index, step}] = letter
	if c.known != nil {
		c.known[cell{index, step}] = letter
	}
}

// take hands over what happened: [[index, step, letter] …] in JSON, "" for nothing.
func (c *changes) take() (cells string, reread bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cells = rowsOf(c.cells)
	clear(c.cells)
	reread, c.reread = c.reread, false
	return cells, reread
}

// all returns the newest letters of all cells that changed so far, as take does; ok is false where
// the grid has to be read instead.
func (c *changes) all() (cells string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return rowsOf(c.known), c.known != nil
}

func rowsOf(cells map[cell]byte) string {
	if len(cells) == 0 {
		return ""
	}
	rows := make([][3]any, 0, len(cells))
	for at, letter := range cells {
		rows = append(rows, [3]any{at.index, at.step, string(letter)})
	}
	text, _ := json.Marshal(rows) // numbers and letters
	return string(text)
}

// lost notes that the cells do not show all that happened.
func (c *changes) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reread, c.known = true, nil
}

// happened reports whether anything did since the last time.
func (c *changes) happened() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	happened := c.state
	c.state = false
	return happened
}

// events is a stream to one browser.
type events struct {
	w   http.ResponseWriter
	ctl *http.ResponseController
}

func newEvents(w http.ResponseWriter) *events {
	w.Header().Set("Content-Type", "text/event-stream")
	return &events{w, http.NewResponseController(w)}
}

// dataLines puts text into the data of an event. Browsers end a line at CR, LF and CR LF.
var dataLines = strings.NewReplacer("\r\n", "\ndata: ", "\r", "\ndata: ", "\n", "\ndata: ")

// send writes an event, and reports whether the browser takes it.
func (e *events) send(name, data string) bool {
	_ = e.ctl.SetWriteDeadline(time.Now().Add(writeWithin))
	_, err := fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", name, dataLines.Replace(data)) //nolint:gosec // templates escape what hosts wrote
	return err == nil && e.ctl.Flush() == nil
}

// sendAt is send of an event behind which a browser may continue.
func (e *events) sendAt(id, name, data string) bool {
	_ = e.ctl.SetWriteDeadline(time.Now().Add(writeWithin))
	_, err := fmt.Fprintf(e.w, "id: %s\n", id)
	return err == nil && e.send(name, data)
}

// comment keeps the stream open.
func (e *events) comment() bool {
	_ = e.ctl.SetWriteDeadline(time.Now().Add(writeWithin))
	_, err := fmt.Fprint(e.w, ": still here\n\n")
	return err == nil && e.ctl.Flush() == nil
}

// followRun makes the view of a run each time that something happened to it: changed cells of the
// grid, and the rest as it is then. It returns nil when the run has ended.
func (p *Pages) followRun(ctx context.Context, v *view, as visit) error {
	id := v.rule.run
	first, err := as.client.Grid(ctx, id, client.Page{Limit: 1})
	if err != nil {
		return err
	}
	said := newChanges(first.Steps)
	v.startCells(said)
	reading, stop := context.WithCancel(ctx)
	var broken error // valid after ended
	ended := make(chan struct{})
	go func() { // it ends with reading: stop, and the wait below
		defer close(ended)
		broken = as.client.Events(id).Read(reading, said.note)
	}()
	defer func() { stop(); <-ended }()
	away := false
	state := func() error {
		view, err := p.runView(ctx, as, id)
		if err != nil {
			return err
		}
		if away && !view.Away { // the queue is back: events of the time between may be lost
			said.lost()
		}
		away = view.Away
		html, err := p.content("run", "run-body", as, &view)
		if err == nil {
			v.put(html)
		}
		return err
	}
	told, pace := time.Now(), stateEvery
	if err := state(); err != nil {
		return err
	}
	tick := time.NewTicker(cellsEvery)
	defer tick.Stop()
	for {
		over := false
		select {
		case <-tick.C:
		case <-ended:
			if broken != nil {
				return broken
			}
			over = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if cells, reread := said.take(); cells != "" || reread {
			v.change(cells, reread)
		}
		if over || time.Since(told) >= pace && said.happened() || away && time.Since(told) >= awayEvery {
			told = time.Now()
			if err := state(); err != nil {
				return err
			}
			pace = max(stateEvery, viewShare*time.Since(told))
		}
		if over {
			return nil
		}
	}
}
