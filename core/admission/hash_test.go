package admission

import (
	"errors"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

func TestHashes(t *testing.T) {
	change := func(source string, vars map[string]any) string {
		t.Helper()
		h, err := ChangeHash([]byte(source), vars)
		if err != nil || !strings.HasPrefix(h, "sha256:") || len(h) != len("sha256:")+64 {
			t.Fatal(h, err)
		}
		return h
	}
	one := change("steps", map[string]any{"n": 8000000, "list": []any{1, "a"}})
	for _, c := range []struct {
		why  string
		h    string
		same bool
	}{
		{"numbers as JSON reads them", change("steps", map[string]any{"n": 8e6, "list": []any{1.0, "a"}}), true},
		{"another var", change("steps", map[string]any{"n": 8000001, "list": []any{1, "a"}}), false},
		{"another source", change("steps ", map[string]any{"n": 8000000, "list": []any{1, "a"}}), false},
	} {
		if (c.h == one) != c.same {
			t.Errorf("%s: %s and %s", c.why, c.h, one)
		}
	}
	if change("x", nil) != change("x", map[string]any{}) {
		t.Error("no vars and an empty mapping differ")
	}
	if _, err := ChangeHash(nil, map[string]any{"f": func() {}}); !errors.Is(err, core.ErrInvalid) {
		t.Error(err)
	}
	a := TargetsHash([]string{"b", "a"})
	if a != TargetsHash([]string{"a", "b", "b"}) || a == TargetsHash([]string{"a", "b", "c"}) || a == TargetsHash([]string{"ab"}) || a == TargetsHash([]string{"a,b"}) {
		t.Error("hashes of targets")
	}
}
