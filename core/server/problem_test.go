package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// A problem has the place of the mistake, and does not send back all that was sent.
func TestProblemsAreBrief(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	op := b.token("acme", Operator)
	long := strings.Repeat("x", 10_000)
	for _, body := range []any{
		`{"playbook":"acme-patch","limit":"` + long + `"}`,
		`{"playbook":"acme-patch","tags":["` + strings.Repeat(`a","`, 2000) + `"]}`,
		`{"playbook":"` + long + `","nosuch":{"password":"hunter2"}}`,
		`{"vars":{"password":"hunter2"},"limit":5,"playbook":7}`,
		`{"vars":{"password":"hunter2"`, // no JSON
	} {
		a := b.ask(op, "POST", "/v1/runs", body)
		if a.status/100 != 4 || len(a.body) > 2000 || strings.Contains(a.body, "hunter2") {
			t.Errorf("%d, %d bytes: %.300s", a.status, len(a.body), a.body)
		}
	}
	a := b.ask(op, "POST", "/v1/runs", `{"playbook":"acme-patch","criticality":1777}`)
	if !strings.Contains(a.body, `"value":1777`) || !strings.Contains(a.body, "body.criticality") {
		t.Errorf("a short value helps: %s", a.body)
	}
}

func TestSchedulesThatNeverTriggerAreRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	op := b.token("acme", Operator)
	for _, tc := range []struct {
		cron   string
		status int
		report string
	}{
		{"0 0 31 2 *", http.StatusUnprocessableEntity, "there is no such day"},
		{"0 3 * *", http.StatusUnprocessableEntity, "4 fields, expected five"},
		{"0 0 29 2 *", http.StatusOK, ""}, // last: from then on there is one
	} {
		a := b.ask(op, "PUT", "/v1/schedules/x", api.NewSchedule{Playbook: "acme-patch", Cron: tc.cron})
		if a.status != tc.status || !strings.Contains(a.body, tc.report) {
			t.Errorf("%s: %d %s", tc.cron, a.status, a.body)
		}
	}
}

// A schedule that triggers once: the same again is the same, another one needs If-Match, and the
// past is refused.
func TestSchedulesThatTriggerOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	op := b.token("acme", Operator)
	n := api.NewSchedule{Playbook: "acme-patch", At: time.Now().Add(time.Hour).Truncate(time.Second), Timezone: "Europe/Zurich", LaunchOptions: api.LaunchOptions{Limit: []string{"acme-1"}}}
	made := want[api.Schedule](t, b.ask(op, "PUT", "/v1/schedules/x", n), http.StatusOK)
	if !made.At.Equal(n.At) || !made.Next.Equal(n.At) || made.CatchUp != "once" || !strings.HasPrefix(made.Sentence, "Once, on ") || len(made.Limit) != 1 {
		t.Errorf("%+v", made)
	}
	if again := want[api.Schedule](t, b.ask(op, "PUT", "/v1/schedules/x", n), http.StatusOK); again.ETag != made.ETag {
		t.Errorf("%+v", again)
	}
	n.At = n.At.Add(time.Hour)
	want[any](t, b.ask(op, "PUT", "/v1/schedules/x", n), http.StatusPreconditionRequired)
	want[any](t, b.ask(op, "PUT", "/v1/schedules/x", n, "If-Match", made.ETag), http.StatusOK)
	want[any](t, b.ask(op, "DELETE", "/v1/schedules/x", nil, "If-Match", "*"), http.StatusOK)
	n.At = time.Now().Add(-time.Hour).Truncate(time.Second)
	if a := b.ask(op, "PUT", "/v1/schedules/x", n); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, "is in the past") {
		t.Errorf("in the past: %d %s", a.status, a.body)
	}
}

// A request that the server ends may be asked again; one that its client ended, or whose effect is
// unknown, is as before.
func TestRequestsThatTheServerEnds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	stops := fmt.Errorf("the server stops: %w", core.ErrUnavailable)
	for i, c := range []struct {
		cause, err error
		status     int
		detail     string
	}{
		{stops, context.Canceled, http.StatusServiceUnavailable, "the server stops"},
		{stops, fmt.Errorf("commit: %w: %w", core.ErrUnknown, context.Canceled), http.StatusServiceUnavailable, "commit"},
		{stops, core.ErrNotFound, http.StatusNotFound, ""},
		{context.Canceled, context.Canceled, 499, ""},
	} {
		ctx, end := context.WithCancelCause(t.Context())
		r := route{id: fmt.Sprint("waits-", i), method: http.MethodGet, path: fmt.Sprint("/v1/waits-", i), role: Viewer}
		handle(b.server, r, func(ctx context.Context, _ caller, _ *struct{}) (*body[api.Why], error) {
			end(c.cause)
			<-ctx.Done()
			return nil, c.err
		})
		req := httptest.NewRequestWithContext(ctx, r.method, r.path, nil)
		req.Header.Set("Authorization", "Bearer "+b.token("acme", Viewer))
		w := httptest.NewRecorder()
		b.server.ServeHTTP(w, req)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.detail) {
			t.Errorf("%v: %d %s, expected %d %q", c.err, w.Code, w.Body, c.status, c.detail)
		}
	}
}

// A misspelt playbook is guessed at, but not among those of other tenants.
func TestMisspeltPlaybooksAreGuessedAt(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for tenant, guess := range map[string]bool{"acme": true, everyTenant: true, "globex": false} {
		a := b.ask(b.token(tenant, Operator), "POST", "/v1/runs", api.NewRun{Playbook: "acme-pach"})
		if a.status != http.StatusNotFound || strings.Contains(a.body, `did you mean`) != guess {
			t.Errorf("%s: %d %s", tenant, a.status, a.body)
		}
	}
}
