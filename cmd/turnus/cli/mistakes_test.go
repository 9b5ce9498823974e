package cli

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	words "mvdan.cc/sh/v3/shell"

	"github.com/turnus/turnus/cmd/turnus/help"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport/fleet"
)

var update = flag.Bool("update", false, "write the golden files")

// mistakes lists commands that people type by mistake, by subject. testdata/mistakes.txtar has the
// files.
var mistakes = []struct{ about, commands string }{
	{"Flags", `
turnus run site.yaml -i hosts.ini --limt web1
turnus run site.yaml -i hosts.ini -f 0
turnus run site.yaml -i hosts.ini -f many
turnus run site.yaml -i hosts.ini --become-method doas
turnus run site.yaml -i hosts.ini --become-user "no body"
turnus submit site -b
turnus submit site --become
turnus run site.yaml -i hosts.ini -e release
turnus run site.yaml -i hosts.ini -e release=1.4
turnus run params.yaml -i hosts.ini -e mode=ful
turnus plan params.yaml -i hosts.ini -e count=many
turnus run site.yaml -i hosts.ini -o yml
turnus run site.yaml -i hosts.ini -u
turnus run site.yaml -i hosts.ini --list-tasks
turnus run site.yaml -i hosts.ini --dry-run --list-tasks
turnus run site.yaml -i hosts.ini --check --list-hosts --limit nobody
turnus run param.yaml -i hosts.ini -e port=many
turnus run includes.yaml -i hosts.ini
turnus run site.yaml -i hosts.ini --select 'host.nme == "web1"'
turnus run site.yaml -i hosts.ini --upload-rate -5MiB
turnus run site.yaml -i hosts.ini --upload-rate 5
turnus run site.yaml -i hosts.ini --plugin-memory 1MiB
turnus run site.yaml -i hosts.ini --connect-timeout -1s
turnus runs ls --local -n -1
turnus exec web -i hosts.ini --timeout 5 -- uptime
turnus exec web -i hosts.ini --timeout -5s -- uptime
turnus exec web -i hosts.ini --stop-after lots -- uptime
turnus exec web -i hosts.ini --check -- systemctl restart nginx
turnus exec web -i hosts.ini uptime`},
	{"Verbs", `
turnus exce web -i hosts.ini -- uptime
turnus playbook site.yaml -i hosts.ini
turnus inventroy -i hosts.ini --list
turnus all -i hosts.ini -m ping
turnus 'web*' -m shell -a uptime
turnus vault edit secrets.yaml
turnus plugins lst
turnus runs cancel ''
turnus runs signal 20260101-000000-aaaaaaaa ' '
turnus submit "" --server $SERVER
turnus validate site.yaml ''
turnus exec '' -i hosts.ini -- uptime`},
	{"Files", `
turnus run site.yml -i hosts.ini
turnus run site.yaml
turnus run site.yaml hosts.ini
turnus run site.yaml -i hosts
turnus run project -i hosts.ini
turnus run empty.yaml -i hosts.ini
turnus run binary.yaml -i hosts.ini
turnus run site.yaml -i hosts.ini -e @release.yaml
turnus validate sends.yaml
turnus plan sends.yaml -i hosts.ini
turnus validate renders.yaml
turnus validate guards.yaml
turnus run gated.yaml -i hosts.ini --windows windos.yaml
turnus run gated.yaml -i hosts.ini
turnus up --project project --data data-2
turnus up --project nowhere --data data-2
turnus up --project ops --data damaged
turnus admin doctor --ledger sqlite:damaged/ledger.db
turnus plugins ls --plugins nowhere
turnus plugins docs aptt`},
	{"YAML", `
turnus run tab.yaml -i hosts.ini
turnus run indent.yaml -i hosts.ini
turnus run twice.yaml -i hosts.ini
turnus run key.yaml -i hosts.ini
turnus run type.yaml -i hosts.ini
turnus run function.yaml -i hosts.ini
turnus run control.yaml -i hosts.ini
turnus run site.yaml -i badport.ini`},
	{"Habits of Ansible", `
turnus run ansible.yaml -i hosts.ini
turnus run apt.yaml -i hosts.ini
turnus run service.yaml -i hosts.ini
turnus run template.yaml -i hosts.ini
turnus run become.yaml -i hosts.ini
turnus run jinja.yaml -i hosts.ini
turnus run unquoted.yaml -i hosts.ini`},
	{"Hosts", `
turnus run nowhere.yaml -i hosts.ini
turnus run site.yaml -i hosts.ini --limit db
turnus exec weeb -i hosts.ini -- uptime
turnus run site.yaml -i refused.yaml
turnus run site.yaml -i names.ini
turnus exec all -i unpinned.yaml --known-hosts none -- uptime
turnus exec 'all[1]' -i fleet.yaml -- uptime
turnus exec 'all[2]' -i fleet.yaml -- uptime
turnus exec 'all[3]' -i fleet.yaml -- uptime
turnus exec 'all[4]' -i fleet.yaml --connect-timeout 300ms -- uptime
turnus exec noshell -i real.yaml -- uptime
turnus run fails.yaml -i real.yaml --limit noisy
turnus run asks.yaml -i hosts.ini`},
	{"Keys and secrets", `
turnus run site.yaml -i hosts.ini --keyring ring.json
turnus run site.yaml -i hosts.ini --keyring open.json
turnus run site.yaml -i hosts.ini --private-key id_rsa
turnus run site.yaml -i hosts.ini --secrets secret.yml
turnus run secret.yaml -i hosts.ini --secrets secrets.yaml`},
	{"Servers", `
turnus run site.yaml -i hosts.ini --redis redis://127.0.0.1:1
turnus worker --redis localhost:6379
turnus runs ls --server 127.0.0.1:8470
turnus runs ls --server http://127.0.0.1:1
turnus context use prod
turnus runs ls --server $SERVER --token-file no-token
turnus runs show 20260101-000000-aaaaaaaa --server $SERVER --token-file data/admin.token
turnus schedules pause nightly --server $SERVER --token-file data/admin.token
turnus submit sight --server $SERVER --token-file data/admin.token
turnus logs 20260101-000000-aaaaaaaa --local`},
	{"Windows and times", `
turnus windows next night -f windows.yaml
turnus windows next nights -f badzone.yaml
turnus windows next nights --windows windows.yaml
turnus cron next '61 2 * * *'
turnus cron next '30 2 * *'
turnus cron next '30 2 * * *' --timezone Mars/Base
turnus plan site.yaml -i hosts.ini --at tomorow`},
}

// TestMistakes types mistakes and compares the messages with testdata/mistakes.golden. Each message
// shows what to type next.
func TestMistakes(t *testing.T) {
	server := mistakenWorld(t)
	var all strings.Builder
	typed := 0
	for _, group := range mistakes {
		fmt.Fprintf(&all, "# %s\n\n", group.about)
		for line := range strings.Lines(strings.TrimSpace(group.commands)) {
			line = strings.TrimSpace(line)
			typed++
			said, code := typeMistake(t, strings.ReplaceAll(line, "$SERVER", server))
			if code == 0 {
				t.Errorf("$ %s: succeeds", line)
			}
			if why := weakMessage(said); why != "" {
				t.Errorf("$ %s: %s\n%s", line, why, said)
			}
			fmt.Fprintf(&all, "$ %s\n%s[exit code %d]\n\n", line, said, code)
		}
	}
	if typed < 45 {
		t.Errorf("%d mistakes, expected at least 45", typed)
	}
	const golden = "testdata/mistakes.golden"
	file := filepath.Join(sourceDir, golden)
	if *update {
		if err := os.WriteFile(file, []byte(all.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if all.String() != string(want) {
		at, was, is := help.FirstDifference(string(want), all.String())
		t.Errorf("%s:%d: is %q, expected %q; write it again with go test ./cmd/turnus/cli -run TestMistakes -update", golden, at, is, was)
	}
}

// weakMessage returns what a message lacks: the next command, or an end without the word of a
// sentinel.
func weakMessage(said string) string {
	if !help.HasNext(said) && !strings.Contains(said, "\nnext: ") {
		return "no next command"
	}
	if strings.Contains(said, "--help shows what it expects") {
		return "the next command is the help only"
	}
	if word := danglingKind.FindString(said); word != "" {
		return fmt.Sprintf("the word of a sentinel dangles: %q", word)
	}
	return ""
}

var danglingKind = regexp.MustCompile(`(?m): (invalid|not found|conflict|unavailable|quota)(:|$)|error: (invalid|not found|conflict|unavailable|quota): `)

func TestWeakMessagesAreFound(t *testing.T) {
	for said, weak := range map[string]bool{
		"error: no such file\n":                                    true,
		"error: no such file\nhint: ls .\n":                        false,
		"error: no such file\nhint: name a file that is there\n":   true,
		"error: 2 problems\nhint: a tab\n\nx.yaml\nhint: ls .\n":   false,
		"error: CHANGED\nhint: an attack?\nCompare: ssh -v web1\n": false,
		"error: no such file: not found\nhint: ls .\n":             true,
		"error: -o x\nhint: turnus --help shows what it expects\n": true,
		"error: invalid: no such file\nhint: ls .\n":               true,
		"error: no PLAYBOOK is given\nusage: turnus run\n":         false,
		"unreachable 1 host: web1\nnext:   turnus logs 1 --local":  false,
	} {
		if got := weakMessage(said); (got != "") != weak {
			t.Errorf("weakMessage(%q) = %q, expected weak: %v", said, got, weak)
		}
	}
}

// typeMistake runs a command line in this process. It returns what a person reads, without what
// differs between runs.
func typeMistake(t *testing.T, line string) (said string, code int) {
	t.Helper()
	args, err := words.Fields(line, func(string) string { return "" })
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	var out bytes.Buffer
	code = Main(args[1:], strings.NewReader(""), &out, &out)
	return normalized(t, out.String()), code
}

// busy is the line of a run that waits because this machine has no processor left.
var busy = regexp.MustCompile(`(?m)^(overloaded|eased): .*\n`)

// normalized replaces paths, ports, run IDs, times and keys of this test by names.
func normalized(t *testing.T, text string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	text = busy.ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, dir, "$WORK")
	for _, r := range []struct{ pattern, name string }{
		{`127\.\d+\.\d+\.\d+:\d+`, "ADDRESS:PORT"},
		{`\b20\d{6}-\d{6}-[a-z0-9]{8}\b`, "RUN"},
		{`SHA256:[A-Za-z0-9+/]+`, "SHA256:KEY"},
		{`AAAA[A-Za-z0-9+/]+=*`, "KEY"},
		{`expected one of: command, .*`, "expected one of: JOB TYPES"},
		{`expected one of: playbook, .*`, "expected one of: KEYS"},
		{`\bin \d[\w.]*s\b`, "in TIME"},
		{`port \d{4,5}\b`, "port PORT"},
		{`/tmp/turnus-fleet-\d+|[^\s(]*/id_ed25519\b`, "KEYS"},
		{`user "[^"]*"|as user \S+`, "user USER"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.name)
	}
	return text
}

// sourceDir is this package's folder: the test works in another one.
var sourceDir, _ = os.Getwd()

// mistakenWorld makes the folder, hosts and server for the mistakes, goes there, and returns the
// server's URL.
func mistakenWorld(t *testing.T) (server string) {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/mistakes.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range archive.Files {
		write(f.Name, string(f.Data), 0o600)
	}
	write("binary.yaml", "\x7fELF\x00\x01\x02", 0o600)
	write("none", "", 0o600)
	write("damaged/ledger.db", strings.Repeat("no database\n", 1000), 0o600)
	t.Setenv("HOME", dir)
	t.Setenv("TURNUS_STATE", filepath.Join(dir, "state"))
	for _, name := range []string{"SSH_AUTH_SOCK", "TURNUS_INVENTORY", "TURNUS_SERVER", "TURNUS_TOKEN", "TURNUS_REDIS", "TURNUS_KEYRING", "TURNUS_SECRETS", "TURNUS_PLUGINS", "XDG_STATE_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	t.Chdir(dir)
	if code := Main([]string{"admin", "keys", "new", "open.json"}, strings.NewReader(""), &bytes.Buffer{}, &bytes.Buffer{}); code != 0 {
		t.Fatalf("turnus keys new: exit code %d", code)
	}
	if err := os.Chmod("open.json", 0o644); err != nil {
		t.Fatal(err)
	}
	mistakenHosts(t, write)
	return mistakenServer(t)
}

// mistakenHosts starts hosts with faults: simulated ones, and real ones whose login prints
// something.
func mistakenHosts(t *testing.T, write func(name, text string, mode os.FileMode)) {
	t.Helper()
	faults := map[int]fleet.Profile{1: fleet.ChangedKey(), 2: fleet.RefuseAuth(), 3: fleet.Reset(), 4: fleet.Silent()}
	f, err := fleet.Start(context.Background(), fleet.Config{Hosts: 5, Seed: 7, Profile: fleet.Only(faults)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	pinned := "defaults: {identity_file: " + f.IdentityFile() + "}\nhosts:\n"
	unpinned := pinned
	for i, h := range f.Hosts() {
		pinned += fmt.Sprintf("  %s: {address: %s, port: %d, user: %s, host_key: [%q]}\n", h.Name, h.Address, h.SSH.Port, h.SSH.User, h.SSH.HostKeys[0])
		if i == 0 {
			unpinned += fmt.Sprintf("  %s: {address: %s, port: %d, user: %s}\n", h.Name, h.Address, h.SSH.Port, h.SSH.User)
		}
	}
	write("fleet.yaml", pinned, 0o600)
	write("unpinned.yaml", unpinned, 0o600)
	identity, public := servers.NewSSHKey(t)
	write("noisy.sh", "#!/bin/sh\necho 'Welcome! The disk is 98% full.'\nexec sh -c \"$SSH_ORIGINAL_COMMAND\"\n", 0o700)
	dir, _ := os.Getwd()
	hosts := "defaults: {identity_file: " + identity + "}\nhosts:\n"
	for name, force := range map[string]string{"noisy": filepath.Join(dir, "noisy.sh"), "noshell": "echo This account is not available."} {
		s := servers.StartSSHD(t, servers.Authorize(public), servers.SSHDConfig("ForceCommand "+force))
		hosts += fmt.Sprintf("  %s: {address: %s, port: %d, user: %s, host_key: [%q]}\n", name, s.Addresses[0], s.Port, s.User, servers.AuthorizedKey(s.HostKey))
	}
	write("real.yaml", hosts, 0o600)
}

// mistakenServer starts turnus up in a process of its own, and returns its URL.
func mistakenServer(t *testing.T) string {
	t.Helper()
	up := exec.Command("turnus", "up", "--project", "ops", "--data", "data", "--listen", "127.0.0.1:0", "--context", "")
	lines, err := up.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = up.Process.Kill(); _ = up.Wait() })
	text := bufio.NewScanner(lines)
	for text.Scan() {
		if _, url, ok := strings.Cut(text.Text(), "listening on "); ok {
			go func() { // its further output; it ends with the process
				for text.Scan() {
				}
			}()
			return url
		}
	}
	t.Fatalf("turnus up does not listen: %v", text.Err())
	return ""
}
