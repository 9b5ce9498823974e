package policy

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

const example = `
channels:
  noc: {email: {to: ["NOC <noc@example.net>"]}}
  mail: {email: {to: [a@example.net], from: b@example.net, server: "smtp.example.net:465", tls: tls, username: u, password: {secret: p}}}
routes:
  - {to: [noc], severity: warning}
  - {to: [server], kinds: [queue_away]}
tenants:
  acme:
    channels:
      hook: {webhook: {url: "https://hooks.example.com/x", sign: {secret: acme-hook}}}
      chat: {slack: {url: {secret: acme-chat}}}
      noc: {webhook: {url: "https://noc.example.com"}}
    routes:
      - {kinds: [run_failed, run_succeeded], playbooks: ["patch-*"], to: [hook]}
  globex:
    channels:
      hook: {webhook: {url: "https://globex.example.com"}}
    routes:
      - {to: [hook]}
`

func read(t *testing.T, text string) *Policy {
	t.Helper()
	p, problems := Parse(Document{"notify.yaml", []byte(text)})
	if len(problems) > 0 {
		t.Fatalf("%+v", problems)
	}
	return p
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	p := read(t, example)
	for _, c := range []struct {
		kind, tenant, playbook string
		own                    []Route
		want                   string
	}{
		{RunFailed, "acme", "patch-core", nil, "noc acme:hook"},
		{RunFailed, "acme", "other", nil, "noc"},
		{RunSucceeded, "acme", "patch-core", nil, "acme:hook"}, // it was asked for
		{RunSucceeded, "globex", "patch-core", nil, ""},
		{RunFailed, "globex", "x", nil, "noc globex:hook"},
		{RunFailed, "", "x", nil, "noc"},
		{RunFailed, "unknown", "x", nil, "noc"},
		{QueueAway, "", "", nil, "noc server"},
		{QueueAway, "globex", "", nil, "noc server"}, // no tenant is notified of the provider's things, whatever the source
		{QueueBack, "", "", nil, ""},                 // info
		{RunFailed, "acme", "x", []Route{{To: []string{"chat", "noc", "server"}}}, "noc acme:chat acme:noc server"},
		{RunFailed, "globex", "x", []Route{{To: []string{"noc"}, Kinds: []string{RunLost}}}, "noc globex:hook"},
		{RunSucceeded, "globex", "x", []Route{{To: []string{"noc"}, Kinds: []string{RunSucceeded}}}, "noc"},
	} {
		k, ok := Find(c.kind)
		if !ok {
			t.Fatal(c.kind)
		}
		var got []string
		for _, at := range p.Places(Subject{k, c.tenant, c.playbook}, c.own) {
			name := at.Channel
			if !at.Service {
				name = at.Tenant + ":" + name
			}
			got = append(got, name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s of %q, playbook %s, goes to %q, expected %q", c.kind, c.tenant, c.playbook, got, c.want)
		}
	}
	if c := p.Channel(Place{Tenant: "acme", Channel: "chat"}); c == nil || c.Slack.URL.Secret != "acme-chat" || c.Medium() != MediumSlack {
		t.Errorf("%+v", c)
	}
	if e := p.Service.Channels["mail"].Email; e.TLS != TLS || e.Password != "p" || p.Service.Channels["noc"].Email.TLS != StartTLS {
		t.Errorf("%+v", e)
	}
	if !p.Knows("acme", "chat") || !p.Knows("acme", "mail") || p.Knows("globex", "chat") || p.Knows("", "chat") || !p.Knows("", "server") {
		t.Error("playbooks may name the wrong channels")
	}
	if got := fmt.Sprint(p.Visible("acme")); got != "[chat hook mail noc server]" {
		t.Error(got)
	}
	var none *Policy
	if none.Channel(Place{Service: true, Channel: "x"}) != nil || len(none.Places(Subject{}, nil)) != 0 || none.Knows("a", "x") {
		t.Error("no policy has channels")
	}
}

// A problem is reported with its place, and no secret in a wrong place is repeated.
func TestProblems(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"chanels: {}":                                                                     `1:1 unknown key "chanels" in the file`,
		"channels: [a]":                                                                   "1:11 channels is a list: expected a mapping",
		"channels: {a b: {}}":                                                             `1:12 "a b" is not a name`,
		"channels: {server: {}}":                                                          "the name of the channel that the server's own flags define",
		"channels: {a: {}}":                                                               "1:15 channel a: expected one of webhook, email, slack",
		"channels: {a: {webhook: {}}}":                                                    `1:25 webhook has no "url": expected url`,
		"channels: {a: {webhook: {url: ftp://x}}}":                                        "1:31 url: expected http://… or https://…",
		"channels: {a: {webhook: {url: 'http://u:hunter2@'}}}":                            "1:31 url: expected",
		"channels: {a: {webhook: 'http://u:hunter2@x'}}":                                  "1:25 webhook is a single value: expected a mapping with the keys url, sign",
		"channels: {a: {webhook: {url: http://x, sign: hunter2}}}":                        "1:47 sign: a secret must not be in the project: expected {secret: NAME}",
		"channels: {a: {slack: {url: {env: HOME}}}}":                                      `1:30 unknown key "env" in url`,
		"channels: {a: {webhook: {url: {secret: ../x}}}}":                                 "1:40 url: expected the name of a secret",
		"channels: {a: {email: {to: a@b.c}}}":                                             "1:28 to is a single value: expected a list",
		"channels: {a: {email: {to: [nobody]}}}":                                          "1:29 to: expected a mail address, as NAME@DOMAIN",
		"channels: {a: {email: {to: [\"a@b.c\\nBcc: d@e.f\"]}}}":                          "1:29 to: expected text of one line",
		"channels: {a: {email: {to: [a@b.c], server: x}}}":                                "server: expected HOST:PORT",
		"channels: {a: {email: {to: [hunter2], server: hunter2, tls: hunter2}}}":          "tls: expected one of: starttls, tls, none",
		"channels: {a: {slack: {url: *hunter2}}}":                                         "not YAML: unknown anchor",
		"channels: {a: {email: {to: [a@b.c], username: x, password: {secret: y}}}}":       "are of a server of its own",
		"channels: {a: {email: {to: [a@b.c], from: a@b.c, server: 'x:25', username: x}}}": "username and password go together",
		"channels: {a: {email: {to: [a@b.c], from: a@b.c, server: 'x:25', tls: none, username: x, password: {secret: y}}}}": "in the clear",
		"channels: {a: {slack: {url: http://x}}, a: {slack: {url: http://x}}}":                                              `1:41 key "a" is given twice`,
		"routes: [{to: [noc]}]":                        `1:16 the service has no channel "noc"`,
		"routes: [{kinds: [run_faild], to: [server]}]": `1:19 kinds: expected one of`,
		"routes: [{to: [server], playbooks: ['[']}]":   "playbooks: expected a pattern",
		"routes: [{to: []}]":                           "a route: expected to: [CHANNEL]",
		"routes: [{to: [server], severity: bad}]":      `severity: expected one of: info, warning, error`,
		"tenants: {a: {routes: [{to: [server]}]}}":     `tenant a has no channel "server"`,
		"tenants: {a: {routes: [{kinds: [queue_away], to: [x]}], channels: {x: {slack: {url: http://x}}}}}": "kinds: expected a kind that is about one tenant",
		"channels: &a {b: {slack: {url: http://x}}}\nroutes: *a":                                            "routes is an alias",
		"a: [": "not YAML",
	} {
		p, problems := Parse(Document{"n.yaml", []byte(text)})
		var all []string
		for _, one := range problems {
			all = append(all, fmt.Sprintf("%d:%d %s %s", one.Line, one.Col, one.Error(), one.Hint))
		}
		got := strings.Join(all, "\n")
		if p != nil || !strings.Contains(got, want) || strings.Contains(got, "hunter2") {
			t.Errorf("%s\nis described as %q, expected %q", text, got, want)
		}
	}
	// A misspelt word gets its suggestion, and several files are one policy.
	_, problems := Parse(Document{"a.yaml", []byte("channels: {noc: {slack: {url: http://x}}}")}, Document{"b.yaml", []byte("routes: [{to: [nok]}]")})
	if len(problems) != 1 || problems[0].File != "b.yaml" || !strings.Contains(problems[0].Hint, "noc") {
		t.Errorf("%+v", problems)
	}
	if p, problems := Parse(Document{"a.yaml", nil}, Document{"b.yaml", []byte("# nothing\n")}); p == nil || len(problems) > 0 {
		t.Errorf("%+v", problems)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte("tenants: {a: &a {channels: {x: *a}}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, problems := Parse(Document{"n.yaml", data})
		if (p == nil) != (len(problems) > 0) {
			t.Errorf("%+v and %+v", p, problems)
		}
		for _, one := range problems {
			if one.Message == "" || one.Line < 0 {
				t.Errorf("%+v", one)
			}
		}
	})
}

const guide = "../../../docs/notifications.md"

// docs/notifications.md has the table of kinds.
func TestTheGuideHasEveryKind(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range Kinds() {
		who := "tenant and service"
		if !k.Tenant {
			who = "service"
		}
		if k.Asked {
			who += ", on request"
		}
		row := fmt.Sprintf("| `%s` | %s | %s | %s |", k.Name, k.Severity, who, k.Doc)
		if !strings.Contains(string(text), row+"\n") {
			t.Errorf("%s lacks the row\n%s", guide, row)
		}
	}
	if rows := regexp.MustCompile("(?m)^\\| `[a-z_]+` \\| (info|warning|error) ").FindAllString(string(text), -1); len(rows) != len(Kinds()) {
		t.Errorf("%s has %d kinds, and there are %d", guide, len(rows), len(Kinds()))
	}
	// The example of the guide is a policy.
	blocks := regexp.MustCompile("(?s)```yaml\n# notify.yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		t.Fatal("the guide has no example of notify.yaml")
	}
	for _, b := range blocks {
		read(t, b[1])
	}
}

// A route of an earlier version may name a kind that is not there any more: it matches nothing, and
// stops no start.
func TestRetiredKindIsRead(t *testing.T) {
	t.Parallel()
	p := read(t, "channels: {a: {webhook: {url: 'http://x'}}}\nroutes: [{kinds: [schedules_lost], to: [a]}]\n")
	for _, k := range Kinds() {
		if got := p.Places(Subject{k, "", ""}, nil); len(got) != 0 {
			t.Errorf("%s goes to %v", k.Name, got)
		}
	}
}

func TestFormerNameOfAKindIsRead(t *testing.T) {
	t.Parallel()
	for old, now := range former {
		p := read(t, "channels: {a: {webhook: {url: 'http://x'}}}\nroutes: [{kinds: ["+old+"], to: [a]}]\n")
		k, ok := Find(old)
		if got := p.Places(Subject{k, "", ""}, nil); !ok || k.Name != now || len(got) != 1 {
			t.Errorf("%s is read as %s and goes to %v, expected %s", old, k.Name, got, now)
		}
	}
}

func TestKindsAreWellFormed(t *testing.T) {
	t.Parallel()
	for _, k := range Kinds() {
		if k.Name == "" || k.Doc == "" || !k.Severity.AtLeast(Info) || k.Severity == "" {
			t.Errorf("%+v", k)
		}
	}
	if _, ok := Find("none"); ok || len(Names()) != len(Kinds())-1 {
		t.Error("kinds are not what they are")
	}
	if !Error.AtLeast(Warning) || Info.AtLeast(Warning) || !Info.AtLeast("") {
		t.Error("severities have no order")
	}
}
