package dnssec

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// decide is A0: which roll there is to stop, and whether it still can be.
func (x *roll) decide(ctx context.Context, _ *view) error {
	st := &x.r.State
	var err error
	if st.Policy, err = x.signer.config(ctx); err != nil {
		return sdk.Refuse("%w", err)
	}
	v, err := x.observe(ctx)
	if err != nil {
		return err
	}
	x.enter(st.Phase, v.now)
	n := v.open[x.p.Zone]
	st.Old = cmp.Or(x.p.OldTag, n.old)
	if st.Old == 0 {
		i := slices.IndexFunc(v.keys, func(k signerKey) bool { return k.ksk && !k.gone() && k.goal == hidden })
		if i < 0 {
			return sdk.Refuse("no KSK of the zone is being rolled: there is nothing to stop")
		}
		st.Old = v.keys[i].tag
	}
	old := keyOf(v.keys, st.Old)
	if old == nil || !old.ksk {
		return sdk.Refuse("the signer has no KSK %d", st.Old)
	}
	if next := successorOf(v.keys, st.Old); next != nil {
		st.New, st.NewDS = next.tag, next.key.ds(x.p.Zone, sha256Type)
	}
	missing := v.everyServer(func(keys []dnskey, _ []int) string {
		if !slices.Contains(tagsOf(keys), st.Old) {
			return fmt.Sprintf("it does not have key %d any more", st.Old)
		}
		return ""
	})
	if next := keyOf(v.keys, st.New); next != nil && !next.dsPublished.IsZero() {
		missing = append(missing, fmt.Sprintf("the signer was informed at %s that the parent has the new DS, and removes the old key", next.dsPublished.Format(time.RFC3339)))
	}
	if len(missing) > 0 {
		return sdk.Refuse("too late to stop: only forward: %s. Continue with old_tag: %d", strings.Join(missing, "; "), st.Old)
	}
	x.passed(v, v.facts()...)
	return x.take(ctx, st.Old, n.key)
}

// restore is A1: the parent has the old DS on every address. Where it always had, the new one is
// taken away.
func (x *roll) restore(ctx context.Context, v *view) error {
	st := &x.r.State
	missing, done, err := x.readd(ctx, v)
	if err != nil {
		return err
	}
	due := span{v.now, st.Since.Add(time.Duration(x.p.Parent.Within))}
	if !done {
		return x.wait(v, due, missing, fmt.Sprintf("Have the DS of key %d back on every server of the parent %s.", st.Old, v.places.Parent))
	}
	var fresh dnskey
	if next := keyOf(v.keys, st.New); next != nil {
		fresh = next.key
	}
	extra, _ := x.delegations(v, fresh, func(d delegated) string {
		if d.fresh {
			return "still has the DS of the new key"
		}
		return ""
	})
	if len(extra) == 0 || st.Away || x.p.Parent.Method != "nsupdate" { // where the old DS was away, it may be remembered so: both stay
		x.passed(v, v.facts()...)
		return nil
	}
	st.Touched = true
	if err := x.update(ctx, v, func(d delegated) []string {
		if !d.old || !d.fresh {
			return nil
		}
		lines := x.whole(d)
		for _, one := range d.all {
			if one.Tag == st.New {
				lines = append(lines, fmt.Sprintf("update delete %s. DS %s", x.p.Zone, one))
			}
		}
		return lines
	}); err != nil {
		return err
	}
	return x.wait(v, due, extra, fmt.Sprintf("Have the DS of key %d removed from every server of the parent", st.New))
}

// stop is A2: the roll is nobody's any more; both keys sign.
func (x *roll) stop(ctx context.Context, v *view) error {
	st := &x.r.State
	missing, err := x.sound(ctx, v)
	if err != nil {
		return err
	}
	if missing = append(missing, first2(x.delegations(v, dnskey{}, x.hasOld))...); len(missing) > 0 {
		return x.wait(v, span{v.now, st.Since.Add(x.grace())}, missing, "Mend the zone")
	}
	x.passed(v, v.facts()...)
	st.Touched = true
	x.r.Explain(fmt.Sprintf("stopped: the parent has the DS of key %d on every address, and keys %d and %d both sign. It can stay so. To continue: action roll with old_tag: %d", st.Old, st.Old, st.New, st.Old))
	if err := x.close(ctx, "stopped"); err != nil {
		return err
	}
	return nil
}

func first2(list []string, _ string) []string { return list }
