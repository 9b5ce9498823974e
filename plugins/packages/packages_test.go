package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
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
