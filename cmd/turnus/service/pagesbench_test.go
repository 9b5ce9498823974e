package service

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/catalog"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/definitions"
	"github.com/turnus/turnus/core/launch"
	"github.com/turnus/turnus/core/ledger"
)

// siteSteps is how many steps the playbooks of a site have.
const siteSteps = 20

// project applies one with a number of hosts: host i is one of tenant i modulo the tenants, in its
// window set. Each tenant has a playbook with a schedule, and "fleet" is for all hosts.
func (s *site) project(hosts int, tenants ...string) {
	s.t.Helper()
	var inventory, steps strings.Builder
	sets := "window_sets:\n"
	for i := range siteSteps {
		fmt.Fprintf(&steps, "  - {name: step %d, uses: command, with: {run: uptime}}\n", i)
	}
	rest := "window: none\nstrategy: {waves: [10, 10%, 100%]}\nsteps:\n" + steps.String()
	docs := []definitions.Document{{Path: "playbooks/fleet.yaml", Data: []byte("playbook: fleet\ntargets: true\n" + rest)}}
	for _, tenant := range tenants {
		sets += "  " + tenant + "-night:\n    timezone: Europe/Berlin\n    allow: [{id: night, rrule: FREQ=DAILY, from: \"22:00\", to: \"+1d 04:00\"}]\n"
		text := "playbook: " + tenant + "-patch\ntenant: " + tenant + "\ntargets: host.customer == \"" + tenant + "\"\nschedule: {cron: \"0 3 * * 1\"}\n" + rest
		docs = append(docs, definitions.Document{Path: "playbooks/" + tenant + ".yaml", Data: []byte(text)})
	}
	for i := range hosts {
		tenant := tenants[i%len(tenants)]
		fmt.Fprintf(&inventory, "  %s: {address: 192.0.2.9, customer: %s, window_set: %s-night}\n", siteHost(i), tenant, tenant)
	}
	docs = append(docs, definitions.Document{Path: "inventory/hosts.yaml", Data: []byte("hosts:\n" + inventory.String())},
		definitions.Document{Path: "windows/sets.yaml", Data: []byte(sets)})
	if _, err := s.catalog.Apply(s.t.Context(), "test", docs, definitions.Revision{}, catalog.AnyVersion); err != nil {
		s.t.Fatal(err)
	}
}

func siteHost(i int) string { return fmt.Sprintf("web-%04d", i) }

// launch has the API accept a run.
func (s *site) launch(secret, playbook string) api.Run {
	s.t.Helper()
	c, err := client.New(client.Config{Server: s.web[0].URL, Token: secret})
	if err != nil {
		s.t.Fatal(err)
	}
	run, err := c.CreateRun(s.t.Context(), "", api.NewRun{Playbook: playbook})
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

// record records an outcome of each host from one to another one, as a worker reports it: one in a
// hundred failed.
func (s *site) record(run string, from, to int) {
	s.t.Helper()
	for ; from < to; from += 500 {
		b := ledger.Batch{Run: run}
		for i := from; i < min(from+500, to); i++ {
			o := ledger.Outcome{Index: i, Outcome: core.Changed, Attempt: 1, Worker: "worker-3", Started: time.Now(), Took: time.Second, Detail: siteDetails[0]}
			if i%100 == 99 {
				o.Outcome, o.Step, o.Reason, o.Detail = core.Failed, "step 19", core.Because("", "exit code 1"), siteDetails[1]
			}
			b.Outcomes = append(b.Outcomes, o)
		}
		recorded, err := s.ledger.Record(s.t.Context(), b)
		if err != nil {
			s.t.Fatal(err)
		}
		if err := recorded[0].Err; err != nil {
			s.t.Fatal(err)
		}
	}
}

// siteDetails are reports of a host that changed, and of one that failed.
var siteDetails = func() (all [2][]byte) {
	for k, last := range []core.Outcome{core.Changed, core.Failed} {
		r := core.Result{Outcome: last, Attempt: 1}
		for i := range siteSteps {
			r.Steps = append(r.Steps, core.StepResult{Name: fmt.Sprint("step ", i), Uses: "command", Outcome: core.Changed, Attempts: 1, Stdout: " 10:02:11 up 41 days, 3:02, 1 user, load average: 0.00, 0.01, 0.05\n", Took: time.Second})
		}
		r.Steps[siteSteps-1].Outcome = last
		all[k], _ = launch.EncodeResult(r) // it has nothing that cannot be encoded
	}
	return all
}()

// benchJobs is how many host tasks are recorded before pages are measured;
// TURNUS_BENCH_JOBS=1000000 for the real thing.
func benchJobs() int {
	if n, err := strconv.Atoi(os.Getenv("TURNUS_BENCH_JOBS")); err == nil && n > 0 {
		return n
	}
	return 12_000
}

// Each kind of page over a ledger in a file, as an admin of all tenants and as a viewer of one of
// ten. Half of the host tasks are in runs of 3000 hosts of all tenants, half in runs of a tenant's
// 300. The newest run of each kind is under way. Pages are compressed.
func BenchmarkPagesOverAMillion(b *testing.B) {
	const hosts = 3000
	s := newSiteOn(b, "sqlite:"+b.TempDir()+"/ledger.db")
	tenants := make([]string, 10)
	for i := range tenants {
		tenants[i] = fmt.Sprint("tenant", i)
	}
	s.project(hosts, tenants...)
	operator, _ := s.token("launches", "", "operator")
	old, made := map[string][]string{}, 0 // ids of runs that have ended, by tenant; "" is all
	repeat := func(of api.Run) {
		m, err := s.ledger.Material(b.Context(), of.ID)
		if err != nil {
			b.Fatal(err)
		}
		n := ledger.NewRun{ID: fmt.Sprintf("20250102-030405-%06x", made), Tenant: of.Tenant, Playbook: of.Playbook, Revision: of.Revision, LaunchedBy: "launches", Jobs: m.Jobs, Snapshot: m.Snapshot, Queue: m.Queue}
		if _, _, err := s.ledger.Accept(b.Context(), n); err != nil {
			b.Fatal(err)
		}
		s.record(n.ID, 0, of.Total)
		for _, action := range []string{"run.pause", "run.resume"} {
			if _, err := s.ledger.AppendAudit(b.Context(), ledger.Entry{Who: "launches", Tenant: of.Tenant, Action: action, Kind: "run", Subject: n.ID}); err != nil {
				b.Fatal(err)
			}
		}
		made++
		old[of.Tenant] = append(old[of.Tenant], n.ID)
	}
	first := []api.Run{s.launch(operator, "fleet")}
	for _, tenant := range tenants {
		first = append(first, s.launch(operator, tenant+"-patch"))
	}
	for _, run := range first {
		s.record(run.ID, 0, run.Total)
		old[run.Tenant] = append(old[run.Tenant], run.ID)
	}
	for done := 2 * hosts; done < benchJobs(); done += 2 * hosts {
		for _, run := range first {
			repeat(run)
		}
	}
	all, own := s.launch(operator, "fleet"), s.launch(operator, "tenant0-patch")
	s.record(all.ID, 0, all.Total*3/4)
	s.record(own.ID, 0, own.Total*3/4)
	web := beside(s.pages[0], http.NotFoundHandler())
	for _, c := range []struct {
		name, tenant, role string
		run                api.Run
	}{{"admin", "", "admin", all}, {"tenant", "tenant0", "viewer", own}} {
		secret, _ := s.token(c.name, c.tenant, c.role)
		cookie := s.logIn(0, secret)
		next := c.run.Total * 3 / 4
		id := func(int) string { return c.run.ID }
		visited, ended := 0, old[c.tenant]
		fresh := func(int) string { visited++; return ended[visited%len(ended)] } // the server keeps what it read of some
		one := func(i int) string {                                               // with one more outcome
			if next < c.run.Total-1 {
				s.record(c.run.ID, next, next+1)
				next++
			}
			return c.run.ID
		}
		for _, page := range []struct {
			name, path string
			of         func(i int) string
		}{
			{"overview", "/", nil},
			{"runs", "/runs", nil},
			{"runs that failed", "/runs?outcome=failed", nil},
			{"run not read before", "/runs/%s", fresh},
			{"run", "/runs/%s", id},
			{"run, one more outcome", "/runs/%s", one},
			{"grid", "/runs/%s/grid.json", id},
			{"log of a host", "/runs/%s/hosts/70", id},
			{"host", "/hosts/%s", func(i int) string { return siteHost(i % 300 * 10) }},
			{"fleet", "/fleet", nil},
			{"queue", "/queue", nil},
			{"schedules", "/schedules", nil},
			{"windows", "/windows", nil},
			{"calendar", "/calendar", nil},
			{"playbook", "/playbooks/tenant0-patch", nil},
			{"project", "/project", nil},
			{"audit", "/audit", nil},
			{"notifications", "/notifications", nil},
			{"settings", "/settings", nil},
		} {
			if c.tenant != "" && page.name == "project" {
				continue // it is the provider's
			}
			b.Run(c.name+"/"+page.name, func(b *testing.B) {
				var took []time.Duration
				size := 0
				for i := 0; b.Loop(); i++ {
					b.StopTimer()
					path := page.path
					if page.of != nil {
						path = fmt.Sprintf(path, page.of(i))
					}
					r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, s.web[0].URL+path, nil)
					r.Header.Set("Accept-Encoding", "gzip")
					r.AddCookie(cookie)
					w := httptest.NewRecorder()
					b.StartTimer()
					from := time.Now()
					web.ServeHTTP(w, r)
					took = append(took, time.Since(from))
					if size = w.Body.Len(); w.Code != http.StatusOK {
						b.Fatalf("%s: %d %v", path, w.Code, w.Header())
					}
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
				b.ReportMetric(float64(size), "bytes")
			})
		}
	}
}
