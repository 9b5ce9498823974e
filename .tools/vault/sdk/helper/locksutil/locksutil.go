// Package locksutil is what it was before the sdk was a module of its own: see main.go.
package locksutil

import old "github.com/hashicorp/vault/helper/locksutil"

type (
	LockEntry = old.LockEntry
)

var (
	CreateLocks = old.CreateLocks
	LockForKey  = old.LockForKey
)
