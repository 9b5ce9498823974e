package notify

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is a webhook that answers as its test says.
type receiver struct {
	*httptest.Server
	got chan Notice
	bad []string // what is wrong with requests

	mu     sync.Mutex
	answer []int // for the next requests; 200 after them
}

const secret = "s3cret"

func newReceiver(t *testing.T, answer ...int) *receiver {
	t.Helper()
	r := &receiver{got: make(chan Notice, 10), answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var n Notice
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil || json.Unmarshal(body, &n) != nil || req.Header.Get(HeaderID) != n.ID || req.Header.Get(HeaderSignature) != Sign(secret, body) {
			r.bad = append(r.bad, string(body))
		}
		code := http.StatusOK
		if len(r.answer) > 0 {
			code, r.answer = r.answer[0], r.answer[1:]
		}
		w.WriteHeader(code)
		r.got <- n
	}))
	t.Cleanup(r.Close)
	return r
}

// start runs a webhook to url until the test ends.
func start(t *testing.T, url string) *Webhook {
	t.Helper()
	w, err := New(Config{URL: url, Secret: secret, Server: "s1", Retry: core.Backoff{Interval: time.Millisecond, Max: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return w
}

func next(t *testing.T, r *receiver) Notice {
	t.Helper()
	select {
	case n := <-r.got:
		return n
	case <-time.After(30 * time.Second):
		t.Fatal("no notification came")
		return Notice{}
	}
}

func TestANoticeIsRepeatedUntilItIsTaken(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, http.StatusInternalServerError, http.StatusTooManyRequests)
	w := start(t, r.URL)
	w.Send(Notice{Kind: "run_held", Text: "look", Run: "r1"})
	w.Send(Notice{Kind: "queue_away", Text: "gone"})
	first := next(t, r)
	if first.ID == "" || first.Kind != "run_held" || first.Run != "r1" || first.Server != "s1" || time.Since(first.At) > time.Minute {
		t.Errorf("%+v", first)
	}
	for range 2 {
		if again := next(t, r); again != first {
			t.Errorf("it came again as %+v", again)
		}
	}
	if n := next(t, r); n.Kind != "queue_away" || n.ID == first.ID {
		t.Errorf("the next is %+v", n)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.bad) > 0 {
		t.Errorf("bad requests: %q", r.bad)
	}
}

// What the receiver refuses for good does not keep the next one waiting; nor does a redirect carry a signature elsewhere.
func TestARefusedNoticeIsNotRepeated(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, http.StatusGone, http.StatusFound)
	w := start(t, r.URL)
	for _, kind := range []string{"a", "b", "c"} {
		w.Send(Notice{Kind: kind})
	}
	for _, kind := range []string{"a", "b", "c"} {
		if n := next(t, r); n.Kind != kind {
			t.Errorf("%q came, expected %q", n.Kind, kind)
		}
	}
}

// Send never blocks, whatever the receiver does; what does not fit is dropped.
func TestSendDoesNotBlock(t *testing.T) {
	t.Parallel()
	w, err := New(Config{URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 * maxWaiting { // nobody runs it
		w.Send(Notice{Kind: "x"})
	}
	if len(w.waiting) != maxWaiting {
		t.Errorf("%d wait", len(w.waiting))
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "hook", "ftp://x/y", "http://", "https:///path", "http://user:hunter2@\x7f"} {
		_, err := New(Config{URL: bad})
		if !errors.Is(err, core.ErrInvalid) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
