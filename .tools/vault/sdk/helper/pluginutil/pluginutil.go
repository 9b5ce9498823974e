// Package pluginutil is what it was before the sdk was a module of its own: see main.go.
package pluginutil

import old "github.com/hashicorp/vault/helper/pluginutil"

var (
	InMetadataMode = old.InMetadataMode
)
