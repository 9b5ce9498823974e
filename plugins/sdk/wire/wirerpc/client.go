package wirerpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/turnus/turnus/plugins/sdk/wire"
)

// Client calls the services of one server. Safe for concurrent use.
type Client struct{ transport *http.Transport }

// CloseIdleConnections closes the connection if no call uses it.
func (c *Client) CloseIdleConnections() { c.transport.CloseIdleConnections() }

type leaseKey struct{}

// WithLease returns a context whose calls show a lease.
func WithLease(ctx context.Context, lease string) context.Context {
	return context.WithValue(ctx, leaseKey{}, lease)
}

var (
	contentType = []string{"application/grpc+proto"} //nolint:gochecknoglobals // a constant; Go has none of slices
	trailers    = []string{"trailers"}               //nolint:gochecknoglobals // as above
	noAgent     = []string{""}                       //nolint:gochecknoglobals // as above: net/http sends none
)

// request returns a request of a call. body is what it sends, of a length that is known or -1.
func request(ctx context.Context, procedure string, body io.ReadCloser, length int64) *http.Request {
	header := http.Header{"Content-Type": contentType, "Te": trailers, "User-Agent": noAgent}
	if lease, ok := ctx.Value(leaseKey{}).(string); ok {
		header[http.CanonicalHeaderKey(wire.LeaseKey)] = []string{lease}
	}
	if at, ok := ctx.Deadline(); ok {
		header[timeoutKey] = []string{formatTimeout(time.Until(at))}
	}
	r := &http.Request{
		Method: http.MethodPost, URL: &url.URL{Scheme: "http", Host: "worker", Path: procedure}, Host: "worker",
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: header, Body: body, ContentLength: length,
	}
	return r.WithContext(ctx)
}

// timeoutKey is the header with the time that a call has left.
const timeoutKey = "Grpc-Timeout"

// formatTimeout writes a duration as gRPC has it: at most eight digits and a unit.
func formatTimeout(d time.Duration) string {
	d = max(d, time.Millisecond)
	if ms := d.Milliseconds(); ms < 1e8 {
		return strconv.FormatInt(ms, 10) + "m"
	}
	return strconv.FormatInt(min(int64(d/time.Second), 1e8-1), 10) + "S"
}

// parseTimeout reads what formatTimeout writes, and the other units.
func parseTimeout(text string) (time.Duration, bool) {
	if text == "" {
		return 0, false
	}
	unit := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': 1}[text[len(text)-1]]
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 63)
	if err != nil || unit == 0 || len(text) > 9 {
		return 0, false
	}
	if n > uint64(1<<63-1)/uint64(unit) {
		return 1<<63 - 1, true
	}
	return time.Duration(n) * unit, true
}

// failed translates the error of a call that the transport ended.
func failed(ctx context.Context, code Code, err error) error {
	if _, is := errors.AsType[*Error](err); is {
		return err
	}
	switch cause := ctx.Err(); {
	case errors.Is(cause, context.DeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		code = CodeDeadlineExceeded
	case cause != nil, errors.Is(err, context.Canceled), strings.Contains(err.Error(), "; CANCEL"): // the other end gave the call up
		code = CodeCanceled
	}
	return Errorf(code, "%w", err)
}

// download makes a call that sends one message.
func (c *Client) download(ctx context.Context, procedure string, in proto.Message) (*clientCall, error) {
	b, err := frame(in)
	if err != nil {
		return nil, err
	}
	call := &clientCall{ctx: ctx}
	size := int64(len(*b))
	call.do(c, request(ctx, procedure, &message{buf: b}, size))
	return call, nil
}

// Call makes a call with one message each way.
func (c *Client) Call(ctx context.Context, procedure string, in, out proto.Message) error {
	call, err := c.download(ctx, procedure, in)
	if err != nil {
		return err
	}
	defer call.close()
	if err := call.receive(out); err != nil {
		if errors.Is(err, io.EOF) {
			err = Errorf(CodeInternal, "the call ended without an answer")
		}
		return err
	}
	if err := call.receive(out); !errors.Is(err, io.EOF) {
		if err == nil {
			err = Errorf(CodeInternal, "the call has two answers")
		}
		return err
	}
	return nil
}

// message is the body of a request with one message. The transport may close it while it reads.
type message struct {
	mu   sync.Mutex
	buf  *[]byte // nil: closed
	sent int
}

// Read implements [io.Reader].
func (m *message) Read(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.buf == nil || m.sent == len(*m.buf) {
		return 0, io.EOF
	}
	n := copy(p, (*m.buf)[m.sent:])
	m.sent += n
	return n, nil
}

// Close implements [io.Closer].
func (m *message) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.buf != nil {
		giveBack(m.buf)
		m.buf = nil
	}
	return nil
}

// clientCall is the client's end of a call.
type clientCall struct {
	ctx      context.Context //nolint:containedctx // it is the call's life
	response *http.Response
	err      error         // of the transport, instead of a response
	ready    chan struct{} // closed when response or err is set; nil: they are
	end      error         // how the call ended; nil while it continues

	pipe *io.PipeWriter // of a call that streams messages; nil of others
	stop func() bool    // stops watching the context
}

func (c *clientCall) do(client *Client, r *http.Request) {
	c.response, c.err = client.transport.RoundTrip(r)
	if c.err != nil {
		c.err = failed(c.ctx, CodeUnavailable, c.err)
	} else if status := c.response.StatusCode; status != http.StatusOK {
		c.err = Errorf(CodeUnknown, "HTTP status %d: expected 200", status)
	}
}

// stream opens a call that sends any number of messages.
func (c *Client) stream(ctx context.Context, procedure string) *clientCall {
	reader, writer := io.Pipe()
	call := &clientCall{ctx: ctx, ready: make(chan struct{}), pipe: writer}
	// net/http ignores the context of an answered request while it waits for more of the
	// request's body.
	call.stop = context.AfterFunc(ctx, func() { _ = reader.CloseWithError(context.Cause(ctx)) })
	r := request(ctx, procedure, reader, -1)
	go func() { // it ends with the answer or the context
		defer close(call.ready)
		call.do(c, r)
		if call.err != nil {
			_ = reader.CloseWithError(io.EOF)
		}
	}()
	return call
}

// send sends a message. The error is io.EOF if the call has ended; receive returns why.
func (c *clientCall) send(m proto.Message) error {
	b, err := frame(m)
	if err != nil {
		return err
	}
	defer giveBack(b) // the pipe has copied it
	if _, err := c.pipe.Write(*b); err != nil {
		return io.EOF
	}
	return nil
}

// receive decodes the next message. The error is io.EOF if the call succeeded.
func (c *clientCall) receive(m proto.Message) error {
	if c.ready != nil {
		<-c.ready
	}
	switch {
	case c.err != nil:
		return c.err
	case c.end != nil:
		return c.end
	}
	err := receive(c.response.Body, m)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		c.end = readStatus(c.response.Trailer, c.response.Header)
		if c.end == nil {
			c.end = io.EOF
		}
	default:
		c.end = failed(c.ctx, CodeUnknown, err)
	}
	return c.end
}

// closeSend signals that no message follows.
func (c *clientCall) closeSend() error { return c.pipe.Close() }

// close drops the rest of the answer.
func (c *clientCall) close() {
	if c.ready != nil {
		<-c.ready
	}
	if c.response != nil {
		_ = c.response.Body.Close() // it only ends the request
	}
	if c.stop != nil && c.stop() {
		_ = c.pipe.Close()
	}
}

// pointer constrains a pointer to a generated message.
type pointer[T any] interface {
	*T
	proto.Message
}

// BidiClient is the client's end of a call that streams both ways.
type BidiClient[Req, Res any, PReq pointer[Req], PRes pointer[Res]] struct{ call *clientCall }

// Send sends a message. The error is io.EOF if the call has ended; Receive returns why.
func (s *BidiClient[Req, Res, PReq, PRes]) Send(m *Req) error { return s.call.send(PReq(m)) }

// Receive returns the next message, or io.EOF if the call succeeded.
func (s *BidiClient[Req, Res, PReq, PRes]) Receive() (*Res, error) {
	m := new(Res)
	if err := s.call.receive(PRes(m)); err != nil {
		return nil, err
	}
	return m, nil
}

// CloseRequest signals that no message follows.
func (s *BidiClient[Req, Res, PReq, PRes]) CloseRequest() error { return s.call.closeSend() }

// CloseResponse drops the rest of the answer; the context of the call ends before.
func (s *BidiClient[Req, Res, PReq, PRes]) CloseResponse() error { s.call.close(); return nil }

// UploadClient is the client's end of a call that streams requests.
type UploadClient[Req, Res any, PReq pointer[Req], PRes pointer[Res]] struct{ call *clientCall }

// Send sends a message. The error is io.EOF if the call has ended; CloseAndReceive returns why.
func (s *UploadClient[Req, Res, PReq, PRes]) Send(m *Req) error { return s.call.send(PReq(m)) }

// CloseAndReceive signals that no message follows, and returns the answer.
func (s *UploadClient[Req, Res, PReq, PRes]) CloseAndReceive() (*Res, error) {
	_ = s.call.closeSend() // receive returns how the call ended
	defer s.call.close()
	m := new(Res)
	if err := s.call.receive(PRes(m)); err != nil {
		if errors.Is(err, io.EOF) {
			err = Errorf(CodeInternal, "the call ended without an answer")
		}
		return nil, err
	}
	if err := s.call.receive(PRes(new(Res))); !errors.Is(err, io.EOF) {
		return nil, err
	}
	return m, nil
}

// DownloadClient is the client's end of a call that streams answers.
type DownloadClient[Res any, PRes pointer[Res]] struct {
	call *clientCall
	msg  *Res
	err  error
}

// Receive reads the next message, and returns whether there is one.
func (s *DownloadClient[Res, PRes]) Receive() bool {
	s.msg = new(Res)
	s.err = s.call.receive(PRes(s.msg))
	return s.err == nil
}

// Msg returns the message that Receive read.
func (s *DownloadClient[Res, PRes]) Msg() *Res { return s.msg }

// Err returns why the call ended; nil if it succeeded.
func (s *DownloadClient[Res, PRes]) Err() error {
	if errors.Is(s.err, io.EOF) {
		return nil
	}
	return s.err
}

// Close drops the rest of the answer.
func (s *DownloadClient[Res, PRes]) Close() error { s.call.close(); return nil }
