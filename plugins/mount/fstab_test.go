package mount

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const table = "# <file system> <mount point>\n\n/dev/sda1\t/  ext4 errors=remount-ro 0 1\nUUID=1 /srv/a\\040b/ ext4 defaults\n# swap was on /dev/sda5 during installation\n/dev/sda5 none swap sw 0 0\n/dev/sdb5 none swap sw 0 0"

func TestEdit(t *testing.T) {
	t.Parallel()
	line := func(old, fresh string) string { return strings.Replace(table, old, fresh, 1) }
	for name, c := range map[string]struct {
		p     Params
		fstab string
		want  string // "!" and a part of an error
	}{
		"as it is, in other white space": {Params{Path: "/", Source: "/dev/sda1", Type: "ext4", Options: "errors=remount-ro", Pass: 1, State: "mounted"}, table, table},
		"a path with a space":            {Params{Path: "/srv/a b", Source: "UUID=1", Type: "ext4", Options: "defaults", State: "present"}, table, table},
		"other options":                  {Params{Path: "/srv/a b", Source: "UUID=1", Type: "ext4", Options: "ro", State: "present"}, table, line("UUID=1 /srv/a\\040b/ ext4 defaults\n", "UUID=1 /srv/a\\040b ext4 ro 0 0\n")},
		"new":                            {Params{Path: "/mnt", Source: "tmpfs", Type: "tmpfs", Options: "size=1m", State: "mounted"}, table, table + "\ntmpfs /mnt tmpfs size=1m 0 0\n"},
		"the first line":                 {Params{Path: "/mnt", Source: "tmpfs", Type: "tmpfs", Options: "defaults", State: "mounted"}, "", "tmpfs /mnt tmpfs defaults 0 0\n"},
		"swap by its source":             {Params{Source: "/dev/sdb5", Type: "swap", Options: "pri=5", State: "present"}, table, line("/dev/sdb5 none swap sw 0 0", "/dev/sdb5 none swap pri=5 0 0\n")},
		"swap as it is":                  {Params{Source: "/dev/sda5", Type: "swap", Options: "sw", State: "present"}, table, table},
		"swap with the path swap":        {Params{Source: "/x", Type: "swap", Options: "sw", State: "present"}, "/x swap swap sw\n", "/x swap swap sw\n"},
		"more swap":                      {Params{Source: "/swap", Type: "swap", Options: "sw", State: "present"}, table, table + "\n/swap none swap sw 0 0\n"},
		"swap absent":                    {Params{Source: "/dev/sda5", Type: "swap", State: "absent"}, table, line("/dev/sda5 none swap sw 0 0\n", "")},
		"absent":                         {Params{Path: "/srv/a b", State: "absent"}, table, line("UUID=1 /srv/a\\040b/ ext4 defaults\n", "")},
		"absent already":                 {Params{Path: "/mnt", State: "absent"}, table, table},
		"unmounted leaves fstab":         {Params{Path: "/", State: "unmounted"}, table, table},
		"two lines":                      {Params{Path: "/", State: "absent"}, table + "\n/dev/sdc / ext4 ro\n", "!two lines are for /"},
		"a comment is no line":           {Params{Path: "/old", State: "absent"}, "#/dev/sdc /old ext4 ro\n", "#/dev/sdc /old ext4 ro\n"},
	} {
		got, _, err := edit(c.fstab, c.p)
		if err != nil {
			got = "!" + err.Error()
		}
		if got != c.want && (!strings.HasPrefix(c.want, "!") || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s:\n%s\nexpected\n%s", name, got, c.want)
		}
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	p := Params{Path: "/srv", Source: "/dev/sdb", Type: "ext4", Options: "ro", State: "mounted"}
	old := p.wanted()
	other := func(change func(*entry)) *entry { e := old; change(&e); return &e }
	for name, c := range map[string]struct {
		state  string
		active bool
		old    *entry
		write  bool
		want   []string
	}{
		"in fstab and not mounted":    {"mounted", false, &old, false, []string{"mount"}},
		"mounted and not in fstab":    {"mounted", true, nil, true, []string{"write"}},
		"both":                        {"mounted", true, &old, false, nil},
		"neither":                     {"mounted", false, nil, true, []string{"mount", "write"}},
		"other options":               {"mounted", true, other(func(e *entry) { e.options = "rw" }), true, []string{"remount", "write"}},
		"another source":              {"mounted", true, other(func(e *entry) { e.source = "/dev/sdc" }), true, []string{"unmount", "mount", "write"}},
		"another pass":                {"mounted", true, other(func(e *entry) { e.pass = "2" }), true, []string{"write"}},
		"present does not mount":      {"present", false, nil, true, []string{"write"}},
		"present does not unmount":    {"present", true, &old, false, nil},
		"unmounted":                   {"unmounted", true, &old, false, []string{"unmount"}},
		"unmounted already":           {"unmounted", false, &old, false, nil},
		"absent":                      {"absent", true, &old, true, []string{"unmount", "write"}},
		"absent already, but mounted": {"absent", true, nil, false, []string{"unmount"}},
	} {
		q := p
		q.State = c.state
		if got := decide(q, found{active: c.active}, c.old, c.write); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}

// A line of fstab that is as wanted does not show what is mounted: state present may have written
// it.
func TestDecideByTheKernel(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wanted, options, source, flags string
		want                           []string
	}{
		"as wanted":                 {"nas:/a", "ro,noexec", "nas:/a", "ro,noexec,relatime", nil},
		"a slash at the end":        {"nas:/a/", "defaults", "nas:/a", "rw", nil},
		"another folder":            {"nas:/b", "defaults", "nas:/a", "rw", []string{"unmount", "mount"}},
		"another share":             {"//nas/b", "defaults", "//nas/a", "rw", []string{"unmount", "mount"}},
		"not mounted yet":           {"nas:/b", "x-systemd.automount", "systemd-1", "rw", nil},
		"a bind mount":              {"/data/www", "bind", "/dev/sda1", "rw", nil},
		"writable":                  {"nas:/a", "ro", "nas:/a", "rw,relatime", []string{"remount"}},
		"programs may run":          {"tmpfs", "size=1m,noexec", "tmpfs", "rw,nosuid", []string{"remount"}},
		"more protection than that": {"tmpfs", "size=1m", "tmpfs", "rw,nosuid", nil},
		"swap":                      {"/dev/sdb", "ro", "/dev/sdb", "", nil},
	} {
		p := Params{Path: "/srv", Source: c.wanted, Type: "auto", Options: c.options, State: "mounted"}
		old := p.wanted()
		now := found{active: true, source: c.source, wanted: c.wanted, flags: c.flags}
		if got := decide(p, now, &old, false); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}

// Something else at the path fails the step. Control: sources that may be the wanted one.
func TestAnotherMount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wanted, device, options string
		another                 bool
	}{
		"a device for a server":   {"nas:/a", "/dev/sdb1", "defaults", true},
		"a tmpfs for a server":    {"//nas/a", "tmpfs", "defaults", true},
		"a tmpfs for a device":    {"/dev/sdb1", "tmpfs", "defaults", true},
		"a device for a tmpfs":    {"tmpfs", "/dev/sdb1", "defaults", true},
		"a server for a device":   {"/dev/sdb1", "nas:/a", "defaults", true},
		"another device":          {"/dev/sdb1", "/dev/sdc1", "defaults", true},
		"the device":              {"/dev/sdb1", "/dev/sdb1", "defaults", false},
		"another folder":          {"nas:/a", "nas:/b", "defaults", false},
		"not mounted yet":         {"nas:/a", "systemd-1", "defaults", false},
		"an unknown device":       {"UUID=1", "/dev/sdb1", "defaults", false},
		"a folder of the host":    {"/data/www", "/dev/sda1", "bind", false},
		"a folder on a tmpfs":     {"/dev/shm/a", "tmpfs", "ro,bind", false},
		"a folder, with its tree": {"/dev/shm", "tmpfs", "rbind", false},
		"an image":                {"/srv/disk.img", "/dev/loop0", "loop", false},
	} {
		p := Params{Path: "/srv", Source: c.wanted, Type: "auto", Options: c.options}
		if got := !p.binds() && (found{device: c.device, wanted: c.wanted}).another(); got != c.another {
			t.Errorf("%s: %v, expected %v", name, got, c.another)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p  Params
		ok bool
	}{
		"all":                        {Params{Path: "/srv", Source: "/dev/sdb", Type: "ext4", State: "mounted"}, true},
		"absent":                     {Params{Path: "/srv", State: "absent"}, true},
		"swap":                       {Params{Source: "/dev/sdb", Type: "swap", State: "mounted"}, true},
		"swap with a path":           {Params{Path: "/srv", Source: "/dev/sdb", Type: "swap", State: "mounted"}, false},
		"swap absent by its path":    {Params{Type: "swap", State: "absent"}, false},
		"no path":                    {Params{Source: "/dev/sdb", Type: "ext4", State: "mounted"}, false},
		"no source":                  {Params{Path: "/srv", Type: "ext4", State: "mounted"}, false},
		"no type":                    {Params{Path: "/srv", Source: "/dev/sdb", State: "present"}, false},
		"a slash at the end":         {Params{Path: "/srv/", State: "absent"}, false},
		"a source that is a option":  {Params{Path: "/srv", Source: "-a", Type: "ext4", State: "mounted"}, false},
		"a source of two lines":      {Params{Path: "/srv", Source: "tmpfs\n/x", Type: "tmpfs", State: "mounted"}, false},
		"a source that is a comment": {Params{Path: "/srv", Source: "#x", Type: "ext4", State: "mounted"}, false},
	} {
		if err := c.p.Validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
