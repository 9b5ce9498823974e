package console

import (
	"errors"
	"fmt"

	"github.com/turnus/turnus/core"
)

// Exit codes. They are API: documented in docs/commands.md and tested.
const (
	ExitOK          = 0
	ExitInternal    = 1 // a fault of Turnus or its surroundings
	ExitFailed      = 2 // some host failed, was rolled back or lost
	ExitCancelled   = 3 // cancelled or timed out
	ExitUnreachable = 4 // some host was unreachable, none failed
	ExitInvalid     = 5 // invalid input or usage
	ExitChanges     = 6 // diff --exit-code found changes
)

// Exit has an exit code; Err may be nil if all was printed already.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Exit) Unwrap() error { return e.Err }

// Invalid returns an error for invalid input or usage.
func Invalid(format string, args ...any) error {
	return &Exit{ExitInvalid, fmt.Errorf(format, args...)}
}

// Unsaid returns an error without the exits in it whose texts were printed already; nil if nothing
// is left.
func Unsaid(err error) error {
	if e, ok := errors.AsType[*Exit](err); !ok || e.Err != nil {
		return err
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	return errors.Join(core.Map(joined.Unwrap(), Unsaid)...)
}
