//go:build linux

package firewall_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/plugins/firewall"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

// A file that is moved into a folder counts as written, and nothing loads it.
func TestPersistThatIsAFolderIsRefused(t *testing.T) {
	d := newDevice(t)
	folder := t.TempDir()
	got := d.kit.Run(d.with("tcp dport 22 accept", sdk.With{"persist": folder}))
	if got.Outcome != "failed" || got.Effects != "none" || !strings.Contains(got.Reason, "is a folder of the host") {
		t.Errorf("%s (%s), effects %s", got.Outcome, got.Reason, got.Effects)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left there: %v, %v", left, err)
	}
}

func TestPush(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	d.shell("nft add table ip others; nft add chain ip others keep; nft add rule ip others keep counter drop")
	others := d.shell("nft list table ip others")
	file := filepath.Join(d.state, "boot", "turnus.nft")
	with := d.with("tcp dport { 22, 80 } counter accept", sdk.With{"persist": file})

	check := d.kit.Check(with)
	want(t, check, "changed", "would replace the table inet turnus")
	if len(check.Diffs) != 1 || !strings.Contains(check.Diffs[0].Text, "+\t\ttcp dport { 22, 80 }") {
		t.Errorf("differences: %+v", check.Diffs)
	}
	if strings.Contains(d.live(), "turnus") {
		t.Fatal("check mode changed the host")
	}
	if _, err := os.Stat(d.state); err == nil {
		t.Error("check mode left files")
	}

	calls := len(d.host.Calls())
	got := d.kit.Run(with)
	want(t, got, "changed", "")
	if trips := len(d.host.Calls()) - calls + d.probes; trips > 8 || trips != 6 {
		t.Errorf("%d round trips, want 6 (8 at most)", trips)
	}
	if live := d.live(); !strings.Contains(live, "tcp dport { 22, 80 } counter") {
		t.Errorf("live:\n%s", live)
	}
	if got.Outputs["rules"] != 1.0 || got.Outputs["chains"] != 1.0 || got.Outputs["old_hash"] != "" || len(got.Outputs["new_hash"].(string)) != 64 || got.Outputs["persisted"] != file || got.Outputs["proven_seconds"] != 0.001 {
		t.Errorf("outputs %v", got.Outputs)
	}
	if names := []string{got.Checkpoints[0].Name, got.Checkpoints[1].Name}; names[0] != "staged" || names[1] != "armed" {
		t.Errorf("checkpoints %v", names)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the timer", func() bool { return d.lab.Kill("guard") == 0 })

	d.shell("nft flush table inet turnus; nft -f '" + file + "'") // as at boot
	calls = len(d.host.Calls())
	want(t, d.kit.Run(with), "unchanged", "")
	if trips := len(d.host.Calls()) - calls; trips != 1 {
		t.Errorf("%d round trips for nothing to do, want 1", trips)
	}

	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	want(t, d.kit.Check(with), "changed", "would write")
	want(t, d.kit.Run(with), "changed", "")
	if again, err := os.ReadFile(file); err != nil || string(again) != string(text) {
		t.Errorf("persisted again: %v\n%s", err, again)
	}
	if now := d.shell("nft list table ip others"); now != others {
		t.Errorf("another owner's table was touched:\n%s", now)
	}
}

func TestRefusedBeforeAnythingIsDone(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	for name, tc := range map[string]struct{ text, reason string }{
		"bad syntax":         {ruleset("tcp dport twenty accept"), "ruleset:4:11-16"},
		"half a word":        {"table inet turnus {\n chain a { bogus }\n}", "nft refuses"},
		"an absent set":      {ruleset("ip saddr @nope drop"), "nft refuses"},
		"a flush":            {"flush ruleset\n" + ruleset("accept"), "line 1: flush ruleset wipes"},
		"a flush, hidden":    {ruleset("accept") + "  flush \\\n ruleset ;", "flush ruleset wipes"},
		"another's table":    {ruleset("accept") + "table ip filter { }", `line 7: table ip filter: only the table "inet turnus"`},
		"a command":          {ruleset("accept") + "delete table ip filter", "line 7: expected define lines"},
		"an include":         {"table inet turnus {\n include \"/etc/x\"\n}", "line 2: include reads"},
		"no table":           {"define a = 1", `does not declare the table "inet turnus"`},
		"a brace is missing": {"table inet turnus {", "without its }"},
	} {
		got := d.kit.Run(d.with("", sdk.With{"ruleset": tc.text}))
		if got.Outcome != "failed" || !strings.Contains(got.Reason+strings.Join(got.Diagnostics, " "), tc.reason) {
			t.Errorf("%s: got %s (%s) %v, want %s", name, got.Outcome, got.Reason, got.Diagnostics, tc.reason)
		}
	}
	if live := d.live(); live != "" {
		t.Errorf("the host was changed:\n%s", live)
	}
}

// nft -c accepts a jump loop that the kernel then refuses: the scratch namespace finds it first.
func TestTrapJumpLoopPassesTheCheck(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	text := "table inet turnus {\n chain a { jump b\n }\n chain b { jump a\n }\n chain input { type filter hook input priority 0; jump a\n }\n}"
	if _, err := d.lab.Shell("printf '%s' '" + text + "' | nft -c -f -"); err != nil {
		t.Logf("this nft -c finds the loop: %v", err)
	}
	if _, err := d.lab.Shell("printf '%s' '" + text + "' | nft -f -"); err == nil {
		t.Fatal("the kernel takes it: this is no control")
	}
	got := d.kit.Run(d.with("", sdk.With{"ruleset": text}))
	want(t, got, "failed", "nft refuses the ruleset")
	if got.Effects != "none" {
		t.Errorf("effects %s", got.Effects)
	}
}

func TestDrift(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	want(t, d.kit.Run(d.with("tcp dport 22 accept")), "changed", "")
	want(t, d.kit.Run(d.with("tcp dport 23 accept")), "changed", "") // not drift: it is what was pushed last
	d.shell("nft add rule inet turnus input tcp dport 666 accept")
	by := d.live()
	got := d.kit.Run(d.with("tcp dport 24 accept"))
	want(t, got, "failed", "drift")
	if got.Outputs["drift"] != true || len(got.Diffs) != 1 || !strings.Contains(got.Diffs[0].Text, "-\t\ttcp dport 666") {
		t.Errorf("outputs %v, differences %v", got.Outputs, got.Diffs)
	}
	want(t, d.kit.Run(d.with("tcp dport 24 accept", sdk.With{"on_drift": "report"})), "unchanged", "drift, left alone")
	if now := d.live(); now != by {
		t.Errorf("it was not left alone:\n%s", now)
	}
	want(t, d.kit.Run(d.with("tcp dport 24 accept", sdk.With{"on_drift": "overwrite"})), "changed", "")
	if strings.Contains(d.live(), "666") {
		t.Error("it was not overwritten")
	}
	d.shell("nft delete table inet turnus") // as after a reboot: nobody's work is overwritten
	want(t, d.kit.Run(d.with("tcp dport 25 accept")), "changed", "")
}

// Values that packets write, and the order in which nft lists, are no difference.
func TestCountersAndLearntElementsAreNoDrift(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	text := `define ports = { 22, 80 }
table inet turnus {
  quota q { over 25 mbytes }
  counter c { }
  set learnt { type ipv4_addr; flags dynamic; size 100; }
  set banned { type ipv4_addr; flags timeout; timeout 1h; }
  set ok { type ipv4_addr; flags interval; elements = { 10.0.0.0/8, 172.16.0.0/12 } }
  chain input {
    type filter hook input priority 0; policy accept;
    iif "lo" counter name "c"
    iif "eth0" counter accept
    tcp dport $ports add @learnt { ip saddr }
  }
}`
	with := d.with("", sdk.With{"ruleset": text})
	want(t, d.kit.Run(with), "changed", "")
	d.shell("nft add element inet turnus banned { 192.0.2.1 }; nft add element inet turnus learnt { 192.0.2.2 }; ping -c 1 -W 1 127.0.0.1 >/dev/null 2>&1 || true")
	want(t, d.kit.Run(with), "unchanged", "")
	d.shell("nft add element inet turnus ok { 192.168.0.0/16 }")
	want(t, d.kit.Run(with), "failed", "drift") // the control: this is one
}

// The timer and the confirmation want the same push: one rename wins, and the outcome shows which.
func TestConfirmRacesTheExpiry(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	d.meet(func(c plugintest.Call) *plugintest.Reply {
		if is(c, "confirm") { // it arrives when the timer has just decided, which it does here by its own program and not by the clock
			d.shell("sh '" + d.state + "'/*/push-*/guard now")
		}
		return nil
	})
	got := d.kit.Run(d.with("tcp dport 22 accept"))
	want(t, got, "rolled_back", "confirming")
	if live := d.live(); live != "" {
		t.Errorf("live:\n%s", live)
	}
}

// The answer to the confirmation is lost: it is asked again, and nothing is rolled back.
func TestLostConfirmationIsAskedAgain(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	lost := 0
	d.meet(func(c plugintest.Call) *plugintest.Reply {
		if is(c, "confirm") && lost == 0 {
			lost++
			d.exec(t.Context(), c)
			return &plugintest.Reply{Err: plugintest.Unreachable("r1", false)}
		}
		return nil
	})
	want(t, d.kit.Run(d.with("tcp dport 22 accept")), "changed", "")
	if lost != 1 || !strings.Contains(d.live(), "dport 22") {
		t.Errorf("lost %d times; live:\n%s", lost, d.live())
	}
}

func TestWindowHoldsThePush(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	for _, window := range []plugintest.Option{plugintest.Shut(), plugintest.ShutAfter(1), plugintest.Open(39 * time.Second)} {
		got := d.kit.Run(d.with("drop"), window)
		if got.Outcome != "suspended" || !got.Held || d.live() != "" {
			t.Fatalf("got %s (%s); live %s", got.Outcome, got.Reason, d.live())
		}
	}
	want(t, d.kit.Run(d.with("tcp dport 22 accept"), plugintest.Open(time.Hour)), "changed", "") // the control
}

func TestArtifact(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	d.kit.Artifact("rules/a.nft", ruleset("tcp dport 22 accept")).Artifact("bad.nft", "flush ruleset")
	with := func(name, sum string) sdk.With {
		w := d.with("", sdk.With{"artifact": name})
		delete(w, "ruleset")
		if sum != "" {
			w["sha256"] = sum
		}
		return w
	}
	want(t, d.kit.Run(with("bad.nft", "")), "failed", "artifact bad.nft: line 1: flush ruleset")
	want(t, d.kit.Run(with("rules/a.nft", strings.Repeat("0", 64))), "failed", "its sha256 is")
	want(t, d.kit.Run(with("rules/none.nft", "")), "failed", "artifact rules/none.nft")
	want(t, d.kit.Run(with("rules/a.nft", "")), "changed", "")
}

func TestParams(t *testing.T) {
	kit := plugintest.New(t, firewall.Def())
	for name, tc := range map[string]struct {
		with sdk.With
		want string
	}{
		"neither":            {sdk.With{}, "expected one of ruleset and artifact"},
		"both":               {sdk.With{"ruleset": ruleset(""), "artifact": "x"}, "expected one of ruleset and artifact"},
		"too short":          {sdk.With{"artifact": "x", "confirm_timeout": "29s"}, "/confirm_timeout: expected between three times"},
		"a source":           {sdk.With{"artifact": "x", "mgmt_sources": []string{"10.0.0.1/8"}}, "/mgmt_sources/0: expected an address or a network"},
		"a table":            {sdk.With{"artifact": "x", "table": "inet a b; flush ruleset"}, "/table"},
		"a probe":            {sdk.With{"artifact": "x", "probes": []sdk.With{{"to": "h", "port": 0}}}, "/probes/0/port"},
		"a folder":           {sdk.With{"artifact": "x", "state_dir": "/var/../x"}, "/state_dir: expected a clean"},
		"a sum for a text":   {sdk.With{"ruleset": ruleset(""), "sha256": strings.Repeat("0", 64)}, "/sha256"},
		"a ruleset, at load": {sdk.With{"ruleset": "flush ruleset"}, "/ruleset: line 1: flush ruleset"},
		"fine":               {sdk.With{"ruleset": ruleset(""), "confirm_timeout": "30s"}, ""},
	} {
		got := strings.Join(kit.Validate(tc.with), "\n")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	raw, _ := json.Marshal(sdk.Describe(firewall.Def()))
	for _, word := range []string{`"on_lost":"retry"`, `"disruptive":true`, `"check":true`} {
		if !strings.Contains(string(raw), word) {
			t.Errorf("the manifest lacks %s", word)
		}
	}
}
