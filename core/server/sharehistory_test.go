package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
)

// The worker time of each tenant is for tokens of all tenants, and shared by the project's weights.
func TestShareHistory(t *testing.T) {
	t.Parallel()
	const path = "/v1/shares/history"
	b := newBed(t)
	weighted := tree()
	weighted["turnus.yaml"] = "tenant_weights: {acme: 3}\n"
	b.apply(weighted)
	for tenant, took := range map[string]time.Duration{"acme": time.Minute, "globex": 3 * time.Minute} {
		run := b.launch(tenant, api.NewRun{})
		_, err := b.ledger.Record(t.Context(), ledger.Batch{Run: run.ID, Outcomes: []ledger.Outcome{{Outcome: core.Changed, Attempt: 1, Started: time.Now(), Took: took}}})
		must(t, err)
	}
	got := want[api.ShareHistory](t, b.ask(b.token(everyTenant, Viewer), "GET", path, nil), http.StatusOK)
	if len(got.Tenants) != 2 || got.LeftOut != 0 || got.Partial || got.At.Sub(got.From) > 24*time.Hour || got.At.Sub(got.From) < 23*time.Hour {
		t.Fatalf("%+v", got)
	}
	first, second := got.Tenants[0], got.Tenants[1]
	if first.Tenant != "globex" || first.Used != 180 || first.Fair != 60 || first.Hosts != 1 || len(first.Hours) != 24 || second.Used != 60 || second.Fair != 180 || second.Weight != 3 {
		t.Errorf("%+v", got.Tenants)
	}
	for _, tenant := range []string{"acme", "globex"} {
		if a := b.ask(b.token(tenant, Admin), "GET", path, nil); a.status != http.StatusForbidden || strings.Contains(a.body, "used_seconds") {
			t.Errorf("%s: %d %s", tenant, a.status, a.body)
		}
	}
}

// Each hour that has ended is asked for once; the last one again when it is 30 s old.
func TestUsedTimeAsksForWhatIsNew(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 26, 10, 30, 0, 0, time.UTC)
	asked, calls, whole, fails := "", 0, true, error(nil)
	ask := func(_ context.Context, from time.Time, _ time.Duration, spans, _ int) ([]ledger.WorkerTime, bool, error) {
		calls++
		asked = fmt.Sprintf("%s+%d", from.Format("02 15:04"), spans)
		list := make([]ledger.WorkerTime, spans)
		for i := range list {
			list[i] = ledger.WorkerTime{Tenant: from.Add(time.Duration(i) * time.Hour).Format("02 15"), Span: i, Took: time.Duration(calls)}
		}
		return list, whole, fails
	}
	var u usedTime
	for _, c := range []struct {
		name  string
		after time.Duration
		want  string
	}{
		{"the first", 0, "25 11:00+24"},
		{"at once again", time.Second, ""},
		{"half a minute later", 30 * time.Second, "26 10:00+1"},
		{"shortly before the next hour", 29 * time.Minute, "26 10:00+1"},
		{"in the next hour: the former may have got more", 40 * time.Second, "26 10:00+2"},
		{"again: it may still", 30 * time.Second, "26 10:00+2"},
		{"later", time.Minute, "26 10:00+2"},
		{"now it has not", time.Minute, "26 11:00+1"},
		{"after a while", 5 * time.Hour, "26 11:00+6"},
		{"after days", 50 * time.Hour, "27 19:00+24"},
		{"the clock went back", -2 * time.Hour, "27 17:00+24"},
	} {
		at = at.Add(c.after)
		asked = ""
		got, err := u.read(t.Context(), ask, at)
		must(t, err)
		if asked != c.want {
			t.Errorf("%s, %s: asked for %q, expected %q", c.name, at, asked, c.want)
		}
		for i, list := range got.hours {
			if hour := got.from.Add(time.Duration(i) * time.Hour).Format("02 15"); len(list) != 1 || list[0].Tenant != hour {
				t.Fatalf("%s: hour %s has %+v", c.name, hour, list)
			}
		}
	}
	whole, at = false, at.Add(time.Minute)
	for range 2 { // what is not whole is not kept
		at = at.Add(time.Minute)
		if got, err := u.read(t.Context(), ask, at); err != nil || !got.partial {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if asked != "27 17:00+24" {
		t.Errorf("asked for %q", asked)
	}
	fails, at = errors.New("away"), at.Add(time.Minute)
	if _, err := u.read(t.Context(), ask, at); !errors.Is(err, fails) {
		t.Error(err)
	}
}

// Requests that come while the ledger is asked get the same answer. One that is cancelled returns
// immediately, and the reading ends only with the last.
func TestUsedTimeIsReadForAllWhoWait(t *testing.T) {
	for name, leave := range map[string]int{"nobody leaves": 0, "the first leaves": 1, "all leave": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked, answer := 0, make(chan struct{})
				ask := func(ctx context.Context, _ time.Time, _ time.Duration, _, _ int) ([]ledger.WorkerTime, bool, error) {
					asked++
					select {
					case <-answer:
						return []ledger.WorkerTime{{Tenant: "acme"}}, true, nil
					case <-ctx.Done():
						return nil, false, ctx.Err()
					}
				}
				var u usedTime
				ended := make([]error, 3)
				var cancels []context.CancelFunc
				var all sync.WaitGroup
				for i := range ended {
					ctx, cancel := context.WithCancel(t.Context())
					cancels = append(cancels, cancel)
					all.Go(func() {
						got, err := u.read(ctx, ask, time.Now())
						if ended[i] = err; err == nil && len(got.hours[0]) != 1 {
							t.Errorf("request %d: hours %+v", i, got.hours[0])
						}
					})
					synctest.Wait()
				}
				for _, cancel := range cancels[:leave] {
					cancel()
				}
				synctest.Wait()
				for i, err := range ended {
					if left := i < leave; left != errors.Is(err, context.Canceled) {
						t.Errorf("request %d: cancelled %v, ended with %v", i, left, err)
					}
				}
				close(answer)
				all.Wait()
				if _, err := u.read(t.Context(), ask, time.Now()); err != nil || asked != 1+leave/3 {
					t.Errorf("the ledger was asked %d times, expected %d; %v", asked, 1+leave/3, err)
				}
				for _, cancel := range cancels {
					cancel()
				}
			})
		})
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	var u lastHours
	for i := range 300 {
		u.hours[5] = append(u.hours[5], ledger.WorkerTime{Tenant: fmt.Sprint(i), Took: time.Duration(i) * 10 * time.Hour})
	}
	got := historyOf(u, func(string) int { return 1000 })
	if len(got.Tenants) != historyTenants || got.LeftOut != 100 || got.Tenants[0].Tenant != "299" || got.Tenants[0].Fair <= 0 {
		t.Errorf("%d tenants, %d left out, %+v", len(got.Tenants), got.LeftOut, got.Tenants[0])
	}
	if none := historyOf(lastHours{}, nil); none.Tenants == nil || len(none.Tenants) != 0 {
		t.Errorf("%+v", none)
	}
}
