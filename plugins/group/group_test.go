package group

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDecide(t *testing.T) {
	t.Parallel()
	gid := 2000
	for name, c := range map[string]struct {
		p    Params
		now  entry
		want string // "error: " and a part of it, or the command
	}{
		"created":                {Params{GID: &gid}, entry{tool: "shadow"}, "groupadd -g 2000 web"},
		"a system group":         {Params{System: true}, entry{tool: "shadow"}, "groupadd -r web"},
		"by busybox":             {Params{GID: &gid, System: true}, entry{tool: "busybox"}, "addgroup -g 2000 -S web"},
		"there":                  {Params{}, entry{gid: "5", tool: "shadow"}, ""},
		"there with no tool":     {Params{GID: &gid}, entry{gid: "2000"}, ""},
		"another number":         {Params{GID: &gid}, entry{gid: "5", tool: "shadow"}, "groupmod -g 2000 web"},
		"not by busybox":         {Params{GID: &gid}, entry{gid: "5", tool: "busybox"}, "error: busybox cannot change"},
		"gone":                   {Params{State: "absent"}, entry{gid: "5", tool: "shadow"}, "groupdel web"},
		"gone by busybox":        {Params{State: "absent"}, entry{gid: "5", tool: "busybox"}, "delgroup web"},
		"gone already":           {Params{State: "absent"}, entry{}, ""},
		"no tool":                {Params{}, entry{}, "error: neither groupadd nor addgroup"},
		"a number that is taken": {Params{GID: &gid}, entry{tool: "shadow", taken: "old"}, "error: the group old has the number 2000"},
		"of another directory":   {Params{}, entry{elsewhere: true, tool: "shadow"}, "error: directory service"},
	} {
		c.p.Name = "web"
		got, err := decide(c.p, c.now)
		if part, wrong := strings.CutPrefix(c.want, "error: "); wrong {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q, %v; expected an error with %q", name, got, err, part)
			}
			continue
		}
		if err != nil || got != c.want || (got != "") != (c.p.after(c.now).text() != c.now.text()) {
			t.Errorf("%s: %q, %v; expected %q; shown as %q, then %q", name, got, err, c.want, c.now.text(), c.p.after(c.now).text())
		}
	}
}

func TestParametersAreChecked(t *testing.T) {
	t.Parallel()
	kit := plugintest.New(t, Def())
	for name, c := range map[string]struct {
		with map[string]any
		want string // "" for valid
	}{
		"a name":              {map[string]any{"name": "web"}, ""},
		"an option":           {map[string]any{"name": "-g"}, "/name: "},
		"a field":             {map[string]any{"name": "a:b"}, "/name: "},
		"a negative number":   {map[string]any{"name": "web", "gid": -1}, "/gid: "},
		"a number of nothing": {map[string]any{"name": "web", "gid": 1, "state": "absent"}, "/state: "},
	} {
		if got := kit.Validate(c.with); (len(got) == 0) != (c.want == "") || len(got) > 0 && !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}
