package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// A change that takes longer than its body had to arrive is not broken off.
func TestSlowChangesOutliveTheTimeOfTheirBody(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	slow := route{id: "slow", method: http.MethodPost, path: "/v1/slow", role: Viewer, status: http.StatusOK, bodyTime: time.Second}
	handle(b.server, slow, func(ctx context.Context, _ caller, in *struct{ Body api.Why }) (*body[api.Why], error) {
		if err := core.Sleep(ctx, 1200*time.Millisecond); err != nil {
			return nil, err
		}
		return &body[api.Why]{in.Body}, nil
	})
	web := httptest.NewServer(b.server)
	defer web.Close()
	post := func(text string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+slow.path, strings.NewReader(text))
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+b.token("acme", Viewer))
		req.Header.Set("Content-Type", "application/json")
		res, err := web.Client().Do(req)
		must(t, err)
		_ = res.Body.Close()
		return res
	}
	for range 2 { // also over one connection
		if res := post(`{"reason":"x"}`); res.StatusCode != http.StatusOK {
			t.Fatal(res.Status)
		}
	}
}

func TestLargeBodiesAndHeadersAreRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	large := `{"playbook":"acme-patch","tags":["` + strings.Repeat("x", smallBody) + `"]}`
	want[any](t, b.ask(b.token("acme", Operator), "POST", "/v1/runs", large), http.StatusRequestEntityTooLarge)
	for range maxHeavy { // as many as are read at the same time
		b.server.heavy <- struct{}{}
	}
	a := b.ask(b.token(everyTenant, Operator), "POST", "/v1/definitions/diff", applied(tree()))
	if want[any](t, a, http.StatusServiceUnavailable); a.header.Get("Retry-After") == "" {
		t.Fatal(a.header)
	}
	<-b.server.heavy
	want[any](t, b.ask(b.token(everyTenant, Operator), "POST", "/v1/definitions/diff", applied(tree())), http.StatusOK)

	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	web := HTTP(b.server, slog.New(slog.DiscardHandler))
	done := make(chan struct{})
	go func() { defer close(done); _ = web.Serve(listener) }()
	defer func() { must(t, web.Close()); <-done }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+"/healthz", nil)
	must(t, err)
	req.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Do(req)
	must(t, err)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Fatal(res.Status)
	}
}

// A fault goes to the log, and the caller only learns that there was one.
func TestPanicsAndFaultsReportNothing(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	b := newBed(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	boom := route{id: "boom", method: http.MethodGet, path: "/v1/boom", role: Viewer}
	handle(b.server, boom, func(context.Context, caller, *struct{}) (*body[api.Why], error) { panic("inner matters") })
	a := b.ask(b.token("acme", Viewer), "GET", boom.path, nil)
	if a.status != http.StatusInternalServerError || strings.Contains(a.body, "inner") || !strings.Contains(log.String(), "inner matters") {
		t.Fatalf("%d %s\n%s", a.status, a.body, log.String())
	}
	if strings.Contains(log.String(), b.token("acme", Viewer)) {
		t.Fatal("the log has the token")
	}
}

func TestWorkersAreReportedAndShown(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	op := b.token(everyTenant, Operator)
	post := func(w api.Worker) {
		_, err := b.queue.Post(t.Context(), api.WorkerDocument(w.Name), asJSON(w), api.WorkerKeep)
		must(t, err)
	}
	post(api.Worker{Name: "w1", State: api.WorkerReady, Concurrency: 8})
	state := func() string {
		items := want[struct{ Items []api.Worker }](t, b.ask(op, "GET", "/v1/workers", nil), http.StatusOK).Items
		if len(items) != 1 {
			t.Fatalf("%+v", items)
		}
		return items[0].State
	}
	if s := state(); s != api.WorkerReady {
		t.Fatal(s)
	}
	for _, order := range [][2]string{{"cordon", api.WorkerCordoned}, {"drain", api.WorkerDraining}, {"uncordon", api.WorkerReady}} {
		verb, now := order[0], order[1]
		if w := want[api.Worker](t, b.ask(op, "POST", "/v1/workers/w1/"+verb, api.Why{Reason: "upgrade"}), http.StatusOK); w.State != now || state() != now {
			t.Errorf("%s: %s", verb, w.State)
		}
		post(api.Worker{Name: "w1", State: now, Concurrency: 8, Reported: time.Now()}) // the worker follows; the next order comes before its next report
	}
	post(api.Worker{Name: "w1", State: api.WorkerDraining, Concurrency: 8, Reported: time.Now()}) // negative control: it reports it since
	if s := state(); s != api.WorkerDraining {
		t.Error(s)
	}
	must(t, b.server.DrainWorker(t.Context(), "scaling", "w1", "fewer are needed"))
	want[any](t, b.ask(op, "POST", "/v1/workers/w1/cordon", api.Why{Reason: "upgrade"}), http.StatusOK) // the drain still holds
	for _, who := range []string{"scaling", ""} {
		known, err := b.server.Workers(t.Context())
		must(t, err)
		if len(known) != 1 || known[0].DrainedBy != who {
			t.Errorf("%+v, expected one that was drained by %q", known, who)
		}
		want[any](t, b.ask(op, "POST", "/v1/workers/w1/uncordon", api.Why{}), http.StatusOK)
	}
	want[any](t, b.ask(op, "POST", "/v1/workers/nobody/drain", api.Why{}), http.StatusNotFound)
	want[any](t, b.ask(op, "POST", "/v1/workers/..%2Fincarnation/drain", api.Why{}), http.StatusNotFound)
	if q := want[api.Queue](t, b.ask(op, "GET", "/v1/queue", nil), http.StatusOK); q.Backend != "memory" || q.Away != "" {
		t.Fatalf("%+v", q)
	}
}
