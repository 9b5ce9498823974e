package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gocloud.dev/blob"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/backup"
	"github.com/turnus/turnus/core/keyring"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts/servers"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("TURNUS_BACKUP_TEST_CHILD"); dir != "" {
		child(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// site is a ledger with a folder of outputs.
type site struct {
	testing.TB
	url, outputs string
	ring         *keyring.Ring // nil encrypts nothing
	ledger       *ledger.Ledger
}

func newSite(tb testing.TB, url string) *site {
	tb.Helper()
	s := &site{TB: tb, url: url, outputs: tb.TempDir()}
	s.open()
	return s
}

func sqliteURL(tb testing.TB) string {
	tb.Helper()
	return "sqlite:" + filepath.Join(tb.TempDir(), "ledger.db")
}

func (s *site) open() {
	s.Helper()
	l, err := ledger.Open(s.Context(), s.url, ledger.Options{Bucket: s.bucket(), Keyring: s.ring})
	if err != nil {
		s.Fatal(err)
	}
	s.ledger = l
	s.Cleanup(func() { _ = l.Close() })
}

func (s *site) bucket() *blob.Bucket {
	s.Helper()
	b, err := ledger.OpenBucket(context.Background(), s.outputs)
	if err != nil {
		s.Fatal(err)
	}
	return b
}

// run accepts a run, of which all jobs end, with so many large outputs.
func (s *site) run(id string, jobs, outputs int) {
	s.Helper()
	n := ledger.NewRun{ID: id, Playbook: "p", LaunchedBy: "ann", Snapshot: []byte("{}"), Queue: []byte("{}")}
	batch := ledger.Batch{Run: id}
	for i := range jobs {
		n.Jobs = append(n.Jobs, ledger.JobHost{Host: fmt.Sprint("h", i)})
		batch.Outcomes = append(batch.Outcomes, ledger.Outcome{Index: i, Outcome: core.Changed, Attempt: 1, Detail: []byte("detail")})
	}
	if _, _, err := s.ledger.Accept(s.Context(), n); err != nil {
		s.Fatal(err)
	}
	for i := range outputs {
		if _, err := s.ledger.PutOutput(s.Context(), core.JobID{Run: id, Index: i}, "0/stdout", strings.NewReader(large(id, i))); err != nil {
			s.Fatal(err)
		}
	}
	if _, err := s.ledger.Record(s.Context(), batch); err != nil {
		s.Fatal(err)
	}
}

func large(id string, i int) string {
	return strings.Repeat(fmt.Sprintf("%s %d\n", id, i), ledger.SmallOutput/4)
}

func (s *site) backup(where string) *backup.Manifest {
	s.Helper()
	return s.create(backup.Options{Where: where})
}

// backupReading also reads earlier backups.
func (s *site) backupReading(where string) *backup.Manifest {
	s.Helper()
	return s.create(backup.Options{Where: where, ReadData: true})
}

func (s *site) create(o backup.Options) *backup.Manifest {
	s.Helper()
	b := s.bucket()
	defer func() { _ = b.Close() }()
	o.Ledger, o.Objects, o.Program = s.url, b, "test"
	m, err := backup.Create(s.Context(), o)
	if err != nil {
		s.Fatal(err)
	}
	return m
}

func (s *site) restore(where, id string) error {
	b := s.bucket()
	defer func() { _ = b.Close() }()
	_, err := backup.Restore(s.Context(), backup.Restoring{Where: where, ID: id, Ledger: s.url, Objects: b})
	return err
}

// same checks that a run is there as run made it.
func (s *site) same(id string, jobs, outputs int) {
	s.Helper()
	r, err := s.ledger.Run(s.Context(), ledger.AllTenants(), id)
	if err != nil || r.Outcomes[core.Changed] != jobs {
		s.Errorf("run %s: %+v, %v", id, r, err)
	}
	for i := range outputs {
		rc, _, err := s.ledger.OpenOutput(s.Context(), ledger.AllTenants(), core.JobID{Run: id, Index: i}, "0/stdout", 0, -1)
		if err != nil {
			s.Errorf("output %d of %s: %v", i, id, err)
			continue
		}
		var got bytes.Buffer
		if _, err := got.ReadFrom(rc); err != nil || got.String() != large(id, i) {
			s.Errorf("output %d of %s is another one: %d bytes, %v", i, id, got.Len(), err)
		}
		_ = rc.Close()
	}
}

func verify(tb testing.TB, where, id string) (*backup.Verified, error) {
	tb.Helper()
	return backup.Verify(tb.Context(), where, id, nil)
}

// Backups of one database restore into either; large outputs are in a folder of backups once.
func TestBackupRestores(t *testing.T) {
	t.Parallel()
	pg := servers.StartPostgres(t)
	for name, tc := range map[string]struct{ from, to, where string }{
		"a folder, from SQLite to PostgreSQL": {sqliteURL(t), pg.Database(t), t.TempDir() + "/backups"},
		"a file, from PostgreSQL to SQLite":   {pg.Database(t), sqliteURL(t), t.TempDir() + "/b.zip"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, tc.from)
			s.run("one", 5, 2)
			first := s.backup(tc.where)
			if first.Rows("jobs") != 5 || first.Outputs == nil || first.Outputs.Objects != 2 || first.Outputs.New != 2 {
				t.Errorf("%+v", first)
			}
			if strings.HasSuffix(tc.where, ".zip") {
				_, err := backup.Create(t.Context(), backup.Options{Ledger: s.url, Without: true, Where: tc.where})
				if !errors.Is(err, core.ErrInvalid) {
					t.Errorf("over a file that is there: %v", err)
				}
				_, err = backup.Create(t.Context(), backup.Options{Ledger: s.url, Where: t.TempDir() + "/b.zip"})
				if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "large outputs that the ledger names: 2; ") {
					t.Errorf("of large outputs whose place is not named: %v", err)
				}
				if _, err = backup.Create(t.Context(), backup.Options{Ledger: s.url, Without: true, Where: t.TempDir() + "/b.zip"}); err != nil {
					t.Errorf("without them: %v", err)
				}
			} else {
				s.run("two", 40, 20)
				if second := s.backup(tc.where); second.Outputs.Objects != 22 || second.Outputs.New != 20 {
					t.Errorf("%+v", second.Outputs)
				}
				if list, err := backup.List(t.Context(), tc.where); err != nil || len(list) != 2 || list[0].ID != first.ID {
					t.Errorf("%+v, %v", list, err)
				}
			}
			if v, err := verify(t, tc.where, ""); err != nil || len(v.Findings) != 0 {
				t.Fatalf("%+v, %v", v, err)
			}
			into := &site{TB: t, url: tc.to, outputs: t.TempDir()}
			if err := into.restore(tc.where, ""); err != nil {
				t.Fatal(err)
			}
			into.open()
			into.same("one", 5, 2)
			if !strings.HasSuffix(tc.where, ".zip") {
				into.same("two", 40, 20)
			}
			if found, err := into.ledger.Check(t.Context(), false); err != nil || len(found) != 0 {
				t.Errorf("%v, %v", found, err)
			}
			if err := into.restore(tc.where, ""); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("into a ledger that is not empty: %v", err)
			}
			older := &site{TB: t, url: sqliteURL(t), outputs: t.TempDir()}
			if err := older.restore(tc.where, first.ID); err != nil {
				t.Fatal(err)
			}
			older.open()
			older.same("one", 5, 2)
		})
	}
}

// If any byte of a backup is another one, or any file is gone, nothing of it is restored. The
// negative control is TestBackupRestores.
func TestDamagedBackupIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, sqliteURL(t))
	s.run("one", 30, 2)
	where := t.TempDir()
	m := s.backup(where)
	var paths []string
	_ = filepath.WalkDir(where, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, path)
		}
		return err
	})
	if len(paths) < len(m.Tables)+4 {
		t.Fatalf("%v", paths)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, harm := range []string{"changed", "cut", "gone"} {
			broken := bytes.Clone(data)
			switch harm {
			case "changed":
				broken[len(broken)*2/3] ^= 0x40
			case "cut":
				broken = broken[:len(broken)-1]
			}
			if filepath.Base(path) == "manifest.json" && harm == "cut" { // a newline
				broken = broken[:len(broken)/2]
			}
			if err := os.WriteFile(path, broken, 0o600); err != nil {
				t.Fatal(err)
			}
			if harm == "gone" {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			into := &site{TB: t, url: sqliteURL(t), outputs: t.TempDir()}
			err := into.restore(where, m.ID)
			if err == nil {
				t.Errorf("%s %s: it is restored", path, harm)
			} else if !errors.Is(err, core.ErrInvalid) && !errors.Is(err, core.ErrNotFound) {
				t.Errorf("%s %s: %v", path, harm, err)
			}
			into.open()
			if runs, _, err := into.ledger.Runs(t.Context(), ledger.AllTenants(), ledger.RunFilter{}, ledger.Page{}); err != nil || len(runs) != 0 {
				t.Errorf("%s %s: %d runs are in the ledger, %v", path, harm, len(runs), err)
			}
			_ = into.ledger.Close()
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := verify(t, where, ""); err != nil {
		t.Error(err)
	}
}

// Verifying a backup of a ledger whose audit log, or counts, somebody changed reports that.
func TestVerifyFindsWhatDoctorFinds(t *testing.T) {
	t.Parallel()
	s := newSite(t, sqliteURL(t))
	s.run("one", 3, 0)
	_ = s.ledger.Close()
	err := ledger.Load(t.Context(), sqliteURL(t), ledger.Version()+1, "x", nil)
	if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("of a newer program: %v", err)
	}
	harm(t, s.url, `UPDATE runs SET changed = 7`)
	where := t.TempDir()
	s.backup(where)
	if v, err := verify(t, where, ""); err != nil || len(v.Findings) == 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// The last backup is known to the ledger, and in its audit log.
func TestLastBackupIsKnown(t *testing.T) {
	t.Parallel()
	s := newSite(t, sqliteURL(t))
	s.run("one", 3, 1)
	if _, err := backup.ReadLast(t.Context(), s.ledger); !errors.Is(err, core.ErrNotFound) {
		t.Errorf("before any: %v", err)
	}
	for range 2 {
		m := s.backup(t.TempDir())
		if err := backup.Note(t.Context(), s.ledger, "ann", m, time.Second); err != nil {
			t.Fatal(err)
		}
		last, err := backup.ReadLast(t.Context(), s.ledger)
		if err != nil || last.ID != m.ID || !last.Created.Equal(m.Created) || last.Outputs != 1 || last.Bytes <= m.Outputs.Size || last.Took != 1 {
			t.Errorf("%+v, %v", last, err)
		}
	}
	log, _, err := s.ledger.AuditLog(t.Context(), ledger.AllTenants(), ledger.AuditFilter{Action: "backup.create", Who: "ann"}, ledger.Page{})
	if err != nil || len(log) != 2 {
		t.Errorf("%v, %v", log, err)
	}
}

// A person who may write to the ledger can write a whole audit log of their own, with hashes that
// fit. The last hash that a backup keeps shows that. The control: without that hash the log is
// right.
func TestABackupShowsThatTheAuditLogWasRewritten(t *testing.T) {
	t.Parallel()
	s := newSite(t, sqliteURL(t))
	s.run("one", 3, 0)
	m := s.backup(t.TempDir())
	if m.Audit.Seq == 0 || len(m.Audit.Hash) == 0 {
		t.Fatalf("the backup keeps no hash: %+v", m.Audit)
	}
	if _, err := s.ledger.VerifyAudit(t.Context(), m.Audit); err != nil {
		t.Errorf("before: %v", err)
	}
	_ = s.ledger.Close()
	for _, sql := range []string{`DROP TRIGGER audit_no_update`, `DROP TRIGGER audit_no_delete`, `DROP TRIGGER audit_head_forward`, `DELETE FROM audit`, `UPDATE audit_head SET seq = 0, hash = zeroblob(32)`} {
		harm(t, s.url, sql)
	}
	s.open()
	for range m.Audit.Seq + 2 {
		if _, err := s.ledger.AppendAudit(t.Context(), ledger.Entry{Who: "nobody", Action: "run.create", Kind: "run", Subject: "one"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.ledger.VerifyAudit(t.Context()); err != nil {
		t.Fatalf("the control shows nothing: %v", err)
	}
	if _, err := s.ledger.VerifyAudit(t.Context(), m.Audit); !errors.Is(err, ledger.ErrTampered) {
		t.Errorf("with the hash of the backup: %v", err)
	}
}
