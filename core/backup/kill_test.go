package backup_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/backup"
	"github.com/turnus/turnus/core/ledger"
)

// harm changes a ledger in SQLite behind its back.
func harm(tb testing.TB, url, text string) {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+strings.TrimPrefix(url, "sqlite:"))
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := db.ExecContext(tb.Context(), text); err != nil {
		tb.Fatal(err)
	}
	if err := db.Close(); err != nil {
		tb.Fatal(err)
	}
}

// child backs up or restores, prints what it is at, and waits for a word before it continues.
func child(dir string) {
	ctx := context.Background()
	in := bufio.NewScanner(os.Stdin)
	reported := func(what string) {
		fmt.Println(what)
		in.Scan()
	}
	b, err := ledger.OpenBucket(ctx, filepath.Join(dir, os.Getenv("TURNUS_BACKUP_TEST_OUTPUTS")))
	url, where := "sqlite:"+filepath.Join(dir, os.Getenv("TURNUS_BACKUP_TEST_LEDGER")), filepath.Join(dir, "backups")
	switch {
	case err != nil:
	case os.Getenv("TURNUS_BACKUP_TEST_DO") == "backup":
		_, err = backup.Create(ctx, backup.Options{Ledger: url, Objects: b, Where: where, Reported: reported})
	default:
		_, err = backup.Restore(ctx, backup.Restoring{Ledger: url, Objects: b, Where: where, Reported: reported})
	}
	fmt.Println("over", err)
}

// killAt runs the child and kills it when it is at its nth piece of work; over is true if it ended
// before.
func killAt(t *testing.T, dir, do, outputs, url string, n int) (over bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "TURNUS_BACKUP_TEST_CHILD="+dir, "TURNUS_BACKUP_TEST_DO="+do, "TURNUS_BACKUP_TEST_OUTPUTS="+outputs, "TURNUS_BACKUP_TEST_LEDGER="+url)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for at := 0; lines.Scan(); at++ {
		if text, ended := strings.CutPrefix(lines.Text(), "over "); ended {
			if text != "<nil>" {
				t.Fatalf("%s: %s", do, text)
			}
			over = true
			break
		}
		if at == n {
			break
		}
		fmt.Fprintln(in)
	}
	if !over {
		_ = cmd.Process.Kill()
	}
	_ = in.Close()
	_ = cmd.Wait()
	return over
}

// A backup that is killed at any place is none, and does not disturb the next; a restore that is
// killed leaves the ledger as empty as it was.
func TestKilledLeavesNothingHalf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := &site{TB: t, url: "sqlite:" + filepath.Join(dir, "from.db"), outputs: filepath.Join(dir, "outputs")}
	s.open()
	s.run("one", 50, 3)
	where := filepath.Join(dir, "backups")
	kills := 0
	for ; !killAt(t, dir, "backup", "outputs", "from.db", kills); kills += 4 {
		if list, err := backup.List(t.Context(), where); err != nil || len(list) != 0 {
			t.Fatalf("killed at %d: %d backups, %v", kills, len(list), err)
		}
	}
	if kills < 8 {
		t.Errorf("it was killed %d times only", kills/4)
	}
	list, err := backup.List(t.Context(), where)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d backups, %v", len(list), err)
	}
	if _, err := backup.Verify(t.Context(), where, "", nil); err != nil {
		t.Error(err)
	}
	restored := 0
	for ; !killAt(t, dir, "restore", "outputs2", "to.db", restored); restored += 4 {
		l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(dir, "to.db"), ledger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Run(t.Context(), ledger.AllTenants(), "one")
		if !errors.Is(err, core.ErrNotFound) {
			t.Errorf("killed at %d: the run is there, %v", restored, err)
		}
		_ = l.Close()
	}
	if restored < 8 {
		t.Errorf("it was killed %d times only", restored/4)
	}
	into := &site{TB: t, url: "sqlite:" + filepath.Join(dir, "to.db"), outputs: filepath.Join(dir, "outputs2")}
	into.open()
	into.same("one", 50, 3)
	var left []string
	_ = filepath.WalkDir(filepath.Join(dir, "outputs2"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(path, ".attrs") {
			left = append(left, path)
		}
		return err
	})
	if len(left) != 3 {
		t.Errorf("objects: %v", left)
	}
}
