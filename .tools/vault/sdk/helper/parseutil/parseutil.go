// Package parseutil is what it was before the sdk was a module of its own: see main.go.
package parseutil

import old "github.com/hashicorp/vault/helper/parseutil"

var (
	ParseDurationSecond = old.ParseDurationSecond
)
