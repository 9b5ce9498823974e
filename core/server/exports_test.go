package server

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// nasty is text that CSV, JSON and spreadsheets each trip over.
var nasty = []string{"=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "'quoted", "plain", "a,b", `say "so"`, "two\nlines", "wörd", "", "<b>&amp;</b>"}

// fillHistory makes runs of two tenants, with hosts of both in the first one's.
func fillHistory(t *testing.T, l *ledger.Ledger) {
	t.Helper()
	for i, tenant := range []string{"acme", "globex"} {
		n := ledger.NewRun{ID: "run-of-" + tenant, Tenant: tenant, Playbook: "=p", LaunchedBy: "ann", Created: time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC), Snapshot: []byte("{}"), Queue: []byte("{}")}
		b := ledger.Batch{Run: n.ID}
		for j, text := range nasty {
			n.Jobs = append(n.Jobs, ledger.JobHost{Host: fmt.Sprint("h", j), Tenant: []string{"acme", "globex"}[j%2]})
			b.Outcomes = append(b.Outcomes, ledger.Outcome{Index: j, Outcome: core.Failed, Reason: core.Reason(text), Attempt: 1, Worker: "w", Took: time.Second})
		}
		n.Jobs = append(n.Jobs, ledger.JobHost{Host: "open", Tenant: tenant})
		_, _, err := l.Accept(t.Context(), n)
		must(t, err)
		_, err = l.Record(t.Context(), b)
		must(t, err)
	}
}

func exportOf(t *testing.T, b *bed, secret, url string) string {
	t.Helper()
	a := b.ask(secret, "GET", url, nil)
	if a.status != http.StatusOK {
		t.Fatalf("%s: %d %s", url, a.status, a.body)
	}
	return a.body
}

// Both formats have the same, and are read back as what the ledger has; no cell of CSV is a
// formula.
func TestExportsAreReadBack(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	fillHistory(t, b.ledger)
	_, err := b.ledger.Cancel(t.Context(), ledger.AllTenants(), "ann", "run-of-acme", "=wrong, change")
	must(t, err)
	secret := b.token(everyTenant, Viewer)
	for _, what := range []string{"runs", "jobs", "audit"} {
		var objects []map[string]any
		for lines := bufio.NewScanner(strings.NewReader(exportOf(t, b, secret, "/v1/export/"+what))); lines.Scan(); {
			var o map[string]any
			if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
				t.Fatalf("%s: %q: %v", what, lines.Text(), err)
			}
			objects = append(objects, o)
		}
		text := exportOf(t, b, secret, "/v1/export/"+what+"?format=csv")
		rows, err := csv.NewReader(strings.NewReader(strings.ReplaceAll(text, "\r\n", "\n"))).ReadAll()
		if err != nil || len(rows) != len(objects)+1 || len(objects) < 2 {
			t.Fatalf("%s: %d lines of CSV, %d of NDJSON, %v", what, len(rows), len(objects), err)
		}
		for i, o := range objects {
			for c, name := range rows[0] {
				cell := rows[i+1][c]
				if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
					t.Errorf("%s, %s: the cell %q is a formula", what, name, cell)
				}
				var want string
				switch v := o[name].(type) {
				case nil:
				case string:
					want = v
				case float64:
					want = fmt.Sprintf("%.0f", v)
				default:
					data, err := json.Marshal(v)
					must(t, err)
					var a, b any
					if json.Unmarshal(data, &a) != nil || json.Unmarshal([]byte(cell), &b) != nil || fmt.Sprint(a) != fmt.Sprint(b) {
						t.Errorf("%s, %s: %q, and in NDJSON %s", what, name, cell, data)
					}
					continue
				}
				if got := strings.TrimPrefix(cell, "'"); got != strings.ReplaceAll(want, "\r\n", "\n") {
					t.Errorf("%s, %s: %q in CSV, %q in NDJSON", what, name, got, want)
				}
			}
		}
		if what == "jobs" {
			var reasons []string
			for _, o := range objects[:len(nasty)] {
				reasons = append(reasons, o["reason"].(string))
			}
			if !slices.Equal(reasons, nasty) || objects[len(nasty)]["outcome"] != "" || objects[len(nasty)]["recorded"] != nil || objects[0]["run"] != "run-of-globex" {
				t.Errorf("%q, %v", reasons, objects[len(nasty)])
			}
		}
	}
}

// A tenant exports its runs, and jobs on its hosts in others' runs; times and tenants narrow it.
func TestExportsAreOfWhoAsks(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	fillHistory(t, b.ledger)
	acme, all := b.token("acme", Viewer), b.token(everyTenant, Viewer)
	for _, tc := range []struct {
		secret, url string
		lines       int
	}{
		{acme, "/v1/export/runs", 1},
		{acme, "/v1/export/jobs", len(nasty) + 1 + len(nasty)/2},
		{all, "/v1/export/runs", 2},
		{all, "/v1/export/jobs", 2 * (len(nasty) + 1)},
		{all, "/v1/export/runs?since=2026-01-02T00:00:00Z", 1},
		{all, "/v1/export/jobs?until=2026-01-02T00:00:00Z", len(nasty) + 1},
		{all, "/v1/export/runs?tenant=globex&format=csv", 2},
		{all, "/v1/export/runs?tenant=nobody", 0},
		{all, "/v1/export/audit?until=2000-01-01T00:00:00Z&format=csv", 1},
	} {
		if n := strings.Count(exportOf(t, b, tc.secret, tc.url), "\n") - strings.Count(exportOf(t, b, tc.secret, tc.url), "two\nlines"); n != tc.lines {
			t.Errorf("%s: %d lines, expected %d", tc.url, n, tc.lines)
		}
	}
	for url, status := range map[string]int{"/v1/export/runs?tenant=globex": http.StatusNotFound, "/v1/export/jobs?format=xml": http.StatusUnprocessableEntity} {
		if a := b.ask(acme, "GET", url, nil); a.status != status {
			t.Errorf("%s: %d %s", url, a.status, a.body)
		}
	}
}
