package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gocloud.dev/blob/fileblob"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/ledger"
)

func newRing(tb testing.TB, o keyring.Options) (*keyring.Ring, string) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "ring.json")
	if _, err := keyring.New(path); err != nil {
		tb.Fatal(err)
	}
	return ringAt(tb, path, o), path
}

func ringAt(tb testing.TB, path string, o keyring.Options) *keyring.Ring {
	tb.Helper()
	r, err := keyring.Open(path, o)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// word must not be found in an encrypted ledger.
const word = "Xanthippe"

// vault is a database and a bucket, opened by one process after the other.
type vault struct {
	testing.TB
	url, dir string
}

func newVault(t *testing.T, b *backend) *vault {
	t.Helper()
	return &vault{t, b.fresh(t), t.TempDir()}
}

func (v *vault) open(ring *keyring.Ring) *ledger.Ledger {
	v.Helper()
	l, err := v.try(ring)
	if err != nil {
		v.Fatal(err)
	}
	v.Cleanup(func() { _ = l.Close() })
	return l
}

func (v *vault) try(ring *keyring.Ring) (*ledger.Ledger, error) {
	v.Helper()
	bucket, err := fileblob.OpenBucket(v.dir, &fileblob.Options{NoTempDir: true, Metadata: fileblob.MetadataDontWrite})
	if err != nil {
		v.Fatal(err)
	}
	l, err := ledger.Open(v.Context(), v.url, ledger.Options{Bucket: bucket, Keyring: ring})
	if err != nil {
		_ = bucket.Close()
	}
	return l, err
}

var large = strings.Repeat("large output of "+word+"\n", 10_000)

// fill puts the word wherever a ledger has room for it; n differs by vault.
func (v *vault) fill(l *ledger.Ledger, id string) {
	v.Helper()
	ctx := v.Context()
	n := newRun(id, "a", 6)
	n.Snapshot, n.Queue = []byte("snapshot of "+word), []byte(strings.Repeat("queue of "+word, 100))
	accept(v, l, n)
	for i, o := range []core.Outcome{core.Failed, core.Lost} {
		record(v, l, id, ledger.Outcome{Index: i, Outcome: o, Attempt: 1, Reason: "it said: " + word, Detail: []byte("detail of " + word)})
	}
	for name, text := range map[string]string{"2/stdout": "output of " + word, "3/stdout": large} {
		if _, err := l.PutOutput(ctx, core.JobID{Run: id, Index: 1}, name, strings.NewReader(text)); err != nil {
			v.Fatal(err)
		}
	}
	v.report(l, id, "fold "+id, ledger.Once)
	v.report(l, id, "again "+id, time.Hour)
	v.report(l, id, "again "+id, time.Hour) // it is folded into the row of the one before
	v.report(l, id, "", 0)
	if _, err := l.NewNotification(ctx, "ann", ledger.Notification{ID: id + "-note", Channel: "c", Medium: "webhook", Kind: "test", Subject: id, Data: []byte("notice of " + word)}); err != nil {
		v.Fatal(err)
	}
	if _, err := l.PutDocument(ctx, ledger.AllTenants(), "ann", ledger.Document{Kind: "definitions", Name: id, Data: []byte("document of " + word)}, 0); err != nil {
		v.Fatal(err)
	}
}

// report writes down that something happened to what id names.
func (v *vault) report(l *ledger.Ledger, id, fold string, span time.Duration) {
	v.Helper()
	h := ledger.Happening{What: "lab", Subject: id, Fold: fold, Data: []byte("happening of " + word)}
	if err := l.Report(v.Context(), h, span); err != nil {
		v.Fatal(err)
	}
}

// reads fails the test unless all that fill wrote can be read.
func (v *vault) reads(l *ledger.Ledger, id string) {
	v.Helper()
	ctx, all := v.Context(), ledger.AllTenants()
	same := func(what, got, want string, err error) {
		v.Helper()
		if err != nil || got != want {
			v.Errorf("%s of run %s: %.60q, %v; expected %.60q", what, id, got, err, want)
		}
	}
	m, err := l.Material(ctx, id)
	same("snapshot", string(m.Snapshot), "snapshot of "+word, err)
	same("queue", string(m.Queue), strings.Repeat("queue of "+word, 100), err)
	job := func(i int) core.JobID { return core.JobID{Run: id, Index: i} }
	d, err := l.Detail(ctx, all, job(0))
	same("detail", string(d), "detail of "+word, err)
	j, d, err := l.JobDetail(ctx, all, job(0))
	same("detail with its job", string(d), "detail of "+word, err)
	same("reason with it", j.Reason, "it said: "+word, err)
	j, err = l.Job(ctx, all, job(0))
	same("reason", j.Reason, "it said: "+word, err)
	jobs, _, err := l.Jobs(ctx, all, id, ledger.JobFilter{Outcome: core.Failed}, ledger.Page{})
	same("reason in the list", fmt.Sprint(len(jobs), jobs[0].Reason), "1it said: "+word, err)
	jobs, _, err = l.AllJobs(ctx, all, id, "", false, ledger.Page{})
	same("reason in the list of all", jobs[0].Reason, "it said: "+word, err)
	jobs, _, err = l.HostHistory(ctx, all, "host-0", ledger.Page{})
	same("reason in the history", jobs[0].Reason, "it said: "+word, err)
	tries, err := l.Attempts(ctx, all, job(1))
	same("attempt", fmt.Sprint(len(tries), tries[0].Reason), "1it said: "+word, err)
	for name, text := range map[string]string{"2/stdout": "output of " + word, "3/stdout": large} {
		for _, part := range [][2]int64{{0, -1}, {3, 10}, {int64(len(text)) - 5, 100}, {70_000, 70_000}} {
			from := min(part[0], int64(len(text)))
			want := text[from:]
			if part[1] >= 0 {
				want = want[:min(part[1], int64(len(want)))]
			}
			r, o, err := l.OpenOutput(ctx, all, job(1), name, part[0], part[1])
			if err != nil {
				v.Errorf("output %s of run %s: %v", name, id, err)
				continue
			}
			got, err := io.ReadAll(r)
			_ = r.Close()
			same(fmt.Sprint("output ", name, part, o.Size), string(got), want, err)
		}
	}
	happened, err := l.Happenings(ctx, 100)
	reported := 0
	for _, h := range happened {
		if h.What == "lab" && h.Subject == id {
			reported++
			same("happening", string(h.Data), "happening of "+word, h.Unreadable)
		}
	}
	same("happenings", fmt.Sprint(reported), "3", err)
	note, err := l.Notification(ctx, all, id+"-note")
	same("notification", string(note.Data), "notice of "+word, errors.Join(err, note.Unreadable))
	doc, err := l.Document(ctx, all, "definitions", "", id)
	same("document", string(doc.Data), "document of "+word, err)
	docs, _, err := l.Documents(ctx, all, "definitions", ledger.Page{})
	same("documents", string(docs[0].Data), "document of "+word, err)
}

// holds returns where the word is: in any row, by the database's own text of it, or in any object.
func (v *vault) holds(l *ledger.Ledger) (found []string) {
	v.Helper()
	for _, table := range []string{"runs", "materials", "jobs", "ranges", "attempts", "decisions", "tokens", "documents", "outputs", "audit", "happenings", "notifications"} {
		n, err := l.Search(v.Context(), table, word)
		if err != nil {
			v.Fatal(err)
		}
		if n > 0 {
			found = append(found, table)
		}
	}
	_ = filepath.WalkDir(v.dir, func(path string, d os.DirEntry, err error) error {
		if text, _ := os.ReadFile(path); err == nil && !d.IsDir() && bytes.Contains(text, []byte(word)) {
			found = append(found, "objects")
		}
		return nil
	})
	return found
}

// Nothing that hosts sent and people wrote is legible; a process without the key is turned away.
// The negative control is a ledger without a ring, in which it is.
func testEncrypted(t *testing.T, b *backend) {
	ring, path := newRing(t, keyring.Options{})
	v := newVault(t, b)
	l := v.open(ring)
	v.fill(l, "r1")
	v.reads(l, "r1")
	if found := v.holds(l); found != nil {
		t.Errorf("it is legible in %v", found)
	}
	open := newVault(t, b)
	plain := open.open(nil)
	open.fill(plain, "r1")
	if found := open.holds(plain); len(found) < 7 {
		t.Errorf("without a ring it is found in %v only: the search does not see", found)
	}

	other, _ := newRing(t, keyring.Options{})
	for name, tc := range map[string]struct {
		ring *keyring.Ring
		says string
	}{"no ring": {nil, "--keyring"}, "another ring": {other, "lacks"}} {
		if _, err := v.try(tc.ring); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	blind, err := ledger.Open(t.Context(), v.url, ledger.Options{Blind: true}) // as for the check of a backup
	if err != nil {
		t.Fatal(err)
	}
	if found, err := blind.Check(t.Context(), false); err != nil || len(found) != 0 {
		t.Errorf("without decrypting it: %+v, %v", found, err)
	}
	if _, err := blind.Material(t.Context(), "r1"); !errors.Is(err, keyring.ErrNoKey) {
		t.Errorf("and its snapshot: %v", err)
	}
	_ = blind.Close()
	// Values that were moved, cut or changed are not read, each with its reason, and lists continue.
	ctx, all := t.Context(), ledger.AllTenants()
	v.fill(l, "r2")
	for _, sql := range []string{
		`UPDATE materials SET snapshot = (SELECT snapshot FROM materials m WHERE m.run <> materials.run)`,
		`UPDATE materials SET queue = substr(queue, 1, 40)`,
		`UPDATE jobs SET reason = (SELECT reason FROM jobs j WHERE j.run <> jobs.run AND j.idx = jobs.idx) WHERE idx = 0`,
		`UPDATE attempts SET detail = (SELECT detail FROM attempts a WHERE a.run <> attempts.run AND a.idx = attempts.idx AND a.life = attempts.life)`,
		`UPDATE documents SET data = (SELECT data FROM documents d WHERE d.kind = documents.kind AND d.name <> documents.name) WHERE kind = 'definitions'`,
		`UPDATE happenings SET data = (SELECT data FROM happenings h WHERE h.subject = 'r2' AND h.fold <> '' LIMIT 1) WHERE what = 'lab' AND subject = 'r1'`,
		`UPDATE notifications SET data = (SELECT data FROM notifications n WHERE n.id = 'r2-note') WHERE id = 'r1-note'`,
		`UPDATE outputs SET object = (SELECT object FROM outputs o WHERE o.run <> outputs.run AND o.name = outputs.name)`,
	} {
		if err := l.Raw(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	fresh := v.open(ringAt(t, path, keyring.Options{})) // nothing is cached
	id := core.JobID{Run: "r1", Index: 0}
	for what, read := range map[string]func() error{
		"material": func() error { _, err := fresh.Material(ctx, "r1"); return err },
		"detail":   func() error { _, err := fresh.Detail(ctx, all, id); return err },
		"document": func() error { _, err := fresh.Document(ctx, all, "definitions", "", "r1"); return err },
		"happening": func() error {
			all, err := fresh.Happenings(ctx, 100)
			for _, h := range all {
				if h.What == "lab" && h.Subject == "r1" && !errors.Is(h.Unreadable, keyring.ErrTampered) {
					return fmt.Errorf("happening %q is read as %q: %w", h.Fold, h.Data, h.Unreadable)
				}
			}
			return errors.Join(err, all[slices.IndexFunc(all, func(h ledger.Happening) bool { return h.What == "lab" })].Unreadable)
		},
		"notification": func() error {
			n, err := fresh.Notification(ctx, all, "r1-note")
			return errors.Join(err, n.Unreadable)
		},
		"object": func() error {
			r, _, err := fresh.OpenOutput(ctx, all, core.JobID{Run: "r1", Index: 1}, "3/stdout", 0, -1)
			if err == nil {
				_, err = io.ReadAll(r)
				_ = r.Close()
			}
			return err
		},
	} {
		if err := read(); !errors.Is(err, keyring.ErrTampered) {
			t.Errorf("%s that was moved: %v", what, err)
		}
	}
	if j, err := fresh.Job(ctx, all, id); err != nil || !strings.Contains(j.Reason, "cannot be read") || strings.Contains(j.Reason, word) {
		t.Errorf("a reason that was moved: %q, %v", j.Reason, err)
	}
	if err := l.Raw(ctx, `UPDATE materials SET snapshot = $1`, append([]byte{0}, "forged"...)); err != nil {
		t.Fatal(err)
	}
	if m, err := fresh.Material(ctx, "r1"); !errors.Is(err, keyring.ErrPlain) {
		t.Errorf("a snapshot in plain text is read as %q, %v", m.Snapshot, err)
	}
}

// used counts values by key; "" are those that are not encrypted.
func used(tb testing.TB, l *ledger.Ledger) map[string]int {
	tb.Helper()
	uses, err := l.KeyUses(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	counts := map[string]int{}
	for _, u := range uses {
		key := ""
		if u.Encrypted {
			key = u.Key.String()
		}
		counts[key] += u.Count
	}
	return counts
}

// A ledger without a ring gets one, and later another key; nothing is lost on the way, and at its
// end nothing needs the former.
func testReencrypted(t *testing.T, b *backend) {
	ctx := t.Context()
	v := newVault(t, b)
	v.fill(v.open(nil), "r1")
	_, path := newRing(t, keyring.Options{})
	first, err := keyring.Keys(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.try(ringAt(t, path, keyring.Options{})); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "--keyring-accept-plain") {
		t.Errorf("a ledger in plain text is opened with a ring: %v", err)
	}
	v.reads(v.open(nil), "r1") // who was refused left no mark
	migrating := v.open(ringAt(t, path, keyring.Options{AcceptPlain: true}))
	v.reads(migrating, "r1")
	v.fill(migrating, "r2")
	strict := v.open(ringAt(t, path, keyring.Options{}))
	if err := strict.RefusePlain(ctx); err != nil {
		t.Errorf("a ledger that another process marked since it was checked: %v", err)
	}
	if _, err := strict.Material(ctx, "r1"); !errors.Is(err, keyring.ErrPlain) {
		t.Errorf("a process that accepts no plain bytes reads them: %v", err)
	}
	if done, err := strict.Reencrypt(ctx, nil); err != nil || done.Values != 0 || used(t, strict)[""] == 0 {
		t.Errorf("a process that accepts no plain bytes encrypted them: %+v, %v", done, err)
	}
	v.endsBetween(migrating)
	if done, err := migrating.Reencrypt(ctx, nil); err != nil || done.Failed != 0 || done.Values == 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if found := v.holds(strict); found != nil {
		t.Errorf("legible after all was encrypted: %v", found)
	}
	if n := used(t, strict); n[""] != 0 || n[first[0].ID.String()] == 0 {
		t.Errorf("keys in use: %v", n)
	}
	second, err := keyring.Add(path)
	if err == nil {
		err = keyring.Promote(path, second)
	}
	if err != nil {
		t.Fatal(err)
	}
	later := v.open(ringAt(t, path, keyring.Options{}))
	v.fill(later, "r3")
	objects := files(t, v.dir)
	reported := 0
	done, err := later.Reencrypt(ctx, func(n int) { reported = n })
	if err != nil || done.Failed != 0 || done.Values == 0 || reported != done.Values {
		t.Fatalf("%+v, %v; reported %d", done, err, reported)
	}
	if n := used(t, later); len(n) != 1 || n[second.String()] == 0 {
		t.Errorf("keys in use: %v", n)
	}
	if n := files(t, v.dir); n != objects {
		t.Errorf("%d files, there were %d: objects keep what they are", n, objects)
	}
	if again, err := later.Reencrypt(ctx, nil); err != nil || again.Values != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
	if err := keyring.Retire(path, first[0].ID); err != nil {
		t.Fatal(err)
	}
	last := v.open(ringAt(t, path, keyring.Options{}))
	for _, id := range []string{"r1", "r2", "r3"} {
		v.reads(last, id)
	}
}

// endsBetween ends a call of Reencrypt behind the commit of an object, before the plain object is
// removed. The next call must remove it. Without removeReplaced it does not: the object is legible.
func (v *vault) endsBetween(l *ledger.Ledger) {
	v.Helper()
	ctx, cancel := context.WithCancel(v.Context())
	before := files(v, v.dir)
	_, err := l.Reencrypt(ctx, func(int) {
		if files(v, v.dir) > before {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || !slices.Contains(v.holds(l), "objects") {
		v.Fatalf("it did not end between the two: %v", err)
	}
}

// While it encrypts again, servers record and read: nothing fails, nothing is lost, nothing is
// left.
func testReencryptedAtWork(t *testing.T, b *backend) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v := newVault(t, b)
	_, path := newRing(t, keyring.Options{})
	old := v.open(ringAt(t, path, keyring.Options{}))
	const jobs = 300
	accept(t, old, newRun("r", "a", jobs))
	reason := func(i int) string { return fmt.Sprintf("reason %d", i) }
	outcome := func(i int) ledger.Outcome {
		return ledger.Outcome{Index: i, Outcome: core.Failed, Attempt: 1, Reason: core.Reason(reason(i)), Detail: []byte(reason(i))}
	}
	for i := range jobs / 2 {
		record(t, old, "r", outcome(i))
	}
	second, err := keyring.Add(path)
	if err == nil {
		err = keyring.Promote(path, second)
	}
	if err != nil {
		t.Fatal(err)
	}
	fresh := v.open(ringAt(t, path, keyring.Options{}))
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := jobs / 2; i < jobs; i++ {
			if _, err := fresh.Record(ctx, ledger.Batch{Run: "r", Outcomes: []ledger.Outcome{outcome(i)}}); err != nil {
				t.Errorf("record: %v", err)
			}
		}
	})
	wg.Go(func() {
		for range 30 {
			if list, _, err := fresh.Jobs(ctx, ledger.AllTenants(), "r", ledger.JobFilter{}, ledger.Page{Limit: 50}); err != nil || list[0].Reason != reason(0) {
				t.Errorf("list: %q, %v", list[0].Reason, err)
			}
		}
	})
	done, err := fresh.Reencrypt(ctx, nil)
	wg.Wait()
	if err != nil || done.Failed != 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if n := used(t, fresh); len(n) != 1 || n[second.String()] == 0 {
		t.Errorf("keys in use: %v", n)
	}
	for i := range jobs {
		j, detail, err := fresh.JobDetail(ctx, ledger.AllTenants(), core.JobID{Run: "r", Index: i})
		if err != nil || j.Reason != reason(i) || string(detail) != reason(i) {
			t.Fatalf("job %d: %q, %q, %v", i, j.Reason, detail, err)
		}
	}
}

// The age of the key that a ledger is encrypted with counts from its first use, also if others open
// the ledger since, and again after a rotation.
func testEncryptedSince(t *testing.T, b *backend) {
	v := newVault(t, b)
	since := func(l *ledger.Ledger) time.Time {
		t.Helper()
		at, err := l.EncryptedSince(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	if at := since(v.open(nil)); !at.IsZero() {
		t.Errorf("negative control: a ledger in plain text, since %v", at)
	}
	ring, path := newRing(t, keyring.Options{})
	began := time.Now()
	l := v.open(ring)
	if at := since(l); at.Before(began.Truncate(time.Microsecond)) || at.After(time.Now()) {
		t.Errorf("since %v, expected about %v", at, began)
	}
	year := time.Now().Add(-400 * 24 * time.Hour).Truncate(time.Microsecond)
	if err := l.Raw(t.Context(), `UPDATE documents SET updated = `+strconv.FormatInt(year.UnixMicro(), 10)+` WHERE kind = 'keyring'`); err != nil {
		t.Fatal(err)
	}
	if at := since(v.open(ringAt(t, path, keyring.Options{}))); !at.Equal(year) {
		t.Errorf("opened again, since %v, expected %v", at, year)
	}
	second, err := keyring.Add(path)
	if err == nil {
		err = keyring.Promote(path, second)
	}
	if err != nil {
		t.Fatal(err)
	}
	if at := since(v.open(ringAt(t, path, keyring.Options{}))); at.Before(began) {
		t.Errorf("after a rotation, since %v", at)
	}
}
