package sysctl

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/sdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNames(t *testing.T) {
	t.Parallel()
	for key, want := range map[string][2]string{
		"vm.swappiness":                  {"vm/swappiness", "/etc/sysctl.d/90-turnus-vm.swappiness.conf"},
		"vm/swappiness":                  {"vm/swappiness", "/etc/sysctl.d/90-turnus-vm.swappiness.conf"},
		"net.ipv4.conf.eth0/1.rp_filter": {"net/ipv4/conf/eth0.1/rp_filter", "/etc/sysctl.d/90-turnus-net.ipv4.conf.eth0_1.rp_filter.conf"},
		"net/ipv4/conf/eth0.1/rp_filter": {"net/ipv4/conf/eth0.1/rp_filter", "/etc/sysctl.d/90-turnus-net.ipv4.conf.eth0_1.rp_filter.conf"},
	} {
		p := Params{Key: key}
		if got := [2]string{swap(p.key()), p.file()}; got != want {
			t.Errorf("%s: %q, expected %q", key, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p    Params
		want string // its text; "!" for an error
	}{
		"number":              {Params{State: "present", Value: float64(1)}, "1"},
		"large number":        {Params{State: "present", Value: float64(4194304)}, "4194304"},
		"fields":              {Params{State: "present", Value: " 1\t2  3 "}, "1 2 3"},
		"lines":               {Params{State: "present", Value: "1\nkernel.x = 2"}, "!"},
		"a control character": {Params{State: "present", Value: "1\x1b"}, "!"},
		"a boolean":           {Params{State: "present", Value: true}, "!"},
		"none":                {Params{State: "present"}, "!"},
		"absent":              {Params{State: "absent"}, ""},
		"absent and a value":  {Params{State: "absent", Value: float64(1)}, "!"},
	} {
		err := c.p.Validate()
		got, _ := c.p.text()
		if err != nil {
			got = "!"
		}
		if got != c.want {
			t.Errorf("%s: %q (%v), expected %q", name, got, err, c.want)
		}
	}
}

// Of the files that are read at a restart, the last by name counts, and of one name only the first
// folder's. Control: files that sort before ours, and those that another hides.
func TestOverridden(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string // a value of "->" is a link to /dev/null
		state string
		want  string // the file and its value
	}{
		"none":                   {nil, "present", ""},
		"an earlier name":        {map[string]string{"/etc/sysctl.d/10-a.conf": "vm.x = 2"}, "present", ""},
		"a later name":           {map[string]string{"/etc/sysctl.d/99-a.conf": "vm.x = 2"}, "present", "/etc/sysctl.d/99-a.conf 2"},
		"of a package":           {map[string]string{"/usr/lib/sysctl.d/99-a.conf": "vm.x=2"}, "present", "/usr/lib/sysctl.d/99-a.conf 2"},
		"an early name there":    {map[string]string{"/usr/lib/sysctl.d/50-a.conf": "vm.x=2"}, "present", ""},
		"of the administrator":   {map[string]string{"/usr/local/lib/sysctl.d/99-a.conf": "-vm/x = 2\t3"}, "present", "/usr/local/lib/sysctl.d/99-a.conf 2 3"},
		"the last of three":      {map[string]string{"/usr/lib/sysctl.d/98-a.conf": "vm.x=2", "/run/sysctl.d/99-b.conf": "vm.x=3", "/etc/sysctl.d/95-c.conf": "vm.x=4"}, "present", "/run/sysctl.d/99-b.conf 3"},
		"hidden by /etc":         {map[string]string{"/usr/lib/sysctl.d/99-a.conf": "vm.x=2", "/etc/sysctl.d/99-a.conf": "# none"}, "present", ""},
		"hidden by /run":         {map[string]string{"/usr/lib/sysctl.d/99-a.conf": "vm.x=2", "/run/sysctl.d/99-a.conf": "vm.x=3"}, "present", "/run/sysctl.d/99-a.conf 3"},
		"hidden by a link":       {map[string]string{"/usr/lib/sysctl.d/99-a.conf": "vm.x=2", "/etc/sysctl.d/99-a.conf": "->"}, "present", ""},
		"of our own name":        {map[string]string{"/usr/lib/sysctl.d/90-turnus-vm.x.conf": "vm.x=2"}, "present", ""},
		"the same name, absent":  {map[string]string{"/usr/lib/sysctl.d/90-turnus-vm.x.conf": "vm.x=2", "/etc/sysctl.d/90-turnus-vm.x.conf": "vm.x=1"}, "absent", "/usr/lib/sysctl.d/90-turnus-vm.x.conf 2"},
		"an early name, absent":  {map[string]string{"/usr/lib/sysctl.d/10-a.conf": "vm.x=2"}, "absent", "/usr/lib/sysctl.d/10-a.conf 2"},
		"another key":            {map[string]string{"/etc/sysctl.d/99-a.conf": "vm.xx = 2\n# vm.x = 2\n;vm.x = 2\nvm.x"}, "present", ""},
		"a pattern":              {map[string]string{"/etc/sysctl.d/99-a.conf": "vm.* = 2"}, "present", ""},
		"sysctl.conf":            {map[string]string{"/etc/sysctl.conf": "vm.x = 2", "/etc/sysctl.d/99-a.conf": "vm.x = 3"}, "present", "/etc/sysctl.conf 2"},
		"sysctl.conf of systemd": {map[string]string{"/etc/sysctl.conf": "vm.x = 2", "/run/systemd/system/a": "x"}, "present", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for at, text := range c.files {
				err := os.MkdirAll(filepath.Dir(root+at), 0o700)
				if err == nil && text == "->" {
					err = os.Symlink(os.DevNull, root+at)
				} else if err == nil {
					err = os.WriteFile(root+at, []byte(text), 0o600) // the last line has no end
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			p := Params{Key: "vm.x", State: c.state}
			script := strings.NewReplacer("/etc ", root+"/etc ", "/run ", root+"/run ", "/run/systemd", root+"/run/systemd", "/usr/", root+"/usr/", " /lib;", " "+root+"/lib;", "other /etc", "other "+root+"/etc").Replace(askScript)
			out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", sdk.Vars("k", "vm.x", "s", "vm/x", "path", root+"/proc", "f", root+p.file())+script).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			file, value := p.overridden(sdk.ReadAnswer(strings.ReplaceAll(string(out), root, "")))
			if got := strings.TrimSpace(file + " " + value); got != c.want {
				t.Errorf("%q, expected %q", got, c.want)
			}
		})
	}
}
