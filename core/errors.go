package core

import "errors"

// Errors that cross rooms. Adapters translate to them at their border, so
// callers never compare against a library's errors.
var (
	ErrNotFound     = errors.New("not found")
	ErrConflict     = errors.New("conflict")            // the same id with other content
	ErrInvalid      = errors.New("invalid")             // the caller's input is wrong; the message has the place
	ErrQuota        = errors.New("quota")               // the owner holds as many as it may; the message shows how to make room
	ErrUnavailable  = errors.New("unavailable")         // a backend is away; trying again later may succeed
	ErrUnknown      = errors.New("result unknown")      // sent, but no reply came: it may or may not have happened
	ErrSessionGone  = errors.New("session is gone")     // the node's session has ended; its leases are no longer its own
	ErrUnreachable  = errors.New("host unreachable")    // the host, its name, its port or its authentication
	ErrHostKey      = errors.New("host key refused")    // unknown or changed
	ErrTimeout      = errors.New("timed out")           // the work's own time limit, not a caller's cancelled context
	ErrPluginFailed = errors.New("plugin process died") // effects on the host are unknown
)
