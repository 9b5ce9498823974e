package pages

import (
	"bytes"
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
	state   bool // something happened
	reread  bool // the cells do not say all that happened
}

func newChanges(steps []api.GridStep) *changes {
	c := &changes{columns: map[string]int{}, cells: map[cell]byte{}}
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
}

func (c *changes) cell(index int, e api.Event) {
	step := func(name string, letter byte) {
		if k, known := c.columns[name]; !known || k < 0 {
			c.reread = c.reread || letter != 'R'
		} else {
			c.cells[cell{index, k}] = letter
		}
	}
	switch {
	case e.Event == "job_started":
		c.cells[cell{index, -1}] = 'R'
	case e.Event == "step_started":
		step(e.Step, 'R')
	case e.Event == "step_done" && e.Detail != nil:
		step(e.Detail.Name, e.Detail.Outcome.Letter())
	case e.Event == "job_parked":
		c.cells[cell{index, -1}] = 'W'
	case e.Event == api.JobDone && e.Result != nil:
		c.cells[cell{index, -1}] = e.Result.Outcome.Letter()
		for _, s := range e.Result.Steps {
			step(s.Name, s.Outcome.Letter())
		}
	}
}

// take hands over what happened: [[index, step, letter] …] in JSON, "" for nothing.
func (c *changes) take() (cells string, reread bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rows := make([][3]any, 0, len(c.cells))
	for at, letter := range c.cells {
		rows = append(rows, [3]any{at.index, at.step, string(letter)})
	}
	clear(c.cells)
	reread, c.reread = c.reread, false
	if len(rows) == 0 {
		return "", reread
	}
	text, _ := json.Marshal(rows) // numbers and letters
	return string(text), reread
}

// lost notes that the cells do not say all that happened.
func (c *changes) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reread = true
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

// live sends what a run's page shows, again each time that something happened to the run, as
// server-sent events: cells of the grid, and the rest as it is now.
func (p *Pages) live(w http.ResponseWriter, r *http.Request, v visit) {
	id := r.PathValue("run")
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	first, err := v.client.Grid(ctx, id, client.Page{Limit: 1})
	if err != nil {
		p.problem(w, r, v, err)
		return
	}
	said := newChanges(first.Steps)
	var broken error // valid after ended
	ended := make(chan struct{})
	go func() { // it ends with ctx: stop, and the wait below
		defer close(ended)
		broken = v.client.Events(id).Read(ctx, said.note)
	}()
	defer func() { stop(); <-ended }()
	out := newEvents(w)
	away := false
	state := func(name string) bool {
		view, err := p.runView(ctx, v, id)
		if err != nil {
			return false
		}
		if away && !view.Away { // the queue is back: events of the time between may be lost
			said.lost()
		}
		away = view.Away
		var body bytes.Buffer
		if err := p.templates["run"].ExecuteTemplate(&body, "run-body", page{Who: v.who, Now: time.Now(), Data: &view}); err != nil {
			p.log.Error("a page was not made", "page", "run", "err", err)
			return false
		}
		return out.send(name, body.String())
	}
	if !state("state") {
		return
	}
	told := time.Now()
	tick := time.NewTicker(cellsEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ended:
			if cells, _ := said.take(); broken == nil && (cells == "" || out.send("cells", cells)) {
				state("done")
			}
			return
		case <-ctx.Done():
			return
		}
		cells, reread := said.take()
		if cells != "" && !out.send("cells", cells) || reread && !out.send("reread", "1") {
			return
		}
		if time.Since(told) >= stateEvery && said.happened() || away && time.Since(told) >= awayEvery {
			if told = time.Now(); !state("state") {
				return
			}
		}
	}
}
