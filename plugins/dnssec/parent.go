package dnssec

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// delegations reads the DS set of every address of the parent. missing has the addresses whose set
// is not as wanted; wrong is a fault that no time mends.
func (x *roll) delegations(v *view, fresh dnskey, want func(delegated) string) (missing []string, wrong string) {
	st := &x.r.State
	for i := range v.parents {
		d, problem := delegation(&v.parents[i], x.p.Zone, st.Old, fresh)
		if problem == "" {
			st.ServedDS = max(st.ServedDS, d.ttl)
			if d.wrong != "" {
				wrong = d.wrong
			}
			if problem = want(d); problem != "" {
				problem = v.parents[i].serverAt + " " + problem
			}
		}
		if problem != "" {
			missing = append(missing, problem)
		}
	}
	if len(v.parents) == 0 {
		missing = append(missing, "no server of the parent was asked")
	}
	return missing, wrong
}

func (x *roll) hasNew(d delegated) string {
	if !d.fresh {
		return fmt.Sprintf("has no DS of key %d", x.r.State.New)
	}
	return ""
}

func (x *roll) hasOld(d delegated) string {
	if !d.old {
		return fmt.Sprintf("has no DS of key %d", x.r.State.Old)
	}
	return ""
}

func (x *roll) lacksOld(d delegated) string {
	if d.old {
		return fmt.Sprintf("still has the DS of key %d", x.r.State.Old)
	}
	return ""
}

// submit is K3: the new DS goes to the parent, beside the old one.
func (x *roll) submit(ctx context.Context, v *view) error {
	st := &x.r.State
	next, reported, err := x.untold(v)
	if reported || err != nil {
		return err
	}
	missing, wrong := x.delegations(v, next.key, x.hasNew)
	if wrong != "" {
		return x.wrongDS(v, wrong)
	}
	within := span{v.now, st.Since.Add(time.Duration(x.p.Parent.Within))}
	switch {
	case len(missing) == 0: // somebody has done it: K4 proves it
	case x.p.Parent.Method == "nsupdate":
		if err := x.update(ctx, v, func(d delegated) []string {
			if d.fresh {
				return nil
			}
			return []string{"prereq yxrrset " + x.p.Zone + ". DS", fmt.Sprintf("update add %s. %d DS %s", x.p.Zone, seconds(d.ttl), st.NewDS)}
		}); err != nil {
			return err
		}
		st.Touched = true
	case x.p.Parent.Method == "cds":
		if missing := x.offered(v); len(missing) > 0 {
			return x.wait(v, x.within(st.Since, st.Policy.Times.publication()), missing, "See BIND's log: it publishes CDS once the new key is everywhere")
		}
	default:
		if len(missing) == len(v.parents) {
			return x.wait(v, within, append([]string{fmt.Sprintf("a person is to ADD this DS at the parent %s., and leave the old one: %s. DS %s", v.places.Parent, x.p.Zone, st.NewDS)}, missing...),
				fmt.Sprintf("Add the DS %s at the parent, beside the old one", st.NewDS))
		}
	}
	x.passed(v, fmt.Sprintf("DS %s submitted by %s", st.NewDS, x.p.Parent.Method))
	return nil
}

func seconds(d time.Duration) int { return int(d / time.Second) }

func (x *roll) wrongDS(v *view, wrong string) error {
	return x.call(v, wrong, fmt.Sprintf("Correct the DS at the parent to: %s. DS %s", x.p.Zone, x.r.State.NewDS))
}

// offered checks that every server of the zone has the CDS of the new key, signed.
func (x *roll) offered(v *view) (missing []string) {
	st := &x.r.State
	for i := range v.cds {
		r := &v.cds[i]
		problem := r.problem()
		if problem == "" {
			problem = fmt.Sprintf("%s has no CDS of key %d", r.serverAt, st.New)
			for _, rec := range r.ofKind("CDS") {
				if d, err := parseDS(rec.data); err == nil && d == st.NewDS {
					problem = ""
				}
			}
		}
		if problem != "" {
			missing = append(missing, problem)
		}
	}
	return missing
}

// update changes the DS set at the parent by a dynamic update, made of what its updating server has
// now. Each change names the state that it expects, so that it is right or not done at all.
func (x *roll) update(ctx context.Context, v *view, change func(delegated) []string) error {
	next := keyOf(v.keys, x.r.State.New)
	var fresh dnskey
	if next != nil {
		fresh = next.key
	}
	server := place{Address: address(x.p.Parent.Server)}
	replies, _, err := x.signer.ask(ctx, []question{{at: server, name: x.p.Zone, kind: "DS"}}, "", x.signer.vars())
	if err != nil {
		return err
	}
	d, problem := delegation(&replies[0], x.p.Zone, x.r.State.Old, fresh)
	if problem != "" {
		return errors.New(problem)
	}
	lines := change(d)
	if lines == nil {
		return nil
	}
	ip, port, _ := strings.Cut(server.Address, "#")
	lines = append([]string{"server " + ip + " " + port, "zone " + v.places.Parent + "."}, append(lines, "send")...)
	a, err := x.signer.script(ctx, "need nsupdate\ne=$(nsupdate -k \"$KEY\" 2>&1); c=$?\nprintf '%s\\n' \"$e\" | sed 's/^/said /'\nexit $c\n",
		x.signer.vars("KEY", x.p.Parent.TSIG), false, strings.Join(lines, "\n")+"\n")
	if err != nil {
		return fmt.Errorf("updating the DS at %s: %w: %s", x.p.Parent.Server, err, clip(strings.TrimSpace(a.Text("said"))))
	}
	return nil
}

// whole is the DS set as prerequisites: an update that is late, or meets another's, is refused by
// the server.
func (x *roll) whole(d delegated) (lines []string) {
	for _, one := range d.all {
		lines = append(lines, fmt.Sprintf("prereq yxrrset %s. DS %s", x.p.Zone, one))
	}
	return lines
}

// prove is K4: the new DS is on every address of the parent, and validators have it. The signer is
// not informed yet: BIND 9.18 drops the old key a retire interval after rndc reports that the new
// DS is published, whether the old DS is gone or not.
func (x *roll) prove(ctx context.Context, v *view) error {
	st := &x.r.State
	next, reported, err := x.untold(v)
	if reported || err != nil {
		return err
	}
	missing, wrong := x.delegations(v, next.key, x.hasNew)
	if wrong != "" {
		return x.wrongDS(v, wrong)
	}
	everywhere := len(missing) == 0
	if everywhere {
		missing = x.believed(v, next.key)
	}
	secure, _ := v.secure()
	missing = append(append(missing, secure...), x.both(v)...)
	if len(missing) > 0 {
		due := span{v.now, st.Since.Add(time.Duration(x.p.Parent.Within))}
		if everywhere {
			due = span{v.now, later(due.Due, v.now.Add(safely(st.Policy.Times.parentRetire(st.ServedDS), x.p.SafetyFactor)+x.grace()))}
		}
		return x.wait(v, due, missing, fmt.Sprintf("Have the DS %s published on every server of the parent %s.", st.NewDS, v.places.Parent))
	}
	st.Proven = v.now
	x.passed(v, append([]string{fmt.Sprintf("DS %s is on all %d addresses of the parent, and validates", st.NewDS, len(v.parents))}, v.facts()...)...)
	return nil
}

// believed checks that each validator has the new DS, and calls it secure.
func (x *roll) believed(v *view, fresh dnskey) (missing []string) {
	for i := range v.validDS {
		r := &v.validDS[i]
		d, problem := delegation(r, x.p.Zone, x.r.State.Old, fresh)
		switch {
		case problem != "":
			missing = append(missing, "validator "+problem)
		case !d.fresh:
			missing = append(missing, "validator "+r.serverAt+" does not have the new DS yet")
		case !r.ad:
			missing = append(missing, "validator "+r.serverAt+" does not call the DS secure (no AD)")
		}
	}
	return missing
}

// withdraw is K5: when nobody can remember the parent without the new DS, the old one goes; when
// nobody can remember the old one, and the zone is still secure, rndc reports both to the signer.
// Until then it keeps both keys, and the old DS can come back.
func (x *roll) withdraw(ctx context.Context, v *view) error {
	st := &x.r.State
	next, reported, err := x.untold(v)
	if reported || err != nil {
		return err
	}
	if st.Back != "" {
		return x.goBack(ctx, v)
	}
	var fresh, left, secure []string
	var wrong string
	harmed := func() bool { // the old DS has begun to go, and the zone is bogus
		fresh, wrong = x.delegations(v, next.key, x.hasNew)
		left, _ = x.delegations(v, next.key, func(d delegated) string {
			if d.old { // from now on resolvers may remember it again
				st.Gone = time.Time{}
			}
			return x.lacksOld(d)
		})
		var bogus bool
		secure, bogus = v.secure()
		return bogus && len(left) < len(v.parents)
	}
	harm := harmed()
	if harm { // a validator with a short fault also answers SERVFAIL: a second look decides
		if v, err = x.observe(ctx); err != nil {
			return err
		}
		harm = harmed()
	}
	if harm {
		st.Back = strings.Join(secure, "; ")
		if err := x.r.Save(ctx, st.Phase, *st); err != nil {
			return err
		}
		return x.goBack(ctx, v)
	}
	if wrong != "" {
		return x.wrongDS(v, wrong)
	}
	if st.Proven.IsZero() {
		st.Proven = v.now
	}
	remember := safely(st.Policy.Times.parentRetire(st.ServedDS), x.p.SafetyFactor)
	if bad := append(append(fresh, secure...), x.both(v)...); len(bad) > 0 {
		return x.wait(v, span{v.now, v.now.Add(x.grace())}, bad, "Do not remove the old DS; bring back what is missing")
	}
	if len(left) > 0 {
		return x.remove(ctx, v, left, st.Proven.Add(remember))
	}
	if st.Gone.IsZero() {
		st.Gone = v.now
	}
	if until := st.Gone.Add(remember); v.now.Before(until) { // it polls meanwhile: the zone may become bogus
		return x.waitFor(v, span{until, until.Add(x.grace())}, time.Duration(x.p.Poll), []string{fmt.Sprintf("the old DS is gone from all addresses of the parent; it may be remembered until %s", until.Format(time.RFC3339))}, "Check the signer's clock")
	}
	missing, err := x.sound(ctx, v)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return x.wait(v, span{v.now, st.Gone.Add(remember + x.grace())}, missing, "Mend the zone; the old DS can still come back: action: abort")
	}
	if err := x.r.MayStart(ctx, 0); err != nil {
		return err
	}
	if err := x.signer.parentLost(ctx, st.Old); err != nil { // this first: without the other it changes nothing
		return err
	}
	if err := x.signer.parentHas(ctx, st.New); err != nil {
		return err
	}
	x.passed(v, append([]string{fmt.Sprintf("the DS of key %d is on none of %d addresses of the parent since %s", st.Old, len(v.parents), st.Gone.Format(time.RFC3339))}, v.facts()...)...)
	return nil
}

// remove takes the old DS away, not before its time.
func (x *roll) remove(ctx context.Context, v *view, left []string, from time.Time) error {
	st := &x.r.State
	if v.now.Before(from) {
		return x.wait(v, span{from, from.Add(x.grace())}, []string{"the parent without the new DS may be remembered until then; the old DS stays"}, "")
	}
	due := span{v.now, later(st.Since, from).Add(time.Duration(x.p.Parent.Within))}
	switch x.p.Parent.Method {
	case "nsupdate":
		if err := x.r.MayStart(ctx, 0); err != nil {
			return err
		}
		if err := x.update(ctx, v, func(d delegated) []string {
			if !d.old || !d.fresh {
				return nil
			}
			lines := x.whole(d)
			for _, one := range d.all {
				if one.Tag == st.Old {
					lines = append(lines, fmt.Sprintf("update delete %s. DS %s", x.p.Zone, one))
				}
			}
			return lines
		}); err != nil {
			return err
		}
		return x.wait(v, due, left, "Have the old DS removed from every server of the parent")
	case "cds":
		return x.wait(v, due, left, "The parent is to follow the zone's CDS, in which the old key is not; call its operator")
	}
	return x.wait(v, due, append([]string{fmt.Sprintf("a person is to REMOVE the DS of key %d at the parent %s., and leave that of key %d", st.Old, v.places.Parent, st.New)}, left...),
		fmt.Sprintf("Remove the DS of key %d", st.Old))
}

// goBack puts the old DS back, because validators called the zone bogus without it. The old key
// still signs.
func (x *roll) goBack(ctx context.Context, v *view) error {
	st := &x.r.State
	missing, done, err := x.readd(ctx, v)
	if err != nil || !done {
		if err == nil {
			err = x.call(v, "validators call the zone bogus since the old DS went ("+st.Back+"): "+strings.Join(missing, "; "),
				fmt.Sprintf("The old DS must come back NOW: key %d", st.Old))
		}
		return err
	}
	if err := x.close(ctx, "stopped"); err != nil {
		return err
	}
	return x.back()
}

func (x *roll) back() error {
	st := &x.r.State
	return sdk.Failf("validators called the zone bogus when the old DS was gone (%s); it is back on every address of the parent, both keys sign, and validators call the zone secure. "+
		"Correct the cause, then continue with old_tag: %d", st.Back, st.Old).RolledBack()
}

// readd brings the DS of the old key back beside the new one, and proves it.
func (x *roll) readd(ctx context.Context, v *view) (missing []string, done bool, err error) {
	st := &x.r.State
	old := keyOf(v.keys, st.Old)
	if old == nil || old.key.rdata == nil {
		return nil, false, sdk.Failf("the signer does not have key %d any more: only forward", st.Old).Effects(sdk.EffectsPartial)
	}
	missing, _ = x.delegations(v, dnskey{}, x.hasOld)
	if len(missing) > 0 && x.p.Parent.Method == "nsupdate" {
		st.Touched, st.Away = true, true
		err := x.update(ctx, v, func(d delegated) []string {
			if d.old {
				return nil
			}
			ttl := max(d.ttl, st.ServedDS)
			return []string{fmt.Sprintf("update add %s. %d DS %s", x.p.Zone, seconds(ttl), old.key.ds(x.p.Zone, sha256Type))}
		})
		if err != nil {
			return missing, false, err
		}
		return missing, false, nil
	}
	if len(missing) > 0 {
		st.Away = true
		missing = append(missing, fmt.Sprintf("the parent is to have this DS again: %s. DS %s", x.p.Zone, old.key.ds(x.p.Zone, sha256Type)))
		return missing, false, nil
	}
	missing, _ = v.secure()
	return missing, len(missing) == 0, nil
}

// untold returns the new key of a phase that is still to do; if nothing remains to do in it,
// reported is true.
func (x *roll) untold(v *view) (next *signerKey, reported bool, err error) {
	if x.reported(v) {
		return nil, true, nil
	}
	next, err = x.fresh(v)
	return next, false, err
}

// reported reports whether the signer knows already what the parent has. An earlier call then
// reported it, and died before it saved its state. The signer may have purged the old key. Without
// the new key, the key directory is not readable, and proves nothing.
func (x *roll) reported(v *view) bool {
	if x.p.Key != "ksk" {
		return false
	}
	old, next := keyOf(v.keys, x.r.State.Old), keyOf(v.keys, x.r.State.New)
	return next != nil && !next.dsPublished.IsZero() && (old == nil || !old.dsRemoved.IsZero())
}
