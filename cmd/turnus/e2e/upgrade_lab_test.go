//go:build linux && labs

package e2e

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/transport/fleet"
)

// upgrade is a service of this version on what one of an earlier version left behind. The archives
// are of testdata/upgrade/record.sh.
type upgrade struct {
	*lab
	clean  bool // the service was asked to stop, and no step was under way
	seen   recorded
	began  time.Time      // this version
	before map[string]int // executions of a job until then
}

// unpack puts an archive into a lab.
func unpack(t *testing.T, name string) *upgrade {
	t.Helper()
	u := &upgrade{lab: newLab(t, fleet.Config{Hosts: 1}).traced(), began: time.Now().UTC()}
	f, err := os.Open(filepath.Join("testdata", "upgrade", name+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	packed, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(packed); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(files)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(u.dir, h.Name)), 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		u.file(h.Name, string(content))
	}
	text, err := os.ReadFile(filepath.Join(u.dir, "seen.json"))
	if err == nil {
		err = json.Unmarshal(text, &u.seen)
	}
	if err != nil {
		t.Fatal(err)
	}
	u.before = u.executed()
	u.upgradeOps()
	return u
}

// executed counts the executions of each job's first step.
func (u *upgrade) executed() map[string]int {
	u.t.Helper()
	counts := map[string]int{}
	for _, e := range executions(u.t, filepath.Join(u.dir, "trace")) {
		counts[e.job]++
	}
	return counts
}

func TestLabUpgradeOfAServiceThatWasStopped(t *testing.T) {
	t.Parallel()
	u := unpack(t, "up-stopped")
	u.clean = true
	u.upgradesUp(func(c *client.Client) { u.ends(c, "careful", api.Finished) })
}

func TestLabUpgradeOfAServiceThatWasKilled(t *testing.T) {
	t.Parallel()
	u := unpack(t, "up-killed")
	u.upgradesUp(func(c *client.Client) { // what must not be repeated waits for a person
		u.ends(c, "careful", api.Paused)
		_, err := c.ResumeRun(context.Background(), u.seen.Runs["careful"].ID, "looked at")
		u.need(err)
		u.ends(c, "careful", api.Finished)
	})
}

func (u *upgrade) upgradesUp(careful func(*client.Client)) {
	u.t.Helper()
	data := filepath.Join(u.dir, "data")
	p, c := u.startUp(data, slices.Concat([]string{"-f", "8", "--name", "worker"}, u.pluginFlags())...)
	url := "sqlite:" + filepath.Join(data, "ledger.db")
	careful(c)
	u.goesOn(c, url)
	p.signal(syscall.SIGTERM)
	p.wants(0)
	u.start("doctor", "--ledger", url).wants(0)
}

// Redis and PostgreSQL of servers and workers that died at the same time.
func TestLabUpgradeOfACluster(t *testing.T) {
	t.Parallel()
	u := unpack(t, "cluster")
	u.redis = startRedis(t, "--dir", u.dir, "--appendonly", "no") // or it does not read dump.rdb
	u.queue = u.redis.url()
	s := emptySite(u.lab)
	u.restore(s.ledger)
	u.refused(s)
	server := s.server()
	c := s.ask(server)
	worker := s.worker("-f", "8", "--name", "worker-2")
	u.ends(c, "careful", api.Stopped) // its worker died in the middle of steps that must not be repeated
	u.goesOn(c, s.ledger)
	for _, p := range []*process{worker, server} {
		p.signal(syscall.SIGTERM)
		p.wants(0)
	}
	u.start("doctor", "--ledger", s.ledger, "--redis", u.queue).wants(0)
	u.redis.sound(nil)
}

// refused starts a server while the worker in the recording calls as if it lived: neither the queue
// nor the ledger is taken over.
func (u *upgrade) refused(s *site) {
	u.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var beats sync.WaitGroup
	redis := u.redis.admin()
	sessions, err := redis.ZRange(ctx, "{default/0}:sessions", 0, -1).Result()
	u.need(err)
	beats.Go(func() {
		for err := error(nil); err == nil; {
			err = redis.ZIncrBy(ctx, "{default/0}:sessions", 1, sessions[0]).Err()
		}
	})
	p := s.server()
	code := p.code()
	stop()
	beats.Wait()
	if code != 1 || !p.err.has(`pool "default" is of format 1`, "speaks 2", "at work: worker; nothing was changed") {
		u.t.Errorf("a server beside an older worker: exit code %d\n%s", code, p.err)
	}
	db, err := pgx.Connect(context.Background(), s.ledger)
	u.need(err)
	defer func() { _ = db.Close(context.Background()) }()
	var version int
	u.need(db.QueryRow(context.Background(), "SELECT max(version) FROM migrations").Scan(&version))
	if version != 7 {
		u.t.Errorf("the ledger was brought to version %d", version)
	}
	s.started = 0 // the next one has the same data folder
}

func (u *upgrade) restore(url string) {
	u.t.Helper()
	ctx := context.Background()
	db, err := pgx.Connect(ctx, url)
	u.need(err)
	defer func() { _ = db.Close(ctx) }()
	dump, err := os.ReadFile(filepath.Join(u.dir, "ledger.sql"))
	u.need(err)
	_, err = db.Exec(ctx, string(dump))
	u.need(err)
}

func (u *upgrade) need(err error) {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
}

// ends waits for the phase of a run.
func (u *upgrade) ends(c *client.Client, name string, phase api.Phase) {
	u.t.Helper()
	var run api.Run
	var err error
	until(u.t, fmt.Sprintf("run %s to be %s", name, phase), func() bool {
		run, err = c.Run(context.Background(), u.seen.Runs[name].ID)
		if err == nil && run.Phase.Over() && run.Phase != phase {
			u.t.Fatalf("run %s is %s (%s), expected %s", name, run.Phase, run.Reason, phase)
		}
		return err == nil && run.Phase == phase
	})
}

// goesOn sees to it that all runs end, as people decide, and that what the hosts saw agrees with
// what is recorded.
func (u *upgrade) goesOn(c *client.Client, ledger string) {
	u.t.Helper()
	ctx := context.Background()
	id := func(name string) string { return u.seen.Runs[name].ID }
	_, err := c.ResumeRun(ctx, id("paused"), "go on")
	u.need(err)
	other := u.start("tokens", "create", "other", "--role", "approver", "--ledger", ledger)
	other.wants(0)
	person, err := client.New(client.Config{Server: c.Server(), Token: strings.TrimSpace(other.out.String())})
	u.need(err)
	u.t.Cleanup(person.Close)
	_, err = person.ApproveRun(ctx, id("approval"), api.Approve{Approve: true})
	u.need(err)
	until(u.t, "the wave to wait", func() bool {
		run, err := c.Run(ctx, id("waves"))
		return err == nil && run.Waits != nil
	})
	_, err = c.ApproveRun(ctx, id("waves"), api.Approve{Wave: 2, Approve: true})
	u.need(err)
	until(u.t, "the sleepers to wake", func() bool {
		_, _ = c.SignalRun(ctx, id("asleep"), api.Signal{Event: "morning"}) // unless their day has ended
		run, err := c.Run(ctx, id("asleep"))
		return err == nil && run.Phase == api.Finished
	})
	until(u.t, "the run that waits for its window", func() bool {
		run, err := c.Run(ctx, id("gated"))
		if err == nil && run.Live != nil && run.Live.Deferred == 6 {
			run, err = c.CancelRun(ctx, run.ID, "the window is far away")
		}
		return err == nil && run.Phase.Over() // without a signal once the window has come
	})
	for name := range u.seen.Runs {
		if name != "cancelled" && name != "careful" && name != "gated" {
			u.ends(c, name, api.Finished)
		}
	}
	u.fires(c)
	u.judge(c)
}

// fires compares the schedules.
func (u *upgrade) fires(c *client.Client) {
	u.t.Helper()
	ctx := context.Background()
	had := u.seen.Schedules["often"]
	until(u.t, "the schedule to fire again", func() bool {
		s, err := c.Schedule(ctx, "often")
		return err == nil && s.LastTrigger.After(had.LastTrigger)
	})
	for name, had := range u.seen.Schedules {
		s, err := c.Schedule(ctx, name)
		u.need(err)
		if s.Playbook != had.Playbook || s.Cron != had.Cron || s.CatchUp != had.CatchUp || s.Overlap != had.Overlap || s.Managed != had.Managed || s.Paused != had.Paused || s.PauseReason != had.PauseReason {
			u.t.Errorf("schedule %s is %+v, was %+v", name, s, had)
		}
		if name != "often" && s.LastRun != had.LastRun {
			u.t.Errorf("schedule %s launched %s", name, s.LastRun)
		}
	}
	launched, err := client.All(ctx, 0, func(ctx context.Context, p client.Page) (client.List[api.Run], error) {
		return c.Runs(ctx, client.RunFilter{By: "schedule:often"}, p)
	})
	u.need(err)
	var fires []time.Time // of this service: the last one that was missed, and those since
	for _, run := range launched {
		if run.Created.After(u.began) {
			fire, err := time.Parse("often-20060102T1504Z", run.ID)
			u.need(err)
			fires = append(fires, fire)
		}
	}
	if len(fires) == 0 {
		u.t.Error("nothing was launched for what was missed")
	}
	for i, fire := range fires { // the newest is first
		if fire.Before(u.began.Add(-time.Minute)) || i > 0 && !fires[i-1].Equal(fire.Add(time.Minute)) {
			u.t.Errorf("schedule often triggered since %s at %v, expected once for all that was missed and once a minute", u.began, fires)
		}
	}
}

// judge compares outcomes with what was recorded, and with what the hosts saw.
func (u *upgrade) judge(c *client.Client) {
	u.t.Helper()
	ids := map[string]string{}
	for name, r := range u.seen.Runs {
		ids[name] = r.ID
	}
	now, counts := poll(u.t, c, ids), u.executed()
	for name, had := range u.seen.Runs {
		is := now.Runs[name]
		for i, o := range had.Ended {
			if is.Ended[i] != o {
				u.t.Errorf("job %d of %s is recorded as %q, and was as %s", i, name, is.Ended[i], o)
			}
		}
		for i, o := range is.Ended {
			job := fmt.Sprint(had.ID, "/", i)
			least, most := 1, 1
			if name == "asleep" { // before and after its sleep
				least, most = 2, 2
			}
			_, ended := had.Ended[i]
			switch {
			case ended:
				least, most = u.before[job], u.before[job]
			case o == core.Lost && name == "careful" && u.before[job] == 1:
			case o == core.Cancelled && (name == "careful" || name == "gated"):
				least, most = 0, 0
			case o != core.Changed:
				u.t.Errorf("job %d of %s ended as %s", i, name, o)
			case u.before[job] > 0 && !u.clean && name != "asleep": // it was under way
				most = 2
			}
			if n := counts[job]; n < least || n > most {
				u.t.Errorf("job %d of %s (%s) was executed %d times, %d of them before: expected %d to %d", i, name, o, n, u.before[job], least, most)
			}
		}
	}
	second := map[string]int{}
	for _, e := range executions(u.t, filepath.Join(u.dir, "trace-second")) {
		second[e.job]++
	}
	for i, o := range now.Runs["careful"].Ended {
		if n := second[fmt.Sprint(ids["careful"], "/", i)]; o == core.Changed && (n < 1 || n > 1 && u.clean) {
			u.t.Errorf("the second step of job %d of careful was executed %d times", i, n)
		}
	}
	for _, token := range u.seen.Tokens {
		if !slices.Contains(now.Tokens, token) {
			u.t.Errorf("token %s is gone", token)
		}
	}
	if now.Audit <= u.seen.Audit {
		u.t.Errorf("%d entries in the audit log, there were %d", now.Audit, u.seen.Audit)
	}
	output, err := c.Outputs(context.Background(), core.JobID{Run: ids["finished"]})
	if err != nil || len(output.Items) != 1 || output.Items[0].Cut != (u.redis != nil) { // where the worker had no server to give it to
		u.t.Errorf("outputs %+v, %v; expected one", output.Items, err)
		return
	}
	body, err := c.Output(context.Background(), core.JobID{Run: ids["finished"]}, output.Items[0].Name)
	u.need(err)
	text, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil || len(text) != int(output.Items[0].Size) || u.redis == nil && len(text) != 131072 {
		u.t.Errorf("%d bytes of output, %v", len(text), err)
	}
}
