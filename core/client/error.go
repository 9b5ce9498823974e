package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
)

// Errors beside those of package core.
var (
	ErrNoToken   = errors.New("not authenticated") // no token, or one that the server does not know
	ErrForbidden = errors.New("not allowed")       // the token's role, or tenant, does not reach
)

// Error is an answer of a server that is none, or that no answer came.
type Error struct {
	Server string   // its address
	What   string   // was asked for, as "show run R"
	Status int      // of the answer; 0: none came
	Detail string   // as the server reports it
	More   []string // single problems of what was sent
	Err    error    // of package core, or of this one
	Cause  error    // why no answer came, as the network's library reports it; nil where one came
}

// Error names the server, what was asked, and why it was not done.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: server %s", e.What, e.Server)
	if e.Local() {
		b.Reset()
		b.WriteString(e.What + ": the record on this machine")
	}
	switch {
	case e.Status == 0:
		b.WriteString(" does not answer: " + e.Detail)
	case e.Detail == "":
		fmt.Fprintf(&b, " answers %d %s", e.Status, http.StatusText(e.Status))
	default:
		b.WriteString(": " + e.Detail)
	}
	for _, m := range e.More {
		b.WriteString("\n  " + m)
	}
	return b.String()
}

// Local reports whether the record on this machine was asked, and no server.
func (e *Error) Local() bool { return e.Server == inProcess }

// Unwrap is the kind of the error.
func (e *Error) Unwrap() error { return e.Err }

const maxProblem = 1 << 20 // bytes of an error's body that are read

// problemOf reads the body of an answer that is an error (RFC 9457).
func problemOf(server, what string, resp *http.Response) *Error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	var reported api.Problem
	if err != nil || !strings.Contains(resp.Header.Get("Content-Type"), "json") || json.Unmarshal(text, &reported) != nil {
		reported = api.Problem{} // a proxy's answer about itself is a page
	}
	e := &Error{Server: server, What: what, Status: resp.StatusCode, Detail: cmp.Or(reported.Detail, reported.Title), Err: kindOf(resp.StatusCode)}
	for _, p := range reported.Errors {
		line := p.Message
		if p.Location != "" {
			line = strings.TrimPrefix(p.Location, "body.") + ": " + p.Message
		}
		if line != "" && line != e.Detail {
			e.More = append(e.More, line)
		}
	}
	return e
}

func kindOf(status int) error {
	switch status {
	case http.StatusUnauthorized:
		return ErrNoToken
	case http.StatusForbidden:
		return ErrForbidden
	case http.StatusNotFound:
		return core.ErrNotFound
	case http.StatusConflict, http.StatusPreconditionFailed, http.StatusPreconditionRequired:
		return core.ErrConflict
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusMethodNotAllowed:
		return core.ErrInvalid
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return core.ErrUnavailable
	}
	return nil
}

// away is the error of a request that got no answer. It is core.ErrUnknown where the server may
// have done what it was asked, and core.ErrUnavailable where it cannot have.
func away(server, what string, err error) *Error {
	e := &Error{Server: server, What: what, Err: core.ErrUnknown, Detail: plainReason(err), Cause: err}
	if notSent(err) {
		e.Err = core.ErrUnavailable
	}
	return e
}

// notSent reports whether a request failed before a byte of it left.
func notSent(err error) bool {
	var op *net.OpError
	return errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &op) && op.Op == "dial"
}

// plainReason leaves out the method and the address, which the message has already.
func plainReason(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "connection refused"
	}
	return err.Error()
}
