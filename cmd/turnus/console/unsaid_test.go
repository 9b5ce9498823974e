package console

import (
	"errors"
	"fmt"
	"testing"
)

// An exit whose text was printed hides no other error that it was joined with.
func TestAPrintedFailureHidesNoOther(t *testing.T) {
	t.Parallel()
	printed, lost := &Exit{Code: ExitUnreachable}, errors.New("run a was refused")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"none":                      {nil, ""},
		"printed":                   {printed, ""},
		"printed, wrapped":          {fmt.Errorf("run: %w", printed), ""},
		"another":                   {lost, "run a was refused"},
		"both":                      {errors.Join(lost, printed), "run a was refused"},
		"both, one within":          {errors.Join(printed, errors.Join(printed, lost)), "run a was refused"},
		"an exit that has an error": {&Exit{Code: ExitFailed, Err: lost}, "run a was refused"},
	} {
		got := ""
		if rest := Unsaid(c.err); rest != nil {
			got = rest.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q is left to print, expected %q", name, got, c.want)
		}
	}
}
