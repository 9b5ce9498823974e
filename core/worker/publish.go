package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/board"
)

// Bounds of what a node publishes, over all its jobs. They keep a flood of output from keeping the
// queue busy.
const (
	publishEvery  = 200 * time.Millisecond
	publishRate   = 2000    // events a second
	publishBytes  = 2 << 20 // bytes a second
	publishBurst  = 2       // seconds' worth in one burst
	publishText   = 16 << 10
	publishQuiet  = publishRate / 4 // events that are reserved for those with the place of a job
	publishClosed = 3 * time.Second // for the last events
)

// publisher gathers events and publishes them in batches, each run's in order. Safe for concurrent
// use.
type publisher struct {
	feed   board.Feed
	worker string

	mu      sync.Mutex
	pending []*message
	open    map[core.JobID]*message // the last one of a job, where more output may be added to it
	dropped map[string]int          // by run
	events  float64                 // that may be published now
	bytes   float64
	at      time.Time // of the two above
}

type message struct {
	run   string
	event api.Event
}

func newPublisher(feed board.Feed, worker string) *publisher {
	return &publisher{
		feed: feed, worker: worker, open: map[core.JobID]*message{}, dropped: map[string]int{},
		events: publishRate * publishBurst, bytes: publishBytes * publishBurst, at: time.Now(),
	}
}

// add takes an event, or counts it as dropped.
func (p *publisher) add(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	past := now.Sub(p.at).Seconds()
	p.at = now
	p.events = min(p.events+past*publishRate, publishRate*publishBurst)
	p.bytes = min(p.bytes+past*publishBytes, publishBytes*publishBurst)
	m := &message{run: e.Job.Run, event: eventOf(e)}
	text := len(m.event.Stdout) + len(m.event.Stderr) + len(m.event.Text)
	reserve, streamed := 0.0, false
	switch e.Kind {
	case Output:
		streamed = true
		fallthrough
	case Diff, Progress, Message:
		reserve = publishQuiet
	}
	last := p.open[e.Job]
	if streamed && last != nil && p.bytes >= float64(text) && joins(&last.event, &m.event) {
		last.event.Stdout += m.event.Stdout
		last.event.Stderr += m.event.Stderr
		p.bytes -= float64(text)
		return
	}
	if p.events < 1+reserve || p.bytes < float64(text) {
		p.dropped[m.run]++
		return
	}
	p.events--
	p.bytes -= float64(text)
	p.pending = append(p.pending, m)
	if streamed {
		p.open[e.Job] = m
	} else {
		delete(p.open, e.Job)
	}
}

// joins reports whether output may be added to the event before it: of one step, one stream, and
// not too long.
func joins(before, after *api.Event) bool {
	one := before.Stdout == "" && after.Stdout == "" || before.Stderr == "" && after.Stderr == ""
	return one && before.Step == after.Step && before.Attempt == after.Attempt &&
		len(before.Stdout)+len(before.Stderr)+len(after.Stdout)+len(after.Stderr) <= publishText
}

// eventOf is the event as the API has it. Texts are cut, and steps left out, so that it fits a
// message; the record of the job has them.
func eventOf(e Event) api.Event {
	out := api.Event{
		Time: e.Time.UTC(), Event: string(e.Kind), Run: e.Job.Run, Job: e.Job.String(), Host: e.Host, Step: e.Step, Uses: e.Uses, Attempt: e.Attempt,
		Stdout: escape(shorten(string(e.Stdout), publishText)), Stderr: escape(shorten(string(e.Stderr), publishText)),
		Text: escape(shorten(e.Text, publishText)), ReasonCode: e.ReasonCode, After: core.InSeconds(e.After),
	}
	if e.Result != nil {
		r := *e.Result
		r.Steps, r.Reason = nil, shorten(r.Reason, publishText)
		shown := api.ResultOf(r)
		out.Result = &shown
	}
	if e.StepResult != nil {
		s := api.StepOf(*e.StepResult)
		s.Stdout, s.Stderr, s.Diff, s.Outputs, s.Reason = "", "", "", nil, shorten(s.Reason, publishText)
		out.Detail = &s
	}
	return out
}

// run publishes until ctx ends, and then the remaining events.
func (p *publisher) run(ctx context.Context) {
	ticker := time.NewTicker(publishEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishClosed)
			p.flush(last)
			cancel()
			return
		case <-ticker.C:
			p.flush(ctx)
		}
	}
}

// dropNotice is the event by which watchers learn that something is missing.
const dropNotice = "dropped"

// take empties the publisher: messages by run, in order.
func (p *publisher) take() (byRun map[string][][]byte, order []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	byRun = map[string][][]byte{}
	put := func(run string, e api.Event) {
		text, err := json.Marshal(e)
		if err != nil || len(text) > board.MaxMessage { // escaped bytes grow
			e.Stdout, e.Stderr, e.Text, e.Detail = "", "", "too long to be shown here", nil
			if text, err = json.Marshal(e); err != nil || len(text) > board.MaxMessage {
				return
			}
		}
		if byRun[run] == nil {
			order = append(order, run)
		}
		byRun[run] = append(byRun[run], text)
	}
	for _, m := range p.pending {
		put(m.run, m.event)
	}
	for run, n := range p.dropped {
		put(run, api.Event{Time: time.Now().UTC(), Event: dropNotice, Run: run, Text: fmt.Sprintf("%d events of worker %s are not shown here", n, p.worker)})
	}
	p.pending = nil
	clear(p.open)
	clear(p.dropped)
	return byRun, order
}

// flush publishes what is pending. Events that the feed refuses count as dropped.
func (p *publisher) flush(ctx context.Context) {
	byRun, order := p.take()
	for _, run := range order {
		for messages := byRun[run]; len(messages) > 0; {
			n := batch(messages)
			call, cancel := context.WithTimeout(ctx, callTimeout)
			err := p.feed.Publish(call, run, messages[:n]...)
			cancel()
			if err != nil {
				p.mu.Lock()
				p.dropped[run] += len(messages)
				p.mu.Unlock()
				break
			}
			messages = messages[n:]
		}
	}
}

// publishBatch bounds the bytes of one call.
const publishBatch = 512 << 10

// batch is how many of the messages go into one call.
func batch(messages [][]byte) int {
	size := 0
	for i, m := range messages {
		if size += len(m); i > 0 && (i == board.MaxPublish || size > publishBatch) {
			return i
		}
	}
	return len(messages)
}
