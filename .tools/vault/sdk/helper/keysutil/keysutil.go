// Package keysutil is what it was before the sdk was a module of its own: see main.go.
package keysutil

import old "github.com/hashicorp/vault/helper/keysutil"

type (
	EncryptedKeyStorageConfig  = old.EncryptedKeyStorageConfig
	EncryptedKeyStorageWrapper = old.EncryptedKeyStorageWrapper
	KeyType                    = old.KeyType
	Policy                     = old.Policy
	PolicyConfig               = old.PolicyConfig
)

const (
	Kdf_hkdf_sha256      = old.Kdf_hkdf_sha256
	KeyType_AES256_GCM96 = old.KeyType_AES256_GCM96
)

var (
	EncryptedKeyPolicyVersionTpl  = old.EncryptedKeyPolicyVersionTpl
	LoadPolicy                    = old.LoadPolicy
	NewEncryptedKeyStorageWrapper = old.NewEncryptedKeyStorageWrapper
	NewPolicy                     = old.NewPolicy
)
