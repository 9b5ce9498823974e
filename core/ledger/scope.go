package ledger

import "slices"

// Scope is whose things a person may see: those of some tenants, or all. The zero Scope sees
// nothing, so that a forgotten one shows nothing.
type Scope struct {
	all     bool
	tenants []string
}

// AllTenants sees everything: for the provider's own people.
func AllTenants() Scope { return Scope{all: true} }

// Tenants sees what belongs to these. "" is the tenant of runs that name none.
func Tenants(names ...string) Scope { return Scope{tenants: slices.Clone(names)} }

// All reports whether the scope is AllTenants.
func (s Scope) All() bool { return s.all }

// Allows reports whether things of a tenant may be seen.
func (s Scope) Allows(tenant string) bool { return s.all || slices.Contains(s.tenants, tenant) }

// filter adds the condition that a column is a tenant in scope.
func (s Scope) filter(q *query, column string) {
	if !s.all {
		c := s.cond(q, column)
		q.where(c.text, c.args...)
	}
}

// sift is filter where no index has the column.
func (s Scope) sift(q *query, column string) {
	if !s.all {
		q.sifts = append(q.sifts, s.cond(q, column))
	}
}

func (s Scope) cond(q *query, column string) cond {
	if len(s.tenants) == 1 {
		return cond{column + " = ?", []any{s.tenants[0]}}
	}
	return q.anyOf(column, s.tenants)
}
