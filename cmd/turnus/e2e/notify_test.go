//go:build linux && labs

package e2e

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/transport/fleet"
)

// request is one try of a notification, as its receiver sees it.
type request struct{ id, body string }

// A server is killed after its receiver has got a notification, and before it could write that
// down. The next server sends it again: the same id, the same body. While the receiver hangs, the
// API answers as ever.
func TestLabKilledWhileItReports(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	s := newSite(l, 1, 1, "{uses: lab.trace, with: {file: "+l.dir+"/trace}}")
	var mu sync.Mutex
	var got []request
	hang := make(chan struct{})
	release := sync.OnceFunc(func() { close(hang) })
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the server was killed in the middle of it
		}
		mu.Lock()
		got = append(got, request{req.Header.Get("X-Turnus-Notification"), string(body)})
		first := len(got) == 1
		mu.Unlock()
		if first {
			<-hang
		}
	}))
	defer receiver.Close()
	defer release()
	came := func() []request {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
	s.follow = []string{"--project", s.ops, "--notify", receiver.URL}
	a := s.server()
	ca := s.ask(a)
	var run api.Run
	until(t, "a run to be accepted", func() bool {
		var err error
		run, err = ca.CreateRun(context.Background(), "k", api.NewRun{Playbook: "part0", FourEyes: true})
		return err == nil
	})
	until(t, "the receiver to have it", func() bool { return len(came()) == 1 })
	begun := time.Now()
	for range 20 {
		if _, err := ca.Run(context.Background(), run.ID); err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(begun); took > patience {
		t.Errorf("20 readings took %v while a receiver hung", took)
	}
	a.kill()
	release()
	b := s.server()
	until(t, "the next server to send it", func() bool { return len(came()) == 2 })
	tries := came()
	if tries[0] != tries[1] || tries[0].id == "" {
		t.Errorf("it came as\n%+v\nand again as\n%+v", tries[0], tries[1])
	}
	cb := s.ask(b)
	until(t, "it to be listed as sent", func() bool {
		list, err := cb.Notifications(context.Background(), client.NotificationFilter{Run: run.ID}, client.Page{})
		return err == nil && len(list.Items) == 1 && list.Items[0].State == string(ledger.NotificationSent) && list.Items[0].ID == tries[0].id && list.Items[0].Kind == "approval_needed"
	})
}
