package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

// A backup that lacks a large output reports it, also when it is verified and restored. A folder of
// outputs that does not exist is refused, and not made.
func TestBackupReportsMissingOutputs(t *testing.T) {
	t.Setenv("TURNUS_LEDGER", "")
	t.Setenv("TURNUS_KEYRING", "")
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	bucket, err := ledger.OpenBucket(t.Context(), at("outputs"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Open(t.Context(), "sqlite:"+at("ledger.db"), ledger.Options{Bucket: bucket})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Accept(t.Context(), ledger.NewRun{ID: "r1", Playbook: "p", LaunchedBy: "ann", Snapshot: []byte("{}"), Queue: []byte("{}"), Jobs: []ledger.JobHost{{Host: "a"}, {Host: "b"}}}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if _, err := l.PutOutput(t.Context(), core.JobID{Run: "r1", Index: i}, "0/stdout", strings.NewReader(strings.Repeat("x", 2*ledger.SmallOutput))); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	of := func(outputs, where string) []string {
		return []string{"admin", "backup", "--data", dir, "--outputs", at(outputs), at(where)}
	}
	paths, err := filepath.Glob(at("outputs/output/*/1/*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%v, %v", paths, err)
	}
	const lacks = "lacks 1 large output that could not be found"
	for _, tc := range []struct {
		args      []string
		code      int
		want, not string
	}{
		{of("output", "b"), console.ExitInvalid, "cannot read the folder of large outputs", "sound"},
		{of("outputs", "b"), console.ExitOK, "2 large outputs", "could not be copied"},
		{[]string{"admin", "backup", "verify", at("b")}, console.ExitOK, "sound", "lacks"},
		{nil, 0, "", ""}, // an output is lost
		{of("outputs", "c"), console.ExitOK, "1 large output could not be copied", "nothing"},
		{[]string{"admin", "backup", "verify", at("c")}, console.ExitOK, lacks, "FAULT"},
		{[]string{"admin", "restore", at("c"), "--data", at("new")}, console.ExitOK, lacks, "encrypted"},
	} {
		if tc.args == nil {
			for _, path := range paths {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		var out, errs bytes.Buffer
		code := Main(tc.args, strings.NewReader(""), &out, &errs)
		if text := out.String() + errs.String(); code != tc.code || !strings.Contains(text, tc.want) || strings.Contains(text, tc.not) {
			t.Errorf("%v: exit %d, expected %d with %q and without %q\n%s", tc.args, code, tc.code, tc.want, tc.not, text)
		}
	}
	if _, err := os.Stat(at("output")); err == nil {
		t.Error("a folder of outputs that does not exist was made")
	}
}
