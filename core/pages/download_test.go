package pages

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core/testparts"
)

// A download lasts as long as its reader takes pieces of it, and ends soon after one that stops.
func TestADownloadEndsWithItsReader(t *testing.T) {
	for name, pieces := range map[string]int{"reads slowly": 1 << 20, "stops": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { readSlowly(t, pieces) })
		})
	}
}

// readSlowly reads up to so many pieces of a download, one each ten seconds.
func readSlowly(t *testing.T, pieces int) {
	f := newFake()
	f.output = strings.Repeat("line of an output\n", 50_000)
	p, err := New(Config{API: f, Version: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		for name, value := range map[string]string{"run": "r1", "job": "1", "step": "1", "stream": "stdout"} {
			r.SetPathValue(name, value)
		}
		p.download(w, r, visit{client: p.client(r, "good")})
	})}
	reader, served := net.Pipe()
	l := testparts.ListenOne(served)
	done := make(chan struct{})
	go func() { defer close(done); _ = web.Serve(l) }()
	defer func() { _ = reader.Close(); _ = web.Close(); <-done }()
	if _, err := io.WriteString(reader, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	begun, got := time.Now(), 0
	for piece := make([]byte, 32<<10); pieces > 0; pieces-- {
		n, err := reader.Read(piece)
		if got += n; err != nil {
			break
		}
		<-time.After(10 * time.Second)
	}
	if took := time.Since(begun); pieces > 0 && (got < len(f.output) || took < 2*writeWithin) {
		t.Errorf("the reader got %d of %d bytes in %v", got, len(f.output), took)
	}
	select {
	case <-ended:
	case <-time.After(2 * writeWithin):
		t.Errorf("the download continues %v after its reader stopped", 2*writeWithin)
	}
}
