package ledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts/servers"
)

// A claim of many runs writes no index, and a batch finds its rows without reading the whole table.
// Control: marking the same runs as queued writes them into their indexes.
func TestPostgresBatchesAreCheap(t *testing.T) {
	server := servers.StartPostgres(t)
	url := server.Database(t)
	l := open(t, url)
	const size, schedules = 128, 11_000
	now := time.Now()
	runs, changes := make([]ledger.NewRun, size), make([]ledger.ScheduleChange, size)
	for i := range runs {
		runs[i] = newRun(fmt.Sprint("r", i), "", 1)
		changes[i] = scheduled(fmt.Sprint("t", (i+1)%1000), fmt.Sprint("s", i+1), 1, now, "changed")
	}
	if err := l.Raw(t.Context(), `INSERT INTO schedules (tenant, name, made_by, version, edition, due, data)
		SELECT 't' || i % 1000, 's' || i, '', 1, 1, i, decode(repeat('00', 300), 'hex') FROM generate_series(1, $1) i`, schedules); err != nil {
		t.Fatal(err)
	}
	if err := l.Raw(t.Context(), `ANALYZE schedules`); err != nil {
		t.Fatal(err)
	}
	must[[]ledger.Accepted](t)(l.AcceptAll(t.Context(), runs...))
	claims := must[[]ledger.Claim](t)(l.ClaimNext(t.Context(), "s", "q", time.Minute, size, 1000))
	must[[]ledger.ScheduleChanged](t)(l.ChangeSchedules(t.Context(), changes))
	stats := func() (updated, inPlace, scanned int) {
		t.Helper()
		_ = l.Close() // a connection reports what it did when it ends
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(t.Context()) }()
		for range 600 { // a minute
			err := c.QueryRow(t.Context(), `SELECT r.n_tup_upd, r.n_tup_hot_upd, s.seq_tup_read, pg_stat_clear_snapshot()::text FROM pg_stat_user_tables r, pg_stat_user_tables s
				WHERE r.relname = 'runs' AND s.relname = 'schedules'`).Scan(&updated, &inPlace, &scanned, nil)
			if err != nil {
				t.Fatal(err)
			}
			if updated%size == 0 && updated > 0 {
				return updated, inPlace, scanned
			}
			<-time.After(100 * time.Millisecond)
		}
		t.Fatalf("%d updates of runs are counted, expected all of a batch", updated)
		return 0, 0, 0
	}
	updated, inPlace, scanned := stats()
	if len(claims) != size || updated != size || inPlace != size {
		t.Errorf("a claim of %d runs: %d updates, of which %d wrote no index", len(claims), updated, inPlace)
	}
	if scanned >= schedules {
		t.Errorf("changing %d schedules read %d rows in scans of the table", size, scanned)
	}
	l = open(t, url)
	must[[]ledger.Enqueued](t)(l.Enqueued(t.Context(), "q", claims...))
	if _, after, _ := stats(); after != size {
		t.Errorf("marking runs as queued: %d updates wrote no index, expected none: what is tested?", after-size)
	}
}

// The benchmark counts what PostgreSQL writes to its log for a run of one host, at each step from
// accepted to recorded, in batches of 256. The load of the machine does not change it.
func BenchmarkPostgresWritten(b *testing.B) {
	server := servers.StartPostgres(b)
	url := server.Database(b)
	l := open(b, url)
	server.Exec(b, url, "CREATE EXTENSION pg_walinspect")
	c, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close(b.Context()) }()
	const batch, batches = 256, 20
	total, records, size := 0, map[string]float64{}, map[string]float64{}
	step := func(name string, do func() error) {
		b.Helper()
		var from string
		var n, bytes float64
		err := c.QueryRow(b.Context(), `SELECT pg_current_wal_lsn()::text`).Scan(&from)
		if err == nil {
			err = do()
		}
		if err == nil { // without the pages that are whole in the log because of a checkpoint
			err = c.QueryRow(b.Context(), `SELECT sum(count), sum(record_size) FROM pg_get_wal_stats($1::text::pg_lsn, pg_current_wal_flush_lsn())`, from).Scan(&n, &bytes)
		}
		if err != nil {
			b.Fatal(name, err)
		}
		records[name] += n
		size[name] += bytes
	}
	for b.Loop() {
		for range batches {
			runs, outcomes := make([]ledger.NewRun, batch), make([]ledger.Batch, batch)
			for i := range runs {
				tenant := fmt.Sprintf("cust-%04d", total*7%1000)
				runs[i] = newRun(fmt.Sprintf("%s:backup-%07d-20260102T0304Z", tenant, total), tenant, 1)
				runs[i].Snapshot = []byte(strings.Repeat(runs[i].ID, 20))
				outcomes[i] = ledger.Batch{Run: runs[i].ID, Outcomes: outcomesOf(0, 1), Cursor: &ledger.Cursor{Incarnation: "q", To: "1-1"}}
				total++
			}
			var claims []ledger.Claim
			step("accept", func() error { _, err := l.AcceptAll(b.Context(), runs...); return err })
			step("claim", func() (err error) {
				claims, err = l.ClaimNext(b.Context(), "server-1", "q", time.Minute, batch, 20_000)
				return err
			})
			step("queued", func() error { _, err := l.Enqueued(b.Context(), "q", claims...); return err })
			step("record", func() error { _, err := l.Record(b.Context(), outcomes...); return err })
		}
	}
	for name := range records {
		b.ReportMetric(records[name]/float64(total), name+"-records/run")
		b.ReportMetric(size[name]/float64(total), name+"-bytes/run")
	}
}
