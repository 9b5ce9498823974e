package fetch_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/fetch"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFetch(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 20_000)
	for name, tc := range map[string]struct {
		with            sdk.With
		outcome, reason string
		saved           map[string]string
	}{
		"one":                {sdk.With{"path": "/etc/a"}, "unchanged", "", map[string]string{"etc/a": "A"}},
		"several":            {sdk.With{"paths": []string{"/etc/a", "/var/big"}}, "unchanged", "", map[string]string{"etc/a": "A", "var/big": big}},
		"an empty one":       {sdk.With{"path": "/empty"}, "unchanged", "", map[string]string{"empty": ""}},
		"an odd name":        {sdk.With{"path": "/srv/it's -a $(x) name"}, "unchanged", "", map[string]string{"srv/it's -a $(x) name": "odd"}},
		"missing":            {sdk.With{"path": "/none"}, "failed", "fetching /none: /none: no such file", nil},
		"missing, optional":  {sdk.With{"paths": []string{"/none", "/etc/a"}, "optional": true}, "unchanged", "", map[string]string{"etc/a": "A"}},
		"all missing":        {sdk.With{"path": "/none", "optional": true}, "skipped", "none of the files exists", nil},
		"too large":          {sdk.With{"path": "/var/big", "max_size": "100k"}, "failed", "/var/big is larger than max_size (100000 bytes)", nil},
		"exactly the size":   {sdk.With{"path": "/etc/a", "max_size": 1}, "unchanged", "", map[string]string{"etc/a": "A"}},
		"out of the folder":  {sdk.With{"path": "/etc/../a"}, "failed", `invalid parameters: with.path: expected an absolute path without . and .. and a slash at its end; found "/etc/../a"`, nil},
		"neither parameter":  {sdk.With{}, "failed", "invalid parameters: expected one of path and paths", nil},
		"a size of nonsense": {sdk.With{"path": "/a", "max_size": "ten"}, "failed", `invalid parameters: with.max_size: expected a size such as "10MiB" or a number of bytes, found "ten"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			kit := plugintest.New(t, fetch.Def())
			kit.Host("r1").
				Put("/etc/a", plugintest.File{Content: "A"}).Put("/var/big", plugintest.File{Content: big}).
				Put("/empty", plugintest.File{}).Put("/srv/it's -a $(x) name", plugintest.File{Content: "odd"})
			got := kit.Run(tc.with)
			if got.Outcome != tc.outcome || got.Reason != tc.reason {
				t.Errorf("got %s (%s), want %s (%s)", got.Outcome, got.Reason, tc.outcome, tc.reason)
			}
			for file, want := range tc.saved {
				if content, ok := kit.Saved(file); !ok || content != want {
					t.Errorf("%s: saved %v, %d bytes; want %d", file, ok, len(content), len(want))
				}
			}
			if files, _ := got.Outputs["files"].([]any); len(files) != len(tc.saved) {
				t.Errorf("outputs name %d files, want %d", len(files), len(tc.saved))
			}
		})
	}
}

func TestCheckModeLooksOnly(t *testing.T) {
	kit := plugintest.New(t, fetch.Def())
	kit.Host("r1").On("*", plugintest.Reply{Stdout: "y\nn\n"})
	if got := kit.Check(sdk.With{"paths": []string{"/a", "/b"}}); got.Outcome != "failed" || got.Reason != "/b does not exist on r1" {
		t.Errorf("got %s (%s)", got.Outcome, got.Reason)
	}
	if got := kit.Check(sdk.With{"paths": []string{"/a", "/b"}, "optional": true}); got.Outcome != "unchanged" {
		t.Errorf("optional: got %s (%s)", got.Outcome, got.Reason)
	}
	if _, ok := kit.Saved("a"); ok {
		t.Error("check mode saved a file")
	}
}
