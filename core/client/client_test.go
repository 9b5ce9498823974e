package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served makes a client of a server that answers as handler does.
func served(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	c, err := New(Config{Server: s.URL, Token: "secret", Agent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func TestServersThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		why string
		cfg Config
		ok  bool
	}{
		{"no URL", Config{Server: "turnus.example.net"}, false},
		{"another scheme", Config{Server: "ftp://turnus.example.net"}, false},
		{"a password in the URL", Config{Server: "https://me:word@turnus.example.net"}, false},
		{"a query", Config{Server: "https://turnus.example.net/?x=1"}, false},
		{"a token in the clear", Config{Server: "http://turnus.example.net", Token: "t"}, false},
		{"a token in the clear, asked for", Config{Server: "http://turnus.example.net", Token: "t", Insecure: true}, true},
		{"a login in the clear", Config{Server: "http://turnus.example.net"}, false},
		{"loopback", Config{Server: "http://127.0.0.1:8470", Token: "t"}, true},
		{"loopback of IPv6", Config{Server: "http://[::1]:8470", Token: "t"}, true},
		{"certificates that are none", Config{Server: "https://turnus.example.net", CAs: []byte("x")}, false},
	} {
		_, err := New(c.cfg)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%s: %v", c.why, err)
		}
	}
}

func TestErrorsNameServerAndWhatWasAsked(t *testing.T) {
	for _, c := range []struct {
		status int
		is     error
	}{
		{401, ErrNoToken}, {403, ErrForbidden}, {404, core.ErrNotFound}, {409, core.ErrConflict}, {412, core.ErrConflict}, {422, core.ErrInvalid},
	} {
		client := served(t, func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Authorization"); got != "Bearer secret" {
				t.Errorf("Authorization: %q", got)
			}
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, `{"detail":"it is not so","errors":[{"location":"body.playbook","message":"expected a name"}]}`)
		})
		_, err := client.Run(t.Context(), "r/1")
		if !errors.Is(err, c.is) {
			t.Errorf("status %d: %v", c.status, err)
		}
		want := "show run r/1: server " + client.Server() + ": it is not so\n  playbook: expected a name"
		if err == nil || err.Error() != want {
			t.Errorf("status %d: %v, expected %s", c.status, err, want)
		}
	}
}

func TestPageOfAProxyIsNoMessage(t *testing.T) {
	c := served(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<html>go away")
	})
	if _, err := c.Run(t.Context(), "r"); err == nil || strings.Contains(err.Error(), "html") || !strings.Contains(err.Error(), "answers 403 Forbidden") {
		t.Errorf("%v", err)
	}
}

// A path part is one part, whatever it holds.
func TestIDsAreEscaped(t *testing.T) {
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != "/v1/runs/..%2Fa%3Fb/cancel" {
			t.Errorf("path %s", r.URL.EscapedPath())
		}
		answer(w, 200, api.Run{})
	})
	if _, err := c.CancelRun(t.Context(), "../a?b", ""); err != nil {
		t.Fatal(err)
	}
}

// A request that may be repeated without effect is sent again; another one is not.
func TestOnlyWhatMayBeRepeatedIsRepeated(t *testing.T) {
	var asked atomic.Int32
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if asked.Add(1) == 1 {
			answer(w, http.StatusServiceUnavailable, map[string]string{"detail": "a moment"})
			return
		}
		answer(w, 201, api.Run{ID: "r"})
	})
	if run, err := c.CreateRun(t.Context(), "key", api.NewRun{Playbook: "p"}); err != nil || run.ID != "r" || asked.Load() != 2 {
		t.Errorf("with a key: %v, %v, asked %d times", run.ID, err, asked.Load())
	}
	asked.Store(0)
	if _, err := c.CreateRun(t.Context(), "", api.NewRun{Playbook: "p"}); !errors.Is(err, core.ErrUnavailable) || asked.Load() != 1 {
		t.Errorf("without a key: %v, asked %d times", err, asked.Load())
	}
	asked.Store(0)
	if _, err := c.Run(t.Context(), "r"); err != nil || asked.Load() != 2 {
		t.Errorf("a reading: %v, asked %d times", err, asked.Load())
	}
}

// Each mistake of a refused request has a line, with its place in the body.
func TestErrorHasALineForEachMistake(t *testing.T) {
	c := served(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusUnprocessableEntity, api.Problem{Detail: "validation failed", Errors: []api.Mistake{{Message: "expected a number", Location: "body.criticality"}}})
	})
	_, err := c.CreateRun(t.Context(), "", api.NewRun{Playbook: "q"})
	if want := "submit q: server " + c.Server() + ": validation failed\n  criticality: expected a number"; !errors.Is(err, core.ErrInvalid) || err.Error() != want {
		t.Errorf("%v, expected %s", err, want)
	}
}

func TestServerThatIsAwaySaysSo(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	c, err := New(Config{Server: s.URL, Patience: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Run(t.Context(), "r")
	if !errors.Is(err, core.ErrUnavailable) || !strings.Contains(err.Error(), "show run r: server "+s.URL+" does not answer: connection refused") {
		t.Errorf("%v", err)
	}
}

// A redirect to another server would hand it the token.
func TestRedirectElsewhereIsNotFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other server was asked") }))
	t.Cleanup(other.Close)
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/v1/runs/r", http.StatusFound)
	})
	c.patience = time.Millisecond
	if _, err := c.Run(t.Context(), "r"); err == nil || !strings.Contains(err.Error(), "is not asked") {
		t.Errorf("%v", err)
	}
}

func TestAllReadsPagesToTheEnd(t *testing.T) {
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("cursor") {
		case "":
			answer(w, 200, List[api.Run]{Items: []api.Run{{ID: "a"}, {ID: "b"}}, Next: "x"})
		case "x":
			answer(w, 200, List[api.Run]{Items: []api.Run{{ID: "c"}}})
		}
	})
	list := func(ctx context.Context, p Page) (List[api.Run], error) { return c.Runs(ctx, RunFilter{}, p) }
	if all, err := All(t.Context(), 0, list); err != nil || len(all) != 3 {
		t.Errorf("%d runs, %v; expected 3", len(all), err)
	}
	if some, err := All(t.Context(), 2, list); err != nil || len(some) != 2 {
		t.Errorf("%d runs, %v; expected 2", len(some), err)
	}
}

// A stream that breaks is taken up behind the last event that had an id, and ends with run_done.
func TestFollowGoesOnWhereItBroke(t *testing.T) {
	var asked atomic.Int32
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		switch asked.Add(1) {
		case 1:
			fmt.Fprint(w, ": hello\n\nid: 7\ndata: {\"event\":\"output\",\"stdout\":\"one\"}\n\ndata: {\"event\":\"outp") // cut
		case 2:
			if got := r.Header.Get("Last-Event-ID"); got != "7" {
				t.Errorf("Last-Event-ID %q, expected 7", got)
			}
			fmt.Fprint(w, "event: problem\ndata: {\"status\":503,\"detail\":\"a moment\"}\n\n")
		default:
			fmt.Fprint(w, "data: {\"event\":\"output\",\"stdout\":\"two\"}\n\ndata: no json\n\ndata: {\"event\":\"run_done\"}\n\n")
		}
	})
	var got []string
	if err := c.Events("r").Follow(t.Context(), func(e api.Event) { got = append(got, e.Event+e.Stdout) }, nil); err != nil {
		t.Fatal(err)
	}
	if want := "outputone outputtwo run_done"; strings.Join(got, " ") != want {
		t.Errorf("events %v, expected %s", got, want)
	}
}

func TestFollowEndsWhenTheServerRefuses(t *testing.T) {
	c := served(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "event: problem\ndata: {\"status\":401,\"detail\":\"the token is revoked\"}\n\n")
	})
	if err := c.Events("r").Follow(t.Context(), func(api.Event) {}, nil); !errors.Is(err, ErrNoToken) {
		t.Errorf("%v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := c.Events("r").Follow(ctx, func(api.Event) {}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after cancelling: %v", err)
	}
}
