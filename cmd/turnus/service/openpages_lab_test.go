//go:build linux && labs

package service

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
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

const openSeconds = 20 // of each measurement

// opened is many open pages and those who read them.
type opened struct {
	t              *testing.T
	pages, changes atomic.Int64  // first events, and later ones
	came           chan struct{} // each of them
}

// open opens so many pages of views in turn, as five persons of a tenant.
func (s *site) open(t *testing.T, most int, views ...string) *opened {
	t.Helper()
	o := &opened{t: t, came: make(chan struct{}, 10*most*openSeconds)}
	var cookies []*http.Cookie
	for i := range 5 {
		secret, _ := s.token(fmt.Sprint("person", i), "acme", "viewer")
		cookies = append(cookies, s.logIn(0, secret))
	}
	for i := range most {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.web[0].URL+"/live?view="+url.QueryEscape(views[i%len(views)]), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.AddCookie(cookies[i%len(cookies)])
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		go func() { // it ends with the body
			lines := bufio.NewScanner(resp.Body)
			lines.Buffer(nil, 4<<20)
			for lines.Scan() {
				switch line := lines.Text(); {
				case line == "event: 0:page":
					o.pages.Add(1)
				case strings.HasPrefix(line, "event: 0:parts"), strings.HasPrefix(line, "event: 0:cells"):
					o.changes.Add(1)
				default:
					continue
				}
				o.came <- struct{}{}
			}
		}()
	}
	return o
}

// wait returns when so many events have come.
func (o *opened) wait(n int) {
	o.t.Helper()
	end := time.After(2 * time.Minute)
	for range n {
		select {
		case <-o.came:
		case <-end:
			o.t.Fatalf("%d pages and %d changes came", o.pages.Load(), o.changes.Load())
		}
	}
}

// share returns how much of a core this process uses while something is done each second.
func (o *opened) share(each func(second int)) float64 {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	begun, used := time.Now(), cpu(o.t)
	for i := range openSeconds {
		<-tick.C
		each(i)
	}
	return 100 * float64(cpu(o.t)-used) / float64(time.Since(begun))
}

// The CPU of 200 open pages, those who read them included, is printed: idle, and with an outcome
// each second. Each stream gets each change; a page without changes is sent nothing.
func TestLabOpenPages(t *testing.T) {
	const open = 200
	s := newSite(t)
	s.project(1000, "acme")
	secret, _ := s.token("launches", "acme", "operator")
	run := s.launch(secret, "acme-patch")
	o := s.open(t, open, "/", "/", "/schedules", "/")
	o.wait(open)
	idle := o.share(func(int) {})
	if n := o.changes.Load(); n != 0 || o.pages.Load() != open {
		t.Errorf("nothing happened, and %d pages got %d changes", o.pages.Load(), n)
	}
	busy := o.share(func(i int) {
		s.record(run.ID, i, i+1)
		o.wait(open * 3 / 4) // those of schedules have no part in it
	})
	t.Logf("%d open pages: %.1f %% of a core idle, %.1f %% with an outcome each second", open, idle, busy)
}

// The same of 200 pages of a run with 1000 hosts and 20 steps: idle, and with 500 events and an
// outcome each second. The share of one page is printed as well: the rest grows with open pages.
func TestLabOpenPagesOfARun(t *testing.T) {
	for _, open := range []int{1, 200} {
		s := newSite(t)
		s.project(1000, "acme")
		secret, _ := s.token("launches", "acme", "operator")
		run := s.launch(secret, "acme-patch")
		s.record(run.ID, 0, 500)
		o := s.open(t, open, "/runs/"+run.ID)
		o.wait(2 * open) // the page, and the cells that changed before
		idle := o.share(func(int) {})
		before := o.changes.Load()
		part := time.NewTicker(90 * time.Millisecond)
		defer part.Stop()
		busy := o.share(func(second int) {
			for k := range 10 { // as workers publish them
				<-part.C
				var messages [][]byte
				for i := range 50 {
					host, step := 500+(50*k+i*7+second)%500, fmt.Sprint("step ", (i+second)%siteSteps)
					text, _ := json.Marshal(api.Event{Time: time.Now(), Event: "step_done", Run: run.ID, Job: fmt.Sprint(run.ID, "/", host), Host: siteHost(host), Step: step, Detail: &api.StepResult{Name: step, Outcome: core.Outcomes()[(i+k)%8]}}) // it has only texts
					messages = append(messages, text)
				}
				if err := s.queue.Publish(t.Context(), run.ID, messages...); err != nil {
					t.Error(err)
				}
			}
			s.record(run.ID, 500+second, 501+second)
		})
		changes := o.changes.Load() - before
		if least, most := int64(open*openSeconds), int64(open*openSeconds*6); changes < least || changes > most {
			t.Errorf("%d pages got %d messages in %d s, expected %d to %d", open, changes, openSeconds, least, most)
		}
		t.Logf("%d pages of a run: %.1f %% of a core idle, %.1f %% with 500 events a second, %d messages", open, idle, busy, changes)
	}
}
