package git

import (
	"maps"
	"strings"
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
		"https":             {nil, true},
		"ssh":               {sdk.With{"url": "ssh://git@git.example.net:22/app.git"}, true},
		"scp":               {sdk.With{"url": "git@git.example.net:app.git"}, true},
		"a path":            {sdk.With{"url": "/srv/git/app.git"}, true},
		"a password":        {sdk.With{"url": "https://me:hunter2@git.example.net/app.git"}, false},
		"a token":           {sdk.With{"url": "https://ghp_x@git.example.net/app.git"}, false},
		"a password of ssh": {sdk.With{"url": "ssh://git:hunter2@git.example.net/app.git"}, false},
		"a helper":          {sdk.With{"url": "ext::sh -c id"}, false},
		"an option":         {sdk.With{"url": "--upload-pack=id"}, false},
		"option as version": {sdk.With{"version": "--orphan"}, false},
		"a range":           {sdk.With{"version": "a..b"}, false},
		"a full name":       {sdk.With{"version": "refs/heads/a/b"}, true},
		"the root":          {sdk.With{"path": "/"}, false},
	} {
		with := sdk.With{"url": "https://git.example.net/app.git", "path": "/srv/app"}
		maps.Copy(with, c.more)
		bad := kit.Validate(with)
		if (len(bad) == 0) != c.ok || strings.Contains(strings.Join(bad, ""), "hunter2") {
			t.Errorf("%s: %q", name, bad)
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	a, b, c := strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("c", 40)
	for name, test := range map[string]struct {
		version, answer string
		want, ref       string // want "!" and a part of an error
	}{
		"HEAD":            {"HEAD", "ref " + a + "\tHEAD\nref " + b + "\trefs/remotes/origin/HEAD", a, "HEAD"},
		"branch":          {"main", "ref " + a + "\trefs/heads/main\nref " + b + "\trefs/heads/old/main", a, "refs/heads/main"},
		"tag":             {"v1", "ref " + a + "\trefs/tags/v1", a, "refs/tags/v1"},
		"annotated tag":   {"v1", "ref " + a + "\trefs/tags/v1\nref " + b + "\trefs/tags/v1^{}", b, "refs/tags/v1"},
		"both":            {"v1", "ref " + a + "\trefs/tags/v1\nref " + c + "\trefs/heads/v1", "!refs/heads/v1 or refs/tags/v1", ""},
		"both, the same":  {"v1", "ref " + a + "\trefs/tags/v1\nref " + a + "\trefs/heads/v1", a, "refs/heads/v1"},
		"full name":       {"refs/tags/v1", "ref " + a + "\trefs/tags/v1\nref " + b + "\trefs/tags/v1^{}", b, "refs/tags/v1"},
		"a commit":        {c, "", c, ""},
		"a short commit":  {"abc1234", "", "!all its digits", ""},
		"local changes":   {c, "dirty  M a\ndirty  M b", "!M a M b", ""},
		"not a clone":     {"main", "other", "!no clone", ""},
		"no git":          {"main", "nogit", "!no git", ""},
		"not answering":   {"main", "failed fatal: unable to access", "!unable to access", ""},
		"no commit of it": {"main", "ref warning: something", "!no branch", ""},
	} {
		want, ref, err := decide(Params{URL: "u", Version: test.version}, sdk.ReadAnswer(test.answer))
		if err != nil {
			want = "!" + err.Error()
		}
		if want != test.want && (!strings.HasPrefix(test.want, "!") || !strings.Contains(want, test.want[1:])) || ref != test.ref {
			t.Errorf("%s: %q %q, expected %q %q", name, want, ref, test.want, test.ref)
		}
	}
}

// The origin of a clone that a person made may hold a login: a diff shows none of it. Red with the
// origin as it is. Control: an origin that is no URL stays.
func TestADiffShowsNoLogin(t *testing.T) {
	for origin, want := range map[string]string{
		"https://bot:token@git.example/a.git": "https://git.example/a.git", "git@git.example:a.git": "git@git.example:a.git",
	} {
		if got := text("c", origin); got != "commit c\norigin "+want+"\n" {
			t.Errorf("%s: %q", origin, got)
		}
	}
}
