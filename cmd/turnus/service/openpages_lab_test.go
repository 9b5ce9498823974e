//go:build linux && labs

package service

import (
	"bufio"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// cpu returns the CPU time that this process has used.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// The CPU of 200 open pages, those who read them included, is printed: idle, and with an outcome
// each second. Each stream gets each change; a page without changes is sent nothing.
func TestLabOpenPages(t *testing.T) {
	const open, persons, seconds = 200, 5, 20
	s := newSite(t)
	hosts := make([]ledger.JobHost, 1000)
	for i := range hosts {
		hosts[i] = ledger.JobHost{Host: fmt.Sprintf("web%d", i), Tenant: "acme"}
	}
	if _, _, err := s.ledger.Accept(t.Context(), ledger.NewRun{ID: "r1", Tenant: "acme", Playbook: "patch", Revision: "1", LaunchedBy: "ann", Snapshot: []byte("s"), Queue: []byte("q"), Jobs: hosts}); err != nil {
		t.Fatal(err)
	}
	var cookies []*http.Cookie
	for i := range persons {
		secret, _ := s.token(fmt.Sprint("person", i), "acme", "viewer")
		cookies = append(cookies, s.logIn(0, secret))
	}
	var pages, changes atomic.Int64 // first events, and later ones
	came := make(chan struct{}, open*(seconds+2))
	for i := range open {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.web[0].URL+"/live?view="+url.QueryEscape([]string{"/", "/", "/schedules", "/"}[i%4]), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.AddCookie(cookies[i%persons])
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		go func() { // it ends with the body
			for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
				switch line := lines.Text(); {
				case line == "event: 0:page":
					pages.Add(1)
					came <- struct{}{}
				case strings.HasPrefix(line, "event: 0:"):
					changes.Add(1)
					came <- struct{}{}
				}
			}
		}()
	}
	wait := func(n int) {
		t.Helper()
		end := time.After(2 * time.Minute)
		for range n {
			select {
			case <-came:
			case <-end:
				t.Fatalf("%d pages and %d changes came", pages.Load(), changes.Load())
			}
		}
	}
	wait(open)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	share := func(each func(second int)) float64 {
		begun, used := time.Now(), cpu(t)
		for i := range seconds {
			<-tick.C
			each(i)
		}
		return 100 * float64(cpu(t)-used) / float64(time.Since(begun))
	}
	idle := share(func(int) {})
	if n := changes.Load(); n != 0 || pages.Load() != open {
		t.Errorf("nothing happened, and %d pages got %d changes", pages.Load(), n)
	}
	busy := share(func(i int) {
		if _, err := s.ledger.Record(t.Context(), ledger.Batch{Run: "r1", Outcomes: []ledger.Outcome{{Index: i, Outcome: core.Changed, Attempt: 1}}}); err != nil {
			t.Error(err)
		}
		wait(open * 3 / 4) // those of schedules have no part in it
	})
	t.Logf("%d open pages: %.1f %% of a core idle, %.1f %% with an outcome each second", open, idle, busy)
}
