//go:build linux

package firewall_test

import (
	"encoding/json"
	"fmt"
	"net"
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
	if got.Outputs["rules"] != 1.0 || got.Outputs["chains"] != 1.0 || got.Outputs["old_hash"] != "" || len(got.Outputs["new_hash"].(string)) != 64 || got.Outputs["persisted"] != file {
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
		t.Logf("this nft -c finds the loop by itself: %v", err)
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

// What packets write, and the order in which nft lists, are no difference.
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

func TestProbesDecide(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		probe  sdk.With
		reason string
	}{
		"nobody listens":     {sdk.With{"from": "host", "to": "192.0.2.9", "port": 9}, "probe from the host to 192.0.2.9:9: expected open"},
		"it should be shut":  {sdk.With{"from": "host", "to": "192.0.2.1", "port": 80, "expect": "closed"}, "it is open, expected closed"},
		"from the worker":    {sdk.With{"to": "127.0.0.1", "port": 1}, "probe from the worker to 127.0.0.1:1: expected open"},
		"it is open (fine)":  {sdk.With{"from": "host", "to": "192.0.2.1", "port": 80}, ""},
		"it is shut (fine)":  {sdk.With{"from": "host", "to": "192.0.2.9", "port": 9, "expect": "closed"}, ""},
		"shut from here, ok": {sdk.With{"to": "127.0.0.1", "port": 1, "expect": "closed"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDevice(t)
			want(t, d.kit.Run(d.with("tcp dport 22 accept")), "changed", "")
			old := d.live()
			d.host.Listen("192.0.2.1:80", func(net.Conn) {})
			got := d.kit.Run(d.with("tcp dport 23 accept", sdk.With{"probes": []sdk.With{tc.probe}}))
			if tc.reason == "" {
				want(t, got, "changed", "")
				return
			}
			want(t, got, "rolled_back", tc.reason)
			if now := d.live(); now != old {
				t.Errorf("the host is not as before:\n%s", now)
			}
		})
	}
}

// Nobody can be found by a fresh connection: whatever the pooled one says, the host goes back.
func TestNoFreshConnectionNoConfirmation(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	d.host.OnProbe(func(int) error { return plugintest.Unreachable("r1", true) })
	got := d.kit.Run(d.with("tcp dport 22 accept", sdk.With{"confirm_timeout": armedFor.String(), "connect_timeout": "5s"}))
	want(t, got, "rolled_back", "no fresh connection works")
	if live := d.live(); live != "" {
		t.Errorf("the table stayed:\n%s", live)
	}
}

// All goes dark after the apply: the host's own timer heals it. The control takes the timer away,
// and it stays dark.
func TestDeadMansSwitch(t *testing.T) {
	t.Parallel()
	for name, armed := range map[string]bool{"armed": true, "without it (control)": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDevice(t)
			want(t, d.kit.Run(d.with("tcp dport 22 accept")), "changed", "")
			old := d.live()
			applied := make(chan time.Time, 1)
			dark := false
			d.meet(func(c plugintest.Call) *plugintest.Reply {
				if is(c, "apply") {
					d.exec(t.Context(), c)
					dark = true
					if !armed {
						until(t, "the timer", func() bool { return d.lab.Kill("guard") > 0 })
					}
					applied <- time.Now()
				}
				if dark {
					return &plugintest.Reply{Err: plugintest.Unreachable("r1", false)}
				}
				return nil
			})
			d.host.OnProbe(func(int) error { return plugintest.Unreachable("r1", true) })
			running := d.kit.Start(d.with("drop", sdk.With{"confirm_timeout": armedFor.String(), "connect_timeout": "5s"}))
			at := <-applied
			running.Cancel() // the worker goes away: nobody will confirm, and nobody will ask the host to go back
			if got := running.Wait(); got.Outcome != "cancelled" {
				t.Fatalf("got %s (%s)", got.Outcome, got.Reason)
			}
			healed := healedWithin(d, old, at, armedFor+2*time.Second)
			if healed != armed {
				t.Errorf("healed by itself: %v, want %v", healed, armed)
			}
		})
	}
}

// healedWithin watches the host, not through the job type.
func healedWithin(d *device, old string, from time.Time, limit time.Duration) bool {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if d.live() == old {
			d.t.Logf("healed after %v", time.Since(from).Round(time.Millisecond))
			return true
		}
		if time.Since(from) > limit {
			return false
		}
	}
	return false
}

// The timer and the confirmation want the same push: one rename wins, and the outcome says which.
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

// The answer to the confirmation is lost: it is asked again, and nothing is taken back.
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

// The connection dies while nft loads: whether it came through is seen over the next one.
func TestConnectionDiesInTheApply(t *testing.T) {
	t.Parallel()
	for name, came := range map[string]bool{"after it": true, "before it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDevice(t)
			d.meet(func(c plugintest.Call) *plugintest.Reply {
				if !is(c, "apply") {
					return nil
				}
				if came {
					d.exec(t.Context(), c)
				}
				return &plugintest.Reply{Err: plugintest.Unreachable("r1", false)}
			})
			got := d.kit.Run(d.with("tcp dport 22 accept"))
			if came {
				want(t, got, "changed", "")
			} else {
				want(t, got, "rolled_back", "not the wanted one")
			}
			if live := d.live(); strings.Contains(live, "dport 22") != came {
				t.Errorf("live:\n%s", live)
			}
		})
	}
}

// Two pushes at once, not through Turnus' locks: the host's own lock lets one in.
func TestTwoPushesAtOnce(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	other := plugintest.New(t, firewall.Def())
	other.Host("r1").Handle(d.exec)
	var second *plugintest.Result
	d.meet(func(c plugintest.Call) *plugintest.Reply {
		if is(c, "apply") && second == nil {
			second = other.Run(d.with("tcp dport 99 accept"), plugintest.Key("another"))
		}
		return nil
	})
	want(t, d.kit.Run(d.with("tcp dport 22 accept")), "changed", "")
	want(t, second, "failed", "another push is under way on this host: job 20260102-030405-test/0, for at most ")
	if !second.Retryable || second.Effects != "none" {
		t.Errorf("%+v", second)
	}
	// Both have looked before either armed.
	third := make(chan *plugintest.Result, 1)
	d.meet(func(c plugintest.Call) *plugintest.Reply {
		if is(c, "apply") {
			d.meet(nil)
			third <- other.Run(d.with("tcp dport 99 accept", sdk.With{"on_drift": "overwrite"}), plugintest.Key("another"))
		}
		return nil
	})
	want(t, d.kit.Run(d.with("tcp dport 23 accept")), "changed", "")
	want(t, <-third, "failed", "another push")
	want(t, other.Run(d.with("tcp dport 99 accept"), plugintest.Key("another")), "changed", "") // the control: the lock is free again
}

// A worker dies after the apply; the next one finds the timer running, proves and confirms what is
// there.
func TestResume(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		dies    string // before this script
		outcome string
		arms    int // in the second attempt
	}{
		"dies before arming":     {"arm", "changed", 1},
		"dies before the apply":  {"apply", "changed", 1},
		"dies after the apply":   {"status", "changed", 0},
		"dies in confirming":     {"confirm", "changed", 0},
		"dies after it":          {"after", "changed", 0},
		"the host went back":     {"reverted", "changed", 1},
		"the answer was lost on": {"unlocked", "changed", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDevice(t)
			with := d.with("tcp dport 22 accept", sdk.With{"confirm_timeout": "2m"}) // the next one must be in time
			var running *plugintest.Running
			started := make(chan struct{})
			d.meet(func(c plugintest.Call) *plugintest.Reply {
				dead := tc.dies == "status" && strings.Contains(c.Command, "state \"$D/$ID\"\nnow") ||
					tc.dies == "reverted" && strings.Contains(c.Command, "state \"$D/$ID\"\nnow") ||
					(tc.dies == "after" || tc.dies == "unlocked") && is(c, "confirm") || len(tc.dies) < 8 && tc.dies != "status" && tc.dies != "after" && is(c, tc.dies)
				if !dead {
					return nil
				}
				switch tc.dies {
				case "after": // the lock stays behind
					c.Command = strings.Replace(c.Command, "rm -f ../lock", ":", 1)
					d.exec(t.Context(), c)
				case "unlocked":
					d.exec(t.Context(), c)
				case "reverted":
					d.shell("sh '" + d.state + "/inet-turnus/'push-*/guard now")
				}
				<-started
				running.Cancel()
				return &plugintest.Reply{Err: plugintest.Unreachable("r1", false)}
			})
			running = d.kit.Start(with)
			close(started)
			dead := running.Wait()
			if dead.Outcome != "cancelled" || len(dead.Checkpoints) == 0 {
				t.Fatalf("got %s (%s), %d checkpoints", dead.Outcome, dead.Reason, len(dead.Checkpoints))
			}
			arms := 0
			d.meet(func(c plugintest.Call) *plugintest.Reply {
				if is(c, "arm") {
					arms++
				}
				return nil
			})
			saved := dead.Checkpoints[len(dead.Checkpoints)-1].State
			want(t, d.kit.Run(with, plugintest.Resume(&saved), plugintest.Attempt(2)), tc.outcome, "")
			if arms != tc.arms || !strings.Contains(d.live(), "dport 22") {
				t.Errorf("armed %d times, want %d; live:\n%s", arms, tc.arms, d.live())
			}
			until(t, "the end of every timer", func() bool { return d.lab.Kill("guard") == 0 })
			if links, _ := filepath.Glob(filepath.Join(d.state, "*", "lock")); len(links) > 0 {
				t.Errorf("a lock stays behind: %v", links)
			}
		})
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

// A big table goes in as fast as nft takes it: 20,000 elements and 2000 rules.
func TestBigTable(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	var b strings.Builder
	b.WriteString("table inet turnus {\n set big { type ipv4_addr; elements = { ")
	for i := range 20_000 {
		fmt.Fprintf(&b, "10.1.%d.%d,\n", i/200, i%200)
	}
	b.WriteString("} }\n chain input {\n")
	for i := range 2000 {
		fmt.Fprintf(&b, "  tcp dport %d ip saddr @big counter accept\n", i+1)
	}
	b.WriteString(" }\n}\n")
	begin := time.Now()
	got := d.kit.Run(d.with("", sdk.With{"ruleset": b.String(), "confirm_timeout": "3m", "connect_timeout": "40s"}))
	want(t, got, "changed", "")
	t.Logf("20,000 elements, 2000 rules: %v", time.Since(begin).Round(time.Millisecond))
	if got.Outputs["elements"] != 20000.0 || got.Outputs["rules"] != 2000.0 {
		t.Errorf("outputs %v", got.Outputs)
	}
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

// The rules of the example playbook on a host with older ones, widened and narrowed, with its own
// probes and sources.
func TestExampleWidensAndNarrows(t *testing.T) {
	t.Parallel()
	d := newDevice(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "firewall", "rules", "branch.nft"))
	if err != nil {
		t.Fatal(err)
	}
	old := strings.Replace(string(text), "192.0.2.10,", "192.0.2.0/24,", 1)
	if old == string(text) {
		t.Fatal("the rules have no management network of the old kind")
	}
	want(t, d.kit.Run(d.with("", sdk.With{"ruleset": old})), "changed", "")
	d.kit.Artifact("rules/branch.nft", string(text))
	push := func(mode, source string) sdk.With {
		with := d.with("", sdk.With{"artifact": "rules/branch.nft", "mode": mode, "mgmt_sources": []string{source, "198.51.100.0/28"}})
		delete(with, "ruleset")
		return with
	}
	for _, mode := range []string{"widen", "narrow"} {
		want(t, d.kit.Run(push(mode, "192.0.2.10")), "changed", "")
		want(t, d.kit.Run(push(mode, "192.0.2.10")), "unchanged", "")
	}
	// The control: no longer let in, and told so when it could still be widened.
	want(t, d.kit.Run(push("widen", "192.0.2.77")), "failed", "surely drops SSH (port 22) from 192.0.2.77")
}
