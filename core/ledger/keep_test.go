package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"gocloud.dev/blob/fileblob"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// withBucket opens a ledger whose large output goes into a folder.
func (b *backend) withBucket(tb testing.TB, url string) (*ledger.Ledger, string) {
	tb.Helper()
	dir := tb.TempDir()
	bucket, err := fileblob.OpenBucket(dir, &fileblob.Options{NoTempDir: true, Metadata: fileblob.MetadataDontWrite})
	if err != nil {
		tb.Fatal(err)
	}
	l, err := ledger.Open(tb.Context(), url, ledger.Options{Bucket: bucket, Keyring: b.ring})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l, dir
}

func files(tb testing.TB, dir string) (n int) {
	tb.Helper()
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return nil
	})
	return n
}

func testOutput(t *testing.T, b *backend) {
	url := b.fresh(t)
	l, dir := b.withBucket(t, url)
	ctx := t.Context()
	accept(t, l, newRun("r1", "a", 2))
	id := core.JobID{Run: "r1", Index: 1}
	large := strings.Repeat("0123456789abcdef", ledger.SmallOutput/8)
	for _, tc := range []struct {
		name, text string
		objects    int
	}{
		{"empty", "", 0},
		{"small", "hello, wörld", 0},
		{"just small", large[:ledger.SmallOutput], 0},
		{"just large", large[:ledger.SmallOutput+1], 1},
		{"large", large, 2},
	} {
		o, err := l.PutOutput(ctx, id, tc.name, strings.NewReader(tc.text))
		if err != nil || o.Size != int64(len(tc.text)) || files(t, dir) != tc.objects {
			t.Fatalf("%s: %+v, %d objects, %v", tc.name, o, files(t, dir), err)
		}
		for _, r := range [][2]int64{{0, -1}, {0, 0}, {0, 5}, {3, 4}, {3, -1}, {int64(len(tc.text)), 5}, {int64(len(tc.text)) + 9, -1}, {1, 1 << 62}} {
			rc, info, err := l.OpenOutput(ctx, ledger.Tenants("a"), id, tc.name, r[0], r[1])
			if err != nil {
				t.Fatalf("%s %v: %v", tc.name, r, err)
			}
			got, err := io.ReadAll(rc)
			_ = rc.Close()
			from := min(r[0], int64(len(tc.text)))
			to := int64(len(tc.text))
			if r[1] >= 0 && r[1] < to-from {
				to = from + r[1]
			}
			if err != nil || string(got) != tc.text[from:to] || info.Size != o.Size {
				t.Errorf("%s %v: %d bytes, %v, expected %d", tc.name, r, len(got), err, to-from)
			}
		}
	}
	if all := must[[]ledger.Output](t)(l.Outputs(ctx, ledger.AllTenants(), id)); len(all) != 5 || all[0].Name != "empty" {
		t.Errorf("%+v", all)
	}
	// A later text takes the place of the earlier one, and its object goes.
	must[ledger.Output](t)(l.PutOutput(ctx, id, "large", strings.NewReader("short now")))
	if n := files(t, dir); n != 1 {
		t.Errorf("%d objects, expected 1", n)
	}
	// Half an output is none, and leaves nothing behind.
	broken := io.MultiReader(strings.NewReader(large), iotest.ErrReader(errors.New("gone")))
	if _, err := l.PutOutput(ctx, id, "broken", broken); err == nil {
		t.Error("an output that broke off was stored")
	}
	_, _, err := l.OpenOutput(ctx, ledger.AllTenants(), id, "broken", 0, -1)
	wantErr(t, err, core.ErrNotFound, "an output that broke off")
	if n := files(t, dir); n != 1 {
		t.Errorf("%d objects, expected 1", n)
	}
	_, err = l.PutOutput(ctx, core.JobID{Run: "none"}, "x", strings.NewReader(""))
	wantErr(t, err, core.ErrNotFound, "output of no run")
	_, err = l.PutOutput(ctx, core.JobID{Run: "r1", Index: 2}, "x", strings.NewReader(""))
	wantErr(t, err, core.ErrNotFound, "output of no job")
	_, _, err = l.OpenOutput(ctx, ledger.AllTenants(), id, "large", -1, 5)
	wantErr(t, err, core.ErrInvalid, "a negative offset")

	without := b.at(t, url)
	_, _, err = without.OpenOutput(ctx, ledger.AllTenants(), id, "just large", 0, -1)
	wantErr(t, err, core.ErrUnavailable, "an object without a bucket")
	if o := must[ledger.Output](t)(without.PutOutput(ctx, id, "large", strings.NewReader(large))); o.Size != int64(len(large)) {
		t.Errorf("%+v", o)
	}
	_, err = without.PutOutput(ctx, id, "huge", strings.NewReader(strings.Repeat("x", ledger.MaxInlineOutput+1)))
	wantErr(t, err, core.ErrInvalid, "too much without a bucket")
}

func testPrune(t *testing.T, b *backend) {
	l, dir := b.withBucket(t, b.fresh(t))
	ctx := t.Context()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l.SetClock(func() time.Time { return now })
	const jobs = 25
	for i := range 4 {
		id := fmt.Sprint("r", i)
		n := newRun(id, "", jobs)
		n.Key = "key" + id
		accept(t, l, n)
		for j := range jobs - 5 {
			record(t, l, id, ledger.Outcome{Index: j, Outcome: core.Changed, Attempt: 1, Detail: []byte("detail")})
		}
		must[ledger.Output](t)(l.PutOutput(ctx, core.JobID{Run: id}, "log", strings.NewReader(strings.Repeat("x", ledger.SmallOutput+1))))
		if i < 3 { // the last one does not end
			record(t, l, id, ledger.Outcome{Count: jobs, Outcome: core.Cancelled})
		}
		now = now.Add(time.Hour)
	}
	all := ledger.Owners{Others: true}
	before := now.Add(-2*time.Hour - time.Minute) // r0 and r1 ended before
	if use, err := l.OutputUse(ctx); err != nil || use[""] != (ledger.Use{Outputs: 4, Bytes: 4 * (ledger.SmallOutput + 1)}) {
		t.Errorf("%+v, %v", use, err)
	}
	expired := func(outputs bool) string {
		return names(pages(t, 1, func(p ledger.Page) ([]ledger.Run, string, error) { return l.Expired(ctx, all, before, outputs, p) }))
	}
	if got := expired(false); got != "r0 r1 " {
		t.Fatalf("expired: %s", got)
	}
	// First the outputs alone.
	if p := must[ledger.Pruned](t)(l.PruneOutputs(ctx, "r1", 10)); p.Rows != 1 || p.More || files(t, dir) != 3 || expired(true) != "r0 " {
		t.Errorf("%+v, %d objects left, with outputs: %s", p, files(t, dir), expired(true))
	}
	sound(t, l)
	calls, rows := 0, 0
	for _, id := range []string{"r0", "r1"} {
		for more := true; more; calls++ {
			p, err := l.Prune(ctx, id, 10)
			if err != nil {
				t.Fatal(err)
			}
			if p.Rows > 10 {
				t.Errorf("one call removed %d rows", p.Rows)
			}
			if calls > 100 {
				t.Fatal("pruning has no end")
			}
			rows, more = rows+p.Rows, p.More
			sound(t, l)
		}
	}
	if want := 2*2*(jobs-5) + 2 + 1; rows != want || files(t, dir) != 2 {
		t.Errorf("%d rows, %d objects left; expected %d, 2", rows, files(t, dir), want)
	}
	// An incomplete run stays, whichever server asks; a missing one is no error.
	_, err := l.Prune(ctx, "r3", 10)
	wantErr(t, err, core.ErrConflict, "a run that is not complete")
	_, err = l.PruneOutputs(ctx, "r3", 10)
	wantErr(t, err, core.ErrConflict, "outputs of a run that is not complete")
	if p, err := l.Prune(ctx, "r0", 10); err != nil || p.Rows != 0 || p.More {
		t.Errorf("again: %+v, %v", p, err)
	}
	for i, want := range []error{core.ErrNotFound, core.ErrNotFound, nil, nil} {
		_, err := l.Run(ctx, ledger.AllTenants(), fmt.Sprint("r", i))
		if want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("r%d: %v, expected %v", i, err, want)
		}
	}
	if jobs, _, err := l.HostHistory(ctx, ledger.AllTenants(), "host-0", ledger.Page{}); err != nil || len(jobs) != 2 {
		t.Errorf("%d jobs in the history, %v", len(jobs), err)
	}
	if a, err := l.VerifyAudit(ctx); err != nil || a.Seq != 4 {
		t.Errorf("the audit log lost something: %+v, %v", a, err)
	}
}

// Objects that no row names go, once they are old enough. One that is older than the ledger stays,
// because it may be of another ledger; so does a fresh one, whose row may still come.
func testSweep(t *testing.T, b *backend) {
	l, dir := b.withBucket(t, b.fresh(t))
	ctx := t.Context()
	accept(t, l, newRun("r1", "", 2))
	must[ledger.Output](t)(l.PutOutput(ctx, core.JobID{Run: "r1"}, "log", strings.NewReader(strings.Repeat("x", ledger.SmallOutput+1))))
	for _, name := range []string{"output/1/0/00aa", "output/77/3/00bb", "output/note", "other/1/0/00cc", "output/1/0/00dd"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("left behind"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	former := time.Now().AddDate(-1, 0, 0)
	if err := os.Chtimes(filepath.Join(dir, "output/1/0/00dd"), former, former); err != nil {
		t.Fatal(err)
	}
	soon, long := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	if s := must[ledger.Swept](t)(l.Sweep(ctx, long, true, nil)); s.Orphans != 0 || s.Looked != 5 || files(t, dir) != 6 {
		t.Errorf("fresh ones: %+v, %d objects left", s, files(t, dir))
	}
	for _, remove := range []bool{false, true} {
		if s := must[ledger.Swept](t)(l.Sweep(ctx, soon, remove, nil)); s.Orphans != 2 || s.Bytes != 22 {
			t.Errorf("%+v, expected 2 of 22 bytes", s)
		}
	}
	if n := files(t, dir); n != 4 {
		t.Errorf("%d objects left, expected that of the run, that of a former ledger and two that are not ours", n)
	}
	if rc, _, err := l.OpenOutput(ctx, ledger.AllTenants(), core.JobID{Run: "r1"}, "log", 0, -1); err != nil {
		t.Error(err)
	} else {
		_ = rc.Close()
	}
}

// One server has a duty, until it does not ask any more.
func testDuty(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	for _, tc := range []struct {
		by   string
		ttl  time.Duration
		mine bool
	}{{"s1", time.Hour, true}, {"s2", time.Hour, false}, {"s1", time.Microsecond, true}, {"s2", time.Hour, true}, {"s1", time.Hour, false}} {
		if mine := must[bool](t)(l.Duty(ctx, "x", tc.by, tc.ttl)); mine != tc.mine {
			t.Errorf("%s: %v", tc.by, mine)
		}
		<-time.After(2 * time.Millisecond)
	}
	if docs, _, err := l.Documents(ctx, ledger.AllTenants(), "duty", ledger.Page{}); err != nil || len(docs) != 0 {
		t.Errorf("a duty is listed: %v, %v", docs, err)
	}
}

func testCheck(t *testing.T, b *backend) {
	l := b.open(t)
	ctx := t.Context()
	accept(t, l, newRun("r1", "", 4))
	record(t, l, "r1", ledger.Outcome{Index: 0, Outcome: core.Changed}, ledger.Outcome{Index: 1, Count: 3, Outcome: core.Cancelled})
	accept(t, l, newRun("r2", "", 2))
	record(t, l, "r2", ledger.Outcome{Index: 0, Outcome: core.Failed})
	sound(t, l)
	for _, harm := range []string{
		`UPDATE runs SET changed = 7 WHERE id = 'r1'`,
		`UPDATE runs SET recorded = 1, cancelled = 0 WHERE id = 'r1'`,
		`UPDATE runs SET ended = 0, phase = 'active' WHERE id = 'r1'`,
		`UPDATE runs SET ended = 5, phase = 'finished' WHERE id = 'r2'`,
		`DELETE FROM jobs WHERE run = (SELECT seq FROM runs WHERE id = 'r2')`,
	} {
		if err := l.Raw(ctx, harm); err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{true, true, false} { // seen, repaired, gone
			found, err := l.Check(ctx, i == 1)
			if err != nil || (len(found) > 0) != want || want && found[0].Repaired != (i == 1) {
				t.Errorf("%s, call %d: %+v, %v", harm, i, found, err)
			}
		}
	}
	if r := read(t, l, "r1"); r.Recorded != 4 || r.Outcomes[core.Changed] != 1 || r.Phase != ledger.PhaseFinished {
		t.Errorf("%+v", r)
	}
	if r := read(t, l, "r2"); r.Recorded != 0 || r.Complete() || r.Phase != ledger.PhaseActive {
		t.Errorf("%+v", r)
	}
}

// A database of each earlier version is brought forward with what is in it; several servers start
// at the same time.
func testMigrations(t *testing.T, b *backend) {
	ctx := t.Context()
	for _, version := range []int{0, 1, 2, 3} {
		url := b.fresh(t)
		if version > 0 {
			if err := ledger.MigrateTo(ctx, url, version); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		servers := make([]*ledger.Ledger, 4)
		for i := range servers {
			wg.Go(func() {
				l, err := ledger.Open(context.WithoutCancel(ctx), url, ledger.Options{})
				if err != nil {
					t.Errorf("from version %d: %v", version, err)
				}
				servers[i] = l
			})
		}
		wg.Wait()
		for _, l := range servers {
			if l != nil {
				defer l.Close()
			}
		}
		if t.Failed() {
			return
		}
		accept(t, servers[0], newRun("r1", "", 1))
		sound(t, servers[3])
		if version == 0 {
			// A newer program was here.
			if err := servers[0].Raw(ctx, `INSERT INTO migrations (version, applied) VALUES (9999, 0)`); err != nil {
				t.Fatal(err)
			}
			_, err := ledger.Open(ctx, url, ledger.Options{})
			wantErr(t, err, core.ErrInvalid, "a database of a newer program")
		}
	}
	// Data of an earlier program is still there.
	url := b.fresh(t)
	if err := ledger.MigrateTo(ctx, url, 1); err != nil {
		t.Fatal(err)
	}
	old, err := ledger.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Raw(ctx, `INSERT INTO runs (id, tenant, playbook, revision, launched_by, created, criticality, phase, request, total) VALUES ('old', 'a', 'p', '', 'x', 1, 0, 'queued', '', 3)`); err != nil {
		t.Fatal(err)
	}
	_ = old.Close()
	if r := read(t, b.at(t, url), "old"); r.Total != 3 || r.Tenant != "a" || r.Sources != nil {
		t.Errorf("%+v", r)
	}
}

// Random calls, compared with a model of a few lines.
func testLikeTheModel(t *testing.T, b *backend) {
	l := b.open(t)
	for round := range 8 {
		random := rand.New(rand.NewPCG(uint64(round), 4)) // repeatable on purpose
		id := fmt.Sprint("m", round)
		total := 1 + random.IntN(30)
		accept(t, l, newRun(id, "", total))
		model := map[int]core.Outcome{}
		outcomes := core.Outcomes()
		for range 40 {
			var batch []ledger.Outcome
			fresh := 0
			for range 1 + random.IntN(6) {
				o := ledger.Outcome{Index: random.IntN(total), Outcome: outcomes[random.IntN(len(outcomes))], Attempt: 1}
				if random.IntN(4) == 0 {
					o.Count = 1 + random.IntN(total-o.Index)
				}
				batch = append(batch, o)
				for i := o.Index; i < o.Index+max(o.Count, 1); i++ {
					if model[i] == "" {
						model[i] = o.Outcome
						fresh++
					}
				}
			}
			if got := record(t, l, id, batch...); got.New != fresh {
				t.Fatalf("round %d: %+v: %+v, expected %d new", round, batch, got, fresh)
			}
		}
		counts := map[core.Outcome]int{}
		for i := range total {
			j := must[ledger.Job](t)(l.Job(t.Context(), ledger.AllTenants(), core.JobID{Run: id, Index: i}))
			if j.Outcome != model[i] {
				t.Errorf("round %d, job %d: %s, expected %s", round, i, j.Outcome, model[i])
			}
			if j.Outcome != "" {
				counts[j.Outcome]++
			}
		}
		r := read(t, l, id)
		if fmt.Sprint(r.Outcomes) != fmt.Sprint(counts) {
			t.Errorf("round %d: counts %v, expected %v", round, r.Outcomes, counts)
		}
		listed := pages(t, 7, func(p ledger.Page) ([]ledger.Job, string, error) {
			return l.Jobs(t.Context(), ledger.AllTenants(), id, ledger.JobFilter{}, p)
		})
		if len(listed) != r.Recorded {
			t.Errorf("round %d: %d jobs listed, %d recorded", round, len(listed), r.Recorded)
		}
	}
	sound(t, l)
}
