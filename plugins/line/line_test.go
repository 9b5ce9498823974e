package line

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEdit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p            Params
		before, want string // want: "error: " and a part of it, or the content
	}{
		"added":                            {Params{Line: "b"}, "a\n", "a\nb\n"},
		"to an empty file":                 {Params{Line: "b"}, "", "b\n"},
		"there":                            {Params{Line: "b"}, "b\na\n", "b\na\n"},
		"there twice":                      {Params{Line: "b"}, "b\nb\n", "b\nb\n"},
		"there without a line end":         {Params{Line: "b"}, "a\nb", "a\nb"},
		"a part of a line is no line":      {Params{Line: "b"}, "ab\n", "ab\nb\n"},
		"after a line without its end":     {Params{Line: "b"}, "a", "a\nb\n"},
		"replaced":                         {Params{Line: "p 2", Match: "^p "}, "a\np 1\nb\n", "a\np 2\nb\n"},
		"replaced without a line end":      {Params{Line: "p 2", Match: "^p "}, "a\np 1", "a\np 2"},
		"a match that is the line already": {Params{Line: "p 2", Match: "^p "}, "p 2\n", "p 2\n"},
		"no match":                         {Params{Line: "p 2", Match: "^p "}, "a\n", "a\np 2\n"},
		"several match":                    {Params{Line: "p 2", Match: "^p "}, "p 1\na\np 2\n", "error: 2 lines match \"^p \", expected one at most: lines 1, 3"},
		"after":                            {Params{Line: "b", After: "^a"}, "a\nc\n", "a\nb\nc\n"},
		"after the last":                   {Params{Line: "b", After: "^a"}, "c\na", "c\na\nb\n"},
		"before":                           {Params{Line: "b", Before: "^c$"}, "a\nc\n", "a\nb\nc\n"},
		"before the first":                 {Params{Line: "b", Before: "a"}, "a\n", "b\na\n"},
		"an anchor that is missing":        {Params{Line: "b", After: "^x"}, "a\n", "error: after: no line matches \"^x\", expected one"},
		"an anchor twice":                  {Params{Line: "b", Before: "^a"}, "a\na\n", "error: before: several lines match"},
		"the anchor counts for new lines":  {Params{Line: "b", After: "^x"}, "b\n", "b\n"},
		"a match stays where it is":        {Params{Line: "p 2", Match: "^p ", After: "^a"}, "p 1\na\n", "p 2\na\n"},
		"CRLF is kept":                     {Params{Line: "p 2", Match: "^p "}, "a\r\np 1\r\n", "a\r\np 2\r\n"},
		"CRLF is taken over":               {Params{Line: "b"}, "a\r\n", "a\r\nb\r\n"},
		"removed":                          {Params{Line: "b", State: "absent"}, "a\nb\nc\nb\n", "a\nc\n"},
		"removed by match":                 {Params{Match: "^b", State: "absent"}, "a\nb 1\nc\nb 2", "a\nc\n"},
		"nothing to remove":                {Params{Line: "b", State: "absent"}, "a\n", "a\n"},
		"what a template would expand":     {Params{Line: "p $1 \\1", Match: "^(p) "}, "p x\n", "p $1 \\1\n"},
	} {
		got, err := edit(c.p, c.before)
		if part, wrong := strings.CutPrefix(c.want, "error: "); wrong {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q, %v; expected an error with %q", name, got, err, part)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v; expected %q", name, got, err, c.want)
		}
		if again, err := edit(c.p, got); err != nil || again != got {
			t.Errorf("%s, again: %q, %v; expected no change", name, again, err)
		}
	}
}

func TestParametersAreChecked(t *testing.T) {
	t.Parallel()
	kit := plugintest.New(t, Def())
	for name, c := range map[string]struct {
		with sdk.With
		want string // "" for valid
	}{
		"a line":                         {sdk.With{"path": "/a", "line": "x"}, ""},
		"a match that misses the line":   {sdk.With{"path": "/a", "line": "PermitRootLogin no", "match": "^#PermitRootLogin"}, "/match: expected an expression that also matches line"},
		"a match of a secret line":       {sdk.With{"path": "/a", "line": "pw=${{ secrets.PW }}", "match": "^pw=x$"}, ""},
		"no expression":                  {sdk.With{"path": "/a", "line": "x", "after": "("}, "/after: not an RE2 expression"},
		"several lines":                  {sdk.With{"path": "/a", "line": "x\ny"}, "/line: expected one line"},
		"no line":                        {sdk.With{"path": "/a", "match": "x"}, "/line: expected the line"},
		"nothing to remove":              {sdk.With{"path": "/a", "state": "absent"}, ": expected line or match"},
		"a removal by match":             {sdk.With{"path": "/a", "state": "absent", "match": "x"}, ""},
		"a removal with a place":         {sdk.With{"path": "/a", "state": "absent", "match": "x", "after": "y"}, "/state: "},
		"two places":                     {sdk.With{"path": "/a", "line": "x", "before": "a", "after": "y"}, ": expected only one of after and before"},
		"a path that is not a clean one": {sdk.With{"path": "/a/../b", "line": "x"}, "/path: "},
	} {
		if got := kit.Validate(c.with); (len(got) == 0) != (c.want == "") || len(got) > 0 && !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}

// The old line may hold the secret as it was: no difference is shown, and a new file is for its
// owner only.
func TestLineOfASecretIsNotShown(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/f"
	kit := plugintest.New(t, Def()).Secret("PW", "hunter2")
	kit.Host("r1").Local()
	for _, pw := range []string{"hunter1", "hunter2"} {
		got := kit.Run(sdk.With{"path": path, "line": "pw=" + pw, "match": "^pw=", "create": true})
		if got.Outcome != "changed" || len(got.Diffs) != 1 || strings.Contains(got.Diffs[0].Text, "hunter") {
			t.Errorf("%s (%s), %v", got.Outcome, got.Reason, got.Diffs)
		}
	}
	for _, c := range kit.Host("r1").Calls() {
		if strings.Contains(c.Command, "hunter") {
			t.Errorf("the secret is in a process list: %s", c.Command)
		}
	}
}
