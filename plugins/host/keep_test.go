package host

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/turnus/turnus/core"
)

func TestConfigurationsAreKeptForTheJobsOwnHost(t *testing.T) {
	b := open(t, &fleet{})
	c := call("op", labParams{})
	if code, text := b.op(t, c, labParams{Op: "kept", Path: "a"}); code != "PermissionDenied" || !strings.Contains(text, "--config-dir") {
		t.Errorf("kept without a repository: %s %s", code, text)
	}
	if code, text := b.op(t, c, labParams{Op: "keep", Path: "a", N: 1}); code != "PermissionDenied" || !strings.Contains(text, "--config-dir") {
		t.Errorf("keep without a repository: %s %s", code, text)
	}
	large := strings.Repeat("x", 300<<10)
	c.Kept = func(_ context.Context, name string) ([]byte, bool, error) {
		switch name {
		case "a":
			return []byte(large), true, nil
		case "none":
			return nil, false, nil
		}
		return nil, false, fmt.Errorf("%w name", core.ErrInvalid)
	}
	var got []KeptFile
	c.Keep = func(_ context.Context, files []KeptFile) (string, []string, error) {
		got = files
		return "v1", []string{"a"}, nil
	}
	for _, row := range []struct {
		op         labParams
		check      bool
		code, text string
	}{
		{labParams{Op: "kept", Path: "a"}, false, "OK", "true 307200 " + large},
		{labParams{Op: "kept", Path: "a"}, true, "OK", "true 307200 " + large},
		{labParams{Op: "kept", Path: "none"}, false, "OK", "false 0 "},
		{labParams{Op: "kept", Path: "../x"}, false, "InvalidArgument", ""},
		{labParams{Op: "keep", Path: "a", Text: "half", N: 1}, false, "OK", "v1 [a]"},
		{labParams{Op: "keep", Path: "a", Text: "half", N: 1}, true, "FailedPrecondition", ""},
		{labParams{Op: "keep", Path: "a", Text: "half", N: 64}, false, "OK", "v1 [a]"},
		{labParams{Op: "keep", Path: "a", Text: "half", N: 65}, false, "InvalidArgument", ""},
		{labParams{Op: "keep", Path: strings.Repeat("n", 3<<20), N: 25}, false, "OutOfRange", ""},
		{labParams{Op: "keep", Text: "data without a file"}, false, "InvalidArgument", ""},
	} {
		c.Check, got = row.check, nil
		code, text := b.op(t, c, row.op)
		if code != row.code || row.code == "OK" && text != row.text {
			t.Errorf("%s of %d files, check %v: %s %.100s, want %s", row.op.Op, row.op.N, row.check, code, text, row.code)
		}
		if row.op.Op == "keep" && row.code == "OK" && (len(got) != row.op.N || string(got[0].Content) != "halfhalf") {
			t.Errorf("kept %d files", len(got))
		}
		if row.code != "OK" && got != nil {
			t.Errorf("%s of %d files, check %v, reached the repository", row.op.Op, row.op.N, row.check)
		}
	}
}
