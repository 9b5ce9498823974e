//go:build linux && labs

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport/fleet"
)

// sooner are bounds that nobody wants to wait for in a test: in a copy of the rules they are small.
// turnus.rules_test.yml has the rules as they are.
var sooner = []struct{ alert, bound, small string }{
	{"TurnusOverdue", "> 3600", "> 1"},
	{"TurnusStartsLate", "> 900", "> 1"},
	{"TurnusRecorderLag", "> 30", "> 1"},
	{"TurnusScaleHookFails", "> 2", "> 0"},
	{"TurnusSchedulesFail", "> 3", "> 0"},
	{"TurnusBackupOld", "> 2 * 86400", "> 3700"}, // by promtool's clock an hour and more goes by
	{"TurnusKeyOld", "> 365 * 86400", "> 3700"},
}

// elsewhere are the alerts whose condition another test brings about. A plugin is blocked only
// while no process of it serves, which the worker of this test always has.
var elsewhere = map[string]string{"TurnusDiskFull": "TestAlertOfAFullDisk", "TurnusClockLeaped": "TestFaultR2ALeapOfRedisIsSeen", "TurnusPluginBlocked": "TestBreakerHoldsBackAPluginThatKeepsDying",
	"TurnusSourceFailed": "TestLabAlertsOfASourceThatFails", "TurnusSourceRefused": "TestLabAlertsOfASourceThatFails", "TurnusSourceWaiting": "TestLabUpHoldsWhatNetBoxLacks"}

// watched is a site as the test of alerts needs it.
type watched struct {
	*site
	rules  string
	ring   string // file of the key ring
	lasts  map[string]time.Duration
	server *process
	c      *client.Client
	caused map[string]bool
	held   *latch       // what the playbook slow waits for
	web    *http.Client // trusts both certificates that the server has
	soon   [2][]byte    // certificate that ends soon, and its key
}

func newWatched(t *testing.T) (*watched, *servers.Postgres) {
	held := newLatch()
	l := newLab(t, fleet.Config{Hosts: 2, Handle: held.handle}).withRedis().traced()
	pg := servers.StartPostgres(t)
	s := &site{lab: l, ledger: pg.Database(t), ops: filepath.Join(l.dir, "ops")}
	for _, dir := range []string{"playbooks", "windows"} {
		if err := os.MkdirAll(filepath.Join(s.ops, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	hosts := l.fleet.Hosts()
	stranger := hosts[1]
	stranger.SSH.HostKeys = hosts[0].SSH.HostKeys
	inventory := "hosts:\n" + l.entry(hosts[0], ", labels: {part: good}") + l.entry(stranger, ", labels: {part: stranger}") +
		"  gated: {address: 127.0.0.1, window_set: w, labels: {part: gated}}\n  hold: {address: 127.0.0.1, labels: {part: hold}}\n"
	for i := range 400 {
		inventory += fmt.Sprintf("  bulk-%03d: {address: 127.0.0.1, labels: {part: bulk}}\n", i)
	}
	for i := range 5 {
		inventory += fmt.Sprintf("  closed-%d: {address: 127.0.0.1, port: %d, labels: {part: stranger}}\n", i, testparts.FreePort(t))
	}
	l.file("ops/inventory.yaml", inventory)
	playbook := func(part, window, step string) {
		l.file("ops/playbooks/"+part+".yaml", fmt.Sprintf("playbook: %s\ntargets: host.labels.part == '%s'\nwindow: %s\nsteps: [%s]\n", part, strings.Replace(part, "slow", "good", 1), window, step))
	}
	playbook("good", "none", "{uses: command, with: {run: uptime}}")
	playbook("stranger", "none", "{uses: command, with: {run: uptime}, retry: {attempts: 2, interval: 100ms}}")
	playbook("gated", "none", fmt.Sprintf("{uses: lab.trace, window: service, needs: 1s, with: {file: %s/gated}}", l.dir))
	playbook("slow", "none", "{uses: command, with: {run: held}}")
	playbook("hold", "none", fmt.Sprintf("{uses: lab.hold, with: {file: %s/hold, ms: 600000}}", l.dir))
	playbook("bulk", "none", fmt.Sprintf("{uses: lab.trace, with: {file: %s/bulk, ms: 1000}}", l.dir))
	l.file("ops/playbooks/none.yaml", "playbook: none\ntargets: host.name == 'nobody'\nwindow: none\nschedule: {cron: \"0 * * * *\"}\nsteps: [{uses: command, with: {run: uptime}}]\n")
	l.file("ops/playbooks/hourly.yaml", "playbook: hourly\ntargets: host.labels.part == 'good'\nwindow: none\nschedule: {cron: \"0 * * * *\"}\nsteps: [{uses: command, with: {run: uptime}}]\n")
	w := &watched{site: s, held: held, caused: map[string]bool{}, ring: filepath.Join(l.dir, "ring.json")}
	l.keys(nil, "new", w.ring)
	cert, key := certificateUntil(t, "first", time.Now().Add(300*24*time.Hour))
	w.soon[0], w.soon[1] = certificate(t, "soon")
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(cert)
	trusted.AppendCertsFromPEM(w.soon[0])
	w.web = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted}}}
	t.Cleanup(w.web.CloseIdleConnections)
	w.windows("00:00", "+1d 00:00")
	text, lasts := alertRules(t)
	for _, one := range sooner {
		at := strings.Index(text, "- alert: "+one.alert+"\n")
		if at < 0 || !strings.Contains(text[at:], one.bound) {
			t.Fatalf("%s has no bound %s", one.alert, one.bound)
		}
		text = text[:at] + strings.Replace(text[at:], one.bound, one.small, 1)
	}
	w.rules, w.lasts = l.file("rules.yml", text), lasts
	s.follow = []string{"--tls-cert", l.file("cert.pem", string(cert)), "--tls-key", l.file("key.pem", string(key)), "--project", s.ops, "--scale-hook", "exit 1", "--scale-concurrency", "4", "--scale-target", "1s",
		"--keyring", w.ring, "--notify", gone(t)}
	w.server = s.server()
	c, err := client.New(client.Config{Server: address(w.server), Token: s.token(), CAs: append(cert, w.soon[0]...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w.c = c
	return w, pg
}

// windows gives the window set another rule.
func (w *watched) windows(from, to string) {
	w.file("ops/windows/sets.yaml", fmt.Sprintf("window_sets:\n  w:\n    timezone: UTC\n    allow: [{id: a, rrule: FREQ=DAILY, from: %q, to: %q}]\n", from, to))
}

// node starts a worker that can be scraped.
func (w *watched) node(name string) (*process, func() samples) {
	p := w.worker("-f", "4", "--name", name, "--metrics", "127.0.0.1:0", "--keyring", w.ring)
	_, rest, _ := strings.Cut(p.err.String(), "metrics on ")
	addr, _, _ := strings.Cut(rest, "\n")
	return p, func() samples { return scraped(w.t, w.web, "http://"+strings.TrimSpace(addr), "", name) }
}

func (w *watched) heard() samples { return scraped(w.t, w.web, address(w.server), w.token(), "server") }

// fires checks alerts against what was scraped.
func (w *watched) fires(before, after samples, alerts ...string) {
	w.t.Helper()
	want := map[string]time.Duration{}
	for _, a := range alerts {
		lasts, ok := w.lasts[a]
		if !ok {
			w.t.Fatalf("there is no alert %s", a)
		}
		want[a], w.caused[a] = lasts, true
	}
	judge(w.t, w.rules, before, after, want)
}

func (w *watched) launch(playbook string) api.Run {
	w.started++
	return w.submit(func() *client.Client { return w.c }, fmt.Sprint(playbook, w.started), playbook)
}

// wantedSample is a series that should be reported.
type wantedSample struct {
	name, label string
	least       float64
}

// sees scrapes until all is reported.
func (w *watched) sees(scrape func() samples, want ...wantedSample) (now samples) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	until(w.t, "what must be reported", func() bool {
		now = scrape()
		for _, s := range want {
			if !now.has(s.name, s.label, s.least) {
				if time.Now().After(deadline.Add(-5 * time.Second)) {
					w.t.Logf("not sent: %+v", s)
				}
				return false
			}
		}
		return true
	})
	return now
}

// Each alert triggers when its condition is brought about in a real service, and not before; the
// dashboard names only reported metrics.
func TestLabAlertsFireWhenTheyShouldAndNotBefore(t *testing.T) {
	t.Parallel()
	testparts.Need(t, "promtool", "prometheus")
	w, pg := newWatched(t)
	ctx := context.Background()
	w0, of0 := w.node("w0")
	finished(t, w.c, w.launch("good").ID)
	w.start("admin", "backup", "--ledger", w.ledger, "--no-outputs", "--keyring", w.ring, filepath.Join(w.dir, "backups")).wants(0)
	var well samples
	until(t, "a server that sees its worker", func() bool {
		well = joined(w.heard(), of0())
		return well.has("turnus_pool_concurrency", `pool="default"`, 4) && well.has("turnus_jobs_ended_total", `outcome="changed"`, 1) && well.names()["turnus_backup_timestamp_seconds"]
	})
	w.fires(well, well, "TurnusBackupOld", "TurnusKeyOld") // nobody makes another backup, nor rotates keys
	w0.signal(syscall.SIGTERM)
	w0.wants(0)

	// No worker is there, runs wait, and a window closes that was promised.
	windowed := w.launch("gated")
	w.launch("bulk")
	until(t, "the gated run in the queue", func() bool {
		run, err := w.c.Run(ctx, windowed.ID)
		return err == nil && run.Phase == api.Active
	})
	hour := time.Now().UTC().Add(6 * time.Hour)
	old, err := w.c.Definitions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	w.windows(hour.Format("15:04"), hour.Add(time.Minute).Format("15:04"))
	until(t, "the windows to be taken over", func() bool {
		now, err := w.c.Definitions(ctx)
		return err == nil && now.ETag != old.ETag
	})
	var alone samples
	until(t, "a server that sees no worker", func() bool {
		alone = w.heard()
		return alone.has("turnus_pool_concurrency", "", 0) && !alone.has("turnus_pool_concurrency", "", 1)
	})
	w.fires(well, alone, "TurnusNoWorkers")

	// A worker comes, meets what it meets, and is killed with a job that must not be repeated.
	w1, of1 := w.node("w1")
	w.launch("stranger")
	w.launch("hold")
	if _, err := w.c.BackfillSchedule(ctx, "none", api.Backfill{From: time.Now().Add(-3 * time.Hour), To: time.Now().Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	until(t, "the job that must not be repeated", func() bool { return len(executions(t, w.dir+"/hold")) == 1 })
	first := w.sees(func() samples { return joined(w.heard(), of1()) }, wantedSample{"turnus_windows_missed_total", "", 1}, wantedSample{"turnus_ssh_dials_total", `result="host_key"`, 1},
		wantedSample{"turnus_ssh_dials_total", `result="refused"`, 5}, wantedSample{"turnus_schedule_skips_total", `reason="refused"`, 1}, wantedSample{"turnus_concurrency_desired", "", 12},
		wantedSample{"turnus_scale_calls_total", "failed", well.value("turnus_scale_calls_total", "failed") + 1}, wantedSample{"turnus_job_start_delay_seconds_count", "", 20}, wantedSample{"turnus_queue_oldest_overdue_seconds", "", 1.1})
	w.fires(joined(well, of1zero(first)), first, "TurnusWindowsMissed", "TurnusHostKeyRefused", "TurnusHostsUnreachable", "TurnusSchedulesSkipped", "TurnusTooFewWorkers", "TurnusScaleHookFails",
		"TurnusOverdue", "TurnusStartsLate")
	w1.kill()
	_, of2 := w.node("w2")
	lost := w.sees(w.heard, wantedSample{"turnus_jobs_lost_total", "", 1}, wantedSample{"turnus_queue_reaped_sessions_total", "", 1})
	w.fires(well, lost, "TurnusJobsLost", "TurnusWorkersLost")

	// Redis comes back older than it was, PostgreSQL takes no new run, and somebody tries tokens. No
	// receiver takes the notifications of all that.
	direct := w.redis.admin()
	w.comesBackOlder(direct)
	makeRoom := w.refusesRuns(pg)
	if _, err := w.c.BackfillSchedule(ctx, "hourly", api.Backfill{From: time.Now().Add(-3 * time.Hour), To: time.Now().Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	const tries = 25
	w.guesses(tries)
	bad := w.sees(w.heard, wantedSample{"turnus_events_total", `"run_repeated"`, 1}, wantedSample{"turnus_schedule_triggers_total", `"failed"`, 1},
		wantedSample{"turnus_access_refused_total", `"unknown_token"`, tries}, wantedSample{"turnus_notifications_dead_lettered_total", `medium="webhook"`, 1})
	w.fires(well, bad, "TurnusRunRepeated", "TurnusSchedulesFail", "TurnusAccessRefused", "TurnusNotificationsNotDelivered")
	makeRoom()

	// The queue is emptied under a job that must not be repeated, a commit is wrong.
	w.launch("hold")
	until(t, "the job to run", func() bool { return len(executions(t, w.dir+"/hold")) == 2 })
	if err := direct.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	w.file("ops/playbooks/broken.yaml", "playbook: [")
	w.file("cert.pem", string(w.soon[0]))
	w.file("key.pem", string(w.soon[1]))
	until(t, "the renewed certificate", func() bool { w.heard(); return w.server.err.has("was renewed") })
	worse := w.sees(func() samples { return joined(w.heard(), of2()) }, wantedSample{"turnus_events_total", `"run_paused"`, 1}, wantedSample{"turnus_events_total", `"queue_lost"`, 1},
		wantedSample{"turnus_project_rejected", "", 1})
	w.fires(joined(well, of1zero(worse)), worse, "TurnusRunPaused", "TurnusQueueLost", "TurnusProjectRejected", "TurnusCertificateExpires")
	dashboard(t, joined(well, first, worse))

	// PostgreSQL goes, then Redis, then the server.
	slow := w.launch("slow")
	until(t, "a job whose end cannot be recorded", func() bool {
		jobs, err := w.c.Jobs(ctx, slow.ID, client.JobFilter{}, client.Page{})
		return err == nil && len(jobs.Items) == 1 && jobs.Items[0].State == "leased"
	})
	pg.Stop()
	w.held.open()
	var dumb samples
	until(t, "the ledger to be missed", func() bool {
		dumb = w.heard()
		return !dumb.has("turnus_up", `part="ledger"`, 1) && dumb.has("turnus_recorder_lag_seconds", "", 1.1)
	})
	w.fires(well, dumb, "TurnusLedgerAway", "TurnusRecorderLag")
	w.redis.kill()
	until(t, "the queue to be missed", func() bool {
		dumb = w.heard()
		return !dumb.has("turnus_up", `part="queue"`, 1)
	})
	w.fires(well, dumb, "TurnusQueueAway")
	w.server.kill()
	w.fires(well, samples{}, "TurnusSilent")
	for alert := range w.lasts {
		if test := elsewhere[alert]; w.caused[alert] == (test != "") {
			t.Errorf("alert %s: caused here: %v; elsewhere: %q", alert, w.caused[alert], test)
		}
	}
}

// of1zero are the counters of a worker that has just begun: Prometheus saw it once before its
// troubles.
func of1zero(s samples) samples {
	out := samples{}
	for series := range s {
		if name, _, _ := strings.Cut(series, "{"); strings.HasSuffix(name, "_total") && strings.Contains(series, "worker=") {
			out[series] = 0
		}
	}
	return out
}

// dashboard checks that every metric of the dashboard's queries is reported by the service, and
// that they parse.
func dashboard(t *testing.T, heard samples) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(monitoring, "turnus.dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
		Templating struct {
			List []struct {
				Query any `json:"query"`
			} `json:"list"`
		} `json:"templating"`
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	names := heard.names()
	known := func(where, text string) {
		for _, name := range metricNames.FindAllString(text, -1) {
			if !names[name] {
				t.Errorf("the dashboard's %s asks for %s, which nobody exports", where, name)
			}
		}
	}
	var rules strings.Builder
	rules.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	queries := 0
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			known("panel "+p.Title, q.Expr)
			queries++
			fmt.Fprintf(&rules, "      - {record: 'q:%d', expr: %q}\n", queries, strings.NewReplacer("$tenant", ".*", "$pool", ".*").Replace(q.Expr))
		}
	}
	for _, v := range d.Templating.List {
		known("variables", fmt.Sprint(v.Query))
	}
	if queries < 40 {
		t.Fatalf("only %d queries are found", queries)
	}
	file := filepath.Join(t.TempDir(), "queries.yml")
	check := func(text string) error {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(testparts.Need(t, "promtool", "prometheus"), "check", "rules", file).CombinedOutput()
		if err != nil {
			return errors.New(string(out))
		}
		return nil
	}
	if err := check(rules.String()); err != nil {
		t.Errorf("queries of the dashboard: %v", err)
	}
	if check(rules.String()+"      - {record: 'q:x', expr: 'sum('}\n") == nil {
		t.Error("negative control: a query that does not parse is not noticed")
	}
}
