package inventory

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write puts a file into a fresh folder.
func write(tb testing.TB, name, text string, mode os.FileMode) string {
	tb.Helper()
	p := filepath.Join(tb.TempDir(), name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), mode); err != nil {
		tb.Fatal(err)
	}
	if err := os.Chmod(p, mode); err != nil {
		tb.Fatal(err)
	}
	return p
}

func load(tb testing.TB, paths ...string) *Inventory {
	tb.Helper()
	inv, err := Load(context.Background(), paths)
	if err != nil {
		tb.Fatal(err)
	}
	return inv
}

func loadText(tb testing.TB, name, text string) *Inventory {
	tb.Helper()
	return load(tb, write(tb, name, text, 0o644))
}

func mustHost(tb testing.TB, inv *Inventory, name string) core.Host {
	tb.Helper()
	h, ok := inv.Host(name)
	if !ok {
		tb.Fatalf("no host %q", name)
	}
	return h
}

// problems are the messages of a file that must not load, without its folder.
func problems(tb testing.TB, name, text string) []string {
	tb.Helper()
	p := write(tb, name, text, 0o644)
	_, err := Load(context.Background(), []string{p})
	var all Errors
	if !errors.As(err, &all) || !errors.Is(err, core.ErrInvalid) {
		tb.Fatalf("loading gave %v", err)
	}
	var out []string
	for _, e := range all {
		out = append(out, strings.TrimPrefix(e.Error(), filepath.Dir(p)+"/"))
	}
	return out
}

const example = `
defaults:
  user: turnus
  identity_file: ~/.ssh/id_ed25519
  connect_timeout: 5s
  window_set: standard
  labels: {managed: "yes", tier: none}
  vars: {from: defaults, who: defaults, list: [1, 2]}
customers:
  acme:
    window_set: acme-std
    vars: {from: customer, ntp: 10.0.0.1}
    sites:
      fra:
        jump: bastion.fra.acme
        vars: {from: site, rack: 7}
        hosts:
          "fw[001:004].fra":
            address: "10.1.0.[1:4]"
            ha_group: "pair-[1:2]"
            labels: {role: firewall}
          bastion.fra.acme: {jump: none, port: 2222}
    hosts:
      hq.acme:
  borealis:
    hosts: {one.borealis: {pool: own}}
groups:
  edge:
    hosts: ["fw*.fra"]
    children: [core-edge]
    vars: {from: group, who: edge}
    user: edge
    labels: {tier: edge}
  core-edge: {hosts: ["fw[001:002].fra"], vars: {who: core-edge}}
  aaa: {hosts: [fw001.fra], vars: {who: aaa}, priority: 5}
hosts:
  lone: {address: 192.0.2.1, customer: acme, site: fra, groups: [extra], vars: {from: host}, password_env: LONE_PW, host_key: "ssh-ed25519 AAAA"}
pools:
  eu: {customers: [acme]}
  rest: {hosts: ["one.*"]}
`

func TestTurnus(t *testing.T) {
	inv := loadText(t, "hosts.yaml", example)
	if len(inv.Warnings) > 0 {
		t.Errorf("warnings: %v", inv.Warnings)
	}
	want := core.Host{
		Name: "fw002.fra", Address: "10.1.0.2", Customer: "acme", Site: "fra", Pool: "eu", HAGroup: "pair-1", WindowSet: "acme-std",
		Groups: []string{"core-edge", "edge"},
		Labels: map[string]string{"managed": "yes", "tier": "edge", "role": "firewall"},
		Vars:   map[string]any{"from": "group", "who": "core-edge", "ntp": "10.0.0.1", "rack": 7, "list": []any{1, 2}},
		SSH: core.SSH{
			User: "edge", ProxyJump: []string{"bastion.fra.acme"}, ConnectTimeout: 5 * time.Second,
		},
	}
	if got := mustHost(t, inv, "fw002.fra"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if h := mustHost(t, inv, "fw003.fra"); h.HAGroup != "pair-2" || h.Vars["who"] != "edge" {
		t.Errorf("fw003: %+v", h)
	}
	if h := mustHost(t, inv, "fw001.fra"); h.Vars["who"] != "core-edge" { // inner beats outer, whatever the priority
		t.Errorf("fw001: %v", h.Vars)
	}
	if h := mustHost(t, inv, "bastion.fra.acme"); h.SSH.ProxyJump != nil || h.SSH.Port != 2222 {
		t.Errorf("bastion: %+v", h.SSH)
	}
	lone := mustHost(t, inv, "lone")
	if lone.Vars["from"] != "host" || inv.Login("lone").PasswordEnv != "LONE_PW" || lone.Site != "fra" || !slices.Equal(lone.Groups, []string{"extra"}) ||
		!slices.Equal(lone.SSH.ProxyJump, []string{"bastion.fra.acme"}) {
		t.Errorf("lone: %+v", lone)
	}
	if h := mustHost(t, inv, "one.borealis"); h.Pool != "own" || h.WindowSet != "standard" { // the pool of the host itself wins over pools:
		t.Errorf("one.borealis: %+v", h)
	}
}

func TestPrecedence(t *testing.T) {
	layers := []string{"defaults", "customer", "site", "all", "outer", "inner-a", "inner-b", "host"}
	for top := range layers {
		v := map[string]string{}
		for i, l := range layers {
			v[l] = "other: 1"
			if i <= top {
				v[l] = "x: " + l
			}
		}
		inv := loadText(t, "h.yaml", fmt.Sprintf(`
defaults: {vars: {%s}}
customers: {c: {vars: {%s}, sites: {s: {vars: {%s}, hosts: {h: {vars: {%s}, groups: [inner-b, inner-a]}}}}}}
groups:
  all: {vars: {%s}}
  outer: {vars: {%s}, children: [inner-a, inner-b]}
  inner-a: {vars: {%s}}
  inner-b: {vars: {%s}}
`, v["defaults"], v["customer"], v["site"], v["host"], v["all"], v["outer"], v["inner-a"], v["inner-b"]))
		if got := mustHost(t, inv, "h").Vars["x"]; got != layers[top] {
			t.Errorf("set up to %s: got %v", layers[top], got)
		}
	}
}

func TestErrorsHavePlaces(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"unknown key", "hosts:\n  a: {adress: x}\n", `h.yaml:2:7: unknown key "adress" in host "a": expected one of: user, port, credential, identity_file, ` +
			"certificate_file, password_env, password_command, become, jump, connect_timeout, certificate_principals, certificate_source_address, " +
			"certificate_force_command, first_contact, window_set, pool, labels, vars, address, host_key_alias, ha_group, host_key, groups, customer, … (25 in all)\n    hint: did you mean \"address\"?"},
		{"top key", "host:\n  a: {address: x}\n", "h.yaml:1:1: unknown key \"host\" in the inventory: expected one of: defaults, customers, groups, hosts, pools\n    hint: did you mean \"hosts\"?"},
		{"duplicate", "hosts:\n  a:\n  b:\n  a:\n", "h.yaml:4:3: key \"a\" is given twice\n    hint: it is in line 2 already"},
		{"overlap", "hosts:\n  a[1:3]:\n  a2:\n", `h.yaml:3:3: host "a2" is there twice, first at line 2`},
		{"type", "defaults: {port: many}\n", `h.yaml:1:18: port "many": expected a whole number from 1 to 65535`},
		{"list for mapping", "hosts: [a, b]\n", "h.yaml:1:8: hosts is a list: expected a mapping"},
		{"tab", "hosts:\n\ta:\n", "h.yaml:2:1: not YAML: found character that cannot start any token\n    hint: indent with spaces: YAML does not allow tabs"},
		{"syntax", "hosts: {a\n", "h.yaml:1:1: not YAML: did not find expected ',' or '}'"},
		{"child", "hosts: {a: }\ngroups:\n  web: {children: [dbs]}\n  db:\n", "h.yaml:3:20: group \"web\" has the child \"dbs\", which is not defined\n    hint: did you mean \"db\"?"},
		{"member", "hosts: {alpha: }\ngroups:\n  web: {hosts: [alhpa]}\n", "h.yaml:3:17: group \"web\" lists the host \"alhpa\", which is not defined\n    hint: did you mean \"alpha\"?"},
		{"cycle", "groups:\n  a: {children: [b]}\n  b: {children: [a]}\n", "h.yaml:2:3: groups contain each other: a > b > a"},
		{"range", "hosts:\n  a[3:1]:\n", `h.yaml:2:3: host "a[3:1]": range [3:1] ends before it begins`},
		{"parallel", "hosts:\n  a[1:3]: {address: '10.0.0.[1:2]'}\n", "h.yaml:2:21: address of host \"a[1:3]\" is 2 values for 3 hosts\n    hint: a range here must have as many values as the host's name"},
		{"customer", "customers: {acme: }\nhosts: {a: {customer: acne}}\n", "h.yaml:2:9: host \"a\": the customer \"acne\" is not defined\n    hint: did you mean \"acme\"?"},
		{"two pools", "hosts: {a: }\npools: {x: {hosts: [a]}, y: {hosts: ['*']}}\n", ""},
		{"document", "hosts:\n---\nhosts:\n", "h.yaml:2:1: a second document in one file\n    hint: put it into a file of its own"},
		{"name", "hosts: {'a;rm': }\n", `h.yaml:1:9: host "a;rm": a host's name is 1 to 253 letters, digits and any of . _ - : @ %, not dots alone`},
		{"option as jump", "defaults: {jump: -oProxyCommand=x}\n", `h.yaml:1:18: jump: "-oProxyCommand=x" is no host`},
		{"plugin", "plugin: amazon.aws.aws_ec2\n", "h.yaml:1:1: this configures an inventory plugin of Ansible, which is not supported\n    hint: write its result into a file: ansible-inventory -i FILE --list > hosts.json"},
		{"ini pair", "[web]\na x=1 y\n", `hosts.ini:2:7: expected key=value, got "y"`},
		{"ini group", "[web]\na\n[all:children]\nwbe\n", "hosts.ini:4:1: section [all:children] names the group \"wbe\", which is not defined\n    hint: did you mean \"web\"?"},
		{"ini quote", "a x='1\n", "hosts.ini:1:1: a quote is not closed"},
		{"ini kind", "[web:var]\na=1\n", "hosts.ini:1:1: section [web:var] has the unknown kind \"var\"\n    hint: known kinds: children, hosts, vars"},
		{"ini cycle", "[a:children]\nb\n[b:children]\na\n", "hosts.ini:1:1: groups contain each other: a > b > a"},
		{"ini port", "a ansible_port=x\n", `hosts.ini:1:1: ansible_port: "x" is no port`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := "h.yaml"
			if strings.HasPrefix(tc.name, "ini") {
				file = "hosts.ini"
			}
			got := problems(t, file, tc.text)
			if tc.want != "" && (len(got) != 1 || got[0] != tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestAllMistakesOfAFileAtOnce(t *testing.T) {
	got := problems(t, "h.yaml", "defaults: {port: 0, usr: x}\nhosts:\n  a: {labels: [x]}\n  b[1:: \ngroups: {g: {hosts: [zzz]}}\n")
	if len(got) < 2 {
		t.Errorf("only %q", got)
	}
	got = problems(t, "h.yaml", "defaults: {port: 0, usr: x}\nhosts:\n  a: {labels: [x]}\n  'b[1:]':\ngroups: {g: {hosts: [zzz]}}\n")
	if len(got) != 5 || !strings.HasPrefix(got[4], "h.yaml:5:") {
		t.Errorf("got %q", got)
	}
}

// keys are so many of a mapping, all with the same value.
func keys(n int, value string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d: %s, ", i, value)
	}
	return b.String()
}

// YAML bombs end within their limit, with an error.
func TestBombsAreDefused(t *testing.T) {
	var b strings.Builder
	b.WriteString("defaults:\n  vars:\n    l0: &l0 [x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "    l%d: &l%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*l%d, ", i-1), 9), ", "))
	}
	for name, text := range map[string]string{
		"aliases":     b.String(),
		"self":        "defaults: {vars: {a: &a [*a]}}\n",
		"deep":        "defaults: {vars: {a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}}\n",
		"deep merge":  "hosts: &a {<<: *a, b: {adress: x}}\n",
		"range":       "hosts:\n  'a[0:999][0:999][0:999]':\n",
		"large range": "hosts:\n  'a[0:999999999999]':\n",
		"many ranges": "hosts:\n  'a[0:150000]':\n  'b[0:150000]':\n",
		"ini range":   "all:\n  hosts:\n    'a[1:9999999]':\n",
	} {
		t.Run(name, func(t *testing.T) { problems(t, "h.yaml", text) })
	}
	anchors := func(text string) string { return "defaults: {vars: {" + text + "}}\n" }
	for name, text := range map[string]string{
		"merges":       "hosts: {a: &a {<<: [*a, *a], address: x}}\n",
		"merged vars":  "all: {vars: {x: &a {<<: [*a, *a]}}}\n",
		"merged lists": anchors("l: &l ["+strings.Repeat("{},", 100_000)+"]") + "hosts: {" + keys(1000, "{<<: *l}") + "}\n",
		"shared hosts": anchors("h: &h {"+keys(1000, "{}")+"}, s: &s {"+keys(1000, "{hosts: *h}")+"}") + "customers: {" + keys(1000, "{sites: *s}") + "}\n",
		"shared texts": anchors("l: &l ["+strings.Repeat("a,", 100_000)+"]") + "groups: {" + keys(1000, "{hosts: *l}") + "}\n",
		"many values":  "hosts: {" + keys(1000, "{address: 'a[0:99999]'}") + "}\n",
	} {
		t.Run(name, func(t *testing.T) {
			if got := problems(t, "h.yaml", text); !slices.ContainsFunc(got, func(one string) bool {
				return strings.Contains(one, "more than") || strings.Contains(one, "grows too large") || strings.Contains(one, "nested too deep")
			}) {
				t.Errorf("got %d mistakes, as %q", len(got), got[0])
			}
		})
	}
	t.Run("huge file", func(t *testing.T) {
		p := write(t, "h.yaml", "# "+strings.Repeat("x", maxFile), 0o644)
		if _, err := Load(context.Background(), []string{p}); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "larger than 10 MB") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("dense groups", func(t *testing.T) {
		var b strings.Builder
		for layer := range 60 {
			for i := range 40 {
				fmt.Fprintf(&b, "[g%d-%d:children]\n", layer, i)
				for j := range 40 {
					fmt.Fprintf(&b, "g%d-%d\n", layer+1, j)
				}
			}
		}
		for i := range 40 {
			fmt.Fprintf(&b, "[g60-%d]\nh\n", i)
		}
		if got := problems(t, "hosts", b.String()); !strings.Contains(got[0], "nested too") {
			t.Errorf("got %q", got)
		}
	})
}

func TestLoadIsDeterministic(t *testing.T) {
	p := write(t, "h.yaml", example, 0o644)
	first := load(t, p, "testdata/ansible")
	for range 5 {
		if again := load(t, p, "testdata/ansible"); !reflect.DeepEqual(first.Hosts, again.Hosts) || !slices.Equal(first.Warnings, again.Warnings) {
			t.Fatal("two loads differ")
		}
	}
}

func TestLaterSourcesWin(t *testing.T) {
	a := write(t, "a.yaml", "hosts: {h: {address: 10.0.0.1, vars: {x: 1, y: 1}}}", 0o644)
	b := write(t, "b", "h ansible_host=10.0.0.2 x=2\n", 0o644)
	if h := mustHost(t, load(t, a, b), "h"); h.Address != "10.0.0.2" || h.Vars["x"] != 2 || h.Vars["y"] != 1 {
		t.Errorf("got %+v", h)
	}
	if h := mustHost(t, load(t, b, a), "h"); h.Address != "10.0.0.1" || h.Vars["x"] != 1 {
		t.Errorf("got %+v", h)
	}
}

func TestNameList(t *testing.T) {
	inv := load(t, "a,b[1:2]:2222, c,")
	var got []string
	for _, h := range inv.Hosts {
		got = append(got, fmt.Sprint(h.Name, h.SSH.Port))
	}
	if want := []string{"a0", "b12222", "b22222", "c0"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	_, err := Load(context.Background(), []string{"nowhere"})
	if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), `-i "nowhere,"`) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestRanges(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want []string
	}{
		{"a", []string{"a"}},
		{"a[1:3]", []string{"a1", "a2", "a3"}},
		{"a[08:11].x", []string{"a08.x", "a09.x", "a10.x", "a11.x"}},
		{"[a:c]", []string{"a", "b", "c"}},
		{"[y:B]", []string{"y", "z", "A", "B"}},
		{"n[1:9:4]", []string{"n1", "n5", "n9"}},
		{"n[:2]", []string{"n0", "n1", "n2"}},
		{"[a:b][1:2]", []string{"a1", "a2", "b1", "b2"}},
	} {
		if got, err := expand(tc.in); err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, %v; want %v", tc.in, got, err, tc.want)
		}
	}
	for _, bad := range []string{"a[", "a[1]", "a[1:", "a[:]", "a[3:1]", "a[01:100]", "a[1:3:0]", "a[1:x]", "a[-1:2]", "a[c:a]", "a[1:2:3:4]"} {
		if got, err := expand(bad); err == nil {
			t.Errorf("%s: %v", bad, got)
		}
	}
}

func TestHostPatterns(t *testing.T) {
	for _, tc := range []struct {
		in   string
		name string
		port int
	}{
		{"a:22", "a", 22}, {"10.0.0.1:2222", "10.0.0.1", 2222}, {"fe80::1", "fe80::1", 0}, {"[fe80::1:2]:22", "fe80::1:2", 22}, {"a[1:1]:23", "a1", 23},
	} {
		got, port, err := expandHost(tc.in)
		if err != nil || got[0] != tc.name || port != tc.port {
			t.Errorf("%s: %v, %d, %v", tc.in, got, port, err)
		}
	}
	for _, bad := range []string{"a:x", "a:0", "a:70000", "-oProxyCommand=x", ".", "..", "a b", "a$b", "", "\x1b[31m"} {
		if got, _, err := expandHost(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

// BenchmarkLoad reads 10,000 hosts: go test -bench Load ./core/inventory.
func BenchmarkLoad(b *testing.B) {
	var turnus, yml, ini strings.Builder
	turnus.WriteString("defaults: {user: x, vars: {a: 1}}\ncustomers:\n")
	yml.WriteString("all:\n  children:\n")
	for c := range 10 {
		fmt.Fprintf(&turnus, "  c%d:\n    vars: {c: %d}\n    sites:\n      s:\n        hosts:\n", c, c)
		fmt.Fprintf(&ini, "[g%d]\n", c)
		fmt.Fprintf(&yml, "    g%d:\n      vars: {g: %d}\n      hosts:\n", c, c)
		for n := range 1000 {
			fmt.Fprintf(&turnus, "          h%d-%d: {address: 10.%d.%d.%d, labels: {role: fw, n: \"%d\"}, vars: {n: %d}}\n", c, n, c, n/250, n%250, n, n)
			fmt.Fprintf(&ini, "h%d-%d ansible_host=10.%d.%d.%d n=%d role=fw\n", c, n, c, n/250, n%250, n)
			fmt.Fprintf(&yml, "        h%d-%d: {ansible_host: 10.%d.%d.%d, n: %d, role: fw}\n", c, n, c, n/250, n%250, n)
		}
		fmt.Fprintf(&ini, "[g%d:vars]\ng=%d\n", c, c)
	}
	turnus.WriteString("groups:\n  odd: {hosts: ['h*1', 'h*3'], vars: {odd: true}}\n")
	for _, f := range []struct{ name, text string }{
		{"turnus.yaml", turnus.String()}, {"hosts", ini.String()}, {"ansible.yml", yml.String()},
		{"ranges.yaml", "hosts: {'h[00001:10000]': {vars: {a: 1}}}"},
	} {
		p := write(b, f.name, f.text, 0o644)
		b.Run(f.name, func(b *testing.B) {
			for b.Loop() {
				if inv := load(b, p); len(inv.Hosts) != 10_000 {
					b.Fatalf("%d hosts", len(inv.Hosts))
				}
			}
		})
	}
}
