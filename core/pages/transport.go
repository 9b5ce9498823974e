package pages

import (
	"io"
	"net/http"
	"sync"
)

// transport asks the API in this process, with the token of a session, as the host by which the
// browser reaches the server. A response streams: its body can be read while the API still writes.
type transport struct {
	api   http.Handler
	token string // "": none
	host  string
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	asked := r.Clone(r.Context())
	if t.token != "" {
		asked.Header.Set("Authorization", "Bearer "+t.token)
	}
	asked.Host = t.host
	asked.RequestURI = asked.URL.RequestURI()
	if asked.Body == nil {
		asked.Body = http.NoBody
	}
	body, writer := io.Pipe()
	w := &piped{header: http.Header{}, begun: make(chan struct{}), body: writer}
	go func() { // it ends with the handler, which ends with the request's context
		defer func() {
			fault := recover()
			if fault != nil && fault != http.ErrAbortHandler { //nolint:errorlint // a sentinel that is panicked with
				panic(fault)
			}
			_ = asked.Body.Close()
			w.begin(http.StatusOK)
			if fault != nil {
				_ = writer.CloseWithError(io.ErrUnexpectedEOF) // the body is not whole
			} else {
				_ = writer.Close()
			}
		}()
		t.api.ServeHTTP(w, asked)
	}()
	select {
	case <-w.begun:
	case <-r.Context().Done():
		_ = body.CloseWithError(r.Context().Err())
		return nil, r.Context().Err()
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: body, ContentLength: -1, Request: r,
	}, nil
}

// piped is an http.ResponseWriter whose body is read elsewhere.
type piped struct {
	header http.Header
	body   *io.PipeWriter
	begun  chan struct{} // closed when status and sent are set
	once   sync.Once
	status int
	sent   http.Header
}

func (w *piped) begin(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	})
}

// Header implements http.ResponseWriter.
func (w *piped) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *piped) WriteHeader(status int) { w.begin(status) }

// Write implements http.ResponseWriter. It fails when nobody reads any more.
func (w *piped) Write(b []byte) (int, error) {
	w.begin(http.StatusOK)
	return w.body.Write(b)
}

// Flush implements http.Flusher: what was written is with the reader already.
func (w *piped) Flush() { w.begin(http.StatusOK) }
