package assert

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// In check mode as in a run, and without a call to the host.
func TestAssert(t *testing.T) {
	t.Parallel()
	kit := plugintest.New(t, Def())
	host := kit.Host("r1")
	for name, c := range map[string]struct {
		that   []any
		reason string // "": it holds
	}{
		"all hold":                 {[]any{true, "true", "1.4"}, ""},
		"one does not":             {[]any{true, false}, "read the manual (1 of 2 conditions do not hold: that[1])"},
		"text false":               {[]any{"false"}, "that[0]"},
		"nothing":                  {[]any{"", " \n", true}, "2 of 3 conditions do not hold: that[0], that[1]"},
		"a text with false":        {[]any{"falsehood"}, ""},
		"values as texts":          {[]any{"aGVsbG8==", "a<b", "host.example.net"}, ""},
		"a value with an operator": {[]any{"disk a > b"}, ""},
	} {
		for mode, opts := range map[string][]plugintest.Option{"run": nil, "check": {plugintest.CheckMode()}} {
			got := kit.Run(sdk.With{"that": c.that, "message": "read the manual"}, opts...)
			want := "unchanged"
			if c.reason != "" {
				want = "failed"
			}
			if got.Outcome != want || !strings.Contains(got.Reason, c.reason) || want == "failed" && got.Effects != "none" {
				t.Errorf("%s (%s): %s (%s), effects %s; expected %s (%s)", name, mode, got.Outcome, got.Reason, got.Effects, want, c.reason)
			}
		}
	}
	if calls := host.Calls(); len(calls) > 0 {
		t.Errorf("it asked the host: %v", calls)
	}
	for _, that := range [][]any{{}, {3}, {nil}, {[]any{true}}} {
		if got := kit.Validate(sdk.With{"that": that}); len(got) == 0 {
			t.Errorf("%v is taken", that)
		}
	}
}
