package pages

import (
	"compress/gzip"
	"net/http"
	"strings"
	"sync"
)

// zippers are reused: one has 800 kB.
var zippers = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return z
}}

// squeezed is an http.ResponseWriter that compresses pages, data, styles and scripts. Streams,
// parts and errors without a body go through as they are.
type squeezed struct {
	http.ResponseWriter
	begun bool
	zip   *gzip.Writer // nil: not compressed
}

// compress returns the writer of a response, and what ends it. A browser that does not take gzip,
// or asks for a part, gets the bytes as they are.
func compress(w http.ResponseWriter, r *http.Request) (compressed http.ResponseWriter, done func()) {
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") || r.Header.Get("Range") != "" {
		return w, func() {}
	}
	s := &squeezed{ResponseWriter: w}
	return s, s.end
}

// WriteHeader implements http.ResponseWriter.
func (s *squeezed) WriteHeader(status int) {
	if h := s.Header(); !s.begun && status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified && squeezable(h.Get("Content-Type")) {
		h.Set("Content-Encoding", "gzip")
		h.Add("Vary", "Accept-Encoding")
		h.Del("Content-Length")
		s.zip, _ = zippers.Get().(*gzip.Writer)
		s.zip.Reset(s.ResponseWriter)
	}
	s.begun = s.begun || status >= 200
	s.ResponseWriter.WriteHeader(status)
}

func squeezable(kind string) bool {
	kind, _, _ = strings.Cut(kind, ";")
	switch kind {
	case "text/html", "text/css", "text/javascript", "application/javascript", "application/json", "image/svg+xml":
		return true
	}
	return false
}

// Write implements http.ResponseWriter.
func (s *squeezed) Write(b []byte) (int, error) {
	if !s.begun {
		s.WriteHeader(http.StatusOK)
	}
	if s.zip != nil {
		return s.zip.Write(b)
	}
	return s.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (s *squeezed) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *squeezed) end() {
	if s.zip != nil {
		_ = s.zip.Close()
		s.zip.Reset(nil)
		zippers.Put(s.zip)
	}
}
