//go:build linux && labs

package plugins_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/sdk"
)

// The lab of rollovers: a real BIND with its parent, a real validating resolver, and a real OpenSSH
// on the signer. Lifetimes are of seconds, so a roll that takes days takes half a minute.

type signerLab struct {
	*servers.DNS
	t       *testing.T
	sshd    *servers.SSHD
	private string
}

func newSignerLab(t *testing.T, opts ...servers.DNSOption) *signerLab {
	t.Helper()
	d := &signerLab{t: t, DNS: servers.NewDNS(t, opts...)}
	private, public := servers.NewSSHKey(t)
	d.private = private
	d.sshd = servers.StartSSHD(t, servers.SSHDAddress(d.Net.Address), servers.Authorize(public), servers.Inside(22, d.Net.Prefix()...))
	return d
}

// with are the params of a roll; times are as short as the zone's.
func (d *signerLab) with(key string, more ...sdk.With) sdk.With {
	w := sdk.With{
		"zone": servers.Zone, "key": key, "validators": []string{servers.Resolver}, "safety_factor": 1, "grace": "1m", "poll": "700ms", "state_dir": d.Path("state"),
		"signer":  sdk.With{"config": d.Path("child/named.conf"), "rndc_conf": d.Path("rndc.conf"), "address": servers.Child},
		"parent":  sdk.With{"method": "nsupdate", "server": servers.Parent, "tsig": d.Path("registry.key"), "within": "1m", "ns": []string{servers.Parent}},
		"servers": []string{servers.Child},
	}
	for _, m := range more {
		maps.Copy(w, m)
	}
	return w
}

// rolling is a job, followed through its suspensions as a worker does.
type rolling struct {
	d       *signerLab
	call    host.Call
	place   *place
	outcome host.Outcome
	reasons []string
	checked []string // phases, in the order in which they were reached
	printed string
	differs string
}

func (d *signerLab) job(key string, with sdk.With) *rolling {
	d.t.Helper()
	raw, err := json.Marshal(with)
	if err != nil {
		d.t.Fatal(err)
	}
	j := &rolling{d: d, place: &place{supervisor: supervised(d.t, d.private)}}
	j.call = host.Call{
		Job: core.JobID{Run: "run-" + key}, Step: "roll", Attempt: 1, Type: "dnssec.rollover", Params: raw, Host: d.sshd.Host("signer"), Key: key, Fence: 1, Diff: true,
		Sink: func(e host.Event) { j.printed += string(e.Stdout); j.differs += e.Diff },
		Checkpoint: func(_ context.Context, s host.State) error {
			j.checked = append(j.checked, phaseOf(&s))
			return nil
		},
	}
	return j
}

func phaseOf(s *host.State) string {
	var at struct {
		Phase string `json:"phase"`
	}
	if s != nil {
		_ = json.Unmarshal(s.JSON, &at)
	}
	return at.Phase
}

// once makes one call.
func (j *rolling) once() bool {
	j.d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	out, err := j.place.supervisor.Run(ctx, j.call)
	if err != nil {
		j.d.t.Fatal(err)
	}
	j.outcome = out
	if out.Suspended {
		j.call.State = out.State
		j.reasons = append(j.reasons, out.Reason)
	}
	return out.Suspended
}

// until follows the job until stop is true, or it ends. stop sees why the job is suspended.
func (j *rolling) until(stop func(reason string) bool) *rolling {
	j.d.t.Helper()
	limit := time.After(3 * time.Minute)
	for j.once() {
		if stop != nil && stop(j.outcome.Reason) {
			return j
		}
		select {
		case <-limit:
			j.d.t.Fatalf("does not end; suspended for:\n%s", strings.Join(slices.Compact(j.reasons), "\n"))
		case <-time.After(j.outcome.ResumeAfter):
		}
	}
	if stop != nil {
		j.d.t.Fatalf("ended before: %+v; suspended for:\n%s", j.outcome, strings.Join(slices.Compact(j.reasons), "\n"))
	}
	return j
}

// in stops when the job is suspended in a phase.
func in(phase string) func(string) bool {
	return func(reason string) bool { return strings.Contains(reason, phase+":") }
}

// overdue stops when the job stalls.
func overdue(reason string) bool { return strings.HasPrefix(reason, "OVERDUE") }

func (j *rolling) changed() *rolling {
	j.d.t.Helper()
	if j.until(nil); !j.outcome.Changed || j.outcome.Failed {
		j.d.t.Fatalf("got %+v; suspended for:\n%s", j.outcome, strings.Join(slices.Compact(j.reasons), "\n"))
	}
	return j
}

// unbroken ends the probes: enough of them, and not one SERVFAIL.
func (d *signerLab) unbroken(p *servers.Prober) servers.Probes {
	d.t.Helper()
	n := p.Stop()
	if n.ServFail > 0 || n.Answered < 20 || n.Answered < n.Sent*9/10 || n.Secure != n.Answered {
		d.t.Errorf("the validator's answers: %+v", n)
	}
	return n
}

// rolled checks that one key replaced another, and that nothing is left of the old one.
func (d *signerLab) rolled(role, old string, parent bool) {
	d.t.Helper()
	keys := d.Keys(role)
	if len(keys) != 1 || keys[0] == old || d.Made(role) != 2 {
		d.t.Errorf("%s after the roll of %s: %v in use, %d were ever made", role, old, keys, d.Made(role))
	}
	if ds := d.Delegation(); parent && !slices.Equal(ds, keys) {
		d.t.Errorf("the parent has DS %v, the zone's KSK is %v", ds, keys)
	}
}

// labsAtOnce bounds how many labs run at a time: each mostly waits, so they are more than there are
// cores.
const labsAtOnce = 6

// TestLabDNSSEC runs the cases beside each other, whatever the value of -parallel.
func TestLabDNSSEC(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	free := make(chan struct{}, labsAtOnce)
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"bogus without the old DS, so it comes back", labComesBack}, // a validator remembers what is bogus for a minute
		{"abort at K3 and at K5", labAbort},
		{"by hand, with a DS that is withheld, then wrong", labByHand},
		{"one server of the parent is stale", labStaleParent},
		{"KSK", func(t *testing.T) { labEndToEnd(t, "ksk") }},
		{"a KSK that its worker loses in every phase", func(t *testing.T) {
			labKilledInEveryPhase(t, "ksk", "K1 start", "K2 publish", "K3 submit", "K4 prove", "K5 withdraw", "K6 finish")
		}},
		{"a ZSK that its worker loses in every phase", func(t *testing.T) {
			labKilledInEveryPhase(t, "zsk", "Z1 start", "Z2 publish", "Z3 sign", "Z4 finish")
		}},
		{"ZSK", func(t *testing.T) { labEndToEnd(t, "zsk") }},
		{"the parent follows CDS", labCDS},
		{"control, premature withdrawal goes bogus", labPrematureWithdrawal},
		{"control, the signer believes blindly", labBlindBelief},
		{"trap, published alone ends the way back", labTrapPublishedAloneEndsTheWayBack},
	} {
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			t.Run(c.name, c.run)
		})
	}
	all.Wait()
}

func labEndToEnd(t *testing.T, role string) {
	d := newSignerLab(t)
	old := d.Keys(role)[0]
	with := d.with(role, sdk.With{"servers": []string{}})
	with["parent"].(sdk.With)["ns"] = []string{} // found by their NS records
	check := d.job("check", with)
	check.call.Check = true
	if check.once(); !check.outcome.Changed || !strings.Contains(check.printed, "not before") || !strings.Contains(check.differs, old) || d.Made(role) != 1 {
		t.Errorf("check mode: %+v\n%s%s", check.outcome, check.printed, check.differs)
	}
	probes, begun := d.Probe(), time.Now()
	j := d.job("one", with).changed()
	took := time.Since(begun)
	seen := d.unbroken(probes)
	d.rolled(role, old, role == "ksk")
	t.Logf("%s roll: %v, %d probes answered, %d SERVFAIL; %v", role, took.Round(100*time.Millisecond), seen.Answered, seen.ServFail, j.checked)
	if evidence := fmt.Sprint(j.outcome.Outputs["evidence"]); len(evidence) < 500 || !strings.Contains(evidence, "secure true") {
		t.Errorf("evidence: %v", evidence)
	}
	// The same step of the same job again, as after a worker that died before it could report: no
	// second roll.
	j.call.State = nil
	if j.once(); !j.outcome.Changed || d.Made(role) != 2 {
		t.Errorf("again: %+v, %d keys were made", j.outcome, d.Made(role))
	}
}

// The DS is withheld: the job stalls, reports what a person must do, and forces nothing, for longer
// than any TTL; then a wrong DS comes, and it stalls; with the right one it continues.
func labByHand(t *testing.T) {
	d := newSignerLab(t)
	old := d.KSK()
	probes := d.Probe()
	j := d.job("hand", d.with("ksk", sdk.With{"parent": sdk.With{"method": "manual", "within": "12s", "ns": []string{servers.Parent}}}))
	j.until(in("K3 submit"))
	if !strings.Contains(j.outcome.Reason, "ADD this DS at the parent lab.") {
		t.Errorf("suspended for %s", j.outcome.Reason)
	}
	j.until(overdue)
	fresh := d.Successor(old)
	if right := d.DS(fresh); !strings.Contains(j.outcome.Reason, right) || !strings.Contains(j.outcome.Reason, "K3 submit") {
		t.Errorf("stalls for %s; expected the DS %s", j.outcome.Reason, right)
	}
	other := d.job("other", d.with("ksk"))
	if other.once(); !other.outcome.Failed || !strings.Contains(other.outcome.Reason, "old_tag: "+old) {
		t.Errorf("another roll meanwhile: %+v", other.outcome)
	}
	d.Update("update add cust.lab. 3 IN DS " + fresh + " 13 2 " + strings.Repeat("AB", 32))
	j.until(func(reason string) bool {
		return overdue(reason) && strings.Contains(reason, "which is not that of key")
	})
	d.Update("update delete cust.lab. DS "+fresh+" 13 2 "+strings.Repeat("AB", 32), "update add cust.lab. 3 IN DS "+d.DS(fresh))
	j.until(func(reason string) bool { return strings.Contains(reason, "REMOVE the DS of key "+old) })
	if d.Made("ksk") != 2 {
		t.Errorf("%d keys were made", d.Made("ksk"))
	}
	d.Update("update delete cust.lab. DS " + d.DS(old))
	j.changed()
	d.rolled("ksk", old, true)
	d.unbroken(probes)
}

// A server of the parent that is behind holds the roll: at K4 while the new DS is not there, at K5
// while the old one is.
func labStaleParent(t *testing.T) {
	d := newSignerLab(t, servers.SecondParent())
	old := d.KSK()
	probes := d.Probe()
	d.Stale(true)
	j := d.job("stale", d.with("ksk", sdk.With{"parent": sdk.With{
		"method": "nsupdate", "server": servers.Parent, "tsig": d.Path("registry.key"), "within": "4s", "ns": []string{servers.Parent, servers.Secondary},
	}}))
	j.until(func(reason string) bool { return overdue(reason) && strings.Contains(reason, "K4 prove") })
	if !strings.Contains(j.outcome.Reason, servers.Secondary) || len(d.Delegation()) != 2 {
		t.Errorf("DS %v at the parent; stalls for %s", d.Delegation(), j.outcome.Reason)
	}
	d.Stale(false)
	j.until(in("K5 withdraw"))
	d.Stale(true)
	j.until(func(reason string) bool { return overdue(reason) && strings.Contains(reason, "still has the DS") })
	d.Stale(false)
	j.changed()
	d.rolled("ksk", old, true)
	d.unbroken(probes)
}

// The parent is a registry that reads CDS now and then: it takes the old DS away as it takes the
// new one.
func labCDS(t *testing.T) {
	d := newSignerLab(t)
	old := d.KSK()
	probes := d.Probe()
	ctx, cancel := context.WithCancel(t.Context())
	var registry sync.WaitGroup
	registry.Go(func() { d.Registry(ctx, 2*time.Second) })
	j := d.job("cds", d.with("ksk", sdk.With{"parent": sdk.With{"method": "cds", "within": "1m", "ns": []string{servers.Parent}}})).changed()
	cancel()
	registry.Wait()
	d.rolled("ksk", old, true)
	d.unbroken(probes)
	t.Logf("%v", j.checked)
}

// Abort at K3 takes the new DS away; abort at K5 brings the old one back. Each time the roll can
// continue afterwards; at its end it is too late.
func labAbort(t *testing.T) {
	d := newSignerLab(t)
	old := d.KSK()
	probes := d.Probe()
	abort := d.with("ksk", sdk.With{"action": "abort"})
	if none := d.job("none", abort).until(nil); !none.outcome.Failed || !strings.Contains(none.outcome.Reason, "nothing to stop") {
		t.Errorf("abort without a roll: %+v", none.outcome)
	}
	first := d.job("first", d.with("ksk"))
	d.until(first, "the submitted DS", func() bool { return len(d.Delegation()) == 2 })
	if got := d.job("abort K3", abort).changed(); !strings.Contains(got.outcome.Reason, "both sign") || !slices.Equal(d.Delegation(), []string{old}) {
		t.Errorf("abort at K3: DS %v; %+v", d.Delegation(), got.outcome)
	}
	if first.until(nil); !first.outcome.Failed || !strings.Contains(first.outcome.Reason, "gone") {
		t.Errorf("the roll that was stopped: %+v", first.outcome)
	}
	if again := d.job("again", d.with("ksk")).until(nil); !again.outcome.Failed || !strings.Contains(again.outcome.Reason, "in progress") {
		t.Errorf("a new roll without old_tag: %+v", again.outcome)
	}
	tag, _ := strconv.Atoi(old)
	second := d.job("second", d.with("ksk", sdk.With{"old_tag": tag}))
	d.until(second, "the withdrawn DS", func() bool { return !slices.Contains(d.Delegation(), old) })
	if got := d.job("abort K5", abort).changed(); len(d.Delegation()) != 2 || !slices.Contains(d.Delegation(), old) {
		t.Errorf("abort at K5: DS %v; %+v", d.Delegation(), got.outcome)
	}
	third := d.job("third", d.with("ksk", sdk.With{"old_tag": tag})).until(in("K6 finish"))
	if late := d.job("late", abort).until(nil); !late.outcome.Failed || !strings.Contains(late.outcome.Reason, "only forward") {
		t.Errorf("abort at K6: %+v", late.outcome)
	}
	third.changed()
	d.rolled("ksk", old, true)
	d.unbroken(probes)
}

// until follows a job until the world is as wanted.
func (d *signerLab) until(j *rolling, what string, ok func() bool) {
	d.t.Helper()
	j.until(func(string) bool { return ok() })
}

// The zone becomes bogus when the old DS is gone (somebody spoils the new one): the old one comes
// back unasked, and that is proven.
func labComesBack(t *testing.T) {
	d := newSignerLab(t)
	old := d.KSK()
	j := d.job("spoilt", d.with("ksk", sdk.With{"safety_factor": 2})) // so the waits are long enough to interfere
	d.until(j, "the withdrawn DS", func() bool { return !slices.Contains(d.Delegation(), old) })
	fresh := d.Successor(old)
	d.Update("update delete cust.lab. DS "+d.DS(fresh), "update add cust.lab. 3 IN DS "+fresh+" 13 2 "+strings.Repeat("AB", 32))
	if j.until(nil); !j.outcome.RolledBack || !slices.Contains(d.Delegation(), old) || d.Made("ksk") != 2 {
		t.Errorf("DS %v; %+v; suspended for\n%s", d.Delegation(), j.outcome, strings.Join(slices.Compact(j.reasons), "\n"))
	}
}

// The danger without the phases: the old DS is withdrawn for a key that is not published yet.
func labPrematureWithdrawal(t *testing.T) {
	d := newSignerLab(t)
	probes := d.Probe()
	d.Update("update delete cust.lab. DS", "update add cust.lab. 3 IN DS 4711 13 2 "+strings.Repeat("AB", 32))
	d.bogus(probes)
}

// Or the signer is informed that the parent has the new DS and not the old: it believes that,
// though it is a lie.
func labBlindBelief(t *testing.T) {
	d := newSignerLab(t)
	old := d.KSK()
	probes := d.Probe()
	d.Report("-rollover", "-key", old)
	fresh := d.Successor(old)
	d.Report("-checkds", "-key", old, "withdrawn")
	d.Report("-checkds", "-key", fresh, "published")
	d.bogus(probes)
}

// The signer is informed only that the new DS is published, while the old one also is: it drops the
// old key all the same. So it is informed of both, at the very end, when there is no way back any
// more that one would want.
func labTrapPublishedAloneEndsTheWayBack(t *testing.T) {
	d := newSignerLab(t)
	old := d.KSK()
	d.Report("-rollover", "-key", old)
	fresh := d.Successor(old)
	d.Update("update add cust.lab. 3 IN DS " + d.DS(fresh))
	d.Report("-checkds", "-key", fresh, "published")
	if !servers.Poll(t.Context(), 100*time.Millisecond, func() bool { return !slices.Contains(d.Published(), old) }) || len(d.Delegation()) != 2 {
		t.Errorf("keys %v, DS %v: the signer waits for the withdrawal; then K4 may report it", d.Published(), d.Delegation())
	}
}

// bogus waits until the resolver fails, and ends the probes.
func (d *signerLab) bogus(probes *servers.Prober) {
	d.t.Helper()
	servers.Poll(d.t.Context(), 100*time.Millisecond, func() bool { return probes.Counts().ServFail > 3 })
	n := probes.Stop()
	d.t.Logf("the first SERVFAIL after %v; %+v", n.FirstServFail.Round(100*time.Millisecond), n)
	if n.ServFail == 0 {
		d.t.Errorf("not one SERVFAIL: what do the phases guard against? %+v", n)
	}
}

// A worker in a process of its own, and its plugin, are killed in every phase. Every second time
// the worker's saved state is also lost: then the signer's record and the keys' states must do. No
// second key is made, and no answer is bogus.
func labKilledInEveryPhase(t *testing.T, role string, phases ...string) {
	d := newSignerLab(t)
	old := d.Keys(role)[0]
	probes := d.Probe()
	file := filepath.Join(t.TempDir(), "state")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	phase := func() string {
		var s host.State
		if raw, err := os.ReadFile(file); err != nil || json.Unmarshal(raw, &s) != nil {
			return ""
		}
		return phaseOf(&s)
	}
	ended := func() bool { _, err := os.Stat(file + ".end"); return err == nil }
	var killed []string
	for i, at := range phases {
		w := d.worker(role, file)
		seen := waitFor(ctx, func() bool { now := phase(); return ended() || now >= at && !slices.Contains(killed, now) })
		killed = append(killed, phase())
		w.kill()
		if !seen {
			t.Fatalf("no sign of %s; worker: %s", at, w.out.String())
		}
		if i%2 == 1 {
			_ = os.Remove(file)
		}
	}
	w := d.worker(role, file)
	if !waitFor(ctx, ended) {
		t.Fatalf("does not end; worker: %s", w.out.String())
	}
	raw, _ := os.ReadFile(file + ".end")
	var end host.Outcome
	if err := json.Unmarshal(raw, &end); err != nil || !end.Changed || end.Failed {
		t.Errorf("ended as %s, %v", raw, err)
	}
	d.rolled(role, old, role == "ksk")
	n := d.unbroken(probes)
	t.Logf("killed in %v; %d probes answered, %d SERVFAIL", killed, n.Answered, n.ServFail)
}

func (d *signerLab) worker(role, state string) *labWorker {
	d.t.Helper()
	params, err := json.Marshal(d.with(role))
	if err != nil {
		d.t.Fatal(err)
	}
	return startWorker(d.t, labOrder{Type: "dnssec.rollover", Key: d.private, Host: d.sshd.Host("signer"), Params: params, State: state})
}

// TestLabDNSSECToPlayWith is the lab of `make lab-dnssec`: it stays until Ctrl-C. Without
// TURNUS_LAB the test sees that what it prints would work.
func TestLabDNSSECToPlayWith(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile("../examples/dnssec/rollover.yaml")
	if err != nil {
		t.Fatal(err)
	}
	d := newSignerLab(t)
	// The example, with the lab's places.
	text := string(example)
	for from, to := range map[string]string{
		"signer: signer-1, zone: cust.example.org":      "signer: signer, zone: " + servers.Zone,
		"[192.0.2.53, 198.51.100.53]":                   "[" + servers.Resolver + "]",
		"server: 192.0.2.1, tsig: /etc/bind/parent.key": "server: " + servers.Parent + ", tsig: " + d.Path("registry.key"),
		"poll: 5m": "poll: 1s\n      state_dir: " + d.Path("state") + "\n      signer: {config: " + d.Path("child/named.conf") + ", rndc_conf: " + d.Path("rndc.conf") + ", address: " + servers.Child + "}",
	} {
		if !strings.Contains(text, from) {
			t.Fatalf("the example lacks %q", from)
		}
		text = strings.ReplaceAll(text, from, to)
	}
	playbook := d.Path("dnssec-rollover.yaml")
	for name, content := range map[string]string{
		playbook:             text,
		d.Path("hosts.yaml"): fmt.Sprintf("hosts:\n  signer: {address: %s, user: %s, host_key: %q, identity_file: %s}\n", d.Net.Address, d.sshd.User, servers.AuthorizedKey(d.sshd.HostKey), d.private),
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getenv("TURNUS_LAB") == "" {
		turnus := filepath.Join(t.TempDir(), "turnus")
		build := exec.Command("go", "build", "-o", turnus, "../cmd/turnus")
		build.Env = testparts.Shipped()
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, role := range []string{"zsk", "ksk"} {
			cmd := exec.Command(turnus, "run", playbook, "-i", d.Path("hosts.yaml"), "-e", "key="+role, "--check")
			cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "TURNUS_STATE="+t.TempDir(), "SSH_AUTH_SOCK=")
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "finish ") || !strings.Contains(string(out), "1 changed") {
				t.Errorf("%s: %v\n%s", role, err, out)
			}
		}
		return
	}
	t.Logf("\n\nA signed zone %[2]s is there, with its parent and a validating resolver. Roll its keys, and watch:\n\n"+
		"  bin/turnus run %[1]s -i %[3]s -e key=ksk --check\n  bin/turnus run %[1]s -i %[3]s -e key=ksk\n"+
		"  while dig +noall +comments +answer @%[4]s www.%[2]s | grep -E 'status|flags'; do sleep 1; done\n  ip netns exec %[5]s rndc -c %[6]s dnssec -status %[2]s\n\nCtrl-C removes it.\n",
		playbook, servers.Zone, d.Path("hosts.yaml"), d.Net.Address, d.Net.Name, d.Path("rndc.conf"))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
}
