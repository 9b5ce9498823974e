//go:build s3

package backup_test

import (
	"testing"
	"time"

	"github.com/turnus/turnus/core/backup"
	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts"
)

// Outputs in one bucket, backups in another: copied once, verified, restored into a third; what no
// row names is swept away.
func TestBucketsAllTheWay(t *testing.T) {
	s3 := testparts.StartS3(t, "outputs", "backups", "restored")
	s := &site{TB: t, url: sqliteURL(t), outputs: s3.URL("outputs")}
	s.open()
	s.run("one", 5, 3)
	s.same("one", 5, 3)
	where := s3.URL("backups/of/turnus")
	if m := s.backup(where); m.Outputs.Objects != 3 || m.Outputs.New != 3 {
		t.Errorf("%+v", m.Outputs)
	}
	s.run("two", 40, 20)
	if m := s.backup(where); m.Outputs.Objects != 23 || m.Outputs.New != 20 {
		t.Errorf("%+v", m.Outputs)
	}
	if list, err := backup.List(t.Context(), where); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	if v, err := backup.Verify(t.Context(), where, "", nil); err != nil || len(v.Findings) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	into := &site{TB: t, url: sqliteURL(t), outputs: s3.URL("restored")}
	if err := into.restore(where, ""); err != nil {
		t.Fatal(err)
	}
	into.open()
	into.same("one", 5, 3)
	into.same("two", 40, 20)

	b := s.bucket()
	defer func() { _ = b.Close() }()
	if err := b.WriteAll(t.Context(), "output/99/0/00aa", []byte("left behind"), nil); err != nil {
		t.Fatal(err)
	}
	for before, want := range map[time.Time]int{time.Now().Add(-time.Hour): 0, time.Now().Add(time.Hour): 1} {
		if swept, err := s.ledger.Sweep(t.Context(), before, false, nil); err != nil || swept.Orphans != want || swept.Looked != 24 {
			t.Errorf("%+v, %v, expected %d orphans", swept, err, want)
		}
	}
	if _, err := s.ledger.Sweep(t.Context(), time.Now().Add(time.Hour), true, nil); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"one", "two"} {
		for more := true; more; {
			p, err := s.ledger.Prune(t.Context(), id, 500)
			if err != nil {
				t.Fatal(err)
			}
			more = p.More
		}
	}
	if swept, err := s.ledger.Sweep(t.Context(), time.Now(), false, nil); err != nil || swept != (ledger.Swept{}) {
		t.Errorf("left in the bucket: %+v, %v", swept, err)
	}
}
