package dnssec

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// roll is one call of the job type.
type roll struct {
	r         *runOf
	p         *Params
	signer    *bind
	key       string // the same in each attempt of this step of this job, on whatever worker
	suspended bool   // what is returned suspends the job
}

func run(ctx context.Context, r *runOf) error {
	r.Params.fill()
	sum := sha256.Sum256([]byte(r.Key + "\n" + r.Step))
	x := &roll{r: r, p: &r.Params, key: hex.EncodeToString(sum[:8]), signer: &bind{host: r.Host(), p: &r.Params, zone: r.Params.Zone}}
	defer x.output()
	switch {
	case r.Check:
		return x.plan(ctx)
	case x.p.Action == "abort":
		err := r.Phases(ctx, &r.State.Phase, x.phase("A0 decide", x.decide), x.phase("A1 restore", x.restore), x.phase("A2 stop", x.stop))
		if r.State.Touched {
			r.Changed()
		}
		return err
	case r.State.Phase == "":
		_, last, err := x.notes(ctx)
		if err != nil {
			return err
		}
		if x.mine(last) { // done, by an attempt whose worker died before it could report it
			r.Changed()
			r.State.Old = last.old
			r.Explain(fmt.Sprintf("key %d was rolled by an attempt of this job before", last.old))
			return nil
		}
	}
	phases := []phase{
		x.phase("K0 preflight", x.preflight), x.phase("K1 start", x.start), x.phase("K2 publish", x.publish), x.phase("K3 submit", x.submit),
		x.phase("K4 prove", x.prove), x.phase("K5 withdraw", x.withdraw), x.phase("K6 finish", x.finish),
	}
	if x.p.Key == "zsk" {
		phases = []phase{
			x.phase("Z0 preflight", x.preflight), x.phase("Z1 start", x.start), x.phase("Z2 publish", x.publish), x.phase("Z3 sign", x.sign), x.phase("Z4 finish", x.finish),
		}
	}
	err := r.Phases(ctx, &r.State.Phase, phases...)
	if r.State.Touched {
		r.Changed()
	}
	return err
}

// phase makes a phase of a function that is given one look. A failure after the roll has begun is
// waited for: a roll that is left alone is safe, and one that ends as failed would be nobody's.
func (x *roll) phase(name string, run func(ctx context.Context, v *view) error) phase {
	return phase{Name: name, Run: func(ctx context.Context, r *runOf) error {
		x.r = r
		if strings.HasSuffix(name, "0 preflight") || name == "A0 decide" {
			return run(ctx, nil)
		}
		v, err := x.observe(ctx)
		if err == nil {
			x.enter(name, v.now)
			if n := v.open[x.p.Zone]; !x.mine(n) {
				return x.ended(n, v)
			}
			err = run(ctx, v)
		}
		if x.patient(err) && ctx.Err() == nil {
			if v == nil { // without an answer of the signer there is this clock only
				v = &view{now: time.Now().UTC()}
				x.enter(name, v.now)
			}
			return x.wait(v, span{v.now, x.r.State.Since.Add(x.grace())}, []string{fmt.Sprintf("cannot continue now: %v", err)}, "Mend what is named here")
		}
		return err
	}}
}

// patient distinguishes faults that end in time, or by a person, from results and from the ways in
// which a call is ended.
func (x *roll) patient(err error) bool {
	var failure *sdk.Failure
	return err != nil && !x.suspended && !errors.As(err, &failure) && !errors.Is(err, sdk.ErrWindowClosed) && !errors.Is(err, sdk.ErrDenied)
}

// ended: the record of the roll is not open, or another's. It may be that this job closed it, and
// died before it could report it.
func (x *roll) ended(n note, v *view) error {
	switch {
	case n.key != "":
	case x.mine(v.stopped) && x.r.State.Back != "":
		return x.back()
	case x.mine(v.last), x.mine(v.stopped) && x.p.Action == "abort":
		x.r.State.Touched = true
		return nil
	default:
		return sdk.Failf("the record of this roll in %s is gone: somebody else ended it, or stopped it. Look, then continue with old_tag: %d, or stop with action: abort", x.p.StateDir, x.r.State.Old).Effects(sdk.EffectsPartial)
	}
	return sdk.Failf("job %s has taken this roll over", n.job).Effects(sdk.EffectsPartial)
}

// enter notes since when the job is in a phase, by the signer's clock.
func (x *roll) enter(name string, now time.Time) {
	if x.r.State.Of != name {
		x.r.State.Of, x.r.State.Since = name, now
	}
}

func (x *roll) grace() time.Duration { return time.Duration(x.p.Grace) }

// within is a span of what takes d, beginning at start.
func (x *roll) within(start time.Time, d time.Duration) span {
	return expect(start, d, x.p.SafetyFactor, x.grace())
}

// wait suspends the job. missing is what is not as it must be yet; what a person is to do once it
// is overdue is do.
func (x *roll) wait(v *view, s span, missing []string, do string) error {
	return x.waitFor(v, s, s.next(v.now, time.Duration(x.p.Poll)), missing, do)
}

// waitFor is wait with a given time until the next look, which may be before the span begins.
func (x *roll) waitFor(v *view, s span, after time.Duration, missing []string, do string) error {
	x.suspended = true
	text := strings.Join(missing, "; ")
	const form = "2006-01-02 15:04:05 UTC"
	if !s.overdue(v.now) {
		text = fmt.Sprintf("%s: %s; expected from %s, checked again %s, overdue after %s", x.r.State.Of, text, s.From.Format(form), v.now.Add(after).Format(form), s.Due.Format(form))
		return x.r.Wait(after, sdk.Because(clip(text)))
	}
	text = fmt.Sprintf("OVERDUE since %s, %s: %s. %s. Nothing is forced: the zone stays as it is, and this step continues to wait", s.Due.Format(form), x.r.State.Of, text, do)
	x.r.Log().Error(clip(text))
	return x.r.Wait(time.Duration(x.p.Poll), sdk.Because(clip(text)), sdk.UntilSignal(personEvent(x.r.State.Of)))
}

// personEvent returns the event that a stalled roll waits for in addition to its next poll: people
// are notified of a job that waits for an event of people.
func personEvent(phase string) string { return "seen-to/" + phase }

// call stalls immediately: the observed state is wrong, and time does not correct it.
func (x *roll) call(v *view, what, do string) error {
	return x.wait(v, span{From: v.now, Due: v.now.Add(-time.Second)}, []string{what}, do)
}

// passed notes what was seen at the end of a phase.
func (x *roll) passed(v *view, seen ...string) {
	seen = bounded(seen)
	from := x.r.State.Since
	if from.IsZero() {
		from = v.now
	}
	x.r.State.Evidence = append(x.r.State.Evidence, evidence{Phase: x.r.State.Phase, From: from, At: v.now, Seen: seen})
	x.r.Log().Info(x.r.State.Phase, "seen", strings.Join(seen, "; "))
}

// maxSeen bounds the evidence of one phase, so that all of a roll is kept in the step's outputs.
const maxSeen = 3 << 10

// bounded is as much of the list as is kept.
func bounded(seen []string) []string {
	size := 0
	for i := range seen {
		seen[i] = clip(seen[i])
		if size += len(seen[i]); size > maxSeen {
			return append(seen[:i:i], fmt.Sprintf("and %d more", len(seen)-i))
		}
	}
	return seen
}

// facts is the short form of a look.
func (v *view) facts() []string {
	var list []string
	for i := range v.dnskeys {
		keys, ttl, problem := published(&v.dnskeys[i])
		if problem == "" {
			problem = fmt.Sprintf("%s: DNSKEY %v, TTL %s", v.dnskeys[i].serverAt, tagsOf(keys), ttl)
		}
		list = append(list, problem)
	}
	for i := range v.parents {
		d, problem := delegation(&v.parents[i], "", 0, dnskey{})
		if problem == "" {
			problem = fmt.Sprintf("%s: DS %v, TTL %s", v.parents[i].serverAt, d.all, d.ttl)
		}
		list = append(list, problem)
	}
	for i := range v.valid {
		list = append(list, fmt.Sprintf("validator %s: %s, secure %v", v.valid[i].serverAt, v.valid[i].status, v.valid[i].ad))
	}
	for _, k := range v.keys {
		if !k.gone() {
			list = append(list, k.String())
		}
	}
	return list
}

// verified has dnssec-verify check the zone; its result is evidence.
func (x *roll) verified(ctx context.Context) (content, []string, error) {
	c, err := x.signer.verify(ctx)
	if err != nil {
		return c, nil, err
	}
	if !c.ok {
		return c, []string{"dnssec-verify finds the zone faulty: " + c.report}, nil
	}
	return c, nil, nil
}

func (x *roll) evidenceFile() string {
	st := x.r.State
	raw, err := json.MarshalIndent(struct {
		Outputs
		Evidence []evidence `json:"evidence"`
	}{Outputs{OldTag: st.Old, NewTag: st.New, DS: st.dsText()}, st.Evidence}, "", "  ")
	if err != nil { // of plain values
		return ""
	}
	return string(raw) + "\n"
}

func (s *State) dsText() string {
	if s.NewDS.Digest == "" {
		return ""
	}
	return s.NewDS.String()
}

func (x *roll) output() {
	st := x.r.State
	if st.Old == 0 {
		return
	}
	x.r.Output("old_tag", st.Old)
	x.r.Output("new_tag", st.New)
	x.r.Output("ds", st.dsText())
	for _, e := range st.Evidence {
		x.r.Evidence(e.Phase, e)
	}
}
