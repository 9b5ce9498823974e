package server

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/turnus/turnus/core"
)

// problem turns an error into what the caller is told (RFC 9457). What is not the caller's to
// know is logged only.
func (s *Server) problem(ctx context.Context, r route, err error) error {
	var told huma.StatusError
	if errors.As(err, &told) {
		return err
	}
	for _, known := range []struct {
		is     error
		status int
	}{
		{core.ErrNotFound, http.StatusNotFound},
		{core.ErrConflict, http.StatusConflict},
		{core.ErrInvalid, http.StatusUnprocessableEntity},
		{core.ErrUnavailable, http.StatusServiceUnavailable},
		{core.ErrUnknown, http.StatusServiceUnavailable},
	} {
		if errors.Is(err, known.is) {
			return huma.NewErrorWithContext(nil, known.status, err.Error())
		}
	}
	if ctx.Err() == nil {
		s.cfg.Log.Error("a request failed", "operation", r.id, "error", err)
	}
	return huma.NewError(http.StatusInternalServerError, "a fault of the server, which its log tells of")
}
