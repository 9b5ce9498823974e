// Package logical is what it was before the sdk was a module of its own: see main.go.
package logical

import old "github.com/hashicorp/vault/logical"

type (
	Backend       = old.Backend
	BackendConfig = old.BackendConfig
	Operation     = old.Operation
	Paths         = old.Paths
	Request       = old.Request
	Response      = old.Response
	Secret        = old.Secret
	Storage       = old.Storage
	StorageEntry  = old.StorageEntry
)

const (
	CreateOperation = old.CreateOperation
	DeleteOperation = old.DeleteOperation
	ListOperation   = old.ListOperation
	ReadOperation   = old.ReadOperation
	UpdateOperation = old.UpdateOperation
	TypeLogical     = old.TypeLogical
)

var (
	CollectKeys           = old.CollectKeys
	ErrInvalidRequest     = old.ErrInvalidRequest
	ErrSetupReadOnly      = old.ErrSetupReadOnly
	ErrorResponse         = old.ErrorResponse
	ListResponse          = old.ListResponse
	RespondWithStatusCode = old.RespondWithStatusCode
)
