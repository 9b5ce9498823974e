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

	"github.com/turnus/turnus/core"
)

func TestPythonLiterals(t *testing.T) {
	for in, want := range map[string]any{
		"1": 1, "-7": -7, "+7": 7, "0": 0, "00": 0, "007": "007", "0x1f": 31, "0b11": 3, "0o17": 15, "1_000": 1000, "1__0": "1__0",
		"1.5": 1.5, ".5": 0.5, "1e3": 1000.0, "1e-3": 0.001, "1.2.3": "1.2.3", "1.": 1.0, "99999999999999999999": 1e20,
		"True": true, "False": false, "None": nil, "true": "true", "yes": "yes", "Truely": "Truely",
		"'a'": "a", `"a"`: "a", `'a\n\x41'`: "a\nA", "'a' 'b'": "ab", "'a": "'a", "abc": "abc", "10.0.0.1": "10.0.0.1", "1-2": "1-2",
		"[]": []any{}, "[1, 'a', [None]]": []any{1, "a", []any{nil}}, "(1, 2)": []any{1, 2}, "(1)": 1, "(1,)": []any{1}, "1, 2": []any{1, 2},
		"{'a': 1, 'b': [True]}": map[string]any{"a": 1, "b": []any{true}}, "{}": map[string]any{}, "[1": "[1", "{1: 2}": "{1: 2}",
		"5 # five": 5, "a # b": "a # b", "": "", "-": "-", "inf": "inf", "nan": "nan", "1+2j": "1+2j",
	} {
		if got := literalOrText(in); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %#v, want %#v", in, got, want)
		}
	}
	deep := strings.Repeat("[", 100_000)
	if got := literalOrText(deep); got != deep {
		t.Error("deep nesting was read")
	}
}

func TestConnectionVars(t *testing.T) {
	inv := loadText(t, "hosts", `
[web]
a ansible_host=10.0.0.1 ansible_port=2200 ansible_user=root ansible_ssh_private_key_file=/k ansible_password=s3cret turnus_customer=acme turnus_pool=eu
b ansible_ssh_common_args='-o ProxyJump=j1,u@j2:22 -o StrictHostKeyChecking=no -C' ansible_become_pass=s3cret
c ansible_ssh_common_args='-J jump' ansible_connection=local ansible_host="{{ inventory_hostname }}.x"
d ansible_ssh_common_args='-oProxyCommand="ssh -W %h:%p bastion"' note="{{ x }}"
e ansible_ssh_args='-o ControlPersist=60s -J bastion'
f ansible_ssh_args='-o ControlPersist=60s' ansible_become_exe=/opt/sudo ansible_become_flags=-H ansible_ssh_executable=/opt/ssh
[web:vars]
ansible_user=web
ansible_python_interpreter=/usr/bin/python3
`)
	a := mustHost(t, inv, "a")
	want := core.SSH{User: "root", Port: 2200}
	if a.Address != "10.0.0.1" || !reflect.DeepEqual(a.SSH, want) || a.Customer != "acme" || a.Pool != "eu" ||
		!reflect.DeepEqual(a.Vars, map[string]any{"ansible_python_interpreter": "/usr/bin/python3"}) {
		t.Errorf("a: %+v", a)
	}
	if l := inv.Login("a"); l.Password != "s3cret" || !slices.Equal(l.IdentityFiles, []string{"/k"}) || inv.Login("b").BecomePassword != "s3cret" {
		t.Error("logins are wrong")
	}
	if b := mustHost(t, inv, "b"); !slices.Equal(b.SSH.ProxyJump, []string{"j1", "u@j2:22"}) || b.SSH.User != "web" {
		t.Errorf("b: %+v", b)
	}
	if c := mustHost(t, inv, "c"); !slices.Equal(c.SSH.ProxyJump, []string{"jump"}) || c.Address != "" {
		t.Errorf("c: %+v", c)
	}
	if s := fmt.Sprintf("%+v %v", inv.Hosts, inv.Warnings); strings.Contains(s, "s3cret") {
		t.Error("a password is in hosts or warnings")
	}
	all := strings.Join(inv.Warnings, "\n")
	for _, part := range []string{
		":4:1: ansible_ssh_common_args: StrictHostKeyChecking is left out: host keys are always verified", `"-C" is not supported`,
		":5:1: ansible_connection=local is not supported", "ansible_host holds a Jinja expression",
		":8:1: ansible_become_exe is not supported: it is a plain var here", ":8:1: ansible_become_flags is", ":8:1: ansible_ssh_executable is",
		":7:1: ansible_ssh_args is not used: write its jump host in ansible_ssh_common_args",
		":6:1: ansible_ssh_common_args: ProxyCommand is not supported", `var "note" holds a Jinja expression`,
	} {
		if !strings.Contains(all, part) {
			t.Errorf("no warning %q in\n%s", part, all)
		}
	}
	if n := strings.Count(all, "ansible_ssh_args"); n != 1 {
		t.Errorf("%d warnings of ansible_ssh_args in\n%s", n, all)
	}
}

// Arguments for ssh replace those of the group, as in Ansible; ssh gets both kinds.
func TestJumpHostsOfInnerLayers(t *testing.T) {
	inv := loadText(t, "hosts", `
bastion ansible_ssh_common_args=''
direct ansible_ssh_common_args='-o ServerAliveInterval=5'
empty ansible_ssh_common_args='-o ProxyJump='
quoted ansible_ssh_common_args='-J ""'
other ansible_ssh_common_args='-J second'
plain
both ansible_ssh_common_args='-J second' ansible_ssh_extra_args='-J third'
[extra]
kept ansible_ssh_common_args=''
gone ansible_ssh_common_args='' ansible_ssh_extra_args=''
[extra:vars]
ansible_ssh_extra_args='-J third'
[all:vars]
ansible_ssh_common_args='-o ProxyJump=bastion'
`)
	for name, want := range map[string][]string{
		"bastion": nil, "direct": nil, "empty": nil, "quoted": nil, "other": {"second"}, "plain": {"bastion"}, "both": {"second"}, "kept": {"third"}, "gone": nil,
	} {
		if got := mustHost(t, inv, name).SSH.ProxyJump; !slices.Equal(got, want) {
			t.Errorf("%s: jump %q, expected %q", name, got, want)
		}
	}
}

// Vars reach the queue with the host: no secret of any Ansible plugin may be among them.
func TestSecretsOfAnsibleAreNoVars(t *testing.T) {
	secret := []string{
		"ansible_password", "ansible_ssh_pass", "ansible_ssh_password", "ansible_become_password", "ansible_become_pass",
		"ansible_sudo_pass", "ansible_su_pass", "ansible_enable_password", "ansible_ssh_private_key_passphrase",
		"ansible_private_key_passphrase", "ansible_ssh_private_key", "ansible_winrm_pass", "ansible_httpapi_password",
		"ansible_paramiko_password", "ansible_httpapi_token",
	}
	for _, key := range secret {
		inv := loadText(t, "hosts", "[web]\na "+key+"=hunter2 ansible_become_flags=-E db_host=x\n[web:vars]\n"+key+"=hunter2\n")
		h := mustHost(t, inv, "a")
		if text := fmt.Sprintf("%+v %q", h, inv.Warnings); strings.Contains(text, "hunter2") {
			t.Errorf("%s: %s", key, text)
		}
		if len(h.Vars) != 2 { // the negative control: what is no secret stays
			t.Errorf("%s: vars %v", key, h.Vars)
		}
	}
}

// A key of the Turnus format in an Ansible inventory looks as if it were one, and sets nothing:
// that is reported.
func TestKeysOfTurnusAmongAnsibleVars(t *testing.T) {
	inv := loadText(t, "hosts", "[web]\na window_set=fra ha_group=p credential=c turnus_window_set=ber turnus_ha_group=q turnus_credential=d\n")
	if h := mustHost(t, inv, "a"); h.WindowSet != "ber" || h.HAGroup != "q" || h.SSH.Credential != "d" || len(h.Vars) != 3 {
		t.Errorf("host: %+v", h)
	}
	all := strings.Join(inv.Warnings, "\n")
	for _, key := range []string{"window_set", "ha_group", "credential"} {
		if !strings.Contains(all, ": "+key+" is a plain var here; if it is meant for Turnus, write turnus_"+key) {
			t.Errorf("no warning of %s in %q", key, inv.Warnings)
		}
	}
}

func TestVaultIsLeftOut(t *testing.T) {
	inv := loadText(t, "h.yml", "all:\n  hosts:\n    a:\n      secret: !vault |\n        $ANSIBLE_VAULT;1.1;AES256\n        6162\n      plain: 1\n")
	if h := mustHost(t, inv, "a"); !reflect.DeepEqual(h.Vars, map[string]any{"plain": 1}) {
		t.Errorf("vars: %v", h.Vars)
	}
	if len(inv.Warnings) != 1 || !strings.Contains(inv.Warnings[0], `h.yml:4:7: var "secret" is encrypted`) {
		t.Errorf("warnings: %q", inv.Warnings)
	}
	inv = loadText(t, "hosts", "$ANSIBLE_VAULT;1.1;AES256\n6162\n")
	if len(inv.Hosts) != 0 || len(inv.Warnings) != 1 {
		t.Errorf("%v, %q", inv.Hosts, inv.Warnings)
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"01-hosts": "[web]\na\n", "02.yml": "all: {hosts: {b: }}\n", "03-turnus.yaml": "hosts: {c: {vars: {x: 1}}}\n", "skip.ini": "nonsense\n",
		".hidden": "[", "old.bak": "[", "sub/hosts": "d\n", "group_vars/web.yml": "x: file\n", "host_vars/b/one.yml": "y: 1\n",
		"group_vars/nobody.yml": "z: [", "host_vars/a.example": "",
	} {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	inv := load(t, dir)
	var names []string
	for _, h := range inv.Hosts {
		names = append(names, h.Name)
	}
	if !slices.Equal(names, []string{"a", "b", "c", "d"}) {
		t.Errorf("hosts: %v", names)
	}
	if mustHost(t, inv, "a").Vars["x"] != "file" || mustHost(t, inv, "b").Vars["y"] != 1 {
		t.Errorf("vars: %+v", inv.Hosts)
	}
	if len(inv.Warnings) != 1 || !strings.Contains(inv.Warnings[0], "skip.ini") {
		t.Errorf("warnings: %q", inv.Warnings)
	}
}

func TestExecutable(t *testing.T) {
	inv := load(t, write(t, "inv.sh", `#!/bin/sh
[ "$1" = --list ] || exit 9
cat <<'E'
{"web": {"hosts": ["a", "b"], "vars": {"v": 1, "name": "\ud83d\ude00"}, "children": ["db"]}, "db": ["c"],
 "_meta": {"hostvars": {"a": {"ansible_host": "10.0.0.1", "n": 1.5, "v": {"__ansible_vault": "x"}}, "d": {}, "e": {}}}}
E
`, 0o755))
	a := mustHost(t, inv, "a")
	if a.Address != "10.0.0.1" || !reflect.DeepEqual(a.Vars, map[string]any{"v": 1, "n": 1.5, "name": "😀"}) {
		t.Errorf("a: %+v", a)
	}
	if c := mustHost(t, inv, "c"); !slices.Equal(c.Groups, []string{"db", "web"}) || c.Vars["v"] != 1 {
		t.Errorf("c: %+v", c)
	}
	// Vars make no host: Ansible has neither d nor e.
	if len(inv.Hosts) != 3 || len(inv.Warnings) != 2 || !strings.HasSuffix(inv.Warnings[1], "_meta.hostvars: left out 2 hosts that no group of the program lists: d, e") {
		t.Errorf("%d hosts, warnings %q", len(inv.Hosts), inv.Warnings)
	}
}

func TestExecutableWithoutMeta(t *testing.T) {
	inv := load(t, write(t, "inv.sh", "#!/bin/sh\n"+`case $1 in --list) echo '{"g": ["a", "b"]}';; --host) echo "{\"me\": \"$2\"}";; esac`, 0o755))
	for _, name := range []string{"a", "b"} {
		if h := mustHost(t, inv, name); h.Vars["me"] != name {
			t.Errorf("%s: %v", name, h.Vars)
		}
	}
}

func TestExecutableFails(t *testing.T) {
	for _, tc := range []struct{ name, script, want string }{
		{"exit", "echo 'no credentials for region eu' >&2; exit 3", "exit status 3\nno credentials for region eu"},
		{"junk", "echo '{\"a\": '", "not JSON"},
		{"list", "echo '[1]'", "printed no JSON object"},
		{"flood", "exec yes", "printed more than 10 MB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Load(context.Background(), []string{write(t, "inv.sh", "#!/bin/sh\n"+tc.script+"\n", 0o755)})
			if !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A program that hangs ends with the caller's context, and what it started with it.
func TestExecutableEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	started := filepath.Join(t.TempDir(), "started")
	done := make(chan error, 1)
	p := write(t, "inv.sh", "#!/bin/sh\nsleep 1000 &\necho > "+started+"\nwait\n", 0o755)
	go func() {
		_, err := Load(ctx, []string{p})
		done <- err
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(started); err == nil {
			break
		}
		<-tick.C
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A list is never run, even when somebody set its executable bit.
func TestListsAreNotExecuted(t *testing.T) {
	for _, name := range []string{"hosts", "hosts.ini", "hosts.yml"} {
		text := "a\n"
		if name == "hosts.yml" {
			text = "hosts: {a: }\n"
		}
		if inv := load(t, write(t, name, text, 0o755)); len(inv.Hosts) != 1 {
			t.Errorf("%s: %v", name, inv.Hosts)
		}
	}
}

func TestPrioritiesOrderGroups(t *testing.T) {
	inv := loadText(t, "hosts", "[a]\nh\n[b]\nh\n[a:vars]\nx=a\nansible_group_priority=10\n[b:vars]\nx=b\n")
	if h := mustHost(t, inv, "h"); h.Vars["x"] != "a" || h.Vars["ansible_group_priority"] != nil {
		t.Errorf("got %v", h.Vars)
	}
}

func FuzzINI(f *testing.F) {
	for _, s := range []string{"a x=1\n[g]\nb[1:3]:22 y='z'\n[g:vars]\nk=[1,{'a':2}]\n[all:children]\ng\n", "[", "a[1:", "a 'x", "[x:y]\n=\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := newBuilder(disk{})
		b.file("f").ini([]byte(s))
		checkBuild(t, b)
	})
}

func FuzzYAML(f *testing.F) {
	for _, s := range []string{example, "all: {hosts: {a: {x: !vault y}}, children: {g: {vars: {z: 1}}}}", `{"_meta": {"hostvars": {"a": {}}}, "g": ["a"]}`, "a: &a [*a]", "<<: {}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := newBuilder(disk{})
		b.file("f").yaml([]byte(s))
		checkBuild(t, b)
	})
}

// checkBuild checks that every reading ends in errors with places, or in hosts that can be found
// and selected.
func checkBuild(t *testing.T, b *builder) {
	t.Helper()
	var inv *Inventory
	if !b.bounds.Full {
		inv = b.build()
	}
	for _, e := range b.errs {
		if e.Line < 1 || e.Col < 1 || e.Msg == "" {
			t.Fatalf("an error without a place: %+v", e)
		}
	}
	if inv == nil {
		if len(b.errs) == 0 {
			t.Fatal("neither an inventory nor an error")
		}
		return
	}
	for i, h := range inv.Hosts {
		if got, ok := inv.Host(h.Name); !ok || got.Name != h.Name {
			t.Fatalf("host %q cannot be found", h.Name)
		}
		if i > 100 {
			break
		}
	}
}

// Forms that Ansible refuses of a program are refused with the source and the key. Ansible takes an
// empty object for a host, which is never meant: here it is a group without hosts.
func TestFormsOfAListing(t *testing.T) {
	for text, want := range map[string]string{
		`{"web": ["a"], "empty": {}}`:                     "",
		`{"web": {"hosts": ["a"]}}`:                       "",
		`{"p": {"children": ["web"]}, "web": ["a"]}`:      "",
		`{"a": {"x": 1}}`:                                 "",
		`{"all": {"hosts": ["a"]}}`:                       "",
		`{"ungrouped": ["a"], "_meta": {}}`:               "",
		`{"web": ["a"], "_meta": {"hostvars": null}}`:     "",
		`{"web": null}`:                                   `source x:1:13: group "web" is empty: expected a list of hosts, or an object`,
		`{"web": "a"}`:                                    `group "web" is the text "a": expected a list of hosts`,
		`{"web": {"hosts": "a"}}`:                         `hosts of group "web" is the text "a": expected a list`,
		`{"web": {"hosts": null}}`:                        `hosts of group "web" is empty`,
		`{"web": {"hosts": {"a": {}}}}`:                   `hosts of group "web" is a mapping`,
		`{"web": {"hosts": ["a"], "vars": null}}`:         `vars of group "web" is empty: expected an object`,
		`{"web": {"hosts": ["a"], "children": "db"}}`:     `children of group "web" is the text "db"`,
		`{"web": [1]}`:                                    `group "web": the number 1 is no name: expected text`,
		`{"web": ["a b"]}`:                                `group "web": host "a b"`,
		`{"a b": {"x": 1}}`:                               `group "a b": host "a b"`,
		`{"web": ["a"], "_meta": null}`:                   `_meta is empty: expected an object`,
		`{"web": ["a"], "_meta": {"hostvars": []}}`:       `_meta.hostvars is a list`,
		`{"web": ["a"], "_meta": {"hostvars": {"a": 1}}}`: `the vars of host "a" is the number 1`,
	} {
		for _, list := range []bool{true, false} { // of a program, or of HTTP, where the form decides
			inv, err := Load(t.Context(), nil, Document{Name: "source x", Data: []byte(text), List: list})
			if want == "" && (list || !strings.Contains(text, `{"x"`)) && (err != nil || len(inv.Hosts) != 1 || inv.Hosts[0].Name != "a") {
				t.Errorf("%s: %v, %v", text, inv, err)
			}
			if want != "" && list && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "source x:1:")) {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
		}
	}
}
