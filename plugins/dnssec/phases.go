package dnssec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// start is K1 and Z1: it asks the signer to roll the old key, unless it does already.
func (x *roll) start(ctx context.Context, v *view) error {
	st := &x.r.State
	next := successorOf(v.keys, st.Old)
	if next == nil && keyOf(v.keys, st.Old).goalIs(omnipresent) {
		if err := x.signer.roll(ctx, st.Old); err != nil {
			return err
		}
		st.Touched = true
		again, err := x.observe(ctx)
		if err != nil {
			return err
		}
		v, next = again, successorOf(again.keys, st.Old)
	}
	if next == nil {
		return x.wait(v, span{v.now, st.Since.Add(x.grace())}, []string{fmt.Sprintf("the signer has made no successor of key %d", st.Old)},
			"See BIND's log, and `rndc dnssec -status`; is the key directory writable?")
	}
	old := keyOf(v.keys, st.Old)
	if next.alg != old.alg {
		return x.call(v, fmt.Sprintf("the successor %d is of algorithm %d, key %d of %d: that is an algorithm roll", next.tag, next.alg, old.tag, old.alg), "Put the policy's algorithm back, and mend by hand")
	}
	if next.key.rdata == nil {
		return errors.New("the successor's key file cannot be read yet")
	}
	st.New, st.Touched = next.tag, true
	if x.p.Key == "ksk" {
		st.NewDS = next.key.ds(x.p.Zone, sha256Type)
	}
	x.passed(v, fmt.Sprintf("key %d follows key %d", st.New, st.Old))
	return nil
}

func (k *signerKey) goalIs(goal string) bool { return k != nil && k.goal == goal }

// fresh is the new key.
func (x *roll) fresh(v *view) (*signerKey, error) {
	k := keyOf(v.keys, x.r.State.New)
	if k == nil || k.key.rdata == nil {
		return nil, fmt.Errorf("the new key %d is not on the signer any more", x.r.State.New)
	}
	return k, nil
}

// both checks that every server has both keys; for a KSK, that both sign.
func (x *roll) both(v *view) []string {
	st := &x.r.State
	return v.everyServer(func(keys []dnskey, signers []int) string {
		for _, tag := range []int{st.Old, st.New} {
			if !slices.Contains(tagsOf(keys), tag) {
				return fmt.Sprintf("it does not have key %d", tag)
			}
			if x.p.Key == "ksk" && !slices.Contains(signers, tag) {
				return fmt.Sprintf("key %d does not sign the keys there", tag)
			}
		}
		return ""
	})
}

// publish is K2 and Z2: the new key is with everybody, for longer than the old set of keys can be
// remembered.
func (x *roll) publish(ctx context.Context, v *view) error {
	st := &x.r.State
	next, reported, err := x.untold(v)
	if reported || err != nil {
		return err
	}
	since := next.published
	if since.IsZero() {
		since = st.Since
	}
	due := x.within(since, st.Policy.Times.publication())
	var missing []string
	if next.dnskey != omnipresent || x.p.Key == "ksk" && next.krrsig != omnipresent {
		missing = append(missing, "the signer does not yet count on it: "+next.String())
	}
	if x.p.Key == "ksk" { // a ZSK that is late may have retired the old one meanwhile
		missing = append(missing, x.both(v)...)
	} else {
		missing = append(missing, v.everyServer(func(keys []dnskey, _ []int) string {
			if !slices.Contains(tagsOf(keys), st.New) {
				return fmt.Sprintf("it does not have key %d", st.New)
			}
			return ""
		})...)
	}
	if len(missing) == 0 {
		missing, err = x.sound(ctx, v)
		if err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return x.wait(v, due, missing, "Let every server of the zone transfer it; see BIND's log on the signer")
	}
	x.passed(v, v.facts()...)
	return nil
}

// sound returns why no transition is possible yet. Each one needs that the servers agree, that
// dnssec-verify passes, and that validators call the zone secure.
func (x *roll) sound(ctx context.Context, v *view) ([]string, error) {
	missing, _ := v.secure()
	missing = append(missing, v.agree()...)
	_, faulty, err := x.verified(ctx)
	return append(missing, faulty...), err
}

// sign is Z3: the new key has signed everything again.
func (x *roll) sign(ctx context.Context, v *view) error {
	st := &x.r.State
	c, missing, err := x.verified(ctx)
	if err != nil {
		return err
	}
	if n := c.signed[st.Old]["zone"]; n > 0 {
		missing = append(missing, fmt.Sprintf("%d signatures are still key %d's", n, st.Old))
	}
	n := c.signed[st.New]["zone"]
	if n == 0 {
		missing = append(missing, fmt.Sprintf("key %d has signed nothing", st.New))
	}
	for i := range v.soas {
		if r := &v.soas[i]; r.problem() != "" {
			missing = append(missing, r.problem())
		} else if !slices.Contains(signedBy(r, "SOA"), st.New) {
			missing = append(missing, fmt.Sprintf("%s: key %d does not sign there", r.serverAt, st.New))
		}
	}
	bad, _ := v.secure()
	if missing = append(missing, bad...); len(missing) > 0 {
		return x.wait(v, x.within(st.Since, st.Policy.Times.signing()+st.Policy.Times.Propagation), missing, "See BIND's log: signatures are made again signatures-refresh before their end")
	}
	x.passed(v, append([]string{fmt.Sprintf("key %d has made %d signatures, key %d has none", st.New, n, st.Old)}, v.facts()...)...)
	return nil
}

// finish is K6 and Z4: the old key is nowhere any more.
func (x *roll) finish(ctx context.Context, v *view) error {
	st := &x.r.State
	takes := st.Policy.Times.zoneRetire()
	if x.p.Key == "ksk" {
		takes = st.Policy.Times.keyRetire()
	}
	missing := v.everyServer(func(keys []dnskey, _ []int) string {
		if slices.Contains(tagsOf(keys), st.Old) {
			return fmt.Sprintf("it still has key %d", st.Old)
		}
		return ""
	})
	due := x.within(st.Since, takes)
	if len(missing) == 0 { // the state machine still waits until nobody remembers it
		due = x.within(st.Since, takes+st.Policy.Times.hiding()+st.Policy.Times.RetireSafety)
		due.From = v.now
	}
	if old := keyOf(v.keys, st.Old); old != nil && !old.gone() { // it is nil once BIND has purged it
		missing = append(missing, "the signer has not let it go: "+old.String())
	}
	if next := keyOf(v.keys, st.New); !next.goalIs(omnipresent) || !next.stable() {
		missing = append(missing, fmt.Sprintf("the new key %d is not at its goal", st.New))
	}
	if len(missing) == 0 {
		var err error
		if missing, err = x.sound(ctx, v); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return x.wait(v, due, missing, "See `rndc dnssec -status` on the signer, and that every server transfers the zone")
	}
	x.passed(v, append([]string{"the old key is gone"}, v.facts()...)...)
	st.Touched = true
	return x.close(ctx, "last")
}

// later is the latest of times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
