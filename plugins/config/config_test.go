package config_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/config"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = map[string]any

// running is the parameters of one command, with more of a row.
func running(more object) object {
	with := object{"what": []object{{"name": "running.conf", "command": "show run"}}}
	maps.Copy(with, more)
	return with
}

func TestWhatIsKept(t *testing.T) {
	const router = "! up 3 days\r\nhostname r1   \r\npsk hunter2\r\n\r\n"
	for name, tc := range map[string]struct {
		with   object
		stdout string
		want   string // kept
		reason string // of a failure; nothing is kept then
	}{
		"line endings and blanks": {running(nil), router, "! up 3 days\nhostname r1\npsk hunter2\n", ""},
		"a lone CR":               {running(nil), "a\rb\r", "a\nb\n", ""},
		"verbatim":                {running(object{"verbatim": true}), "a  \r\nb", "a  \r\nb", ""},
		"lines are dropped":       {running(object{"drop": []string{`up \d+ days$`}}), router, "hostname r1\npsk hunter2\n", ""},
		"verbatim drops, too":     {running(object{"verbatim": true, "drop": []string{`days$`}}), router, "hostname r1   \r\npsk hunter2\r\n\r\n", ""},
		"secrets are replaced":    {running(object{"replace": []object{{"match": `^(psk) .*$`, "with": "$1 <secret>"}}}), router, "! up 3 days\nhostname r1\npsk <secret>\n", ""},
		"a secret of several lines": {
			running(object{"replace": []object{{"match": `(?s)-----BEGIN.*?END KEY-----`, "with": "<key>"}}}),
			"a\n-----BEGIN KEY-----\nMIIE\n-----END KEY-----\nb\n", "a\n<key>\nb\n", "",
		},
		"one part's own rules": {
			object{
				"what":    []object{{"name": "running.conf", "command": "show run", "drop": []string{"^!"}, "replace": []object{{"match": "hunter2", "with": "A"}}}},
				"replace": []object{{"match": "A", "with": "B"}},
			}, router, "hostname r1\npsk B\n", "",
		},
		"Latin-1 is text":    {running(nil), "descr Z\xfcrich\n", "descr Z\xfcrich\n", ""},
		"a NUL byte":         {running(nil), "a\x00b", "", "running.conf, the command: it holds a NUL byte, so it is no text\nhint: binary: true keeps it byte by byte; nothing is dropped or replaced in it then"},
		"binary":             {object{"what": []object{{"name": "running.conf", "command": "show run", "binary": true}}}, "a\x00 \r\n", "a\x00 \r\n", ""},
		"nothing":            {running(nil), "", "", "running.conf, the command: the command printed nothing that is kept; expected a configuration"},
		"nothing is left":    {running(object{"drop": []string{"."}}), router, "", "running.conf, the command: the command printed nothing that is kept; expected a configuration"},
		"exactly max_size":   {running(object{"max_size": 4}), "abc\n", "abc\n", ""},
		"over max_size":      {running(object{"max_size": 4}), "abcd\n", "", "running.conf, the command: it is larger than max_size (4 bytes)"},
		"huge":               {running(nil), strings.Repeat("0123456789abcde\n", 300_000), "", "running.conf, the command: it is larger than max_size (4194304 bytes)"},
		"large, but allowed": {running(object{"max_size": "8MiB"}), strings.Repeat("0123456789abcde\n", 300_000), strings.Repeat("0123456789abcde\n", 300_000), ""},
	} {
		t.Run(name, func(t *testing.T) {
			kit := plugintest.New(t, config.Def())
			kit.Host("r1").On("show run", plugintest.Reply{Stdout: tc.stdout})
			got := kit.Run(tc.with)
			outcome := "changed"
			if tc.reason != "" {
				outcome = "failed"
			}
			if got.Outcome != outcome || tc.reason != "" && got.Reason != tc.reason {
				t.Errorf("got %s (%s), want %s (%s)", got.Outcome, got.Reason, outcome, tc.reason)
			}
			if kept, ok := kit.Kept("running.conf"); kept != tc.want || ok != (tc.reason == "") {
				t.Errorf("kept %d bytes %.100q, want %.100q", len(kept), kept, tc.want)
			}
			if tc.reason != "" && got.Effects != "none" {
				t.Errorf("effects: %s", got.Effects)
			}
		})
	}
}

func TestChangedOnlyWhenTheConfigurationIs(t *testing.T) {
	kit := plugintest.New(t, config.Def())
	text := "! 09:00\nmtu 1500\n"
	kit.Host("r1").OnFunc("show run", func(context.Context, plugintest.Call) plugintest.Reply { return plugintest.Reply{Stdout: text} })
	with := running(object{"drop": []string{"^!"}})
	first := kit.Run(with)
	if first.Outcome != "changed" || first.Outputs["version"] == "" {
		t.Errorf("the first: %s, %v", first.Outcome, first.Outputs)
	}
	text = "! 10:00\nmtu 1500\n"
	if got := kit.Run(with); got.Outcome != "unchanged" || len(got.Diffs) > 0 || got.Outputs["version"] != "" {
		t.Errorf("only the time differs: %s, %v", got.Outcome, got.Outputs)
	}
	text = "! 11:00\nmtu 9000\n"
	got := kit.Run(with)
	if got.Outcome != "changed" || len(got.Diffs) != 1 || !strings.Contains(got.Diffs[0].Text, "-mtu 1500\n+mtu 9000\n") {
		t.Errorf("the next: %s, %v", got.Outcome, got.Diffs)
	}
	file := got.Outputs["files"].([]any)[0].(map[string]any)
	if file["lines"] != 1.0 || file["changed"] != true || len(file["sha256"].(string)) != 64 {
		t.Errorf("outputs: %v", file)
	}
}

func TestCheckModeKeepsNothing(t *testing.T) {
	kit := plugintest.New(t, config.Def())
	kit.Host("r1").On("show run", plugintest.Reply{Stdout: "new\n"}).Put("/etc/a", plugintest.File{Content: "same\n"})
	kit.Keep("a", "same\n").Keep("running.conf", "old\n")
	with := object{"what": []object{{"name": "running.conf", "command": "show run"}, {"name": "a", "path": "/etc/a"}}}
	got := kit.Check(with)
	if got.Outcome != "changed" || got.Reason != "would keep running.conf" || len(got.Diffs) != 1 || got.Outputs["version"] != "" {
		t.Errorf("got %s (%s), %v, %v", got.Outcome, got.Reason, got.Diffs, got.Outputs)
	}
	if kept, _ := kit.Kept("running.conf"); kept != "old\n" {
		t.Errorf("check mode kept %q", kept)
	}
}

func TestSecretsAreInNothingThatIsShown(t *testing.T) {
	const secret = "hunter2"
	kit := plugintest.New(t, config.Def())
	kit.Host("r1").On("show run", plugintest.Reply{Stdout: "user a\npsk " + secret + "\n"})
	got := kit.Run(running(object{"replace": []object{{"match": `psk \S+`, "with": "psk <secret>"}}}))
	kept, _ := kit.Kept("running.conf")
	if all := fmt.Sprint(*got) + kept; got.Outcome != "changed" || strings.Contains(all, secret) || !strings.Contains(kept, "<secret>") {
		t.Errorf("the secret is in %s", all)
	}
}

func TestAllPartsOrNone(t *testing.T) {
	kit := plugintest.New(t, config.Def())
	kit.Host("r1").On("show run", plugintest.Reply{Stdout: "new\n"}).On("show vlan", plugintest.Reply{Code: 1, Stderr: "no such command\n"})
	got := kit.Run(object{"what": []object{{"name": "run", "command": "show run"}, {"name": "vlan", "command": "show vlan"}}})
	if _, kept := kit.Kept("run"); got.Outcome != "failed" || kept || !strings.HasPrefix(got.Reason, "vlan, the command: ") || !strings.Contains(got.Reason, "no such command") {
		t.Errorf("%s (%s), kept %v", got.Outcome, got.Reason, kept)
	}
}

func TestFilesThatAreGone(t *testing.T) {
	kit := plugintest.New(t, config.Def())
	kit.Host("r1").Put("/etc/a", plugintest.File{Content: ""})
	kit.Keep("b", "old\n")
	parts := []object{{"name": "a", "path": "/etc/a"}, {"name": "b", "path": "/etc/b", "optional": true}, {"name": "c", "path": "/etc/c", "optional": true}}
	got := kit.Run(object{"what": parts})
	if _, kept := kit.Kept("b"); got.Outcome != "changed" || kept || !strings.HasPrefix(got.Reason, "kept a, b (gone) as version ") {
		t.Errorf("%s (%s), kept %v", got.Outcome, got.Reason, kept)
	}
	if got := kit.Run(object{"what": parts}); got.Outcome != "unchanged" {
		t.Errorf("again: %s (%s)", got.Outcome, got.Reason)
	}
	parts[2]["optional"] = false
	if got := kit.Run(object{"what": parts}); got.Outcome != "failed" || !strings.HasPrefix(got.Reason, "c, the file /etc/c: ") {
		t.Errorf("missing: %s (%s)", got.Outcome, got.Reason)
	}
}

func TestUnreachableStaysUnreachable(t *testing.T) {
	kit := plugintest.New(t, config.Def())
	kit.Host("r1").On("*", plugintest.Reply{Err: plugintest.Unreachable("r1", true)})
	if got := kit.Run(running(nil)); got.Outcome != "unreachable" || got.Effects != "none" {
		t.Errorf("%s (%s), effects %s", got.Outcome, got.Reason, got.Effects)
	}
}

func TestParameters(t *testing.T) {
	part := func(more object) object {
		p := object{"name": "a", "command": "c"}
		maps.Copy(p, more)
		return object{"what": []object{p}}
	}
	for name, tc := range map[string]struct {
		with object
		want string // the beginning of one line
	}{
		"nothing":               {object{}, ": parameter \"what\" is required"},
		"an empty list":         {object{"what": []object{}}, "/what: "},
		"a name with a slash":   {part(object{"name": "a/b"}), "/what/0/name: "},
		"a name of dots":        {part(object{"name": ".."}), "/what/0/name: "},
		"git's own":             {part(object{"name": ".git"}), "/what/0/name: "},
		"a line break":          {part(object{"name": "a\nb"}), "/what/0/name: "},
		"both":                  {part(object{"path": "/a"}), "/what/0: expected one of command and path"},
		"an optional command":   {part(object{"optional": true}), "/what/0: optional goes with path"},
		"rules for what is raw": {part(object{"binary": true, "drop": []string{"a"}}), "/what/0: binary goes without"},
		"a path with ..":        {object{"what": []object{{"name": "a", "path": "/etc/../x"}}}, "/what/0: expected an absolute path"},
		"one name twice":        {object{"what": []object{{"name": "a", "command": "c"}, {"name": "a", "command": "d"}}}, `/what/1/name: the name "a" is that of /what/0`},
		"a bad expression":      {running(object{"drop": []string{"a", "("}}), "/drop/1: "},
		"one that drops all":    {running(object{"drop": []string{""}}), "/drop/0: must not be empty"},
		"a bad match":           {part(object{"replace": []object{{"match": "[", "with": "x"}}}), "/what/0/replace/0/match: "},
		"an escaping match":     {running(object{"replace": []object{{"match": "a)(b", "with": "x"}}}), "/replace/0/match: "},
		"too large":             {running(object{"max_size": "33MiB"}), "/max_size: "},
	} {
		t.Run(name, func(t *testing.T) {
			got := plugintest.New(t, config.Def()).Validate(tc.with)
			if !slices.ContainsFunc(got, func(l string) bool { return strings.HasPrefix(l, tc.want) }) {
				t.Errorf("got %q, want a line that begins with %q", got, tc.want)
			}
		})
	}
}
