//go:build linux

package plugins_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/dnslab"
	"github.com/turnus/turnus/core/transport/sshdtest"
	"github.com/turnus/turnus/plugins/host"
	"github.com/turnus/turnus/plugins/sdk"
)

// The lab of rollovers: a real BIND with its parent, a real validating resolver, and a real OpenSSH on the signer. Lifetimes are of
// seconds, so a roll that takes days takes half a minute.

type signerLab struct {
	*dnslab.Lab
	t       *testing.T
	sshd    *sshdtest.Server
	private string
}

func newSignerLab(t *testing.T, opts ...dnslab.Option) *signerLab {
	t.Helper()
	d := &signerLab{t: t, Lab: dnslab.New(t, opts...)}
	private, public := sshdtest.NewKey(t)
	d.private = private
	d.sshd = sshdtest.Start(t, sshdtest.Address(d.Net.Address), sshdtest.Authorize(public), sshdtest.Inside(22, d.Net.Prefix()...))
	return d
}

// with are the params of a roll; times are as short as the zone's.
func (d *signerLab) with(key string, more ...sdk.With) sdk.With {
	w := sdk.With{
		"zone": dnslab.Zone, "key": key, "validators": []string{dnslab.Resolver}, "safety_factor": 1, "grace": "1m", "poll": "300ms", "state_dir": d.Path("state"),
		"signer": sdk.With{"config": d.Path("child/named.conf"), "rndc_conf": d.Path("rndc.conf"), "address": dnslab.Child},
		"parent": sdk.With{"method": "nsupdate", "server": dnslab.Parent, "tsig": d.Path("registry.key"), "within": "1m"},
	}
	for _, m := range more {
		for k, v := range m {
			w[k] = v
		}
	}
	return w
}

// parent is the params of another way to the parent.
func manual(within string) sdk.With {
	return sdk.With{"parent": sdk.With{"method": "manual", "within": within}}
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
	supervisor, stop, err := supervise(d.private)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		if err := stop(); err != nil {
			d.t.Error(err)
		}
	})
	raw, err := json.Marshal(with)
	if err != nil {
		d.t.Fatal(err)
	}
	j := &rolling{d: d, place: &place{supervisor: supervisor}}
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

// until follows the job until stop says so, or it ends. stop sees why the job is parked.
func (j *rolling) until(stop func(reason string) bool) *rolling {
	j.d.t.Helper()
	limit := time.After(3 * time.Minute)
	for j.once() {
		if stop != nil && stop(j.outcome.Reason) {
			return j
		}
		select {
		case <-limit:
			j.d.t.Fatalf("does not end; parked for:\n%s", strings.Join(slices.Compact(j.reasons), "\n"))
		case <-time.After(j.outcome.ResumeAfter):
		}
	}
	if stop != nil {
		j.d.t.Fatalf("ended before: %+v; parked for:\n%s", j.outcome, strings.Join(slices.Compact(j.reasons), "\n"))
	}
	return j
}

// in stops when the job is parked in a phase.
func in(phase string) func(string) bool {
	return func(reason string) bool { return strings.Contains(reason, phase+" ") }
}

// overdue stops when the job stalls.
func overdue(reason string) bool { return strings.HasPrefix(reason, "OVERDUE") }

func (j *rolling) changed() *rolling {
	j.d.t.Helper()
	if j.until(nil); !j.outcome.Changed || j.outcome.Failed {
		j.d.t.Fatalf("got %+v; parked for:\n%s", j.outcome, strings.Join(slices.Compact(j.reasons), "\n"))
	}
	return j
}

// unbroken ends the probes: enough of them, and not one SERVFAIL.
func (d *signerLab) unbroken(p *dnslab.Prober) dnslab.Probes {
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

func TestLabRollsEndToEnd(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"ksk", "zsk"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			d := newSignerLab(t)
			old := d.Keys(role)[0]
			check := d.job("check", d.with(role))
			check.call.Check = true
			if check.once(); !check.outcome.Changed || !strings.Contains(check.printed, "not before") || !strings.Contains(check.differs, old) || d.Made(role) != 1 {
				t.Errorf("check mode: %+v\n%s%s", check.outcome, check.printed, check.differs)
			}
			probes, begun := d.Probe(), time.Now()
			j := d.job("one", d.with(role)).changed()
			took := time.Since(begun)
			seen := d.unbroken(probes)
			d.rolled(role, old, role == "ksk")
			t.Logf("%s roll: %v, %d probes answered, %d SERVFAIL; %v", role, took.Round(100*time.Millisecond), seen.Answered, seen.ServFail, j.checked)
			if took > 90*time.Second {
				t.Errorf("it took %v", took)
			}
			if evidence, ok := j.outcome.Outputs["evidence"]; !ok || len(fmt.Sprint(evidence)) < 500 {
				t.Errorf("evidence: %v", evidence)
			}
			// The same step of the same job again, as after a worker that died before it could tell: no second roll.
			j.call.State = nil
			if j.once(); !j.outcome.Changed || d.Made(role) != 2 {
				t.Errorf("again: %+v, %d keys were made", j.outcome, d.Made(role))
			}
		})
	}
}
