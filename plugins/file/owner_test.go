package file

import (
	"strings"
	"testing"
)

const regularFacts = `kind file
self 1000:1000
long -rw-r--r--. 1 root adm 12 Jan  1 00:00 /etc/motd
numbers -rw-r--r--. 1 0 4 12 Jan  1 00:00 /etc/motd
sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  -
`

func TestFactsAreParsed(t *testing.T) {
	got, err := parse(regularFacts)
	want := entry{
		kind: "file", mode: 0o644, owner: "root:adm", numbers: "0:4", self: "1000:1000", size: 12,
		sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	for name, text := range map[string]string{
		"nothing": "", "a login banner": "Welcome\n", "no ls": "kind file\nself 0:0\n", "a short mode": "kind file\nlong -rw 1 a b 1\n",
	} {
		if e, err := parse(text); err == nil {
			t.Errorf("%s: got %+v, want an error", name, e)
		}
	}
}

// A file that is written beside and renamed would belong to the login.
func TestOwnerIsInherited(t *testing.T) {
	for name, tc := range map[string]struct{ kind, numbers, self, owner, want string }{
		"a new file":                {"absent", "", "0:0", "", ""},
		"one's own":                 {"file", "0:0", "0:0", "", ""},
		"somebody else's":           {"file", "33:33", "0:0", "", "33:33"},
		"another group":             {"file", "0:33", "0:0", "", "0:33"},
		"a new user keeps group":    {"file", "33:33", "0:0", "app", "app:33"},
		"a new user, own group":     {"file", "33:0", "0:0", "app", "app"},
		"all is given":              {"file", "33:33", "0:0", "app:app", "app:app"},
		"a link hands nothing down": {"link", "33:33", "0:0", "", ""},
	} {
		now := entry{kind: tc.kind, numbers: tc.numbers, self: tc.self}
		if got := inherited(Params{Owner: tc.owner}, now); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestOwnersAreCompared(t *testing.T) {
	e := entry{kind: "file", owner: "root:adm", numbers: "0:4"}
	for want, is := range map[string]bool{
		"": true, "root": true, "0": true, "root:adm": true, "0:4": true, "root:4": true,
		"app": false, "root:root": false, "1": false, "0:0": false,
	} {
		if e.owned(want) != is {
			t.Errorf("%q: got %v, want %v", want, !is, is)
		}
	}
}

func FuzzFacts(f *testing.F) {
	for _, seed := range []string{regularFacts, "kind link\nlong lrwxrwxrwx 1 a b 1 x\ntarget a\nb\n", "kind absent\n", "\ntarget \n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parse(text)
		if err == nil && (e.kind == "" || e.mode > 0o7777 || (e.sha256 != "" && len(e.sha256) != 64)) {
			t.Errorf("%q was taken as %+v", text, e)
		}
		if err == nil && !strings.Contains(text, e.target) {
			t.Errorf("the target %q came from nowhere", e.target)
		}
	})
}
