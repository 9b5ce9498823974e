package cli

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/ledger"
)

func TestDoctor(t *testing.T) {
	t.Setenv("TURNUS_LEDGER", "")
	t.Setenv("TURNUS_REDIS", "")
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, err := ledger.Open(t.Context(), "sqlite:"+path, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Accept(t.Context(), ledger.NewRun{ID: "r1", Playbook: "p", LaunchedBy: "alice", Jobs: []ledger.JobHost{{Host: "h"}}, Snapshot: []byte("s"), Queue: []byte("q")}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Record(t.Context(), ledger.Batch{Run: "r1", Outcomes: []ledger.Outcome{{Outcome: core.Changed}}}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--help"}, exitOK, "TURNUS_LEDGER"},
		{[]string{"--ledger", "sqlite:" + path}, exitOK, "sound: the ledger; without --redis"},
		{[]string{"--ledger", "sqlite:" + path, "-o", "text"}, exitOK, "sound: the ledger"},
		{[]string{"--ledger", "sqlite:" + path, "-o", "json"}, exitOK, `"sound": true`},
		{[]string{"--ledger", "sqlite:" + path + ".not"}, exitInvalid, "there is no ledger"},
		{nil, exitInvalid, "doctor needs a ledger"},
		{[]string{"--ledger", "sqlite:" + path, "--redis", "redis://127.0.0.1:1"}, exitInternal, "127.0.0.1:1"},
	} {
		var out, errs bytes.Buffer
		code := Main(append([]string{"doctor"}, tc.args...), strings.NewReader(""), &out, &errs)
		if text := out.String() + errs.String(); code != tc.code || !strings.Contains(text, tc.want) {
			t.Errorf("doctor %v: exit %d, expected %d with %q\n%s", tc.args, code, tc.code, tc.want, text)
		}
		if code == exitOK && strings.Contains(strings.Join(tc.args, " "), "json") {
			var d diagnosis
			if err := json.Unmarshal(out.Bytes(), &d); err != nil || d.Queue || len(d.Findings) != 0 {
				t.Errorf("%+v, %v", d, err)
			}
		}
	}
	t.Setenv("TURNUS_LEDGER", "sqlite:"+path)
	t.Setenv("TURNUS_REDIS", "redis://127.0.0.1:1")
	var out, errs bytes.Buffer
	if code := Main([]string{"doctor"}, strings.NewReader(""), &out, &errs); code != exitInternal || !strings.Contains(errs.String(), "127.0.0.1:1") {
		t.Errorf("ledger and queue from the environment: exit %d, %s%s", code, &out, &errs)
	}
	t.Setenv("TURNUS_LEDGER", "postgres://u:hunter2@db/x")
	out.Reset()
	if code := Main([]string{"doctor", "--help"}, strings.NewReader(""), &out, &errs); code != exitOK || strings.Contains(out.String(), "hunter2") {
		t.Errorf("--help prints the ledger's password: %s", &out)
	}
}
