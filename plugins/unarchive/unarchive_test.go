package unarchive

import (
	"maps"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWith(t *testing.T) {
	t.Parallel()
	kit := plugintest.New(t, Def())
	for name, c := range map[string]struct {
		more sdk.With
		ok   bool
	}{
		"tar":      {sdk.With{"source": "a.tar"}, true},
		"tar.gz":   {sdk.With{"source": "a-1.4.tar.gz"}, true},
		"zip":      {sdk.With{"archive": "/var/a.zip"}, true},
		"both":     {sdk.With{"source": "a.tar", "archive": "/var/a.zip"}, false},
		"none":     {nil, false},
		"rar":      {sdk.With{"source": "a.rar"}, false},
		"relative": {sdk.With{"archive": "a.tar"}, false},
		"the root": {sdk.With{"source": "a.tar", "path": "/"}, false},
		"dots":     {sdk.With{"source": "a.tar", "path": "/srv/../etc"}, false},
	} {
		with := sdk.With{"path": "/srv/a"}
		maps.Copy(with, c.more)
		if bad := kit.Validate(with); (len(bad) == 0) != c.ok {
			t.Errorf("%s: %q", name, bad)
		}
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	for answer, refused := range map[string]bool{
		"": false, "kind full\nmark sha256:x\n": false, "leftover\n": false,
		"kind full\n": true, "kind other\n": true, "noarchive\n": true, "nounzip\n": true,
	} {
		if why := refusal(Params{Path: "/srv/a"}, sdk.ReadAnswer(answer)); (why != "") != refused {
			t.Errorf("%q: %q", answer, why)
		}
	}
}
