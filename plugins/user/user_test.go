package user

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCommands(t *testing.T) {
	t.Parallel()
	uid, comment := 1500, "Anna: no"
	anna := account{exists: true, uid: "1000", primary: "anna", groups: []string{"adm", "old"}, home: "/home/anna", shell: "/bin/sh", tool: "shadow", known: []string{"adm", "web"}, password: true}
	onBusybox := anna
	onBusybox.tool = "busybox"
	otherHash := anna
	otherHash.password = false
	for name, c := range map[string]struct {
		p    Params
		now  account
		want []string
	}{
		"as it is":                       {Params{Shell: "/bin/sh", Groups: []string{"adm"}}, anna, nil},
		"the primary group is no change": {Params{Groups: []string{"anna"}}, anna, nil},
		"created":                        {Params{Shell: "/bin/sh", Groups: []string{"web"}}, account{tool: "shadow"}, []string{"useradd -s /bin/sh -m anna", "usermod -a -G web anna"}},
		"created, with a group there":    {Params{System: true}, account{tool: "shadow", known: []string{"anna"}}, []string{"useradd -g anna -r anna"}},
		"changed":                        {Params{UID: &uid, Comment: &comment, Home: "/srv/a b"}, anna, []string{"usermod -u 1500 -d '/srv/a b' -c 'Anna: no' anna"}},
		"groups are added":               {Params{Groups: []string{"adm", "web", "web"}}, anna, []string{"usermod -a -G web anna"}},
		"and others removed":             {Params{Groups: []string{"adm"}, Exact: true}, anna, []string{"gpasswd -d anna old"}},
		"removed from all":               {Params{Exact: true}, anna, []string{"gpasswd -d anna adm", "gpasswd -d anna old"}},
		"a new primary group stays":      {Params{Group: "old", Exact: true, Groups: []string{"adm"}}, anna, []string{"usermod -g old anna"}},
		"another password":               {Params{Password: "$6$a$b"}, otherHash, []string{`printf '%s:%s\n' "$n" "$hash" | chpasswd -e`}},
		"gone":                           {Params{State: "absent"}, anna, []string{"userdel anna"}},
		"gone with the home":             {Params{State: "absent", RemoveHome: true}, onBusybox, []string{"deluser --remove-home anna"}},
		"gone already":                   {Params{State: "absent"}, account{tool: "shadow"}, nil},
		"created by busybox":             {Params{UID: &uid, Group: "web", Comment: &comment, Home: "/a", System: true}, account{tool: "busybox"}, []string{"adduser -D -u 1500 -G web -h /a -g 'Anna: no' -S -H anna"}},
		"groups by busybox":              {Params{Groups: []string{"web"}, Exact: true}, onBusybox, []string{"addgroup anna web", "delgroup anna adm", "delgroup anna old"}},
	} {
		c.p.Name = "anna"
		if got := commands(c.p, c.now); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
		if (len(c.want) > 0) != (c.p.after(c.now).text() != c.now.text()) {
			t.Errorf("%s: the difference shown does not fit: %q, then %q", name, c.now.text(), c.p.after(c.now).text())
		}
	}
}

func TestPossible(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p    Params
		now  account
		want string // "" for possible
	}{
		"yes":                              {Params{}, account{tool: "shadow"}, ""},
		"of a directory service":           {Params{State: "absent"}, account{elsewhere: true}, "directory service"},
		"no root":                          {Params{Password: "!"}, account{tool: "shadow"}, "permission denied"},
		"a number that is taken":           {Params{UID: new(7)}, account{tool: "shadow", taken: "old"}, "the user old has the number 7"},
		"no tool":                          {Params{}, account{}, "neither useradd nor adduser"},
		"no tool removes a user":           {Params{State: "absent"}, account{exists: true}, "neither useradd nor adduser"},
		"no tool, and no user":             {Params{State: "absent"}, account{}, ""},
		"busybox changes nobody":           {Params{Shell: "/bin/sh"}, account{exists: true, tool: "busybox"}, "busybox cannot change"},
		"busybox has nothing to change":    {Params{Shell: "/bin/sh"}, account{exists: true, shell: "/bin/sh", tool: "busybox"}, ""},
		"the group of who is removed":      {Params{State: "absent", Group: "web"}, account{tool: "shadow"}, ""},
		"the hash of who is known by name": {Params{Password: "!"}, account{shadow: true, tool: "shadow"}, ""},
	} {
		err := possible(c.p, c.now)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", name, err, c.want)
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
		"no more than a name":    {map[string]any{"name": "anna"}, ""},
		"a computer of samba":    {map[string]any{"name": "pc1$"}, ""},
		"an option":              {map[string]any{"name": "-r"}, "/name: "},
		"a password":             {map[string]any{"name": "anna", "password": "hunter2"}, "/password: expected a hash"},
		"a hash":                 {map[string]any{"name": "anna", "password": "$y$j9T$abc/.$def"}, ""},
		"a locked hash":          {map[string]any{"name": "anna", "password": "!$6$a$b"}, ""},
		"a hash with a field":    {map[string]any{"name": "anna", "password": "$6$a$b:0"}, "/password: "},
		"two groups in one":      {map[string]any{"name": "anna", "groups": []string{"a,b"}}, "/groups/0: "},
		"a comment with a field": {map[string]any{"name": "anna", "comment": "a:b"}, "/comment: "},
		"a comment of two lines": {map[string]any{"name": "anna", "comment": "a\rb"}, "/comment: "},
		"remove_home alone":      {map[string]any{"name": "anna", "remove_home": true}, "/remove_home: "},
		"root gone":              {map[string]any{"name": "root", "state": "absent"}, "/name: "},
		"dots":                   {map[string]any{"name": "anna", "home": "/a/../b"}, "/home: "},
	} {
		got := kit.Validate(c.with)
		if (len(got) == 0) != (c.want == "") || len(got) > 0 && !strings.HasPrefix(got[0], c.want) || strings.Contains(strings.Join(got, ""), "hunter2") {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}
