//go:build linux && record

package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/transport/fleet"
)

var (
	recordBinary = flag.String("record.binary", "", "turnus of the version whose state is recorded")
	recordCommit = flag.String("record.commit", "", "its commit")
)

// recorder has turnus of the former version in the place of the one under test.
func recorder(t *testing.T) *lab {
	t.Helper()
	if *recordBinary == "" || *recordCommit == "" {
		t.Fatal("set -record.binary and -record.commit; see testdata/upgrade/record.sh")
	}
	l := newLab(t, fleet.Config{Hosts: 1}).traced()
	l.other = *recordBinary
	l.upgradeOps()
	return l
}

func TestRecordUpStopped(t *testing.T) { recordUp(t, "up-stopped", syscall.SIGTERM) }
func TestRecordUpKilled(t *testing.T)  { recordUp(t, "up-killed", syscall.SIGKILL) }

func recordUp(t *testing.T, name string, end syscall.Signal) {
	l := recorder(t)
	data := filepath.Join(l.dir, "data")
	p, c := l.startUp(data, slices.Concat([]string{"-f", "8", "--name", "worker"}, l.pluginFlags())...)
	seen := poll(t, c, l.populate(c))
	p.signal(end)
	p.code()
	l.keep(name, seen, "data", "trace", "trace-second")
}

func TestRecordCluster(t *testing.T) {
	l := recorder(t).withRedis()
	l.redis.allows()
	s := emptySite(l)
	server, worker := s.server(), s.worker("-f", "8", "--name", "worker")
	c := s.ask(server)
	seen := poll(t, c, l.populate(c))
	for _, p := range []*process{server, worker} { // so that both databases are of one moment
		p.signal(syscall.SIGSTOP)
	}
	dump, err := exec.Command("pg_dump", "--inserts", "--rows-per-insert=100", "--no-owner", "--no-privileges", s.ledger).Output()
	if err != nil {
		t.Fatalf("pg_dump: %v", err)
	}
	lines := slices.DeleteFunc(strings.SplitAfter(string(dump), "\n"), func(line string) bool { return strings.HasPrefix(line, `\`) || strings.HasPrefix(line, "--") })
	l.file("ledger.sql", strings.Join(lines, ""))
	if err := l.redis.admin().Save(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	rdb, err := os.ReadFile(filepath.Join(l.redis.dir, "dump.rdb"))
	if err != nil {
		t.Fatal(err)
	}
	l.file("dump.rdb", string(rdb))
	l.keep("cluster", seen, "ledger.sql", "dump.rdb", "data-1", "trace", "trace-second")
}

// Nothing changes under workers of the version that was recorded.
func TestBesideTheFormerVersion(t *testing.T) {
	l := recorder(t).withRedis()
	l.redis.allows()
	l.meets(*recordBinary, "", 1)
}

// populate brings runs into each state that lasts, and some into those that do not; it returns
// their ids.
func (l *lab) populate(c *client.Client) map[string]string {
	l.t.Helper()
	ctx, runs := context.Background(), map[string]string{}
	submit := func(name string, n api.NewRun) string {
		until(l.t, "run "+name+" to be accepted", func() bool { // the definitions come a moment after the API
			run, err := c.CreateRun(ctx, name, n)
			runs[name] = run.ID
			return err == nil
		})
		return runs[name]
	}
	wait := func(name string, ok func(api.Run) bool) {
		until(l.t, "run "+name, func() bool {
			run, err := c.Run(ctx, runs[name])
			return err == nil && ok(run)
		})
	}
	need := func(err error) {
		l.t.Helper()
		if err != nil {
			l.t.Fatal(err)
		}
	}
	submit("finished", api.NewRun{Playbook: "chatty"})
	submit("cancelled", api.NewRun{Playbook: "single", Paused: true})
	_, err := c.CancelRun(ctx, runs["cancelled"], "not today")
	need(err)
	submit("paused", api.NewRun{Playbook: "single", Paused: true})
	submit("approval", api.NewRun{Playbook: "single", FourEyes: true})
	submit("asleep", api.NewRun{Playbook: "asleep"})
	submit("gated", api.NewRun{Playbook: "gated"})
	submit("waves", api.NewRun{Playbook: "waves"})
	wait("finished", func(r api.Run) bool { return r.Phase == api.Finished })
	wait("asleep", func(r api.Run) bool { return r.Live != nil && r.Live.Suspended == 2 })
	wait("gated", func(r api.Run) bool { return r.Live != nil && r.Live.Deferred == 6 })
	wait("waves", func(r api.Run) bool { return r.Waits != nil })

	_, err = c.CreateToken(ctx, api.NewToken{Name: "pipeline", Tenant: "*", Role: "operator"})
	need(err)
	_, err = c.PutSchedule(ctx, "dormant", "", api.NewSchedule{Playbook: "yearly", Cron: "*/5 * * * *", CatchUp: "all"})
	need(err)
	_, err = c.PauseSchedule(ctx, "dormant", "until the audit")
	need(err)
	_, err = c.PutSchedule(ctx, "often", "", api.NewSchedule{Playbook: "yearly", Cron: "* * * * *", CatchUp: "once", Overlap: "queue"})
	need(err)
	until(l.t, "the first fire", func() bool {
		s, err := c.Schedule(ctx, "often")
		runs["fired"] = s.LastRun
		return err == nil && s.LastRun != ""
	})
	wait("fired", func(r api.Run) bool { return r.Phase == api.Finished })

	submit("careful", api.NewRun{Playbook: "careful"})
	submit("steady", api.NewRun{Playbook: "steady"})
	wait("careful", func(r api.Run) bool { return r.Live != nil && r.Live.InFlight == 2 && len(r.Outcomes) > 0 })
	wait("steady", func(r api.Run) bool { return r.Live != nil && len(r.Outcomes) > 0 })
	for i := range 12 {
		submit(fmt.Sprintf("single-%02d", i), api.NewRun{Playbook: "single", LaunchOptions: api.LaunchOptions{Limit: []string{fmt.Sprintf("one-%02d", i)}}})
	}
	return runs
}

// keep writes what was seen, and these files and folders of the lab, into one archive of testdata.
func (l *lab) keep(name string, seen recorded, paths ...string) {
	l.t.Helper()
	seen.Commit = *recordCommit
	text, err := json.MarshalIndent(seen, "", "\t")
	if err != nil {
		l.t.Fatal(err)
	}
	l.file("seen.json", string(text))
	var out bytes.Buffer
	packed, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	archive := tar.NewWriter(packed)
	root := os.DirFS(l.dir)
	for _, path := range append(paths, "seen.json") {
		err = fs.WalkDir(root, path, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "/lock") { // who had the folder, and where
				return err
			}
			content, err := fs.ReadFile(root, path)
			if err == nil {
				err = archive.WriteHeader(&tar.Header{Name: path, Mode: 0o600, Size: int64(len(content))})
			}
			if err == nil {
				_, err = io.Copy(archive, bytes.NewReader(content))
			}
			return err
		})
		if err != nil {
			l.t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		l.t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		l.t.Fatal(err)
	}
	to := filepath.Join("testdata", "upgrade", name+".tar.gz")
	if err := os.WriteFile(to, out.Bytes(), 0o644); err != nil { //nolint:gosec // part of the repository
		l.t.Fatal(err)
	}
	l.t.Logf("%s: %d bytes", to, out.Len())
}
