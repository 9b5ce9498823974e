package telemetry

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const guide = "../../docs/operating-monitoring.md"

// scrape returns the text that Prometheus would read.
func scrape(t *testing.T, r *Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// row is how the guide lists a metric.
func row(m Metric) string {
	labels := ""
	if len(m.Labels) > 0 {
		labels = "{" + strings.Join(m.Labels, ", ") + "}"
	}
	return fmt.Sprintf("| `%s%s` | %s | %s | %s |", m.Name, labels, m.Side, m.Kind, m.Help)
}

// The table is whole, its names follow the conventions, and the guide lists it.
func TestTable(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	seen := map[string]bool{}
	for id, m := range table {
		want = append(want, row(m))
		if !regexp.MustCompile(`^turnus_[a-z][a-z_]*[a-z]$`).MatchString(m.Name) || m.Help == "" || m.Side == "" || seen[m.Name] {
			t.Errorf("metric %d: %+v", id, m)
		}
		seen[m.Name] = true
		if counter := strings.HasSuffix(m.Name, "_total"); counter != (m.Kind == Counter) {
			t.Errorf("%s is a %s: only counters end in _total", m.Name, m.Kind)
		}
		if (m.Kind == Histogram) != (len(m.Buckets) > 0) {
			t.Errorf("%s is a %s with buckets %v", m.Name, m.Kind, m.Buckets)
		}
		if m.Side == OfWorker && m.Labels[0] != "worker" {
			t.Errorf("%s is a worker's and does not begin its labels with its name", m.Name)
		}
	}
	got := regexp.MustCompile("(?m)^\\| `turnus_[a-z_]+(\\{[^}]*\\})?` \\|.*$").FindAllString(string(text), -1)
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s lists\n%s\nexpected\n%s", guide, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Former names are served beside the present ones, and accepted from an older worker. The guide
// lists them.
func TestFormerNames(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/renamed.md")
	if err != nil {
		t.Fatal(err)
	}
	present := map[string]bool{}
	for _, m := range table {
		present[m.Name] = true
	}
	for old, now := range former {
		if present[old] || !present[now] || !strings.Contains(string(guide), "| `"+old+"` | `"+now+"` |") {
			t.Errorf("%s is now %s: in the table: %v, %v; or docs/renamed.md lacks it", old, now, present[old], present[now])
		}
	}
	r := NewRegistry("v1", 0)
	r.Add(NotificationsDeadLettered, 3, "mail")
	r.Source(func(_ context.Context, emit Emit) {
		if err := Reported("w1", []byte(`[{"metric":"turnus_worker_slots","labels":["w1"],"value":8}]`), emit); err != nil {
			t.Error(err)
		}
	})
	text := scrape(t, r)
	for _, line := range []string{
		`turnus_notifications_dead_lettered_total{medium="mail"} 3`, `turnus_notifications_dead_total{medium="mail"} 3`, `# TYPE turnus_notifications_dead_total counter`,
		`turnus_worker_concurrency{worker="w1"} 8`, `turnus_worker_slots{worker="w1"} 8`,
	} {
		if strings.Count("\n"+text, "\n"+line+"\n") != 1 {
			t.Errorf("expected the line %s once in\n%s", line, text)
		}
	}
	if strings.Contains(text, "turnus_pool_slots") { // negative control: what is not emitted has no former name
		t.Error("a metric without a value is served by its former name")
	}
}

func TestCountsAndReports(t *testing.T) {
	t.Parallel()
	r := NewRegistry("v1", 0)
	r.Add(JobsEnded, 3, "acme", "changed")
	r.Add(JobsEnded, 0, "acme", "lost")
	r.Add(JobsEnded, -1, "acme", "lost") // passed over
	r.Observe(StartDelay, 0.7, "acme")
	r.Observe(StartDelay, 70, "acme")
	r.Source(func(_ context.Context, emit Emit) {
		emit(QueueDue, 5)
		emit(SSHDials, 2, "w1", "ok")
	})
	text := scrape(t, r)
	for _, line := range []string{
		`turnus_build_info{version="v1"} 1`, `turnus_jobs_ended_total{outcome="changed",tenant="acme"} 3`, `turnus_jobs_ended_total{outcome="lost",tenant="acme"} 0`,
		`turnus_job_start_delay_seconds_bucket{tenant="acme",le="1"} 1`, `turnus_job_start_delay_seconds_count{tenant="acme"} 2`, `turnus_queue_due 5`,
		`turnus_ssh_dials_total{result="ok",worker="w1"} 2`, `# TYPE turnus_ssh_dials_total counter`,
	} {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	for _, part := range []string{"\ngo_goroutines ", "\nprocess_open_fds "} {
		if !strings.Contains(text, part) {
			t.Errorf("nothing of %s", part)
		}
	}
}

// A thousand tenants do not make a thousand series; with the bound taken out they do.
func TestTenantsAreBounded(t *testing.T) {
	t.Parallel()
	for _, off := range []bool{false, true} {
		r := NewRegistry("v1", 20)
		r.bounds.off = off
		r.Source(func(_ context.Context, emit Emit) {
			for i := range 1000 {
				emit(TenantDue, 2, fmt.Sprint("t", i))
				emit(TenantOldest, float64(i), fmt.Sprint("t", i))
				emit(SourceState, 1, fmt.Sprint("s", i), "failed")
			}
		})
		for i := range 1000 {
			r.Add(RunsAccepted, 1, fmt.Sprint("t", i))
		}
		text := scrape(t, r)
		for _, name := range []string{"turnus_runs_accepted_total", "turnus_tenant_due", "turnus_tenant_oldest_overdue_seconds"} {
			series := strings.Count(text, "\n"+name+"{")
			if !off && series != 21 {
				t.Errorf("%s has %d series, expected 20 and one of the others", name, series)
			}
			if off && series != 1000 {
				t.Errorf("negative control: without the bound %s has %d series: this test cannot fail", name, series)
			}
		}
		if off {
			continue
		}
		for _, line := range []string{`turnus_runs_accepted_total{tenant="other"} 980`, `turnus_tenant_due{tenant="other"} 1960`, `turnus_tenant_oldest_overdue_seconds{tenant="other"} 999`, `turnus_source_state{source="other",state="failed"} 1`} {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("no line %s", line)
			}
		}
	}
}

// Workers that are gone make room for new ones: thousands of starts use up no names. A scrape whose
// source fails forgets none. A blocked plugin is 1 also among the others.
func TestWorkersThatAreGoneMakeRoom(t *testing.T) {
	t.Parallel()
	r := NewRegistry("v1", 0)
	from, to := 0, maxWorkers
	r.Source(func(_ context.Context, emit Emit) {
		for i := from; i < to; i++ {
			emit(SSHDials, 1, fmt.Sprint("w", i), "ok")
			emit(PluginBlocked, 1, fmt.Sprint("w", i), "p")
		}
		if from < to {
			emit(DefinitionsInfo, 1, fmt.Sprint("r", from), "git")
		}
	})
	others := func() int {
		t.Helper()
		return strings.Count(scrape(t, r), `worker="other"`)
	}
	if n := others(); n != 0 {
		t.Fatalf("%d series of other workers, expected none of the first %d", n, maxWorkers)
	}
	from, to = 10, maxWorkers+10
	text := scrape(t, r)
	for _, line := range []string{`turnus_ssh_dials_total{result="ok",worker="other"} 10`, `turnus_plugin_blocked{plugin="p",worker="other"} 1`} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if n := others(); n != 0 {
		t.Errorf("%d series of other workers, though the earlier ones are gone", n)
	}
	from, to = 0, 0 // the source fails
	others()
	from, to = 0, maxWorkers+10
	if text := scrape(t, r); strings.Contains(text, `worker="w0"`) || !strings.Contains(text, `worker="w509"`) {
		t.Error("a scrape without workers forgot the known ones")
	}
	to = 1
	for from = range 2 * maxValues {
		to = from + 1
		text = scrape(t, r)
	}
	if strings.Contains(text, `revision="other"`) {
		t.Error("revisions that are gone use up the values of the label")
	}
}

// A metric outside the table is a mistake that no test passes over.
func TestMisuseIsNoticed(t *testing.T) {
	t.Parallel()
	r := NewRegistry("v1", 0)
	for name, f := range map[string]func(){
		"too few labels": func() { r.Add(JobsEnded, 1, "acme") },
		"a gauge added":  func() { r.Add(QueueDue, 1) },
		"not in table":   func() { r.Add(last, 1) },
		"not observed":   func() { r.Observe(QueueDue, 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no report", name)
				}
			}()
			f()
		}()
	}
}

// A worker that nobody can scrape is reported by a server, under its own name, and can report only
// the metrics of workers.
func TestReport(t *testing.T) {
	t.Parallel()
	w := NewRegistry("v1", 0)
	w.Source(func(_ context.Context, emit Emit) {
		emit(SSHDials, 4, "w1", "timeout")
		emit(QueueDue, 7) // a server's
	})
	data, err := w.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := NewRegistry("v2", 0)
	s.Source(func(_ context.Context, emit Emit) {
		if err := Reported("w1", data, emit); err != nil {
			t.Error(err)
		}
		forged := `[{"metric":"turnus_up","labels":["ledger"],"value":1},{"metric":"turnus_ssh_dials_total","labels":["w1","ok"],"value":9},` +
			`{"metric":"turnus_ssh_dials_total","labels":["w1"],"value":9},{"metric":"turnus_new","labels":[],"value":9}]`
		if err := Reported("w2", []byte(forged), emit); err != nil {
			t.Error(err)
		}
		if Reported("w3", []byte("{"), emit) == nil {
			t.Error("what is no report is taken")
		}
	})
	text := scrape(t, s)
	for _, line := range []string{`turnus_ssh_dials_total{result="timeout",worker="w1"} 4`, `turnus_ssh_dials_total{result="ok",worker="w2"} 9`} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	for _, line := range []string{"turnus_queue_due", "turnus_up", "turnus_new"} {
		if strings.Contains(text, "\n"+line) {
			t.Errorf("a worker reported %s", line)
		}
	}
}
