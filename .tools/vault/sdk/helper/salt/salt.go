// Package salt is what it was before the sdk was a module of its own: see main.go.
package salt

import old "github.com/hashicorp/vault/helper/salt"

type (
	Config = old.Config
	Salt   = old.Salt
)

const (
	DefaultLocation = old.DefaultLocation
)

var (
	NewSalt    = old.NewSalt
	SHA256Hash = old.SHA256Hash
)
