package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// maxEvent bounds one line of a stream.
const maxEvent = 1 << 20

// Stream is how far events of a run, or of one of its jobs, were read. It is for one goroutine.
type Stream struct {
	c    *Client
	what string // for errors: "follow run R"
	path string
	ends string // the event that is the last one
	last string // id of the last event
}

// Events reads the events of a run, as far as they are kept, and then as they happen.
func (c *Client) Events(run string) *Stream {
	return &Stream{c: c, what: "follow run " + run, path: path("v1", "runs", run, "events"), ends: api.RunDone}
}

// JobEvents is Events of one job, with its output.
func (c *Client) JobEvents(id core.JobID) *Stream {
	return &Stream{c: c, what: "follow job " + id.String(), path: path("v1", "runs", id.Run, "jobs", strconv.Itoa(id.Index), "events"), ends: api.JobDone}
}

// Read hands events to each until its end, which is nil, or the stream breaks. It continues
// from there when it is called again; an event may then come twice.
func (s *Stream) Read(ctx context.Context, each func(api.Event)) error {
	q := call{
		what: s.what, method: http.MethodGet, path: s.path,
		header: http.Header{"Accept": {"text/event-stream"}},
	}
	if s.last != "" {
		q.header.Set("Last-Event-ID", s.last)
	}
	resp, err := s.c.send(ctx, q)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	err = s.events(resp.Body, each)
	if err == nil || ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// events reads a stream (HTML, Server-sent events).
func (s *Stream) events(r io.Reader, each func(api.Event)) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	var name, id string
	var data strings.Builder
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "id":
			id = value
		case "data":
			data.WriteString(value)
		case "":
			if lines.Text() != "" { // a comment, by which servers show that they live
				continue
			}
			over, err := s.event(name, data.String(), each)
			if id != "" {
				s.last = id
			}
			if over || err != nil {
				return err
			}
			name, id = "", ""
			data.Reset()
		}
	}
	err := lines.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return &Error{Server: s.c.server, What: s.what, Detail: "the stream broke: " + err.Error(), Err: core.ErrUnavailable}
}

// event hands one event on; over reports that it was the last.
func (s *Stream) event(name, data string, each func(api.Event)) (over bool, err error) {
	if data == "" {
		return false, nil
	}
	if name == "problem" {
		var reported struct {
			Status int
			Detail string
		}
		if json.Unmarshal([]byte(data), &reported) != nil {
			reported.Detail = "the server ended the stream"
		}
		return false, &Error{Server: s.c.server, What: s.what, Status: reported.Status, Detail: reported.Detail, Err: kindOf(reported.Status)}
	}
	var e api.Event
	if json.Unmarshal([]byte(data), &e) == nil { // another version's event may look otherwise
		each(e)
	}
	return e.Event == s.ends, nil
}

// Follow reads until its end, or until ctx ends. It continues when the server was away; onAway,
// which may be nil, is called when it goes, and with nil when it is back.
func (s *Stream) Follow(ctx context.Context, each func(api.Event), onAway func(error)) error {
	if onAway == nil {
		onAway = func(error) {}
	}
	gone := false
	for n := 0; ; n++ {
		err := s.Read(ctx, func(e api.Event) {
			if gone {
				gone = false
				onAway(nil)
			}
			n = 0
			each(e)
		})
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, core.ErrUnavailable) && !errors.Is(err, core.ErrUnknown):
			return err
		}
		if n > 0 && !gone { // that a stream ends, as at a proxy's time limit, is not worth a word
			gone = true
			onAway(err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(again.Delay(n, 0)):
		}
	}
}
