//go:build linux && labs

package e2e

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/ledger"
)

// keptService makes the folder of a service that has ended: a schedule, a notification, and three
// runs, each with large outputs, a step with once, an approved wave, and hosts that were cancelled.
func (l *lab) keptService(t *testing.T) *lab {
	t.Helper()
	k := &lab{t: t, dir: filepath.Join(l.dir, "kept"), fleet: l.fleet, env: l.env, trace: true}
	if err := os.MkdirAll(filepath.Join(k.dir, "ops", "playbooks"), 0o700); err != nil {
		t.Fatal(err)
	}
	k.file("ops/inventory.yaml", "hosts: {h0: {address: 127.0.0.1}, h1: {address: 127.0.0.1}, h2: {address: 127.0.0.1}, h3: {address: 127.0.0.1}}\n")
	k.file("ops/playbooks/all.yaml", fmt.Sprintf(`playbook: all
targets: true
strategy: {waves: [1, 2, 100%%], pause_between: approve}
steps:
  - {uses: lab.trace, with: {file: %[1]s/trace, print: %[2]d}}
  - {name: single, once: true, uses: lab.trace, with: {file: %[1]s/single}}
`, k.dir, cutOutput))
	p, ask := k.startUp(k.data(), append(k.pluginFlags(), "--notify", newReceiver(t).URL)...)
	ctx := context.Background()
	for _, key := range []string{"old", "middle", "young"} {
		approved := false
		until(t, "run "+key+" to be cancelled behind its second wave", func() bool {
			run, err := ask.CreateRun(ctx, key, api.NewRun{Playbook: "all"})
			if err == nil {
				run, err = ask.Run(ctx, run.ID)
			}
			switch {
			case err != nil || run.Waits == nil:
			case !approved:
				_, err = ask.ApproveRun(ctx, run.ID, api.Approve{Wave: run.Waits.Wave, Approve: true})
				approved = err == nil
			case run.Waits.Wave == 3:
				_, _ = ask.CancelRun(ctx, run.ID, "the others stay as they are")
			}
			return err == nil && over(run)
		})
	}
	if _, err := ask.PutSchedule(ctx, "yearly", "", api.NewSchedule{Playbook: "all", Cron: "0 3 1 1 *", Timezone: "UTC"}); err != nil {
		t.Fatal(err)
	}
	if _, err := ask.TestChannel(ctx, "server"); err != nil {
		t.Fatal(err)
	}
	until(t, "the notification to be sent", func() bool {
		all, err := ask.Notifications(ctx, client.NotificationFilter{}, client.Page{})
		return err == nil && len(all.Items) > 0 && !slices.ContainsFunc(all.Items, func(n api.Notification) bool { return n.State == api.NotificationWaiting })
	})
	p.signal(syscall.SIGTERM)
	p.wants(0)
	if rows := k.rows(`SELECT seq FROM runs WHERE EXISTS (SELECT 1 FROM outputs WHERE run = seq AND object <> '')
		AND EXISTS (SELECT 1 FROM ranges WHERE run = seq) AND EXISTS (SELECT 1 FROM decisions WHERE run = seq) AND EXISTS (SELECT 1 FROM once WHERE run = seq)`); len(rows) != 3 {
		t.Fatalf("runs that leave all that runs leave: %v", rows)
	}
	return k
}

func (l *lab) data() string { return filepath.Join(l.dir, "data") }

// database opens the database of the service's ledger.
func (l *lab) database() *sql.DB {
	l.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(l.data(), "ledger.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		l.t.Fatal(err)
	}
	return db
}

// edit changes the database of the service's ledger, as time or a fault does.
func (l *lab) edit(statements ...string) {
	l.t.Helper()
	db := l.database()
	defer func() { _ = db.Close() }()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			l.t.Fatalf("%s: %v", s, err)
		}
	}
}

// rows returns a line for each row that the queries find: its table, the first column, and a hash
// of all columns.
func (l *lab) rows(queries ...string) (lines []string) {
	l.t.Helper()
	db := l.database()
	defer func() { _ = db.Close() }()
	for _, q := range queries {
		_, from, _ := strings.Cut(q, " FROM ")
		found, err := db.Query(q)
		if err != nil {
			l.t.Fatalf("%s: %v", q, err)
		}
		columns, _ := found.Columns()
		values := make([]any, len(columns))
		for found.Next() {
			into := make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			if err := found.Scan(into...); err != nil {
				l.t.Fatal(err)
			}
			lines = append(lines, fmt.Sprintf("%s %v %s", strings.Fields(from)[0], values[0], hashed(values)))
		}
		if err := found.Err(); err != nil {
			l.t.Fatal(err)
		}
	}
	return lines
}

func hashed(v any) string { return fmt.Sprintf("%.8x", sha256.Sum256(fmt.Append(nil, v))) }

// objects are the files of large outputs.
func (l *lab) objects() (names []string) {
	l.t.Helper()
	root := filepath.Join(l.data(), "outputs")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasSuffix(path, ".attrs") {
			names = append(names, "object "+strings.TrimPrefix(path, root))
		}
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return names
}

// aged makes one run older than runs are kept, and another older than outputs are, and damages the
// schedule, which is due.
func (l *lab) aged() {
	const day = 24 * 3600 * 1_000_000
	l.edit(
		fmt.Sprintf(`UPDATE runs SET created = created - %d, ended = ended - %[1]d WHERE seq = 1`, 40*day),
		fmt.Sprintf(`UPDATE runs SET created = created - %d, ended = ended - %[1]d WHERE seq = 2`, 2*day),
		`UPDATE schedules SET data = x'00ff', due = 1`)
	l.dutyEnds()
}

func (l *lab) retains() []string {
	return append([]string{"up", "--data", l.data(), "--project", filepath.Join(l.dir, "ops"), "--listen", "127.0.0.1:0", "--context", "", "--keep-runs", "30d", "--keep-outputs", "1d"}, l.pluginFlags()...)
}

// retained reports whether the service has removed what is old, and postponed the schedule.
func (l *lab) retained() bool {
	return len(l.rows(`SELECT seq FROM runs WHERE seq = 1`, `SELECT idx FROM outputs WHERE run <= 2`, `SELECT due FROM schedules WHERE due = 1`)) == 0
}

// dutyEnds lets the time pass in which only a process that is gone may remove what is old.
func (l *lab) dutyEnds() { l.edit(`UPDATE documents SET updated = 1 WHERE kind = 'duty'`) }

// stored returns all rows of runs, the schedule, and the objects.
func (l *lab) stored() []string {
	queries := []string{`SELECT name, data, made_by, edition, waits, passed FROM schedules`}
	for _, table := range []string{"runs", "materials", "jobs", "ranges", "attempts", "outputs", "decisions", "once"} {
		queries = append(queries, `SELECT * FROM `+table)
	}
	return append(l.rows(queries...), l.objects()...)
}

func (l *lab) ring() string { return filepath.Join(l.dir, "ring.json") }

// plain makes a key ring for the ledger, which is not encrypted, and lists its objects.
func (l *lab) plain() {
	l.keys(nil, "new", l.ring())
	l.file("plain", strings.Join(l.objects(), "\n"))
}

func (l *lab) reencrypts() []string {
	return []string{"admin", "keys", "re-encrypt", "--keyring", l.ring(), "--data", l.data(), "--keyring-accept-plain"}
}

// encrypted returns the content of the ledger. All of it must be encrypted: no object may be left
// that is not, though no row names it. Encrypted ones that no row names go once they are a day old.
func (l *lab) encrypted() []string {
	var check struct {
		Plain int
		Uses  []struct{ Where, What, Key string }
	}
	l.keys(&check, "check", "--keyring", l.ring(), "--data", l.data())
	if check.Plain != 0 {
		l.t.Errorf("%d values are not encrypted: %+v", check.Plain, check.Uses)
	}
	plain, err := os.ReadFile(filepath.Join(l.dir, "plain"))
	if err != nil {
		l.t.Fatal(err)
	}
	for _, name := range l.objects() {
		if slices.Contains(strings.Split(string(plain), "\n"), name) {
			l.t.Errorf("%s is there, which is not encrypted", name)
		}
	}
	yesterday := time.Now().Add(-2 * 24 * time.Hour)
	for _, name := range l.objects() {
		if err := os.Chtimes(filepath.Join(l.data(), "outputs", strings.TrimPrefix(name, "object ")), yesterday, yesterday); err != nil {
			l.t.Fatal(err)
		}
	}
	l.edit(`UPDATE migrations SET applied = 1`)
	l.start("admin", "prune", "--remove", "--data", l.data(), "--keyring", l.ring()).wants(0)
	named := l.rows(`SELECT object FROM outputs WHERE object <> ''`)
	if objects := l.objects(); len(objects) != len(named) {
		l.t.Errorf("objects %v, and those that are named %v", objects, named)
	}
	return l.contents()
}

// contents returns the content of the encrypted ledger: runs, the schedule, and notifications.
func (l *lab) contents() (lines []string) {
	ctx, all := context.Background(), ledger.AllTenants()
	ring, err := keyring.Open(l.ring(), keyring.Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	bucket, err := ledger.OpenBucket(ctx, filepath.Join(l.data(), "outputs"))
	if err != nil {
		l.t.Fatal(err)
	}
	b, err := ledger.Open(ctx, "sqlite:"+filepath.Join(l.data(), "ledger.db"), ledger.Options{Keyring: ring, Bucket: bucket})
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	note := func(what string, v any, err error) {
		text, bad := json.Marshal(v)
		if err != nil || bad != nil {
			l.t.Errorf("%s: %v, %v", what, err, bad)
		}
		lines = append(lines, what+" "+hashed(text))
	}
	runs, _, err := b.Runs(ctx, all, ledger.RunFilter{}, ledger.Page{})
	note("runs", runs, err)
	for i := range runs {
		material, err := b.Material(ctx, runs[i].ID)
		note("material", material, err)
		jobs, _, err := b.Jobs(ctx, all, runs[i].ID, ledger.JobFilter{}, ledger.Page{})
		note("jobs", jobs, err)
		once, err := b.OnceResult(ctx, &runs[i], 1)
		note("once", once, err)
		for job := range 2 { // the others were cancelled
			id := core.JobID{Run: runs[i].ID, Index: job}
			attempts, err := b.Attempts(ctx, all, id)
			note("attempts", attempts, err)
			detail, err := b.Detail(ctx, all, id)
			note("detail", detail, err)
			outputs, err := b.Outputs(ctx, all, id)
			note("outputs", outputs, err)
			for _, o := range outputs {
				r, _, err := b.OpenOutput(ctx, all, id, o.Name, 0, -1)
				if err != nil {
					l.t.Errorf("output %s of %s: %v", o.Name, id, err)
					continue
				}
				text, err := io.ReadAll(r)
				_ = r.Close()
				note("output "+o.Name, text, err)
			}
		}
	}
	schedules, _, err := b.Schedules(ctx, all, ledger.Page{})
	note("schedules", schedules, err)
	notices, _, err := b.Notifications(ctx, all, ledger.NotificationFilter{}, ledger.Page{})
	note("notifications", notices, err)
	return lines
}

// unsound has the runs count wrong, and the schedule never be due.
func (l *lab) unsound() {
	l.edit(`UPDATE runs SET changed = changed + 1, recorded = recorded + 1 WHERE seq = 1`,
		`UPDATE runs SET failed = failed + 2 WHERE seq = 3`, `UPDATE schedules SET due = NULL`)
}

func (l *lab) repairs() []string {
	return []string{"admin", "doctor", "--fix", "--ledger", "sqlite:" + filepath.Join(l.data(), "ledger.db")}
}

// sound returns the content of the ledger, which the doctor must find sound.
func (l *lab) sound() []string {
	doctor := l.start("admin", "doctor", "--ledger", "sqlite:"+filepath.Join(l.data(), "ledger.db"))
	doctor.wants(0)
	if !doctor.out.has("sound: ") {
		l.t.Errorf("doctor: %s", doctor.out)
	}
	return l.stored()
}
