package authorizedkey

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// made is a public key of no private one.
func made(letter string) string {
	return "ssh-ed25519 " + base64.StdEncoding.EncodeToString([]byte("\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x20"+strings.Repeat(letter, 32)))
}

var one, two, three = made("1"), made("2"), made("3")

func TestEdit(t *testing.T) {
	t.Parallel()
	const limited = `restrict,command="echo \"a b\" # x" `
	for name, c := range map[string]struct {
		p            Params
		before, want string
	}{
		"the first":                        {Params{Keys: []string{one + " a"}}, "", one + " a\n"},
		"added":                            {Params{Keys: []string{two}}, "# by hand\n\n" + one + "\n", "# by hand\n\n" + one + "\n" + two + "\n"},
		"added without a line end":         {Params{Keys: []string{two}}, one, one + "\n" + two + "\n"},
		"there":                            {Params{Keys: []string{one}}, one + " anna@laptop\n", one + " anna@laptop\n"},
		"another comment":                  {Params{Keys: []string{one + " new"}}, one + " old\n" + two + "\n", one + " new\n" + two + "\n"},
		"options":                          {Params{Keys: []string{limited + one}}, one + " anna\n", limited + one + " anna\n"},
		"options that stay":                {Params{Keys: []string{limited + one}}, limited + one + " anna\n", limited + one + " anna\n"},
		"options that go":                  {Params{Keys: []string{one}}, limited + one + "\n", one + "\n"},
		"a second line without options":    {Params{Keys: []string{limited + one}}, limited + one + "\n" + one + "\n", limited + one + "\n"},
		"a line end of the file .pub":      {Params{Keys: []string{one + " a\n"}}, "", one + " a\n"},
		"exclusive over the list":          {Params{Keys: []string{one, two}, Exclusive: true}, "# by hand\n" + three + "\nnonsense\n" + two + "\n", "# by hand\n" + two + "\n" + one + "\n"},
		"others stay":                      {Params{Keys: []string{one}}, "nonsense\n" + one + "\n", "nonsense\n" + one + "\n"},
		"removed":                          {Params{Keys: []string{one}, State: "absent"}, limited + one + "\n" + two + "\n" + one, two + "\n"},
		"nothing to remove":                {Params{Keys: []string{one}, State: "absent"}, two, two},
		"a key within a comment is no key": {Params{Keys: []string{one}}, "# " + one + "\n", "# " + one + "\n" + one + "\n"},
	} {
		got := edit(c.p, c.before)
		if again := edit(c.p, got); got != c.want || again != got {
			t.Errorf("%s: %q, again %q; expected %q", name, got, again, c.want)
		}
	}
}

// A step never cuts off its own login.
func TestSafe(t *testing.T) {
	t.Parallel()
	blob := strings.Fields(one)[1]
	for name, c := range map[string]struct {
		now   account
		after string
		safe  bool
	}{
		"of another user":                {account{login: "ops", content: one}, "", true},
		"the key of the session stays":   {account{login: "anna", key: blob, content: one + "\n" + two}, one, true},
		"the key of the session goes":    {account{login: "anna", key: blob, content: one + "\n" + two}, two, false},
		"the key is of another file":     {account{login: "anna", key: blob, content: two}, three, true},
		"not known, one of the old stay": {account{login: "anna", content: one + "\n" + two}, two, true},
		"not known, all old ones go":     {account{login: "anna", content: one + "\n" + two}, three, false},
		"not known, there was none":      {account{login: "anna"}, one, true},
	} {
		if err := safe(Params{User: "anna"}, c.now, c.after); (err == nil) != c.safe {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParametersAreChecked(t *testing.T) {
	t.Parallel()
	kit := plugintest.New(t, Def())
	with := func(keys ...string) sdk.With { return sdk.With{"user": "anna", "keys": keys} }
	for name, c := range map[string]struct {
		with sdk.With
		want string // "" for valid
	}{
		"a key":                    {with(one, `from="192.0.2.0/24,!*.x",pty `+two+" a b"), ""},
		"no keys":                  {sdk.With{"user": "anna", "keys": []string{}}, "/keys: "},
		"a private key":            {with("-----BEGIN OPENSSH PRIVATE KEY-----"), "/keys/0: expected a public key"},
		"cut off":                  {with(one[:30]), "/keys/0: "},
		"another type than it has": {with(strings.Replace(one, "ssh-ed25519", "ssh-rsa", 1)), "/keys/0: the data of the key is not that of a ssh-rsa key"},
		"two in one":               {with(one + "\n" + two), "/keys/0: expected one line"},
		"twice":                    {with(one, one+" other"), "/keys/1: the list has this key twice"},
		"exclusive, but absent":    {sdk.With{"user": "anna", "keys": []string{one}, "state": "absent", "exclusive": true}, "/exclusive: "},
	} {
		if got := kit.Validate(c.with); (len(got) == 0) != (c.want == "") || len(got) > 0 && !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}

// An earlier attempt armed the timer. It is confirmed if the file has the new keys. Control: an
// attempt that ended between arming and writing confirms nothing, because a removed key still logs
// in; a later attempt finds the timer gone.
func TestAnArmingWithoutItsKeysIsNotConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		content, key, outcome string
		confirms              bool
	}{
		"written":     {one + "\n", "key-1", "changed", true},
		"not written": {one + "\n" + two + "\n", "key-1", "failed", false},
		"of another":  {one + "\n", "key-2", "failed", false},
	} {
		kit := plugintest.New(t, Def())
		confirms := 0
		kit.Host("r1").OnFunc("*", func(_ context.Context, call plugintest.Call) plugintest.Reply {
			if call.ReadOnly {
				return plugintest.Reply{Stdout: "home /home/anna\nlogin anna\npending kold\npendingkey " + c.key + "\ntight\ncontent\n" + c.content}
			}
			confirms++
			return plugintest.Reply{Stdout: "state confirmed\n"}
		})
		got := kit.Run(sdk.With{"user": "anna", "keys": []string{two}, "state": "absent"})
		if got.Outcome != c.outcome || got.Retryable == c.confirms || (confirms == 1) != c.confirms || confirms > 1 {
			t.Errorf("%s: %s (%s), %d confirmations", name, got.Outcome, got.Reason, confirms)
		}
	}
}
