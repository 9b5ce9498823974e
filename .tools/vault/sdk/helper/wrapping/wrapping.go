// Package wrapping is what it was before the sdk was a module of its own: see main.go.
package wrapping

import old "github.com/hashicorp/vault/helper/wrapping"

type (
	ResponseWrapInfo = old.ResponseWrapInfo
)
