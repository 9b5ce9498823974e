package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/inventory/sources"
	"github.com/turnus/turnus/core/ledger"
)

const faultText = "a fault of the server, which its log describes"

// reasonType begins the type of a problem that has a reason code.
const reasonType = "urn:turnus:reason:"

// problem turns an error into the caller's response (RFC 9457). Details that are not the caller's
// to know are only logged.
func (s *Server) problem(r route, err error) error {
	if reported := huma.StatusError(nil); errors.As(err, &reported) {
		return err
	}
	if stale, ok := errors.AsType[*sources.StaleError](err); ok {
		return &huma.ErrorModel{Type: reasonType + string(core.SourceStale), Title: http.StatusText(http.StatusConflict), Status: http.StatusConflict, Detail: core.ErrorText(stale)}
	}
	if _, ok := errors.AsType[*ledger.ChangedError](err); ok {
		return huma.Error412PreconditionFailed(core.ErrorText(err))
	}
	if refused(err) {
		s.ledgerFailed("a request: "+r.id, err)
	}
	for _, known := range []struct {
		is     error
		status int
	}{
		{core.ErrNotFound, http.StatusNotFound},
		{core.ErrConflict, http.StatusConflict},
		{core.ErrInvalid, http.StatusUnprocessableEntity},
		{core.ErrQuota, http.StatusConflict},
		{core.ErrUnavailable, http.StatusServiceUnavailable},
		{core.ErrUnknown, http.StatusServiceUnavailable},
		{context.DeadlineExceeded, http.StatusServiceUnavailable},
		{context.Canceled, 499}, // nobody reads it
	} {
		if errors.Is(err, known.is) {
			return huma.NewErrorWithContext(nil, known.status, core.ErrorText(err))
		}
	}
	s.cfg.Log.Error("a request failed", "operation", r.id, "error", err)
	return huma.NewError(http.StatusInternalServerError, faultText)
}

// orStops returns the cause if the server ended the request, so that a client may repeat it; else
// err. It keeps an error whose effect is unknown.
func orStops(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if errors.Is(err, context.Canceled) && errors.Is(cause, core.ErrUnavailable) && !errors.Is(err, core.ErrUnknown) {
		return cause
	}
	return err
}

// maxEcho bounds what a problem repeats of what was sent, in bytes.
const maxEcho = 200

// brief keeps problems from repeating all that was sent: a megabyte of it, or the secrets in it.
// Short values show what was meant.
func brief(_ huma.Context, _ string, v any) (any, error) {
	if model, ok := v.(*huma.ErrorModel); ok {
		shorten(model)
	}
	return v, nil
}

func shorten(model *huma.ErrorModel) {
	for _, e := range model.Errors {
		switch sent := e.Value.(type) {
		case nil, bool, float64, int, int64:
		case string:
			if e.Value = clip(sent, maxEcho); e.Location == "body" { // the whole of it
				e.Value = nil
			}
		default:
			e.Value = nil
		}
	}
}

// forbidden refuses a request that a token's rights do not cover.
func forbidden(why string) error { return huma.NewError(http.StatusForbidden, why) }

// plainProblem writes a problem outside of operations.
func plainProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: detail})
}
