// Package framework is what it was before the sdk was a module of its own: see main.go.
package framework

import old "github.com/hashicorp/vault/logical/framework"

type (
	Backend          = old.Backend
	ExistenceFunc    = old.ExistenceFunc
	FieldData        = old.FieldData
	FieldSchema      = old.FieldSchema
	OperationFunc    = old.OperationFunc
	OperationHandler = old.OperationHandler
	Path             = old.Path
	PathOperation    = old.PathOperation
	Secret           = old.Secret
)

const (
	TypeBool          = old.TypeBool
	TypeCommaIntSlice = old.TypeCommaIntSlice
	TypeInt           = old.TypeInt
	TypeMap           = old.TypeMap
	TypeString        = old.TypeString
)

var (
	MatchAllRegex = old.MatchAllRegex
	PathAppend    = old.PathAppend
)
