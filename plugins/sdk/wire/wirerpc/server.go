package wirerpc

import (
	"context"
	"errors"
	"io"
	"net/http"

	"google.golang.org/protobuf/proto"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// Handler serves procedures of gRPC. Register all of them before it serves.
type Handler struct {
	procedures map[string]func(*Call) error
	// Intercept, if set, wraps every call. req is the message of a call that has one, else nil.
	Intercept func(c *Call, req proto.Message, next func() error) error
}

// NewHandler returns a handler without procedures.
func NewHandler() *Handler { return &Handler{procedures: map[string]func(*Call) error{}} }

// Call is the server's end of a call.
type Call struct {
	Procedure string

	ctx     context.Context //nolint:containedctx // it is the call's life
	handler *Handler
	writer  http.ResponseWriter
	body    io.Reader
	lease   []string
	started bool // a message was sent
	muted   bool
}

// Mute drops the messages that the call sends from now on.
func (c *Call) Mute() { c.muted = true }

type callKey struct{}

// Leases returns the leases that the call of a handler's context shows.
func Leases(ctx context.Context) []string {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c.lease
	}
	return nil
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header["Content-Type"], header["Date"] = contentType, nil
	c := &Call{Procedure: r.URL.Path, ctx: r.Context(), handler: h, writer: w, body: r.Body, lease: r.Header.Values(wire.LeaseKey)}
	c.ctx = context.WithValue(c.ctx, callKey{}, c)
	if left, ok := parseTimeout(r.Header.Get(timeoutKey)); ok {
		ctx, cancel := context.WithTimeout(c.ctx, left)
		defer cancel()
		c.ctx = ctx
	}
	err := error(Errorf(CodeUnimplemented, "no procedure %s", c.Procedure))
	if serve := h.procedures[c.Procedure]; serve != nil {
		err = serve(c)
	}
	prefix := ""
	if c.started {
		prefix = http.TrailerPrefix
	}
	writeStatus(header, prefix, err)
}

// receive decodes the next message. The error is io.EOF if no message follows.
func (c *Call) receive(m proto.Message) error {
	err := receive(c.body, m)
	if err == nil || err == io.EOF { //nolint:errorlint // a part of a message is an error that wraps it
		return err
	}
	return failed(c.ctx, CodeUnknown, err)
}

// send sends a message. Without flush it leaves with the next one or with the end of the call.
func (c *Call) send(m proto.Message, flush bool) error {
	if c.muted {
		return nil
	}
	b, err := frame(m)
	if err != nil {
		return err
	}
	c.started = true
	if _, err := c.writer.Write(*b); err != nil {
		return failed(c.ctx, CodeCanceled, err) // the writer may still use b
	}
	giveBack(b)
	if flusher, ok := c.writer.(http.Flusher); ok && flush {
		flusher.Flush()
	}
	return nil
}

// intercepted runs what a call does.
func (c *Call) intercepted(req proto.Message, next func() error) error {
	if c.handler.Intercept == nil {
		return next()
	}
	return c.handler.Intercept(c, req, next)
}

// first decodes the only message of a call.
func (c *Call) first(m proto.Message) error {
	err := c.receive(m)
	if errors.Is(err, io.EOF) {
		return Errorf(CodeInvalidArgument, "%s: no message: expected one", c.Procedure)
	}
	return err
}

// Unary registers a procedure with one message each way.
func Unary[Req, Res any, PReq pointer[Req], PRes pointer[Res]](h *Handler, procedure string, serve func(context.Context, *Req) (*Res, error)) {
	h.unary(procedure, func() proto.Message { return PReq(new(Req)) }, func(ctx context.Context, m proto.Message) (proto.Message, error) {
		res, err := serve(ctx, m.(PReq))
		return PRes(res), err
	})
}

func (h *Handler) unary(procedure string, fresh func() proto.Message, serve func(context.Context, proto.Message) (proto.Message, error)) {
	h.procedures[procedure] = func(c *Call) error {
		req := fresh()
		if err := c.first(req); err != nil {
			return err
		}
		return c.intercepted(req, func() error {
			res, err := serve(c.ctx, req)
			if err != nil {
				return err
			}
			return c.send(res, false)
		})
	}
}

// ServerStream is the server's end of a call that streams answers.
type ServerStream[Res any, PRes pointer[Res]] struct{ call *Call }

// Send sends a message.
func (s *ServerStream[Res, PRes]) Send(m *Res) error { return s.call.send(PRes(m), true) }

// SendLast sends the last message, which leaves with the end of the call.
func (s *ServerStream[Res, PRes]) SendLast(m *Res) error { return s.call.send(PRes(m), false) }

// ClientStream is the server's end of a call that streams requests.
type ClientStream[Req any, PReq pointer[Req]] struct {
	call *Call
	msg  *Req
	err  error
}

// Receive reads the next message, and returns whether there is one.
func (s *ClientStream[Req, PReq]) Receive() bool {
	s.msg = new(Req)
	s.err = s.call.receive(PReq(s.msg))
	return s.err == nil
}

// Msg returns the message that Receive read.
func (s *ClientStream[Req, PReq]) Msg() *Req { return s.msg }

// Err returns why no message follows; nil if the client ended the stream.
func (s *ClientStream[Req, PReq]) Err() error {
	if errors.Is(s.err, io.EOF) {
		return nil
	}
	return s.err
}

// BidiStream is the server's end of a call that streams both ways.
type BidiStream[Req, Res any, PReq pointer[Req], PRes pointer[Res]] struct{ call *Call }

// Receive returns the next message, or io.EOF if no message follows.
func (s *BidiStream[Req, Res, PReq, PRes]) Receive() (*Req, error) {
	m := new(Req)
	if err := s.call.receive(PReq(m)); err != nil {
		return nil, err
	}
	return m, nil
}

// Send sends a message.
func (s *BidiStream[Req, Res, PReq, PRes]) Send(m *Res) error { return s.call.send(PRes(m), true) }
