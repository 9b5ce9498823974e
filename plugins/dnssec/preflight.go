package dnssec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// preflight is K0 and Z0: nothing is begun that could not be ended, and the old key is chosen,
// once.
func (x *roll) preflight(ctx context.Context, _ *view) error {
	v, previous, err := x.inspect(ctx)
	if err != nil {
		return err
	}
	st := &x.r.State
	x.enter(st.Phase, v.now)
	x.passed(v, append([]string{fmt.Sprintf("key %d will be rolled, by policy %s", st.Old, st.Policy.Name)}, v.facts()...)...)
	if err := x.r.MayStart(ctx, 0); err != nil { // before the record shows that a roll is under way
		return err
	}
	return x.take(ctx, st.Old, previous) // the intent, on the signer: the next worker knows which key it was
}

// inspect checks everything and chooses the old key; it changes the state only. previous is whose
// roll is taken over.
func (x *roll) inspect(ctx context.Context) (v *view, previous string, err error) {
	st := &x.r.State
	if st.Policy, err = x.signer.config(ctx); err != nil {
		return nil, "", sdk.Refuse("%w", err)
	}
	if v, err = x.observe(ctx); err != nil {
		return nil, "", err
	}
	before, open := v.open[x.p.Zone]
	switch {
	case open && x.mine(before): // an attempt of this job whose worker died
		st.Old, previous = before.old, before.key
	case open && (x.p.OldTag != before.old || x.p.Key != before.role):
		return nil, "", x.busy(before)
	case open:
		st.Old, previous = before.old, before.key
	}
	if zone, other, ok := related(v.open, x.p.Zone); ok {
		return nil, "", relatedFault(zone, other)
	}
	var bad []string
	st.Old, bad = x.choose(v, st.Old)
	begun := successorOf(v.keys, st.Old) != nil
	content, faulty, err := x.verified(ctx)
	if err != nil {
		return nil, "", err
	}
	bad = append(bad, faulty...)
	missing, _ := v.secure()
	bad = append(append(bad, missing...), v.agree()...)
	bad = append(bad, x.foreign(v)...)
	bad = append(bad, x.sane(v, content, begun)...)
	if len(bad) > 0 {
		return nil, "", sdk.Refuse("preflight: nothing was begun: %s", strings.Join(bad, "; ")).Retryable()
	}
	return v, previous, nil
}

// choose finds the old key. own is that of a roll that has begun.
func (x *roll) choose(v *view, own int) (old int, bad []string) {
	if own == 0 && x.p.OldTag != 0 && successorOf(v.keys, x.p.OldTag) != nil {
		own = x.p.OldTag // its roll was begun, and left
	}
	list, bad := candidates(v.keys, x.p.Key, own)
	if own != 0 {
		if k := keyOf(v.keys, own); k == nil || k.ksk != (x.p.Key == "ksk") {
			bad = append(bad, fmt.Sprintf("the signer has no %s %d", x.p.Key, own))
		}
		return own, bad
	}
	switch {
	case len(list) != 1:
		bad = append(bad, fmt.Sprintf("expected one active %s; found %d", x.p.Key, len(list)))
		return 0, bad
	case list[0].tag == 0:
		bad = append(bad, "the key's tag is 0, which stands for none here: roll it by hand")
	case x.p.OldTag != 0 && x.p.OldTag != list[0].tag:
		bad = append(bad, fmt.Sprintf("old_tag is %d, but the active %s is %d: was it rolled already?", x.p.OldTag, x.p.Key, list[0].tag))
	}
	return list[0].tag, bad
}

// foreign refuses zones that another signer's keys are in (RFC 8901), and more than one algorithm.
func (x *roll) foreign(v *view) []string {
	algs := map[int]bool{}
	bad := v.everyServer(func(keys []dnskey, _ []int) string {
		for _, k := range keys {
			algs[k.alg] = true
			own := keyOf(v.keys, k.tag)
			if own == nil || own.key.rdata == nil || !slices.Equal(own.key.rdata, k.rdata) {
				return fmt.Sprintf("it has key %d, which is not this signer's: zones of several signers (RFC 8901) are not rolled", k.tag)
			}
		}
		return ""
	})
	for role, alg := range x.r.State.Policy.algs {
		if role == x.p.Key {
			algs[alg] = true
		}
	}
	if len(algs) > 1 {
		bad = append(bad, fmt.Sprintf("the zone's keys and its policy are of the algorithms %v: an algorithm roll is not what this job type does", keysOf(algs)))
	}
	if role := x.p.Key; x.r.State.Policy.algs[role] == 0 {
		bad = append(bad, fmt.Sprintf("the policy %s names no %s", x.r.State.Policy.Name, role))
	}
	return bad
}

func keysOf(m map[int]bool) (list []int) {
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// sane compares what is served with the policy, and the delegation with the old key.
func (x *roll) sane(v *view, c content, begun bool) (bad []string) {
	st := &x.r.State
	var keyTTL time.Duration
	for i := range v.dnskeys {
		_, ttl, _ := published(&v.dnskeys[i])
		keyTTL = max(keyTTL, ttl)
	}
	if x.p.Key == "zsk" {
		return st.Policy.Times.disagrees(keyTTL, c.maxTTL, 0)
	}
	if st.Policy.parental {
		bad = append(bad, "the zone has parental-agents: BIND would decide by answers that it does not validate; take them out of named.conf for the roll")
	}
	old := keyOf(v.keys, st.Old)
	if old == nil {
		return bad
	}
	for i := range v.parents {
		d, problem := delegation(&v.parents[i], x.p.Zone, 0, old.key)
		switch {
		case problem != "":
		case d.wrong != "":
			problem = d.wrong
		case !d.fresh && !begun:
			problem = fmt.Sprintf("%s has no DS of key %d", v.parents[i].serverAt, st.Old)
		case len(d.all) > 1 && !begun:
			problem = fmt.Sprintf("%s has DS of more than this key: %v", v.parents[i].serverAt, d.all)
		}
		if problem != "" {
			bad = append(bad, problem)
		}
		st.ServedDS = max(st.ServedDS, d.ttl)
	}
	return append(bad, st.Policy.Times.disagrees(keyTTL, c.maxTTL, st.ServedDS)...)
}
