package block

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
	const block = "# BEGIN turnus x\n1\n2\n# END turnus x\n"
	two := Params{Content: "1\n2\n"}
	for name, c := range map[string]struct {
		p            Params
		before, want string // want: "error: " and a part of it, or the content
	}{
		"added":                        {two, "a\n", "a\n" + block},
		"to an empty file":             {two, "", block},
		"there":                        {two, "a\n" + block + "b\n", "a\n" + block + "b\n"},
		"content without a line end":   {Params{Content: "1\n2"}, "", block},
		"after a line without one":     {two, "a", "a\n" + block},
		"another content":              {two, "a\n# BEGIN turnus x\n3\n# END turnus x\nb\n", "a\n" + block + "b\n"},
		"an end without a line end":    {two, "# BEGIN turnus x\n# END turnus x", block},
		"beside another block":         {two, "# BEGIN turnus y\n1\n# END turnus y\n", "# BEGIN turnus y\n1\n# END turnus y\n" + block},
		"a name that begins another":   {two, "# BEGIN turnus x2\n# END turnus x2\n", "# BEGIN turnus x2\n# END turnus x2\n" + block},
		"after":                        {Params{Content: "1\n2\n", After: "^a"}, "a\nb\n", "a\n" + block + "b\n"},
		"before":                       {Params{Content: "1\n2\n", Before: "^b"}, "a\nb\n", "a\n" + block + "b\n"},
		"no anchor":                    {Params{Content: "1", After: "^c"}, "a\n", "error: after: no line matches \"^c\""},
		"two anchors":                  {Params{Content: "1", Before: "^a"}, "a\nb\na\n", "error: before: several lines match \"^a\", expected one: lines 1 and 3"},
		"it stays where it is":         {Params{Content: "1\n2\n", After: "^nosuch"}, block + "a\n", block + "a\n"},
		"only the beginning":           {two, "a\n# BEGIN turnus x\n", "error: only one marker is there, in line 2"},
		"only the end":                 {two, "# END turnus x\n", "error: only one marker is there, in line 1"},
		"only one, and absent":         {Params{State: "absent"}, "# END turnus x\n", "error: only one marker"},
		"the wrong order":              {two, "# END turnus x\n# BEGIN turnus x\n", "error: the marker \"# END turnus x\" in line 1 stands before"},
		"twice":                        {two, block + block, "error: is there twice, the second time in line 5"},
		"a marker of its own":          {Params{Content: "1\n", Marker: " <!-- {mark} a -->"}, "<!-- BEGIN a -->\n2\n<!-- END a -->\n# BEGIN turnus x\n# END turnus x\n", "<!-- BEGIN a -->\n1\n<!-- END a -->\n# BEGIN turnus x\n# END turnus x\n"},
		"another comment":              {Params{Content: "1\n", Comment: "//"}, "", "// BEGIN turnus x\n1\n// END turnus x\n"},
		"an indented comment":          {Params{Content: "1\n", Comment: "  #"}, "  # BEGIN turnus x\n2\n  # END turnus x\n", "  # BEGIN turnus x\n1\n  # END turnus x\n"},
		"CRLF is kept":                 {Params{Content: "1\n"}, "a\r\n", "a\r\n# BEGIN turnus x\r\n1\r\n# END turnus x\r\n"},
		"removed":                      {Params{State: "absent"}, "a\n" + block + "b\n", "a\nb\n"},
		"removed already":              {Params{State: "absent"}, "a", "a"},
		"indented by an editor's hand": {two, "a\n  # BEGIN turnus x\n3\n  # END turnus x\n", "a\n" + block},
	} {
		c.p.Name = "x"
		if c.p.Comment == "" {
			c.p.Comment = "#"
		}
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
		"a block":                  {sdk.With{"path": "/a", "name": "x", "content": "1"}, ""},
		"no name":                  {sdk.With{"path": "/a", "content": "1"}, "/name: expected the name of the block, or its marker"},
		"a marker":                 {sdk.With{"path": "/a", "marker": "# {mark} mine", "content": "1"}, ""},
		"a marker and a name":      {sdk.With{"path": "/a", "name": "x", "marker": "# {mark} mine", "content": "1"}, "/marker: "},
		"a marker that is not one": {sdk.With{"path": "/a", "marker": "# mine", "content": "1"}, "/marker: "},
		"its own end as content":   {sdk.With{"path": "/a", "marker": "# {mark} mine", "content": "a\n # END mine\nb"}, "/content: "},
		"a name of two lines":      {sdk.With{"path": "/a", "name": "x\ny", "content": "1"}, "/name: "},
		"a name with a blank end":  {sdk.With{"path": "/a", "name": "x ", "content": "1"}, "/name: "},
		"no content":               {sdk.With{"path": "/a", "name": "x"}, "/content: expected the lines"},
		"markers in the content":   {sdk.With{"path": "/a", "name": "x", "content": "# BEGIN turnus y\n"}, "/content: "},
		"a comment of two lines":   {sdk.With{"path": "/a", "name": "x", "content": "1", "comment": "#\n"}, "/comment: "},
		"no expression":            {sdk.With{"path": "/a", "name": "x", "content": "1", "before": "("}, "/before: "},
		"two places":               {sdk.With{"path": "/a", "name": "x", "content": "1", "before": "a", "after": "a"}, ": expected only one"},
		"a removal with a content": {sdk.With{"path": "/a", "name": "x", "content": "1", "state": "absent"}, "/state: "},
		"a removal":                {sdk.With{"path": "/a", "name": "x", "state": "absent"}, ""},
		"a path with dots":         {sdk.With{"path": "/a/..", "name": "x", "content": "1"}, "/path: "},
	} {
		if got := kit.Validate(c.with); (len(got) == 0) != (c.want == "") || len(got) > 0 && !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}
