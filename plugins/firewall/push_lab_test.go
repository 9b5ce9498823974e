//go:build linux && labs

package firewall_test

import (
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

func TestLabProbesDecide(t *testing.T) {
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

// No fresh connection reaches the host: whatever the pooled one reports, the host goes back.
func TestLabNoFreshConnectionNoConfirmation(t *testing.T) {
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
func TestLabDeadMansSwitch(t *testing.T) {
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
				t.Errorf("healed without the worker: %v, want %v", healed, armed)
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

// The connection dies while nft loads: whether it came through is seen over the next one.
func TestLabConnectionDiesInTheApply(t *testing.T) {
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

// Two pushes at the same time, not through Turnus' locks: the host's own lock lets one in.
func TestLabTwoPushesAtOnce(t *testing.T) {
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
func TestLabResume(t *testing.T) {
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

// A big table goes in as fast as nft takes it: 20,000 elements and 2000 rules.
func TestLabBigTable(t *testing.T) {
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

// The rules of the example playbook on a host with older ones, widened and narrowed, with its own
// probes and sources.
func TestLabExampleWidensAndNarrows(t *testing.T) {
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
	// The control: no longer let in, and refused when it could still be widened.
	want(t, d.kit.Run(push("widen", "192.0.2.77")), "failed", "surely drops SSH (port 22) from 192.0.2.77")
}
