// Package consts is what it was before the sdk was a module of its own: see main.go.
package consts

import old "github.com/hashicorp/vault/helper/consts"

const (
	ReplicationDRSecondary          = old.ReplicationDRSecondary
	ReplicationPerformanceSecondary = old.ReplicationPerformanceSecondary
	ReplicationPerformanceStandby   = old.ReplicationPerformanceStandby
)
