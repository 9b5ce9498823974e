// Package jsonutil is what it was before the sdk was a module of its own: see main.go.
package jsonutil

import old "github.com/hashicorp/vault/helper/jsonutil"

var (
	DecodeJSON = old.DecodeJSON
)
