package sdk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// Bounds of texts in events. A longer text is cut, with a mark.
const (
	maxReason = 4 << 10
	maxLog    = 16 << 10
	maxDiff   = 128 << 10
	maxTitle  = 1 << 10
)

var errOutcomeSent = errors.New("the step has ended: nothing can be reported any more")

// events is the stream to the worker. Safe for concurrent use; nothing follows the outcome.
type events struct {
	mu    sync.Mutex
	send  func(*wire.RunEvent) error
	last  func(*wire.RunEvent) error
	ended bool
}

func (e *events) emit(event *wire.RunEvent) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return errOutcomeSent
	}
	return e.send(event)
}

// end sends the one outcome.
func (e *events) end(o *wire.Outcome) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return errOutcomeSent
	}
	e.ended = true
	return e.last(&wire.RunEvent{Event: &wire.RunEvent_Outcome{Outcome: o}})
}

func (e *events) output(stdout, stderr []byte) error {
	return e.emit(&wire.RunEvent{Event: &wire.RunEvent_Output{Output: &wire.Chunk{Stdout: stdout, Stderr: stderr}}})
}

// printer streams one side of the output.
type printer struct {
	events *events
	stderr bool
}

func (p printer) Write(b []byte) (int, error) {
	written := 0
	for len(b) > 0 {
		n := min(len(b), wire.ChunkSize)
		var err error
		if p.stderr {
			err = p.events.output(nil, b[:n])
		} else {
			err = p.events.output(b[:n], nil)
		}
		if err != nil {
			return written, err
		}
		written, b = written+n, b[n:]
	}
	return written, nil
}

// clean makes s fit for the wire: protobuf refuses what is not UTF-8, and the
// refusal would cost the outcome.
func clean(s string, limit int) string {
	if kept := wholeWords(s, limit); len(kept) < len(s) {
		s = fmt.Sprintf("%s… (%d bytes more)", kept, len(s)-len(kept))
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// blank holds characters that secrets, and their encodings, seldom hold.
const blank = " \t\r\n"

// wholeWords is the beginning of a text that takes at most limit bytes, cut at white space: a
// worker knows a secret by the whole of it, and would show a part.
func wholeWords(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return text[:max(strings.LastIndexAny(text[:limit+1], blank), 0)]
}

// withoutLast is a text that ends where it was cut, without the word that may continue there.
func withoutLast(text string) string { return text[:strings.LastIndexAny(text, blank)+1] }

// logHandler sends records as events of the job: the standard error of a shared process cannot be
// assigned to a job.
type logHandler struct {
	events *events
	prefix string // of groups, with its dot
	attrs  map[string]string
}

func (h *logHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	attrs := make(map[string]string, len(h.attrs)+r.NumAttrs())
	maps.Copy(attrs, h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		flatten(attrs, h.prefix, a)
		return true
	})
	level := wire.Log_DEBUG
	switch {
	case r.Level >= slog.LevelError:
		level = wire.Log_ERROR
	case r.Level >= slog.LevelWarn:
		level = wire.Log_WARN
	case r.Level >= slog.LevelInfo:
		level = wire.Log_INFO
	}
	return h.events.emit(&wire.RunEvent{Event: &wire.RunEvent_Log{Log: &wire.Log{
		Level: level, Message: clean(r.Message, maxLog), Attributes: attrs,
	}}})
}

func (h *logHandler) WithAttrs(as []slog.Attr) slog.Handler {
	attrs := make(map[string]string, len(h.attrs)+len(as))
	maps.Copy(attrs, h.attrs)
	for _, a := range as {
		flatten(attrs, h.prefix, a)
	}
	return &logHandler{events: h.events, prefix: h.prefix, attrs: attrs}
}

func (h *logHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return &logHandler{events: h.events, prefix: h.prefix + name + ".", attrs: h.attrs}
}

func flatten(into map[string]string, prefix string, a slog.Attr) {
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, inner := range value.Group() {
			flatten(into, prefix, inner)
		}
		return
	}
	if a.Key != "" {
		into[clean(prefix+a.Key, maxTitle)] = clean(value.String(), maxLog)
	}
}
