package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/service"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/controller"
	"github.com/turnus/turnus/core/inventory/sources"
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
		{[]string{"--help"}, console.ExitOK, "TURNUS_LEDGER"},
		{[]string{"--ledger", "sqlite:" + path}, console.ExitOK, "sound: the ledger; without --redis"},
		{[]string{"--ledger", "sqlite:" + path, "-o", "text"}, console.ExitOK, "sound: the ledger"},
		{[]string{"--ledger", "sqlite:" + path, "-o", "json"}, console.ExitOK, `"sound": true`},
		{[]string{"--ledger", "sqlite:" + path + ".not"}, console.ExitInvalid, "there is no ledger"},
		{nil, console.ExitInvalid, "doctor needs a ledger"},
		{[]string{"--ledger", "sqlite:" + path, "--redis", "redis://127.0.0.1:1"}, console.ExitInternal, "127.0.0.1:1"},
	} {
		var out, errs bytes.Buffer
		code := Main(append([]string{"admin", "doctor"}, tc.args...), strings.NewReader(""), &out, &errs)
		if text := out.String() + errs.String(); code != tc.code || !strings.Contains(text, tc.want) {
			t.Errorf("doctor %v: exit %d, expected %d with %q\n%s", tc.args, code, tc.code, tc.want, text)
		}
		if code == console.ExitOK && strings.Contains(strings.Join(tc.args, " "), "json") {
			var d service.Diagnosis
			if err := json.Unmarshal(out.Bytes(), &d); err != nil || d.Queue || len(d.Findings) != 0 {
				t.Errorf("%+v, %v", d, err)
			}
		}
	}
	t.Setenv("TURNUS_LEDGER", "sqlite:"+path)
	t.Setenv("TURNUS_REDIS", "redis://127.0.0.1:1")
	var out, errs bytes.Buffer
	if code := Main([]string{"admin", "doctor"}, strings.NewReader(""), &out, &errs); code != console.ExitInternal || !strings.Contains(errs.String(), "127.0.0.1:1") {
		t.Errorf("ledger and queue from the environment: exit %d, %s%s", code, &out, &errs)
	}
	t.Setenv("TURNUS_LEDGER", "postgres://u:hunter2@db/x")
	out.Reset()
	if code := Main([]string{"admin", "doctor", "--help"}, strings.NewReader(""), &out, &errs); code != console.ExitOK || strings.Contains(out.String(), "hunter2") {
		t.Errorf("--help prints the ledger's password: %s", &out)
	}
}

// Doctor names a source of hosts that fails, and exits as for any fault.
func TestDoctorNamesASourceThatFails(t *testing.T) {
	url := "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
	l, err := ledger.Open(t.Context(), url, ledger.Options{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := sources.Parse("sources.yaml", []byte("sources: {nb: {type: http, url: 'https://h.example'}}"))
	if err != nil {
		t.Fatal(err)
	}
	k := &sources.Keeper{Ledger: l, Shared: true, Fetch: func(context.Context, sources.Source) (*sources.Generation, error) {
		return nil, errors.New("no route to NetBox")
	}}
	if _, err := k.Refresh(t.Context(), all[0]); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := Main([]string{"admin", "doctor", "--ledger", url}, strings.NewReader(""), &out, &errs); code != console.ExitFailed || !strings.Contains(out.String(), "FAULT     sources: ") || !strings.Contains(out.String(), "no route to NetBox") {
		t.Errorf("exit %d\n%s%s", code, &out, &errs)
	}
}

// A finding with a hint has it on a line of its own, below the text, and no line of a finding
// steers the terminal.
func TestDoctorPutsHintsOnLinesOfTheirOwn(t *testing.T) {
	var out bytes.Buffer
	a := &app{Console: console.New(strings.NewReader(""), &out, &out)}
	d := service.Diagnosis{Findings: []controller.Finding{{Part: "project", What: "commit 12 is rejected: a.yaml:2:1: bad \x1b[31mkey\nhint: turnus validate PATH\n"}}}
	if err := a.diagnosis(&service.DoctorFlags{}, d); err != nil {
		t.Fatal(err)
	}
	want := "FAULT     project: commit 12 is rejected: a.yaml:2:1: bad ·[31mkey\n          hint: turnus validate PATH\n"
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("%q, expected %q", out.String(), want)
	}
}
