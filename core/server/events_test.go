package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

// reader reads a stream of a real connection.
type reader struct {
	t     *testing.T
	lines *bufio.Scanner
	last  string // id
}

// follow opens a stream.
func (b *bed) follow(t *testing.T, secret, path string, headers ...string) *reader {
	t.Helper()
	web := httptest.NewServer(b.server)
	t.Cleanup(web.Close)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+path, nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+secret)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := web.Client().Do(req)
	must(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != sse {
		text, _ := io.ReadAll(res.Body)
		t.Fatalf("%d %v %s", res.StatusCode, res.Header, text)
	}
	return newReader(t, res.Body)
}

func newReader(t *testing.T, body io.Reader) *reader {
	r := &reader{t: t, lines: bufio.NewScanner(body)}
	r.lines.Buffer(nil, 1<<20)
	return r
}

// next is the next event; ok is false at the end.
func (r *reader) next() (e api.Event, ok bool) {
	r.t.Helper()
	for r.lines.Scan() {
		line := r.lines.Text()
		if id, is := strings.CutPrefix(line, "id: "); is {
			r.last = id
		}
		if text, is := strings.CutPrefix(line, "data: "); is {
			must(r.t, json.Unmarshal([]byte(text), &e))
			return e, true
		}
	}
	must(r.t, r.lines.Err())
	return e, false
}

// rest are the words of all events up to the end.
func (r *reader) rest() (all []string) {
	for {
		e, ok := r.next()
		if !ok {
			return all
		}
		all = append(all, strings.TrimSpace(e.Event+" "+e.Stdout))
	}
}

func (b *bed) publish(run string, events ...api.Event) {
	b.t.Helper()
	for _, e := range events {
		e.Run = run
		must(b.t, b.queue.Publish(b.t.Context(), run, asJSON(e)))
	}
}

func output(run api.Run, job int, text string) api.Event {
	return api.Event{Event: "output", Job: core.JobID{Run: run.ID, Index: job}.String(), Stdout: text}
}

func done(run api.Run, job int) api.Event {
	return api.Event{Event: api.JobDone, Job: core.JobID{Run: run.ID, Index: job}.String()}
}

func TestFollowAJobFromItsBeginningToItsRecordedEnd(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.launch("acme", api.NewRun{})
	b.publish(run.ID, output(run, 1, "one"), output(run, 0, "another's"))
	r := b.follow(t, b.token("acme", Viewer), "/v1/runs/"+run.ID+"/jobs/1/events")
	if e, ok := r.next(); !ok || e.Stdout != "one" {
		t.Fatalf("%+v", e)
	}
	// The last events of its worker come, though the outcome is recorded before.
	b.finish(run)
	b.publish(run.ID, output(run, 1, "two"), output(run, 1, "three"), done(run, 1))
	got := fmt.Sprint(r.rest())
	if got != "[output two output three job_done]" {
		t.Fatal(got)
	}
	// A reader that comes later gets the same, and one that was there continues behind what it had.
	again := b.follow(t, b.token("acme", Viewer), "/v1/runs/"+run.ID+"/jobs/1/events")
	if got := fmt.Sprint(again.rest()); got != "[output one output two output three job_done]" {
		t.Fatal(got)
	}
	on := b.follow(t, b.token("acme", Viewer), "/v1/runs/"+run.ID+"/jobs/1/events", "Last-Event-ID", r.last)
	if got := fmt.Sprint(on.rest()); got != "[job_done]" {
		t.Fatal(got)
	}
}

func TestFollowARunThatEndedLongAgo(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){"forgotten": func(*Config) {}, "no feed": func(c *Config) { c.Feed = nil }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, change)
			run := b.launch("acme", api.NewRun{})
			b.finish(run)
			if got := fmt.Sprint(b.follow(t, b.token("acme", Viewer), "/v1/runs/"+run.ID+"/events").rest()); got != "[job_done job_done job_done run_done]" {
				t.Fatal(got)
			}
			r := b.follow(t, b.token("acme", Viewer), "/v1/runs/"+run.ID+"/jobs/2/events")
			if e, ok := r.next(); !ok || e.Result == nil || e.Result.Outcome != core.Changed || e.Result.Steps[0].Stdout != "first line\nsecond line\n" {
				t.Fatalf("%+v", e)
			}
		})
	}
}

func TestFollowARunReportsEachJobOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.launch("acme", api.NewRun{})
	b.publish(run.ID, output(run, 0, "x"), done(run, 0))
	r := b.follow(t, b.token("acme", Viewer), "/v1/runs/"+run.ID+"/events")
	if e, ok := r.next(); !ok || e.Event != api.RunChanged || e.Text != string(run.Phase) {
		t.Fatalf("%+v", e)
	}
	if e, ok := r.next(); !ok || e.Stdout != "x" {
		t.Fatalf("%+v", e)
	}
	b.publish(run.ID, done(run, 2))
	b.finish(run) // of job 1 no live event ever comes
	if got := fmt.Sprint(r.rest()); got != "[job_done job_done job_done run_done]" {
		t.Fatal(got)
	}
}

// An action of a person on a run reaches its followers, though it is an event of no job.
func TestFollowARunTellsOfAPause(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.launch("acme", api.NewRun{})
	r := b.follow(t, b.token("acme", Viewer), "/v1/runs/"+run.ID+"/events")
	if e, ok := r.next(); !ok || e.Event != api.RunChanged {
		t.Fatalf("%+v", e)
	}
	b.ask(b.token("acme", Operator), http.MethodPost, "/v1/runs/"+run.ID+"/pause", map[string]string{"reason": "lunch"})
	if e, ok := r.next(); !ok || e.Event != api.RunChanged || e.Text != string(api.Paused) {
		t.Fatalf("%+v", e)
	}
}

func TestChangesOfARunItself(t *testing.T) {
	t.Parallel()
	run := ledger.Run{Version: 3, Progress: "2", Phase: ledger.PhaseActive}
	with := func(change func(*ledger.Run)) ledger.Run { other := run; change(&other); return other }
	for name, c := range map[string]struct {
		before, now ledger.Run
		queue, want bool
	}{
		"nothing":                       {run, run, false, false},
		"the first look":                {ledger.Run{}, run, false, true},
		"a pause":                       {run, with(func(r *ledger.Run) { r.Version++ }), false, true},
		"it waits for a decision":       {run, with(func(r *ledger.Run) { r.Progress = "3" }), false, true},
		"the queue is away, or back":    {run, run, true, true},
		"the end has its own event":     {run, with(func(r *ledger.Run) { r.Version++; r.Ended = time.Now() }), false, false},
		"ended while the queue is away": {run, with(func(r *ledger.Run) { r.Ended = time.Now() }), true, false},
	} {
		if got := isChanged(c.before, c.now, c.queue); got != c.want {
			t.Errorf("%s: %t, expected %t", name, got, c.want)
		}
	}
}

func TestStreamsEndWithTheToken(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.launch("acme", api.NewRun{})
	b.publish(run.ID, output(run, 0, "x"))
	secret, token, err := b.ledger.NewToken(t.Context(), "test", ledger.Token{Name: "short", Tenant: "acme", Roles: []string{"viewer"}})
	must(t, err)
	r := b.follow(t, secret, "/v1/runs/"+run.ID+"/events")
	r.next() // its phase
	if e, ok := r.next(); !ok || e.Stdout != "x" {
		t.Fatalf("%+v", e)
	}
	_, err = b.ledger.RevokeToken(t.Context(), ledger.AllTenants(), "test", token.ID) // as another server does
	must(t, err)
	if all := r.rest(); len(all) != 1 { // the problem
		t.Fatal(all)
	}
	want[any](t, b.ask(secret, "GET", "/v1/whoami", nil), http.StatusUnauthorized)
}

// A tenant that opens what it can leaves the others theirs, and all tenants together leave the
// provider's.
func TestFaultS7StreamsOfOneTenantLeaveTheOthersTheirs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	s := b.server.streams
	of := func(tenant, name string) caller {
		if tenant == "" {
			return caller{name: name, scope: ledger.AllTenants(), token: ledger.Token{AllTenants: true}}
		}
		return caller{name: tenant + "/" + name, scope: ledger.Tenants(tenant), token: ledger.Token{Tenant: tenant}}
	}
	fill := func(tenant string) (taken []func(), err error) { // with ever more persons
		for person := 0; ; person++ {
			had := len(taken)
			for {
				var release func()
				if release, err = s.take(of(tenant, fmt.Sprint("p", person))); err != nil {
					break
				}
				taken = append(taken, release)
			}
			if len(taken) == had {
				return taken, err
			}
			if n := len(taken) - had; n > personStreams {
				t.Fatalf("one person has %d streams", n)
			}
		}
	}
	taken, err := fill("acme")
	if len(taken) != tenantStreams || !strings.Contains(err.Error(), "tenant acme may have 256 streams") {
		t.Fatalf("acme has %d streams: %v", len(taken), err)
	}
	release, err := s.take(of("globex", "ann"))
	must(t, err)
	release()
	for i := range 20 {
		more, _ := fill(fmt.Sprint("t", i))
		taken = append(taken, more...)
	}
	if len(taken) != tenantsStreams {
		t.Errorf("tenants have %d streams together", len(taken))
	}
	if _, err := s.take(of("globex", "ann")); err == nil { // control: what tenants may have together is gone
		t.Error("tenants have more")
	}
	mine, _ := fill("")
	if len(mine) != maxStreams-tenantsStreams {
		t.Errorf("the provider has %d streams", len(mine))
	}
	for _, release := range append(taken, mine...) {
		release()
	}
	if len(s.open) != 0 {
		t.Errorf("%v", s.open)
	}
}

func TestRevocationHoldsWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, revoked := 0, false
		c := newTokenCache(func(context.Context, string) (ledger.Token, error) {
			asked++
			if revoked {
				return ledger.Token{}, core.ErrNotFound
			}
			return ledger.Token{ID: "id", Expires: time.Now().Add(time.Hour)}, nil
		})
		for range 100 {
			_, err := c.authenticate(t.Context(), "s")
			must(t, err)
		}
		if asked != 1 {
			t.Fatalf("the ledger was asked %d times", asked) // negative control: it is a cache
		}
		revoked = true
		<-time.After(time.Second)
		if _, err := c.authenticate(t.Context(), "s"); !errors.Is(err, core.ErrNotFound) {
			t.Fatal("a revoked token is believed after a second")
		}
		revoked = false
		_, err := c.authenticate(t.Context(), "s")
		must(t, err)
		revoked = true
		c.revoked("id") // on the server that revokes it, immediately
		if _, err := c.authenticate(t.Context(), "s"); !errors.Is(err, core.ErrNotFound) {
			t.Fatal("a token is believed that this server revoked")
		}
	})
}

// The ledger's answer about a token comes after that token was revoked here: it is no reason to
// believe the token once more.
func TestTokenRevokedWhileItIsLookedUp(t *testing.T) {
	t.Parallel()
	for _, revoked := range []bool{false, true} {
		asked := 0
		var c *tokenCache
		c = newTokenCache(func(context.Context, string) (ledger.Token, error) {
			if asked++; asked > 1 && revoked {
				return ledger.Token{}, core.ErrNotFound
			}
			if revoked {
				c.revoked("id")
			}
			return ledger.Token{ID: "id"}, nil
		})
		_, err := c.authenticate(t.Context(), "s")
		must(t, err)
		if _, err := c.authenticate(t.Context(), "s"); errors.Is(err, core.ErrNotFound) != revoked {
			t.Errorf("revoked %v: %v, asked %d times", revoked, err, asked)
		}
	}
}

func TestOutputsByRange(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	run := b.launch("acme", api.NewRun{})
	b.finish(run)
	viewer, job := b.token("acme", Viewer), core.JobID{Run: run.ID, Index: 1}
	large := strings.Repeat("0123456789", 20_000)
	_, err := b.ledger.PutOutput(t.Context(), job, "0/stderr", strings.NewReader(large))
	must(t, err)
	base := "/v1/runs/" + run.ID + "/jobs/1/outputs"
	items := want[struct{ Items []api.Output }](t, b.ask(viewer, "GET", base, nil), http.StatusOK).Items
	if len(items) != 2 || items[0].Name != "0/stderr" || items[0].Size != 200_000 || items[0].Step != "look" || items[1].Name != "0/stdout" {
		t.Fatalf("%+v", items)
	}
	for _, c := range []struct{ stream, ask, want string }{
		{"stderr", "bytes=199990-", "0123456789"}, {"stderr", "bytes=-3", "789"}, {"stderr", "bytes=5-7", "567"}, {"stdout", "bytes=0-4", "first"}, {"stdout", "bytes=-5", "line\n"},
	} {
		if a := b.ask(viewer, "GET", base+"/0/"+c.stream, nil, "Range", c.ask); a.status != http.StatusPartialContent || a.body != c.want {
			t.Errorf("%s %s: %d %.50q", c.stream, c.ask, a.status, a.body)
		}
	}
	whole := b.ask(viewer, "GET", base+"/0/stderr", nil)
	if whole.body != large || whole.header.Get("Content-Type") != "text/plain; charset=utf-8" || whole.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Fatalf("%d bytes, %v", len(whole.body), whole.header)
	}
	if a := b.ask(viewer, "GET", base+"/0/stderr", nil, "If-None-Match", whole.header.Get("ETag")); a.status != http.StatusNotModified {
		t.Fatal(a.status)
	}
	want[any](t, b.ask(viewer, "GET", base+"/0/nothing", nil), http.StatusNotFound)
}

// teller reports each write.
type teller struct {
	*httptest.ResponseRecorder
	wrote func(text string)
}

func (w *teller) Write(p []byte) (int, error) {
	n, err := w.ResponseRecorder.Write(p)
	w.wrote(string(p))
	return n, err
}

// A token that is revoked while the recorded end of a large run is sent gets no further page of it.
func TestRevokedWhileTheEndIsReported(t *testing.T) {
	t.Parallel()
	const total = ledger.MaxPage + 500
	b := newBed(t)
	run := ledger.NewRun{ID: "large", Tenant: "acme", Playbook: "acme-patch", LaunchedBy: "test", Jobs: make([]ledger.JobHost, total)}
	for i := range run.Jobs {
		run.Jobs[i] = ledger.JobHost{Host: fmt.Sprintf("acme-%d", i), Tenant: "acme"}
	}
	_, _, err := b.ledger.Accept(t.Context(), run)
	must(t, err)
	_, err = b.ledger.Cancel(t.Context(), ledger.AllTenants(), "test", run.ID, "none of it is to be")
	must(t, err)
	for _, revoked := range []bool{false, true} {
		secret, token, err := b.ledger.NewToken(t.Context(), "test", ledger.Token{Name: "reader", Tenant: "acme", Roles: []string{string(Viewer)}})
		must(t, err)
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/runs/large/events", nil)
		req.Header.Set("Authorization", "Bearer "+secret)
		w := &teller{ResponseRecorder: httptest.NewRecorder()}
		w.wrote = func(text string) {
			if revoked && strings.Contains(text, api.JobDone) {
				w.wrote = func(string) {}
				want[api.Token](t, b.ask(b.token("acme", Admin), http.MethodDelete, "/v1/tokens/"+token.ID, nil), http.StatusOK)
			}
		}
		b.server.ServeHTTP(w, req)
		reported, problem := strings.Count(w.Body.String(), `"event":"`+api.JobDone+`"`), strings.Contains(w.Body.String(), "event: problem")
		if most := map[bool]int{false: total, true: ledger.MaxPage}[revoked]; reported != most || problem != revoked {
			t.Errorf("revoked %v: %d jobs were reported, expected %d; a problem: %v", revoked, reported, most, problem)
		}
	}
}
