package server

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts/servers"
)

const pastTogether = 256 // hosts of the earlier run that core/controller reads together

// queryCounter stands before a PostgreSQL server and counts what it is asked.
type queryCounter struct {
	database string // URL of an empty one, through the counter
	queries  atomic.Int64
	server   string // socket
	running  sync.WaitGroup
}

func newQueryCounter(t *testing.T) *queryCounter {
	t.Helper()
	pg := servers.StartPostgresInTheClear(t)
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // t.TempDir may be too long for a socket
	must(t, err)
	database, err := url.Parse(pg.Database(t))
	must(t, err)
	asked := database.Query()
	asked.Set("host", dir)
	database.RawQuery = asked.Encode()
	c := &queryCounter{database: database.String(), server: filepath.Join(pg.Dir, ".s.PGSQL.5432")}
	listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	must(t, err)
	c.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			c.running.Go(func() { c.pass(client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		c.running.Wait()
		_ = os.RemoveAll(dir)
	})
	return c
}

// pass forwards a connection until the client ends it.
func (c *queryCounter) pass(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("unix", c.server)
	if err != nil {
		return
	}
	c.running.Go(func() { _, _ = io.Copy(client, server) })
	defer func() { _ = server.Close() }()
	c.count(bufio.NewReader(client), server)
}

// count forwards messages of a client. Each but the first has a byte of its kind and its length.
// Only Execute is a query of ours: the driver also prepares statements for each connection, and
// asks one that was idle for a second whether it is alive.
func (c *queryCounter) count(client *bufio.Reader, server io.Writer) {
	for first := true; ; first = false {
		kind := 0
		if !first {
			kind = 1
		}
		head, err := client.Peek(kind + 4)
		if err != nil {
			return
		}
		if !first && head[0] == 'E' {
			c.queries.Add(1)
		}
		size := int64(kind) + int64(binary.BigEndian.Uint32(head[kind:]))
		if _, err := io.CopyN(server, client, size); err != nil {
			return
		}
	}
}

// A retry from the failed step reads the records of an earlier run in batches: its hosts cost no
// queries of their own.
func TestRetryReadsRecordsInBatches(t *testing.T) {
	t.Parallel()
	counter := newQueryCounter(t)
	b := newBedOn(t, counter.database)
	queries := func(hosts int) int64 {
		tree := twoSteps()
		for i := range hosts - 3 { // the tree has three
			tree["inventory/hosts.yaml"] += fmt.Sprintf("  more-%04d: {customer: acme}\n", i)
		}
		b.apply(tree)
		run := b.launch("acme", api.NewRun{})
		if run.Total != hosts {
			t.Fatalf("a run of %d hosts, expected %d", run.Total, hosts)
		}
		b.failSecond(run, func(*core.Result) {})
		ended, err := b.ledger.Run(t.Context(), ledger.AllTenants(), run.ID)
		must(t, err)
		prepare := func() {
			again, err := b.server.prepareRetry(t.Context(), caller{name: "ann", scope: ledger.Tenants("acme")}, ended, api.Retry{From: api.FromFailedStep})
			must(t, err)
			if again.differs.Resumed != hosts {
				t.Fatalf("%d hosts continue, expected %d", again.differs.Resumed, hosts)
			}
		}
		prepare() // the first one prepares statements
		before := counter.queries.Load()
		prepare()
		return counter.queries.Load() - before
	}
	one := queries(pastTogether)
	before := counter.queries.Load()
	for range pastTogether { // control: the cost of a query for each host
		_, _, err := b.ledger.Runs(t.Context(), ledger.AllTenants(), ledger.RunFilter{}, ledger.Page{Limit: 1})
		must(t, err)
	}
	if got := counter.queries.Load() - before; got < pastTogether || one >= pastTogether {
		t.Fatalf("%d of %d queries were seen, and %d of a retry", got, pastTogether, one)
	}
	for hosts, more := range map[int]int64{3: 0, pastTogether + 1: 1, 3 * pastTogether: 2} {
		if got := queries(hosts); got != one+more {
			t.Errorf("%d hosts: %d queries, expected %d as for %d hosts, and %d", hosts, got, one, pastTogether, more)
		}
	}
}

// The view of a run is one query: with three, PostgreSQL showed a third as many runs a second.
func TestARunIsShownByOneQuery(t *testing.T) {
	t.Parallel()
	counter := newQueryCounter(t)
	b := newBedOn(t, counter.database)
	run := b.launch("acme", api.NewRun{})
	b.failSecond(run, func(*core.Result) {})
	show := func() int64 {
		before := counter.queries.Load()
		shown, err := b.server.getRun(t.Context(), caller{name: "ann", scope: ledger.Tenants("acme")}, &RunPath{Run: run.ID})
		must(t, err)
		if shown.Body.ID != run.ID {
			t.Fatalf("shown is %q", shown.Body.ID)
		}
		return counter.queries.Load() - before
	}
	show() // what is read once in a process
	if got := show(); got != 1 {
		t.Errorf("%d queries, expected 1", got)
	}
}
