//go:build linux && labs

package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/turnus/turnus/core/ledger"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/transport/fleet"
)

// Processes of this version meet those of the next one in a rolling upgrade. The next one is this
// one with what a release changes if it changes both formats: a number and a name more for the
// queue, a table more for the ledger. So it needs no other commit, and also shows that the way to
// the next format is open. TestBesideTheFormerVersion does the same with a program of another
// commit: testdata/upgrade/record.sh runs it.
func TestLabBesideTheNextVersion(t *testing.T) {
	t.Parallel()
	next, format := nextVersion(t)
	l := newLab(t, fleet.Config{Hosts: 1}).traced()
	l.upgradeOps()
	l.withRedis().redis.allows()
	l.meets("", next, format)
}

// nextVersion builds it, and returns the format of the queue that this version has.
func nextVersion(t *testing.T) (program string, format int) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	dir, replace := t.TempDir(), map[string]string{}
	put := func(path, text string) {
		t.Helper()
		to := filepath.Join(dir, filepath.Base(path))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, path)] = to
	}
	change := func(path, pattern string, to func(was string) string) {
		t.Helper()
		from := filepath.Join(root, path)
		text, err := os.ReadFile(cmp.Or(replace[from], from))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(pattern).FindAllSubmatchIndex(text, -1)
		if len(found) != 1 {
			t.Fatalf("%s has %q %d times, expected once", path, pattern, len(found))
		}
		begin, end := found[0][2], found[0][3]
		put(path, string(text[:begin])+to(string(text[begin:end]))+string(text[end:]))
	}
	const keys = "core/queue/redis/keys.go"
	var former string
	change("core/queue/redis/format.go", `const format = (\d+)`, func(was string) string {
		format, err = strconv.Atoi(was)
		return strconv.Itoa(format + 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	change(keys, `"kMeta", "(\w+)"`, func(was string) string { former = was; return fmt.Sprint("meta", format+1) })
	change(keys, `"kFormer", "(\w+)"`, func(string) string { return former })
	put(fmt.Sprintf("core/ledger/migrations/%04d_next.sql", ledger.Version()+1), "CREATE TABLE next (id BIGINT PRIMARY KEY);\n")
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	put("overlay.json", string(overlay))
	program = filepath.Join(dir, "turnus-next")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "github.com/turnus/turnus/cmd/turnus")
	build.Env = testparts.Shipped()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the next version: %v\n%s", err, out)
	}
	return program, format
}
