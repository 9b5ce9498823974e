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
		{"here unknown", "remove here"}, {"here=1.0", "remove here"}, {"unknown", ""}, {"configured here", "remove here"},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"apt-get":    `for w in "$@"; do case $w in remove) s=1 ;; esac; [ "$s" ] && printf '%s ' "$w" >>"$LOG"; done; exit 0`,
			"dpkg-query": `for n in "$@"; do :; done; case $n in here) printf installed ;; configured) printf config-files ;; *) exit 1 ;; esac`,
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		sh := exec.Command("/bin/sh", "-c", "manager=apt state=absent wait=1\nset -- "+c.names+"\n"+doScript)
		sh.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "LOG=" + filepath.Join(dir, "log")}
		if out, err := sh.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", c.names, err, out)
		}
		got, _ := os.ReadFile(filepath.Join(dir, "log"))
		if strings.TrimSpace(string(got)) != c.want {
			t.Errorf("%s: apt-get got %q, expected %q", c.names, got, c.want)
		}
	}
}

// The error of a lock names who has it, and the next thing to do. Controls: failures after a wait,
// or of something else.
func TestLockFailure(t *testing.T) {
	t.Parallel()
	const apt = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4312 (unattended-upgr)\nN: Be aware that removing the lock file is not a solution\n"
	for name, c := range map[string]struct{ said, last, want string }{
		"apt":            {apt, "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?", "process 4312 (unattended-upgr) has the lock"},
		"lists of apt":   {"E: Could not get lock /var/lib/apt/lists/lock. It is held by process 7 (apt-get)\n", "E: Unable to lock directory /var/lib/apt/lists/", "`ps -fp 7`"},
		"dnf":            {"metadata already locked by 12\nheld by process 12 (dnf)\n", "held by process 12 (dnf)", "process 12 (dnf) has the lock"},
		"opkg":           {"", "opkg_conf_load: Could not lock /var/lock/opkg.lock: Resource temporarily unavailable.", "another process has the lock"},
		"after a wait":   {apt, "E: Unable to locate package nosuch", ""},
		"something else": {"", "dpkg: error processing package demo", ""},
	} {
		err := lockFailure(c.said, c.last, time.Minute)
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
		"opkg is free after one": {"opkg", opkg, 1, 0, "2", ""},
		"opkg stays locked":      {"opkg", opkg, 9, 255, "4", "Could not lock"},
		"another failure":        {"dnf", "echo broken >&2; exit 1", 0, 1, "1", "broken"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range map[string]string{
				c.manager: `n=$(($(cat "$LOG" 2>/dev/null || echo 0) + 1)); echo $n >"$LOG"; ` + c.text,
				"sleep":   "exit 0",
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
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
