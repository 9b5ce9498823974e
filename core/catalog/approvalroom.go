package catalog

import (
	"fmt"
	"slices"
	"time"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/queue"
	"github.com/turnus/turnus/windows"
)

// Bounds of all words together. A revocation always finds room: words that give approval leave 2000 places of the 5000 that one
// file of words may have, and an eighth of the bytes that can be posted.
const (
	keepApprovals = 90 * 24 * time.Hour // words that no longer count, where there is room for them
	maxApprovals  = 3000
	maxPosted     = queue.MaxDocument / 8 * 7
)

// makeRoom returns the words to keep beside a. Words that no longer count are dropped after keepApprovals, and earlier, the
// oldest first, where they stand in the way. The audit log keeps all of them.
func makeRoom(list []Approval, a *Approval, d *windows.Definitions) ([]Approval, error) {
	list = slices.DeleteFunc(slices.Clone(list), func(b Approval) bool { return b.At.Before(a.At.Add(-keepApprovals)) && idle(&b, list, d, a.At) })
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
		list = shed(list, bound.max-1, bound.in, d, a.At)
		if giving(list, bound.in) >= bound.max && !a.Revoked {
			return nil, bound.over
		}
	}
	return list, nil
}

// shed drops words that no longer count, the oldest first, until at most keep of them are in, or all that are in count.
func shed(list []Approval, keep int, in func(*Approval) bool, d *windows.Definitions, now time.Time) []Approval {
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
		if over <= 0 || !in(&b) || !idle(&b, all, d, now) {
			return false
		}
		over--
		return true
	})
}

// giving counts the words that are in and give approval.
func giving(list []Approval, in func(*Approval) bool) (n int) {
	for i := range list {
		if !list[i].Revoked && in(&list[i]) {
			n++
		}
	}
	return n
}

// idle tells whether a word of a list, oldest first, changes nothing from now on: a later word takes it back or says the same, its
// time is over, or its set is not what was approved.
func idle(a *Approval, list []Approval, d *windows.Definitions, now time.Time) bool {
	if !a.Revoked && (!a.Until.IsZero() && !now.Before(a.Until) || d.Place(a.Set, a.Rule) != nil || a.Window != d.HashOf(d.Sets[a.Set])) {
		return true
	}
	return slices.ContainsFunc(list, func(b Approval) bool {
		return b.Set == a.Set && b.Rule == a.Rule && b.At.After(a.At) && (b.Revoked || !a.Revoked && covers(&b, a))
	})
}

// covers tells whether a word approves all that an earlier one of its place approves from now on.
func covers(b, a *Approval) bool {
	return b.Window == a.Window && b.Change == a.Change && b.Targets == a.Targets && slices.Equal(b.Freezes, a.Freezes) &&
		(b.From.IsZero() || !b.From.After(a.From)) && (b.Until.IsZero() || !a.Until.IsZero() && !b.Until.Before(a.Until))
}
