//go:build linux

package e2e

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/transport/fleet"
)

// Two servers and two workers over Redis and PostgreSQL: what one server accepted the other shows and follows; one
// server and one worker are replaced by newer ones in the middle, and one worker by an order. Every job ran exactly once.
func TestServiceIsUpgradedInTheMiddleWithoutLosingAJob(t *testing.T) {
	t.Parallel()
	const hosts = 300
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	trace := l.dir + "/trace"
	s := newSite(l, 1, hosts, fmt.Sprintf("{uses: lab.trace, with: {file: %s, ms: 40}}", trace))
	a, b := s.server(), s.server()
	one, two := s.worker("-f", "8", "--name", "one"), s.worker("-f", "8", "--name", "two")
	ca, cb := s.ask(a), s.ask(b)
	run := s.submit(func() *client.Client { return ca }, "k", "part0")

	watch := s.start("watch", run.ID, "--server", address(b), "--token-file", s.file("token", s.token()))
	until(t, "the first jobs", func() bool { return len(executions(t, trace)) > 20 })
	three := s.worker("-f", "8", "--name", "three")
	one.signal(syscall.SIGTERM)
	a.signal(syscall.SIGTERM)
	one.wants(0)
	a.wants(0)
	until(t, "worker two in the list", func() bool {
		workers, err := cb.Workers(context.Background(), client.Page{})
		return err == nil && has(workers.Items, "two") && has(workers.Items, "three")
	})
	if _, err := cb.DrainWorker(context.Background(), "two", "upgrade"); err != nil {
		t.Fatal(err)
	}
	two.wants(0)
	if !two.err.has("an order came to drain") {
		t.Errorf("worker two does not say why it ends: %s", two.err)
	}
	watch.wants(0)
	if !watch.out.has(fmt.Sprintf("part0: %d hosts", hosts), fmt.Sprintf("%d changed", hosts)) {
		t.Errorf("the recap of watch: %s", tail(watch.out.String()))
	}
	outcomes, again := accounted(t, s.open(), run.ID)
	if outcomes[core.Changed] != hosts || again != 0 {
		t.Errorf("outcomes %v, %d jobs ran more than once; expected %d changed at their first attempt", outcomes, again, hosts)
	}
	if n := len(executions(t, trace)); n != hosts {
		t.Errorf("%d executions of %d jobs", n, hosts)
	}
	three.signal(syscall.SIGTERM)
	three.wants(0)
	l.redis.sound(nil)
}

func has(workers []api.Worker, name string) bool {
	for _, w := range workers {
		if w.Name == name && w.State != api.WorkerAway {
			return true
		}
	}
	return false
}

// While Redis is away runs are accepted, shown as waiting, and queries are answered; they run when it is back.
func TestRunsAreAcceptedWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	s := newSite(l, 1, 5, fmt.Sprintf("{uses: lab.trace, with: {file: %s/trace}}", l.dir))
	a := s.server()
	c := s.ask(a)
	ask := func() *client.Client { return c }
	first := s.submit(ask, "before", "part0") // so that the definitions are there
	l.redis.kill()
	run := s.submit(ask, "while", "part0")
	shown, err := c.Run(context.Background(), run.ID)
	if err != nil || shown.Phase != api.Queued {
		t.Errorf("run accepted without Redis: phase %q, %v; expected queued", shown.Phase, err)
	}
	if again := s.submit(ask, "while", "part0"); again.ID != run.ID {
		t.Errorf("the same key made run %s, and then %s", run.ID, again.ID)
	}
	l.redis.launch()
	s.worker("-f", "4")
	for _, id := range []string{first.ID, run.ID} {
		until(t, "the run to finish", func() bool {
			shown, err := c.Run(context.Background(), id)
			return err == nil && shown.Phase == api.Finished
		})
		if outcomes, _ := accounted(t, s.open(), id); outcomes[core.Changed] != 5 {
			t.Errorf("run %s: %v", id, outcomes)
		}
	}
}

// The doctor tells of a run that somebody started beside the service, and lets it be, for whoever started it is there.
func TestDoctorLetsARunBesideTheServiceBe(t *testing.T) {
	t.Parallel()
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	trace := l.dir + "/trace"
	s := newSite(l, 1, 1, fmt.Sprintf("{uses: lab.trace, with: {file: %s/unused}}", l.dir))
	a := s.server()
	c := s.ask(a)
	mine := s.submit(func() *client.Client { return c }, "k", "part0")
	s.worker("-f", "4")
	finished(t, c, mine.ID)
	l.run(l.book("beside", fmt.Sprintf("{uses: lab.trace, with: {file: %s, ms: 600000}}", trace)))
	until(t, "its job to run", func() bool { return len(executions(t, trace)) == 1 })
	doctor := s.start("doctor", "--ledger", s.ledger, "--redis", s.queue, "--fix")
	doctor.wants(0)
	if !doctor.out.has("note ", "it was started beside the service", "sound: ledger and queue") {
		t.Errorf("doctor: %s", doctor.out)
	}
}
