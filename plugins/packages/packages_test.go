package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A name is one word of a command line, and never an option of a package manager.
func TestNames(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"nginx": true, "libc6:amd64": true, "demo=1:1.0-2~bpo+1": true, "python3.11": true, "@development": true,
		"": false, "-y": false, "--root=/x": false, "a b": false, "a;reboot": false, "$(id)": false, "a\nb": false,
		"g++": true, "a": true, "/usr/bin/git": true, "nginx-": false, "~i": false, "~nnginx": false, "+a": false, "=1": false, "nginx=": false, "nginx-\n": false,
	} {
		if err := (&Params{Names: []string{name}}).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// apt-get fails for a name that it does not know, and may choose what provides a virtual one: only
// what is installed is removed.
func TestAptRemovesWhatIsInstalled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ names, want string }{
		{"here unknown", "remove here"}, {"here=1.0", "remove here"}, {"unknown", ""}, {"configured here", "remove here"}, {"half", "remove half"},
	} {
		dir := programs(t, map[string]string{
			"apt-get":    `for w in "$@"; do case $w in remove) s=1 ;; esac; [ "$s" ] && printf '%s ' "$w" >>"$LOG"; done; exit 0`,
			"dpkg-query": `for n in "$@"; do :; done; case $n in here) echo installed ;; configured) echo config-files ;; half) echo half-configured ;; *) exit 1 ;; esac`,
		})
		sh := exec.Command("/bin/sh", "-c", "manager=apt state=absent wait=1\nset -- "+c.names+"\n"+doScript)
		sh.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "LOG=" + filepath.Join(dir, "log")}
		if out, err := sh.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", c.names, err, out)
		}
		got, _ := os.ReadFile(filepath.Join(dir, "log"))
		if strings.TrimSpace(string(got)) != c.want {
			t.Errorf("%s: apt-get got %q, expected %q", c.names, got, c.want)
		}
		ask := exec.Command("/bin/sh", "-c", "state=absent refresh=0 wait=1\nset -- "+c.names+"\n"+askScript)
		ask.Env = append(sh.Env, "LOG="+filepath.Join(dir, "asked"))
		if out, err := ask.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", c.names, err, out)
		}
		if asked, _ := os.ReadFile(filepath.Join(dir, "asked")); string(asked) != string(got) {
			t.Errorf("%s: apt-get is asked %q, and then does %q", c.names, asked, got)
		}
	}
}

// dnf and opkg upgrade what they are to install: they are asked for the missing names alone. A name
// may also be one with an architecture, or a provided one.
func TestPresentInstallsWhatIsMissing(t *testing.T) {
	t.Parallel()
	const (
		log  = `for w in "$@"; do [ "$s" ] && printf '%s ' "$w" >>"$LOG"; case $w in install) s=1 ;; esac; done; exit 0`
		rpm  = `for n in "$@"; do :; done; case $2-$n in --whatprovides-virtual | --qf-here | ---here | --qf-here.i686 | ---here.i686) printf '2.0-1 ' ;; *) echo "not installed"; exit 1 ;; esac`
		opkg = `case $1-$2 in status-here) printf 'Version: 2.0\nStatus: install user installed\n' ;; status-removed) echo 'Status: deinstall user not-installed' ;; install-*) ` + log + ` ;; esac`
	)
	for _, c := range []struct{ manager, names, want string }{
		{"dnf", "here missing virtual", "-- missing"}, {"dnf", "here here.i686", ""}, {"dnf", "one two", "-- one two"},
		{"opkg", "here missing removed", "missing removed"}, {"opkg", "here", ""},
	} {
		dir := programs(t, map[string]string{"dnf": log, "rpm": rpm, "opkg": opkg})
		sh := exec.Command("/bin/sh", "-c", "manager="+c.manager+" state=present wait=1\nset -- "+c.names+"\n"+doScript)
		sh.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "LOG=" + filepath.Join(dir, "log")}
		if out, err := sh.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", c.names, err, out)
		}
		if got, _ := os.ReadFile(filepath.Join(dir, "log")); strings.TrimSpace(string(got)) != c.want {
			t.Errorf("%s: %s installs %q, expected %q", c.names, c.manager, got, c.want)
		}
	}
	for state, want := range map[string]string{"present": "", "absent": "change remove here.i686 2.0-1\nchange remove virtual 2.0-1\n"} {
		sh := exec.Command("/bin/sh", "-c", "state="+state+" refresh=0 wait=1\nset -- here.i686 virtual\n"+askScript)
		sh.Env = []string{"PATH=" + programs(t, map[string]string{"dnf": "exit 1", "rpm": rpm})} // without apt-get
		if out, err := sh.CombinedOutput(); err != nil || string(out) != "manager dnf\nnolists\n"+want {
			t.Errorf("%s: %q, %v; expected %q", state, out, err, want)
		}
	}
}

// programs is a folder of shell scripts by their names.
func programs(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The error of a lock names who has it, and the next thing to do. Controls: failures after a wait,
// or of something else.
func TestLockFailure(t *testing.T) {
	t.Parallel()
	const apt = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4312 (unattended-upgr)\nN: Be aware that removing the lock file is not a solution\n"
	for name, c := range map[string]struct{ said, last, want string }{
		"apt":             {apt, "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?", "process 4312 (unattended-upgr) has the lock"},
		"lists of apt":    {"E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)\n", "E: Unable to lock directory /var/lib/apt/lists/", "`ps -fp 7`"},
		"dnf":             {"metadata already locked by 12\nheld by process 12 (dnf)\n", "held by process 12 (dnf)", "process 12 (dnf) has the lock"},
		"opkg":            {"", "opkg_conf_load: Could not lock /var/lock/opkg.lock: Resource temporarily unavailable.", "another process has the lock"},
		"apk":             {"", "ERROR: Failed to open apk database: Resource temporarily unavailable", "another process has the lock"},
		"apk of nobody":   {"", "ERROR: Failed to open apk database: Permission denied", ""},
		"not root, apt":   {"Reading package lists...\nE: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)\n", "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?", "E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)"},
		"not root, lists": {"E: Could not open lock file /var/lib/apt/lists/lock - open (13: Permission denied)\n", "E: Unable to lock directory /var/lib/apt/lists/", "E: Could not open lock file /var/lib/apt/lists/lock - open (13: Permission denied)"},
		"after a wait":    {apt, "E: Unable to locate package nosuch", ""},
		"something else":  {"", "dpkg: error processing package demo", ""},
	} {
		err := lockFailure(c.said, c.last, time.Minute)
		if strings.HasPrefix(name, "not root") { // the worker adds the hint
			if err == nil || err.Error() != c.want {
				t.Errorf("%s: %v, expected %q", name, err, c.want)
			}
			continue
		}
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "hint: ")) {
			t.Errorf("%s: %v, expected %q", name, err, c.want)
		}
	}
}

// dnf and opkg are asked again while another process has the lock, until it is free or the wait
// has ended. Control: another failure ends immediately.
func TestPatience(t *testing.T) {
	t.Parallel()
	const dnf = `case $* in *exit_on_lock=1*) ;; *) exit 9 ;; esac; [ $n -gt $FREE ] || { echo "metadata already locked by $$" >&2; exit 200; }`
	const opkg = `[ $n -gt $FREE ] || { echo "opkg_conf_load: Could not lock /var/lock/opkg.lock: Resource temporarily unavailable." >&2; exit 255; }`
	for name, c := range map[string]struct {
		manager, text string
		free, code    int
		tries         string
		said          string
	}{
		"dnf is free after two":  {"dnf", dnf, 2, 0, "3", ""},
		"dnf stays locked":       {"dnf", dnf, 9, 200, "4", "held by process "},
		"opkg is free after one": {"opkg", opkg, 1, 0, "3", ""},
		"opkg stays locked":      {"opkg", opkg, 9, 255, "4", "Could not lock"},
		"another failure":        {"dnf", "echo broken >&2; exit 1", 0, 1, "1", "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := programs(t, map[string]string{
				c.manager: `n=$(($(cat "$LOG" 2>/dev/null || echo 0) + 1)); echo $n >"$LOG"; ` + c.text,
				"sleep":   "exit 0",
			})
			sh := exec.Command("/bin/sh", "-c", doing(Params{Names: []string{"demo"}, Wait: sdk.Duration(3 * time.Second)}, c.manager, "present"))
			sh.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "LOG=" + filepath.Join(dir, "log"), "FREE=" + strconv.Itoa(c.free)}
			out, _ := sh.CombinedOutput()
			tries, _ := os.ReadFile(filepath.Join(dir, "log"))
			if code := sh.ProcessState.ExitCode(); code != c.code || strings.TrimSpace(string(tries)) != c.tries || !strings.Contains(string(out), c.said) {
				t.Errorf("exit code %d after %s tries: %s", code, tries, out)
			}
		})
	}
}
