package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

// folder is a plugin with one script, whose text is given.
func folder(t *testing.T, yaml, script string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "run.sh"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	if yaml == "" {
		yaml = "plugin: lab\nversion: 1.0.0\ntypes:\n  - {type: lab.run, run: run.sh, summary: s, state_version: 1, check: true, params: {x: {default: dx}, n: {type: integer, min: 1}}}\n"
	}
	if err := os.WriteFile(filepath.Join(dir, File), []byte(yaml), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func kit(t *testing.T, script string) *plugintest.Kit {
	t.Helper()
	all, err := defs(folder(t, "", script))
	if err != nil {
		t.Fatal(err)
	}
	return plugintest.New(t, all...)
}

func TestWhatAScriptSaysIsTheOutcome(t *testing.T) {
	for _, c := range []struct{ script, want, reason string }{
		{`true`, "unchanged", ""},
		{`echo '{"event":"changed"}'`, "changed", ""},
		{`echo '{"event":"skipped","reason":"there"}'`, "skipped", "there"},
		{`echo oops >&2; exit 3`, "failed", "exit status 3: oops"},
		{`exit 3`, "failed", "exit status 3"},
		{`kill -9 $$`, "failed", "signal: killed"},
		{`echo '{"event":"failed","reason":"no disk","effects":"none"}'`, "failed", "no disk"},
		{`echo '{"event":"failed","reason":"gone","lost":true}'; exit 1`, "lost", "gone"},
		{`echo '{"event":"failed","reason":"back","rolled_back":true}'`, "rolled_back", "back"},
		{`echo '{"event":"suspended","after":"1h","state":{"a":1},"reason":"later"}'`, "suspended", "later"},
		{`echo '{"event":"held","state":{"a":1},"reason":"shut"}'`, "suspended", "shut"},
		{`echo '{"event":"shout"}'`, "failed", `event "shout": expected log`},
		{`echo '{"event":"changed","chnaged":1}'`, "failed", "line 1 of the script's stdout is no event"},
		{`printf '{"event":"changed"}{"event":"failed","reason":"x"}\n'`, "failed", "one event, and then the end of the line"},
		{`echo '{"event":"failed"}'`, "failed", "without a reason"},
		{`echo '{"event":"suspended","after":"soon"}'`, "failed", "after"},
		{`echo '{"event":"output"}'`, "failed", "expected name and value"},
		{`head -c 2000000 /dev/zero | tr '\0' x`, "failed", "token too long"},
	} {
		got := kit(t, c.script).Run(sdk.With{})
		if got.Outcome != c.want || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("%s: %s (%s), want %s (%s)", c.script, got.Outcome, got.Reason, c.want, c.reason)
		}
	}
}

// A script names the event that it waits for, also by the key's former name.
func TestAScriptWaitsForASignal(t *testing.T) {
	for key, want := range map[string]string{"until_signal": "go", "wake_on": "go", "reason": ""} {
		got := kit(t, `echo '{"event":"suspended","after":"1h","`+key+`":"go"}'`).Run(sdk.With{})
		if got.Outcome != "suspended" || got.Signal != want {
			t.Errorf("%s: %s until %q, expected %q", key, got.Outcome, got.Signal, want)
		}
	}
}

func TestWhatAScriptGetsAndReports(t *testing.T) {
	got := kit(t, `cat; echo; echo "$TURNUS_TYPE $TURNUS_HOST $TURNUS_ATTEMPT ${TURNUS_CHECK:-no} $TURNUS_IDEMPOTENCY_KEY"
echo err >&2
echo '{"event":"log","level":"warn","message":"careful"}'
echo '{"event":"progress","done":0.5,"phase":"half"}'
echo '{"event":"output","name":"size","value":{"a":[1]}}'
printf '%s\n' '{"event":"diff","title":"f","before":"a\n","after":"b\n"}'
echo '{"event":"explain","reason":"why"}'
`).Run(sdk.With{"n": 3})
	if got.Stdout != "{\"n\":3,\"x\":\"dx\"}\nlab.run r1 1 no key-1\n" || got.Stderr != "err\n" {
		t.Errorf("stdout %q, stderr %q", got.Stdout, got.Stderr)
	}
	if len(got.Logs) != 1 || got.Logs[0].Level != "WARN" || len(got.Phases) != 1 || len(got.Diffs) != 1 || got.Reason != "why" || got.Outputs["size"] == nil {
		t.Errorf("%+v", got)
	}
	if check := kit(t, `echo "check $TURNUS_CHECK"`).Check(sdk.With{}); check.Stdout != "check 1\n" {
		t.Errorf("check mode: %q", check.Stdout)
	}
}

func TestAScriptGoesOnFromItsState(t *testing.T) {
	k := kit(t, `[ -n "$TURNUS_STATE" ] && { echo "from $TURNUS_STATE"; exit 0; }
echo '{"event":"suspended","after":"1h","state":{"phase":"two"}}'`)
	first := k.Run(sdk.With{})
	if first.Outcome != "suspended" || first.State.Version != 1 || first.ResumeAfter != time.Hour {
		t.Fatalf("%+v", first)
	}
	if second := k.Run(sdk.With{}, plugintest.Resume(first.State)); second.Stdout != "from {\"phase\":\"two\"}\n" {
		t.Errorf("%+v", second)
	}
}

// A state with which the script could not be started again is refused when it is saved; one that an
// older worker saved fails the step, which may have changed the host. Control: the largest state.
func TestAStateOfAScriptFitsIntoItsEnvironment(t *testing.T) {
	text := func(n int) string { return `"` + strings.Repeat("s", n-2) + `"` }
	k := kit(t, `echo "${#TURNUS_STATE} bytes"`)
	const refused = "can be given to a script again"
	for state, fits := range map[string]bool{text(maxState): true, text(maxState + 1): false, `"` + strings.Repeat("<", 30<<10) + `"`: false} {
		file := filepath.Join(t.TempDir(), "state")
		if err := os.WriteFile(file, []byte(state), 0o600); err != nil {
			t.Fatal(err)
		}
		got := kit(t, `printf '{"event":"suspended","after":"1h","state":'; cat `+file+"; echo '}'").Run(sdk.With{})
		if fits != (got.Outcome == "suspended") || !fits && !strings.Contains(got.Reason, refused) {
			t.Errorf("suspended with a state of %d bytes: %s (%.200s)", len(state), got.Outcome, got.Reason)
		}
		if fits {
			continue
		}
		if code, err := (&helper{in: strings.NewReader(state)}).checkpoint(t.Context(), []string{"big", "-"}); code != exitRefused || !strings.Contains(err.Error(), refused) {
			t.Errorf("a checkpoint of %d bytes: %d, %v", len(state), code, err)
		}
	}
	if got := k.Run(sdk.With{}, plugintest.Resume(&plugintest.State{Version: 1, JSON: []byte(text(maxState))})); got.Stdout != fmt.Sprintf("%d bytes\n", maxState) {
		t.Errorf("the largest state: %+v", got)
	}
	if got := k.Run(sdk.With{}, plugintest.Resume(&plugintest.State{Version: 1, JSON: []byte(text(200 << 10))})); got.Outcome != "failed" || got.Effects == "none" {
		t.Errorf("a state that is too long: %+v", got)
	}
}

func TestParamsOfAScriptAreChecked(t *testing.T) {
	k := kit(t, "echo ran")
	for _, wrong := range []sdk.With{{"y": 1}, {"n": 0}, {"n": "1"}, {"x": 1}} {
		if len(k.Validate(wrong)) == 0 {
			t.Errorf("%v is accepted", wrong)
		}
		if got := k.Run(wrong); got.Outcome != "failed" || got.Stdout != "" {
			t.Errorf("%v: %+v", wrong, got)
		}
	}
}

// A cancelled script ends with all that it started, though they ignore TERM.
func TestACancelledScriptEndsWithItsChildren(t *testing.T) {
	k := kit(t, `trap '' TERM
sh -c 'trap "" TERM; while :; do sleep 1; done' &
echo started
wait; wait; while :; do sleep 1; done`)
	run := k.Start(sdk.With{}, plugintest.Deadline(8*time.Second)) // it has started by then on a busy machine
	got := run.Wait()
	if got.Outcome != "failed" || !got.TimedOut || got.Stdout != "started\n" {
		t.Errorf("%+v", got)
	}
}

// A process that a script leaves running ends with its job, and does not keep the job. This also
// holds for its output, and when it has left the job as a daemon does, which would have taken the
// process down with everybody's jobs.
func TestWhatAScriptLeavesDoesNotKeepItsJob(t *testing.T) {
	for name, leave := range map[string]string{
		"in the background":    `sleep 600 &`,
		"with its stderr":      `sleep 600 >/dev/null &`,
		"with a child":         `sh -c 'sleep 600; true' &`,
		"a daemon":             `daemon 'exec sleep 600'`,
		"a daemon that writes": `daemon 'while printf "%04094d\n" 0; do :; done'`, // a line in one write: no word of the script comes within it
	} {
		t.Run(name, func(t *testing.T) {
			const daemon = "daemon() { mkfifo pid; env -i PATH=\"$PATH\" setsid sh -c \"echo \\$\\$ >pid; $1\" & read -r pid <pid; echo \"pid $pid\"; }\n"
			got := kit(t, daemon+leave+`
echo '{"event":"output","name":"size","value":7}'
echo '{"event":"changed"}'`).Run(sdk.With{}, plugintest.Deadline(time.Minute))
			if got.Outcome != "changed" || got.Outputs["size"] == nil {
				t.Errorf("%s (%s)", got.Outcome, got.Reason)
			}
			if _, rest, ok := strings.Cut(got.Stdout, "pid "); ok {
				line, _, _ := strings.Cut(rest, "\n")
				pid, err := strconv.Atoi(line)
				if err != nil || pid < 2 {
					t.Fatalf("pid %q", line)
				}
				_ = syscall.Kill(pid, syscall.SIGKILL) // the one that writes may have died by its broken pipe
			}
		})
	}
}

// All that a script has printed counts, however much is in the pipe when it ends.
func TestLastWordsOfAScriptAreNotLost(t *testing.T) {
	got := kit(t, `sleep 600 &
i=0; while [ $i -lt 700 ]; do i=$((i + 1)); echo "line $i, of some length, so that the pipe is nearly full when the script ends"; done
echo '{"event":"failed","reason":"the last word"}'`).Run(sdk.With{}, plugintest.Deadline(time.Minute))
	if got.Outcome != "failed" || got.Reason != "the last word" || !strings.Contains(got.Stdout, "line 700,") {
		t.Errorf("%s (%s), stdout of %d bytes", got.Outcome, got.Reason, len(got.Stdout))
	}
}

func TestDescriptionOfATypeThatReverts(t *testing.T) {
	all, err := defs(folder(t, "plugin: lab\nversion: 1.0.0\ntypes: [{type: lab.run, run: run.sh, reverts: true, reverts_unless: [force], params: {force: {type: boolean}}}]\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	if m := sdk.Describe(all...); !m.Types[0].Reverts || len(m.Types[0].RevertsUnless) != 1 {
		t.Errorf("%+v", m)
	}
}

func TestWrongDescriptions(t *testing.T) {
	const head = "plugin: lab\nversion: 1.0.0\ntypes:\n"
	for yaml, want := range map[string]string{
		"plugin: lab\n": "expected plugin, version, and types",
		"plugn: lab\n":  "plugn",
		"plugin: La-b\nversion: 1\ntypes: [{type: a, run: run.sh}]\n":                     `plugin "La-b"`,
		head + "  - {type: A.b, run: run.sh}\n":                                           "expected noun.verb",
		head + "  - {type: a.b, run: ../run.sh}\n":                                        "within the folder",
		head + "  - {type: a.b, run: nothing}\n":                                          "no such file",
		head + "  - {type: a.b, run: plugin.yaml}\n":                                      "not executable",
		head + "  - {type: a.b, run: run.sh, params: {x: {type: text}}}\n":                `type "text"`,
		head + "  - {type: a.b, run: run.sh, params: {x: {pattern: '('}}}\n":              "pattern",
		head + "  - {type: a.b, run: run.sh, params: {x: {type: integer, default: a}}}\n": "default",
		head + "  - {type: a.b, run: run.sh, examples: [{title: T, with: {y: 1}}]}\n":     `example "T"`,
		head + "  - {type: a.b, run: run.sh, on_lost: shrug}\n":                           "retry or hold",
		"plugin: lab\nversion: 1\nconcurrency: -1\ntypes: [{type: a, run: run.sh}]\n":     "concurrency -1",
	} {
		if _, err := defs(folder(t, yaml, "")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, expected %q", yaml, err, want)
		}
	}
}

func TestHelperIsUsedWrongly(t *testing.T) {
	var out, errs strings.Builder
	for _, args := range [][]string{{"shout"}, {"exec"}, {"put", "x"}, {"exec", "--nope", "x"}, {"exec", "--env", "x", "y"}, {"probe"}} {
		if code := Helper(args, strings.NewReader(""), &out, &errs); code != exitRefused {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
	if !strings.Contains(errs.String(), "no job: TURNUS_LEASE") || out.String() != "" {
		t.Errorf("stdout %q, stderr %q", out.String(), errs.String())
	}
	if code := Helper([]string{"help"}, strings.NewReader(""), &out, &errs); code != 0 || !strings.Contains(out.String(), "turnus-host exec") {
		t.Errorf("help: %d, %s", code, out.String())
	}
}
