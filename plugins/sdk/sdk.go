// Package sdk is what a plugin author imports: declare job types as typed
// functions, reach hosts through the worker, serve.
//
// It must not import core or anything else of Turnus but the wire.
package sdk
