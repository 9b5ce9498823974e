package catalog_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/core/queue/memory"
	"github.com/turnus/turnus/playbooks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func types(name string) (playbooks.Type, bool) {
	return playbooks.Type{OnLost: "retry", Disruptive: name == "flash"}, name == "look" || name == "flash"
}

// lab is a ledger, a queue, and servers.
type lab struct {
	testing.TB
	ledger *ledger.Ledger
	url    string // of it
	queue  *memory.Queue

	mu     sync.Mutex
	events []catalog.Event
}

func fake(t *testing.T, f func(l *lab)) {
	t.Helper()
	warm(t)
	synctest.Test(t, func(t *testing.T) {
		url := "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
		store, err := ledger.Open(t.Context(), url, ledger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		q := memory.New(memory.Options{})
		l := &lab{TB: t, ledger: store, url: url, queue: q}
		defer func() {
			q.Shutdown()
			if err := errors.Join(l.ledger.Close(), store.Close()); err != nil { // a test may have opened another
				t.Error(err)
			}
		}()
		f(l)
	})
}

// warm makes the compressor that ledgers of this process share, which must not be made in a test's
// bubble.
func warm(t *testing.T) {
	t.Helper()
	store, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "warm.db"), ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Accept(t.Context(), ledger.NewRun{ID: "w", Playbook: "w", LaunchedBy: "w", Jobs: []ledger.JobHost{{Host: "h"}}, Snapshot: make([]byte, 4<<10)}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Material(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// server starts a catalog with its controller. change may change what it is made of.
func (l *lab) server(name string, change func(*catalog.Config)) (c *catalog.Catalog, stop func()) {
	l.Helper()
	ctl, err := controller.New(controller.Config{Name: name, Ledger: l.ledger, Queue: l.queue, Board: l.queue, Types: types, Events: func(e controller.Event) {
		if e.Kind == controller.RunEnded && c != nil {
			c.Ended(e.Run)
		}
	}})
	if err != nil {
		l.Fatal(err)
	}
	cfg := catalog.Config{Ledger: l.ledger, Board: l.queue, Controller: ctl, Playbooks: playbooks.Options{Types: types}, Events: func(e catalog.Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.events = append(l.events, e)
	}}
	if change != nil {
		change(&cfg)
	}
	if c, err = catalog.New(cfg); err != nil {
		l.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Run(ctx); err != nil {
			l.Error(err)
		}
	})
	wg.Go(func() { _ = ctl.Run(ctx) })
	return c, sync.OnceFunc(func() { cancel(); wg.Wait() })
}

// node ends each job immediately.
func (l *lab) node() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s, err := l.queue.Open(ctx, "node")
		if err != nil {
			l.Error(err)
			return
		}
		var acks []queue.Ack
		for ctx.Err() == nil {
			res, err := l.queue.Turn(ctx, queue.Turn{Session: s, Acks: acks, Want: 100})
			if err != nil {
				return
			}
			acks = nil
			for _, lease := range res.Leases {
				acks = append(acks, queue.Ack{Job: lease.Job, Token: lease.Token, Kind: queue.AckDone, Outcome: core.Changed})
			}
			if len(acks) == 0 {
				_ = l.queue.Wait(ctx, s, time.Now().Add(time.Second))
			}
		}
	}()
	return sync.OnceFunc(func() { cancel(); <-done })
}

func (l *lab) until(what string, ok func() bool) {
	l.Helper()
	for end := time.Now().Add(10 * time.Minute); !ok(); {
		if time.Now().After(end) {
			l.Fatalf("never: %s", what)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func (l *lab) said(kind catalog.EventKind) (found []catalog.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// runs lists the runs by id, oldest first.
func (l *lab) runs() (ids []string) {
	l.Helper()
	runs, _, err := l.ledger.Runs(l.Context(), ledger.AllTenants(), ledger.RunFilter{}, ledger.Page{Limit: ledger.MaxPage})
	if err != nil {
		l.Fatal(err)
	}
	for i := range runs {
		ids = append(ids, runs[len(runs)-1-i].ID)
	}
	return ids
}

const inventoryYAML = "hosts:\n  a1: {address: 127.0.0.1, customer: acme}\n  b1: {address: 127.0.0.2, customer: birch}\n"

// docs are definitions with a playbook that has the given schedule ("" is none), and more files.
func docs(scheduled string, more ...string) []definitions.Document {
	playbook := "playbook: patch\ntenant: acme\ntargets: true\nsteps:\n  - {name: one, uses: look}\n"
	if scheduled != "" {
		playbook += "schedule: {" + scheduled + "}\n"
	}
	all := []definitions.Document{{Path: "inventory/hosts.yaml", Data: []byte(inventoryYAML)}, {Path: "playbooks/patch.yaml", Data: []byte(playbook)}}
	for i := 0; i+1 < len(more); i += 2 {
		all = append(all, definitions.Document{Path: more[i], Data: []byte(more[i+1])})
	}
	return all
}

func (l *lab) apply(c *catalog.Catalog, d []definitions.Document, ifVersion int64) catalog.Applied {
	l.Helper()
	a, err := c.Apply(l.Context(), "alice", d, definitions.Revision{}, ifVersion)
	if err != nil {
		l.Fatal(err)
	}
	return a
}
