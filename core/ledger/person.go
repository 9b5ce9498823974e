package ledger

import (
	"context"
	"slices"

	"github.com/turnus/turnus/core"
)

// makersOf returns the makers of the tokens that act under a name. A calendar feed acts under none:
// its name is free text, and its secret opens no operation.
const makersOf = `SELECT DISTINCT created_by FROM tokens WHERE (all_tenants = 1 AND name = $1 OR all_tenants = 0 AND tenant || '/' || name = $1) AND roles <> '["calendar"]'`

// lineage returns the names behind a name: itself, who made its tokens, who made theirs, and so on.
// A name of a service or of a machine's user, which no token has, is none of them.
func lineage(ctx context.Context, t *tx, name string) ([]string, error) {
	all := []string{name}
	for i := 0; i < len(all); i++ {
		makers, err := collectNames(t.rows(ctx, makersOf, all[i]))
		if err != nil {
			return nil, err
		}
		if len(makers) == 0 && i > 0 && core.Identity(all[i]) == "" {
			all = slices.Delete(all, i, i+1)
			i--
			continue
		}
		for _, m := range makers {
			if !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	return all, nil
}

// kin finds, among others, a name that is the same person as the name who; "" where there is none.
// Somebody who made a token has seen its secret: a token, all that it made, and its maker, count as
// one person.
func kin(ctx context.Context, t *tx, who string, others []string) (string, error) {
	mine, err := lineage(ctx, t, who)
	if err != nil {
		return "", err
	}
	for _, other := range others {
		theirs, err := lineage(ctx, t, other)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(mine, func(a string) bool {
			return slices.ContainsFunc(theirs, func(b string) bool { return core.SamePerson(a, b) })
		}) {
			return other, nil
		}
	}
	return "", nil
}
