package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/turnus/turnus/core/api"
)

// streams counts what is open, so that no caller and no tenant holds all of it. Tenants together
// leave some to the provider.
type streams struct {
	all, tenants, tenant, person int // the most in all, of all tenants, of one of them, and of one person

	mu   sync.Mutex
	open map[string]int // by bound.key
}

// bound is one count that a stream adds to.
type bound struct {
	key, whose string
	max        int
}

// bounds are the counts that a stream of a caller adds to, the narrowest first.
func (s *streams) bounds(by caller) []bound {
	list := []bound{{"person " + by.name, by.name, s.person}}
	if !by.scope.All() {
		list = append(list, bound{"tenant " + by.token.Tenant, "tenant " + by.token.Tenant, s.tenant}, bound{"tenants", "all tenants together", s.tenants})
	}
	return append(list, bound{"all", "this server", s.all})
}

// take opens a stream of a caller, or refuses; release must be called once.
func (s *streams) take(by caller) (release func(), err error) {
	list := s.bounds(by)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range list {
		if s.open[b.key] < b.max {
			continue
		}
		why := fmt.Sprintf("%s may have %d streams and exports open, and has them: close some, or try again later", b.whose, b.max)
		if i < len(list)-1 && b.key != "tenants" {
			return nil, huma.Error429TooManyRequests(why)
		}
		return nil, huma.Error503ServiceUnavailable(why)
	}
	for _, b := range list {
		s.open[b.key]++
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, b := range list {
			if s.open[b.key]--; s.open[b.key] == 0 {
				delete(s.open, b.key)
			}
		}
	}, nil
}

const (
	streamWrite  = 20 * time.Second // a reader that takes nothing for so long is gone
	streamBeat   = 15 * time.Second // so that proxies do not think that it has ended
	streamRights = 500 * time.Millisecond
)

// eventStream is an open stream of server-sent events.
type eventStream struct {
	s     *Server
	by    caller
	r     route
	w     http.ResponseWriter
	ctl   *http.ResponseController
	wrote time.Time
}

// stream answers with events that follow sends until it returns; id of an event is where a reader
// may continue (Last-Event-ID).
func (s *Server) stream(r route, by caller, follow func(ctx context.Context, out *eventStream) error) (*huma.StreamResponse, error) {
	release, err := s.streams.take(by)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer release()
		req, w := humago.Unwrap(hc)
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no") // nginx would keep it back
		out := &eventStream{s: s, by: by, r: r, w: w, ctl: http.NewResponseController(w)}
		err := out.flush()
		if err == nil {
			err = follow(req.Context(), out)
		}
		if err != nil && req.Context().Err() == nil {
			s.cfg.Log.Info("a stream ended early", "operation", r.id, "error", err)
			_ = out.problem(s.problem(r, err))
		}
		_ = out.ctl.SetWriteDeadline(time.Time{})
	}}, nil
}

// send writes one event that no reader can continue behind.
func (e *eventStream) send(event api.Event) error {
	text, err := json.Marshal(event)
	if err != nil {
		return err
	}
	return e.raw("", text)
}

// raw writes one event that is JSON already, on one line.
func (e *eventStream) raw(id string, text []byte) error {
	_ = e.ctl.SetWriteDeadline(time.Now().Add(streamWrite))
	if id != "" {
		if _, err := fmt.Fprintf(e.w, "id: %s\n", id); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(e.w, "data: %s\n\n", text)
	return err
}

// problem reports why the stream cannot continue.
func (e *eventStream) problem(p error) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.w, "event: problem\ndata: %s\n\n", text)
	return err
}

func (e *eventStream) flush() error {
	_ = e.ctl.SetWriteDeadline(time.Now().Add(streamWrite))
	e.wrote = time.Now()
	return e.ctl.Flush()
}

// idle keeps a stream alive that has no events.
func (e *eventStream) idle() error {
	if time.Since(e.wrote) < streamBeat {
		return nil
	}
	if _, err := fmt.Fprint(e.w, ": still here\n\n"); err != nil {
		return err
	}
	return e.flush()
}

// allowed reports whether the caller still may see it: a token may have been revoked meanwhile.
func (e *eventStream) allowed(ctx context.Context) error {
	_, status, why := e.s.admit(ctx, "Bearer "+e.by.secret, e.r)
	if status == 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	return huma.NewError(status, why)
}
