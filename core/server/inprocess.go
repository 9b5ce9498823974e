package server

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/turnus/turnus/core/ledger"
)

// inProcessKey is where the context of a request has the caller who needs no token.
type inProcessKey struct{}

// inProcess answers requests of this process.
type inProcess struct {
	s  *Server
	by caller
}

// InProcess answers requests of this process without a network and without a token. who may read
// and change everything: the ledger is that person's own.
func (s *Server) InProcess(who string) http.RoundTripper {
	return &inProcess{s, caller{name: who, scope: ledger.AllTenants(), token: ledger.Token{Name: who, AllTenants: true, Roles: []string{string(Admin)}}}}
}

// Viewing answers requests of this process as somebody who may read everything and change nothing.
func (s *Server) Viewing(who string) http.Handler {
	by := caller{name: who, scope: ledger.AllTenants(), token: ledger.Token{Name: who, AllTenants: true, Roles: []string{string(Viewer)}}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), inProcessKey{}, by)))
	})
}

// RoundTrip answers one request. The answer is in memory as a whole.
func (t *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(context.WithValue(r.Context(), inProcessKey{}, t.by))
	if r.Body == nil {
		r.Body = http.NoBody
	}
	defer func() { _ = r.Body.Close() }()
	w := &buffered{header: http.Header{}, status: http.StatusOK}
	t.s.ServeHTTP(w, r)
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// buffered is an http.ResponseWriter.
type buffered struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *buffered) Header() http.Header { return w.header }

func (w *buffered) WriteHeader(status int) { w.status = status }

func (w *buffered) Write(b []byte) (int, error) { return w.body.Write(b) }
