package sdk_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// A try that fails just when the waiting ends does not count: a cancelled job is not one whose host
// is away.
func TestPollEndsForTheReasonOfItsContext(t *testing.T) {
	away := errors.New("host is away")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("cancelled by a person")
	err := sdk.Poll(ctx, time.Millisecond, time.Millisecond, func(context.Context) (bool, error) {
		cancel(why)
		return false, away
	})
	if !errors.Is(err, why) || errors.Is(err, away) {
		t.Errorf("got %v, expected %v", err, why)
	}
	if err := sdk.Poll(t.Context(), time.Millisecond, time.Millisecond, func(context.Context) (bool, error) { return false, away }); !errors.Is(err, away) {
		t.Errorf("got %v, expected %v", err, away)
	}
}
