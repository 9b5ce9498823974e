package transport

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/turnus/turnus/core"
)

// Result is how a dial ended, in one word.
type Result string

// The results of dials.
const (
	DialOK        Result = "ok"
	DialRefused   Result = "refused"  // nothing listens there
	DialNoRoute   Result = "no_route" // as the worker, or the jump host, sees it
	DialTimeout   Result = "timeout"
	DialName      Result = "name" // the host's name does not resolve
	DialHostKey   Result = "host_key"
	DialAuth      Result = "auth"
	DialHandshake Result = "handshake" // no SSH, no common algorithm, or cut
	DialCalledOff Result = "called_off"
	DialOther     Result = "other"
)

func allResults() []Result {
	return []Result{DialOK, DialRefused, DialNoRoute, DialTimeout, DialName, DialHostKey, DialAuth, DialHandshake, DialCalledOff, DialOther}
}

// resultOf returns the result of a dial by its error.
func resultOf(err error) Result {
	var e *Error
	switch errors.As(err, &e); {
	case err == nil:
		return DialOK
	case errors.Is(err, core.ErrHostKey):
		return DialHostKey
	case errors.Is(err, core.ErrTimeout):
		return DialTimeout
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errPoolClosed):
		return DialCalledOff
	case errors.Is(err, syscall.ECONNREFUSED):
		return DialRefused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EADDRNOTAVAIL):
		return DialNoRoute
	case e == nil:
		return DialOther
	}
	switch e.Op {
	case "resolve":
		return DialName
	case "authenticate":
		return DialAuth
	case "handshake":
		return DialHandshake
	}
	return DialOther
}

// results counts how dials ended.
type results [10]atomic.Int64

func (r *results) count(err error) {
	if i := slices.Index(allResults(), resultOf(err)); i >= 0 {
		r[i].Add(1)
	}
}

func (r *results) counts() map[Result]int {
	m := make(map[Result]int, len(r))
	for i, name := range allResults() {
		m[name] = int(r[i].Load())
	}
	return m
}
