//go:build linux && (labs || record)

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
)

// allows lets Turnus do everything with Redis, as a former version needs it.
func (s *redisServer) allows() {
	s.t.Helper()
	if err := s.admin().Do(context.Background(), "acl", "setuser", "turnus", "allkeys", "allcommands").Err(); err != nil {
		s.t.Fatal(err)
	}
}

// meets has processes of two versions share one Redis and one ledger; an empty program is the one
// under test, and format is the queue's in the older one. Nothing changes under workers of the
// older one. Once they have ended no process of it reaches the queue, and each run that its server
// accepts runs once.
func (l *lab) meets(older, newer string, format int) {
	t := l.t
	t.Helper()
	l.other = older
	s := emptySite(l)
	formerServer, formerWorker := s.server(), s.worker("-f", "8", "--name", "former")
	c := s.ask(formerServer)
	ask := func() *client.Client { return c }
	submit := func(key string) api.Run { return s.submit(ask, key, "single") }
	version := func() (v int) {
		db, err := pgx.Connect(context.Background(), s.ledger)
		if err == nil {
			defer func() { _ = db.Close(context.Background()) }()
			err = db.QueryRow(context.Background(), "SELECT max(version) FROM migrations").Scan(&v)
		}
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first, tables := submit("first"), version()
	if _, err := c.PutSchedule(context.Background(), "often", "", api.NewSchedule{Playbook: "yearly", Cron: "* * * * *"}); err != nil {
		t.Fatal(err)
	}

	l.other = newer
	for _, p := range []*process{s.server(), l.start(append([]string{"worker", "--redis", l.queue}, l.pluginFlags()...)...)} {
		if code := p.code(); code == 0 || !p.err.has(fmt.Sprintf(`pool "default" is of format %d, and this turnus speaks %d`, format, format+1), "are at work: former; nothing was changed") {
			t.Errorf("%v beside a worker of the older version: exit code %d\n%s", p.cmd.Args, code, p.err)
		}
	}
	if v := version(); v != tables {
		t.Errorf("the ledger was brought from version %d to %d", tables, v)
	}
	finished(t, c, first.ID)
	formerWorker.signal(syscall.SIGTERM)
	formerWorker.wants(0)

	server := s.server()
	s.worker("-f", "8", "--name", "ours")
	if !server.running() {
		t.Fatal(server.err)
	}
	beside, began := submit("beside"), time.Now() // of the former server
	next := s.ask(server)
	var fired string
	until(t, "a fire under both servers", func() bool {
		schedule, err := next.Schedule(context.Background(), "often")
		fired = schedule.LastRun
		return err == nil && schedule.LastTrigger.After(began)
	})

	formerServer.signal(syscall.SIGTERM)
	formerServer.wants(0)
	finished(t, next, beside.ID)
	finished(t, next, fired)
	for _, run := range []api.Run{first, beside} {
		if now, err := next.Run(context.Background(), run.ID); err != nil || now.Outcomes[core.Changed] != 12 {
			t.Errorf("run %s: %v, %v", run.ID, now.Outcomes, err)
		}
	}
	seen := map[string]int{}
	for _, e := range executions(t, filepath.Join(l.dir, "trace")) {
		if seen[e.job]++; seen[e.job] > 1 {
			t.Errorf("job %s was executed again", e.job)
		}
	}
	if len(seen) < 25 {
		t.Errorf("%d jobs were executed, expected those of two runs and of a fire", len(seen))
	}
	t.Logf("the former server printed: %s", formerServer.err)

	l.other = older
	for _, args := range [][]string{
		append([]string{"worker", "--redis", l.queue, "--name", "late"}, l.pluginFlags()...),
		{"doctor", "--ledger", s.ledger},
		{"server", "--redis", l.queue, "--ledger", s.ledger, "--data", filepath.Join(l.dir, "data-1"), "--listen", "127.0.0.1:0", projectFlag(), s.ops},
	} {
		p := l.start(args...)
		if args[0] == "worker" {
			until(t, "the former worker to be refused", func() bool { return !p.running() || p.err.has("WRONGTYPE") })
			t.Logf("a former worker prints: %s", p.err)
			p.kill()
			continue
		}
		if code := p.code(); code == 0 || !p.err.has("use the newer turnus") && !p.err.has("a newer turnus took it over; nothing was changed") {
			t.Errorf("%v of the older version: exit code %d\n%s", args, code, p.err)
		}
	}
	l.other = newer // this process may be of the older one
	l.start("admin", "doctor", "--ledger", s.ledger, "--redis", l.queue).wants(0)
}
