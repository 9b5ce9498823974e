package catalog

import (
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/board"
	"github.com/turnus/turnus/windows"
)

// Bounds of the whole list, in which a revocation is also an Approval. A revocation always finds
// room: the others leave 2000 places of the 5000 that one file may have, and an eighth of the bytes
// that can be posted.
const (
	keepApprovals = 90 * 24 * time.Hour // for obsolete ones, while there is room for them
	maxApprovals  = 3000
	maxPosted     = board.MaxDocument / 8 * 7
)

// makeRoom returns the approvals to keep beside a. It drops obsolete ones after keepApprovals, and
// earlier, the oldest first, if a has no room otherwise. The audit log keeps all of them. The error
// wraps core.ErrQuota.
func makeRoom(list []Approval, a *Approval, d *windows.Definitions) ([]Approval, error) {
	list = slices.DeleteFunc(slices.Clone(list), func(b Approval) bool { return b.At.Before(a.At.Add(-keepApprovals)) && obsolete(&b, list, d, a.At) })
	for _, bound := range []struct {
		max  int
		in   func(*Approval) bool
		over error
	}{
		{core.QuotaSetApprovals.Max, func(b *Approval) bool { return b.Set == a.Set }, core.QuotaSetApprovals.Over("window set " + a.Set)},
		{core.QuotaApprovals.Max, func(b *Approval) bool { return a.Tenant != "" && b.Tenant == a.Tenant }, core.QuotaApprovals.Over("tenant " + a.Tenant)},
		{maxApprovals, func(*Approval) bool { return true }, fmt.Errorf(
			"%d approvals count at this service, the most that it keeps: write lasting ones into the project: %w", maxApprovals, core.ErrQuota)},
	} {
		list = dropObsolete(list, bound.max-1, bound.in, d, a.At)
		if countGiven(list, bound.in) >= bound.max && !a.Revoked {
			return nil, bound.over
		}
	}
	return list, nil
}

// dropObsolete drops obsolete approvals that in selects, the oldest first, until at most keep of
// the selected are left, or none of these is obsolete.
func dropObsolete(list []Approval, keep int, in func(*Approval) bool, d *windows.Definitions, now time.Time) []Approval {
	over := -keep
	for i := range list {
		if in(&list[i]) {
			over++
		}
	}
	if over <= 0 {
		return list
	}
	all := slices.Clone(list)
	return slices.DeleteFunc(list, func(b Approval) bool {
		if over <= 0 || !in(&b) || !obsolete(&b, all, d, now) {
			return false
		}
		over--
		return true
	})
}

// countGiven counts the approvals that in selects, without revocations.
func countGiven(list []Approval, in func(*Approval) bool) (n int) {
	for i := range list {
		if !list[i].Revoked && in(&list[i]) {
			n++
		}
	}
	return n
}

// obsolete reports whether an approval of a list, oldest first, changes nothing from now on: a
// later one revokes or repeats it, it has expired, or its set was edited since.
func obsolete(a *Approval, list []Approval, d *windows.Definitions, now time.Time) bool {
	if !a.Revoked && (!a.Until.IsZero() && !now.Before(a.Until) || d.Place(a.Set, a.Rule) != nil || a.Window != d.HashOf(d.Sets[a.Set])) {
		return true
	}
	return slices.ContainsFunc(list, func(b Approval) bool {
		same := b.Rule == a.Rule || b.Rule == "" && b.Revoked // a revocation of a set is for all its rules
		return b.Set == a.Set && same && b.At.After(a.At) && (b.Revoked || !a.Revoked && covers(&b, a))
	})
}

// covers reports whether b approves all that a, an earlier approval of the same set and rule,
// approves from now on.
func covers(b, a *Approval) bool {
	return b.Window == a.Window && b.Change == a.Change && b.Targets == a.Targets && slices.Equal(b.Freezes, a.Freezes) &&
		(b.From.IsZero() || !b.From.After(a.From)) && (b.Until.IsZero() || !a.Until.IsZero() && !b.Until.Before(a.Until))
}
