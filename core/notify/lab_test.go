package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/notify/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen; no test waits so long when all is well.
const patience = 30 * time.Second

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newLedger(t *testing.T) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// loopback lets channels of a test reach its receivers.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

const secret = "s3cret"

// bed is a service on a ledger.
type bed struct {
	*Service
	t      *testing.T
	ledger *ledger.Ledger
}

// parse reads a policy.
func parse(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, problems := policy.Parse(policy.Document{File: "notify.yaml", Data: []byte(text)})
	if len(problems) > 0 {
		t.Fatalf("%+v", problems)
	}
	return p
}

// newBed makes a service; it runs once start is called.
func newBed(t *testing.T, l *ledger.Ledger, channels string, change ...func(*Config)) *bed {
	t.Helper()
	p := parse(t, channels)
	cfg := Config{
		Ledger: l, Server: "s1", Allow: loopback, View: func() View { return View{Policy: p} }, Retry: core.Backoff{Interval: time.Millisecond, Max: time.Millisecond},
		Credential: func(_ context.Context, _, name string) ([]byte, error) {
			if name != "hook" {
				return nil, core.ErrNotFound
			}
			return []byte(secret), nil
		},
	}
	for _, c := range change {
		c(&cfg)
	}
	s, err := New(cfg)
	must(t, err)
	return &bed{s, t, l}
}

// start runs the service until the test ends, or stop is called.
func (b *bed) start() (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.Run(ctx) }()
	stop = func() { cancel(); <-done }
	b.t.Cleanup(stop)
	return stop
}

// run accepts a run of acme, and ends its jobs; reasons are HOST's.
func (b *bed) run(id string, ended ...ledger.Outcome) {
	b.t.Helper()
	n := ledger.NewRun{ID: id, Tenant: "acme", Playbook: "patch", LaunchedBy: "alice"}
	for i := range ended {
		n.Jobs = append(n.Jobs, ledger.JobHost{Host: fmt.Sprintf("fw-%d", i+1), Tenant: "acme"})
		ended[i].Index = i
	}
	_, _, err := b.ledger.Accept(b.t.Context(), n)
	must(b.t, err)
	_, err = b.ledger.Record(b.t.Context(), ledger.Batch{Run: id, Outcomes: ended})
	must(b.t, err)
	b.Notify()
}

// all lists notifications in a state, the oldest first.
func (b *bed) all(state ledger.NotificationState) []ledger.Notification {
	b.t.Helper()
	list, _, err := b.ledger.Notifications(b.t.Context(), ledger.AllTenants(), ledger.NotificationFilter{State: state}, ledger.Page{Limit: 1000})
	must(b.t, err)
	slices.Reverse(list)
	return list
}

// receiver is a webhook that answers as its test sets.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []Notice
	bad    []string                  // requests whose id or signature is wrong
	answer func(http.ResponseWriter) // of the next requests; nil: 200
	begun  chan struct{}             // gets one when a request has come
}

func newReceiver(t *testing.T, answer func(http.ResponseWriter)) *receiver {
	t.Helper()
	r := &receiver{answer: answer, begun: make(chan struct{}, 1000)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var n Notice
		r.mu.Lock()
		if sign := req.Header.Get(core.WebhookHeader); err != nil || json.Unmarshal(body, &n) != nil || req.Header.Get(HeaderID) != n.ID || sign != "" && sign != core.SignWebhook([]byte(secret), body) {
			r.bad = append(r.bad, string(body))
		}
		r.got = append(r.got, n)
		answer := r.answer
		r.mu.Unlock()
		r.begun <- struct{}{}
		if answer != nil {
			answer(w)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answers(answer func(http.ResponseWriter)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// ids are those that came, in order, each as often as it came.
func (r *receiver) ids() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for _, n := range r.got {
		ids = append(ids, n.ID)
	}
	return ids
}

func (r *receiver) notices() []Notice {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func code(status int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(status) }
}
