// Package server owns the HTTP API: routes, who may use them, and the service's state as the
// resources of package api. OpenAPI 3.1 is generated from the same code.
//
// Every route is registered through handle, which cannot be called without the role that it asks
// for, and every reading of the ledger takes the caller's scope. It must not know how runs are
// driven or recorded: that is the controller's, nor how a host is reached.
package server

//go:generate go test -count=1 -run ^TestDocumentIsTheOneThatWasPublished$ . -update
