package hostname

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNames(t *testing.T) {
	t.Parallel()
	kit := plugintest.New(t, Def())
	for name, ok := range map[string]bool{
		"web1": true, "web1.example.net": true, "1a": true, "a": true,
		"": false, "-web": false, "web-": false, "web_1": false, "a b": false, "a..b": false, "a.": false, "x\n": false,
		strings.Repeat("a", 65): false,
	} {
		if bad := kit.Validate(sdk.With{"name": name}); (len(bad) == 0) != ok {
			t.Errorf("%q: %q", name, bad)
		}
	}
}
