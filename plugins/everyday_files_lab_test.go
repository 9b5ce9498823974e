//go:build linux && labs

package plugins_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/plugins/copytree"
	"github.com/turnus/turnus/plugins/hostname"
	"github.com/turnus/turnus/plugins/mount"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
	"github.com/turnus/turnus/plugins/sysctl"
)

// part is one step of a story on a machine.
type part struct {
	before  string // a command of the machine
	with    sdk.With
	outcome string
	after   string // state of the machine
}

// tell runs each part of a story in check mode, which must change nothing and have the outcome of
// the run; once; and a second time, which must find nothing to do in one round trip.
func tell(t *testing.T, m *servers.Machine, kit *plugintest.Kit, state string, parts []part) {
	t.Helper()
	host := kit.Host("m1")
	trips := func(with sdk.With, opts ...plugintest.Option) (*plugintest.Result, int) {
		n := len(host.Calls())
		got := kit.Run(with, opts...)
		return got, len(host.Calls()) - n
	}
	for i, p := range parts {
		if p.before != "" {
			lab(t, m, p.before)
		}
		was := lab(t, m, state)
		checked, _ := trips(p.with, plugintest.CheckMode())
		if now := lab(t, m, state); now != was {
			t.Fatalf("part %d, %v: check mode changed %q to %q", i, p.with, was, now)
		}
		got, n := trips(p.with)
		if now := lab(t, m, state); got.Outcome != p.outcome || now != p.after || n > 3 {
			t.Errorf("part %d, %v: %s (%s) in %d round trips, then\n%s\nexpected %s, then\n%s", i, p.with, got.Outcome, got.Reason, n, now, p.outcome, p.after)
		}
		if checked.Outcome != got.Outcome || got.Outcome == "changed" && len(checked.Diffs) == 0 {
			t.Errorf("part %d, %v: check mode reports %s (%s) with %d differences, the run %s", i, p.with, checked.Outcome, checked.Reason, len(checked.Diffs), got.Outcome)
		}
		if got.Outcome == "failed" {
			continue
		}
		if again, n := trips(p.with); again.Outcome != "unchanged" || n != 1 || lab(t, m, state) != p.after {
			t.Errorf("part %d, %v: the second run: %s (%s) in %d round trips, then %q", i, p.with, again.Outcome, again.Reason, n, lab(t, m, state))
		}
	}
}

// survive kills the worker at each call of a step. before brings the machine back to where it was;
// in the end its state must be after.
func survive(t *testing.T, m *servers.Machine, kit func(*testing.T) *plugintest.Kit, before, state string, with sdk.With, after string) {
	t.Helper()
	plugintest.KillAtEachCall(t, func(t *testing.T) plugintest.Scene {
		t.Helper()
		lab(t, m, before)
		return plugintest.Scene{Kit: kit(t), Params: with, MayFindItDone: true, Check: func(t *testing.T, _ *plugintest.Result) {
			t.Helper()
			if now := lab(t, m, state); now != after {
				t.Errorf("in the end it is %q, expected %q", now, after)
			}
		}}
	})
}

// A setting is in a file of its own and in the kernel; either of them alone is a change, and no
// other setting is touched.
func TestLabSysctl(t *testing.T) {
	t.Parallel()
	m := servers.StartMachine(t)
	kit := on(t, m, sysctl.Def())
	const file = "/etc/sysctl.d/90-turnus-net.ipv4.ip_local_port_range.conf"
	const state = "cat /proc/sys/net/ipv4/ip_local_port_range | tr '\\t' ' '; cat /proc/sys/net/ipv4/ip_forward; cat " + file + " 2>/dev/null; ls -A /etc/sysctl.d | grep turnus; true"
	const name = "\n90-turnus-net.ipv4.ip_local_port_range.conf"
	with := sdk.With{"key": "net.ipv4.ip_local_port_range", "value": "15000 65000"}
	const set = "15000 65000\n0\nnet.ipv4.ip_local_port_range = 15000 65000" + name
	lab(t, m, "printf 'net.ipv4.ip_forward = 1\\n' >/etc/sysctl.d/50-other.conf; echo 0 >/proc/sys/net/ipv4/ip_forward")
	tell(t, m, kit, state, []part{
		{"", with, "changed", set},
		{"echo 20000 30000 >/proc/sys/net/ipv4/ip_local_port_range", with, "changed", set},
		{"rm " + file, with, "changed", set},
		{"chmod 600 " + file + "; echo '# mine' >>" + file, with, "changed", set},
		{"", sdk.With{"key": "net.ipv4.nosuch", "value": 1}, "failed", set},
		{"", sdk.With{"key": "net.ipv4.ip_local_port_range", "state": "absent"}, "changed", "15000 65000\n0"},
	})
	lab(t, m, "echo 20000 30000 >/proc/sys/net/ipv4/ip_local_port_range")
	if got := kit.Run(sdk.With{"key": "net.ipv4.ip_local_port_range", "value": "99 nonsense"}); got.Outcome != "failed" || lab(t, m, state) != "20000 30000\n0" {
		t.Errorf("a value that the kernel refuses: %s (%s), then %q", got.Outcome, got.Reason, lab(t, m, state))
	}
	lab(t, m, "echo net.ipv4.ip_local_port_range=1 2 >/etc/sysctl.d/99-late.conf")
	if got := kit.Run(with); len(got.Logs) != 1 || got.Logs[0].Level == "INFO" {
		t.Errorf("another file that sets the key: %v", got.Logs)
	}
	lab(t, m, "rm -f "+file+" /etc/sysctl.d/99-late.conf; mount -t tmpfs -o size=4k tmpfs /etc/sysctl.d && cat /dev/zero >/etc/sysctl.d/rest 2>/dev/null; true")
	if got := kit.Run(with); got.Outcome != "failed" || !strings.Contains(got.Reason, "See df -h on the host") || lab(t, m, "ls -A /etc/sysctl.d") != "rest" {
		t.Errorf("a full disk: %s (%s), then %s", got.Outcome, got.Reason, lab(t, m, "ls -A /etc/sysctl.d"))
	}
	lab(t, m, "umount /etc/sysctl.d")
	survive(t, m, func(t *testing.T) *plugintest.Kit { return on(t, m, sysctl.Def()) },
		"rm -f "+file+"; echo 20000 30000 >/proc/sys/net/ipv4/ip_local_port_range", state, with, set)
}

// The name is the kernel's and the file's; with hostnamectl and without it.
func TestLabHostname(t *testing.T) {
	t.Parallel()
	m := servers.StartMachine(t)
	kit := on(t, m, hostname.Def())
	const state = "uname -n; cat /etc/hostname; ls -l /etc/hostname | cut -c 1-10; cksum </etc/hosts; ls -A /etc | grep 'hostname.'; true"
	hosts := lab(t, m, "cksum </etc/hosts")
	named := func(name string) string { return name + "\n" + name + "\n-rw-r--r--\n" + hosts }
	tell(t, m, kit, state, []part{
		{"chmod 644 /etc/hostname", sdk.With{"name": "web1.example.net"}, "changed", named("web1.example.net")},
		{"hostname other", sdk.With{"name": "web1.example.net"}, "changed", named("web1.example.net")},
		{"echo other >/etc/hostname", sdk.With{"name": "web1.example.net"}, "changed", named("web1.example.net")},
		{"mv /usr/bin/hostnamectl /usr/bin/hostnamectl.off", sdk.With{"name": "web2"}, "changed", named("web2")},
	})
	survive(t, m, func(t *testing.T) *plugintest.Kit { return on(t, m, hostname.Def()) },
		"hostname old; echo old >/etc/hostname", state, sdk.With{"name": "web3"}, named("web3"))
}

// A mount is in fstab and in the kernel; comments of fstab stay, and swap is known by its source.
func TestLabMount(t *testing.T) {
	t.Parallel()
	m := servers.StartMachine(t)
	kit := on(t, m, mount.Def())
	const fstab = "# static\n/dev/sda5 none swap sw 0 0\n# end\n"
	const reset = "umount '/srv/a b' 2>/dev/null; rm -rf /srv/*; printf '" + fstab + "' >/etc/fstab; chmod 644 /etc/fstab"
	const state = "cat /etc/fstab; grep '/srv/' /proc/self/mountinfo | sed 's/.* - //; s/,inode64//; s/ rw,/ /'; ls -l /etc/fstab | cut -c 1-10; ls -A /etc | grep 'fstab\\.'; true"
	const line, mounted, end = "tmpfs /srv/a\\040b tmpfs size=1024k 0 0\n", "tmpfs tmpfs size=1024k\n", "-rw-r--r--"
	with := func(more sdk.With) sdk.With {
		w := sdk.With{"path": "/srv/a b", "source": "tmpfs", "type": "tmpfs", "options": "size=1024k"}
		maps.Copy(w, more)
		return w
	}
	tell(t, m, kit, state, []part{
		{reset, with(nil), "changed", fstab + line + mounted + end},
		{"umount '/srv/a b'", with(nil), "changed", fstab + line + mounted + end}, // in fstab, and not mounted
		{"printf '" + fstab + "' >/etc/fstab", with(nil), "changed", fstab + line + mounted + end},
		{"", with(sdk.With{"options": "size=2048k"}), "changed", fstab + "tmpfs /srv/a\\040b tmpfs size=2048k 0 0\ntmpfs tmpfs size=2048k\n" + end},
		{"", with(sdk.With{"state": "present"}), "changed", fstab + line + "tmpfs tmpfs size=2048k\n" + end},
		{"mount -t tmpfs tmpfs '/srv/a b'", with(sdk.With{"state": "unmounted"}), "changed", fstab + line + end},
		{"", with(sdk.With{"state": "absent"}), "changed", fstab + end},
		{"", sdk.With{"source": "/dev/sdb5", "type": "swap", "state": "present"}, "changed", fstab + "/dev/sdb5 none swap defaults 0 0\n" + end},
		{"", sdk.With{"source": "/dev/sda5", "type": "swap", "state": "absent"}, "changed", "# static\n# end\n/dev/sdb5 none swap defaults 0 0\n" + end},
		{reset + "; mkdir /srv/real; ln -s real /srv/link", with(sdk.With{"path": "/srv/link"}), "failed", fstab + end},
	})
	// Something else is mounted there: fstab stays as it is.
	lab(t, m, reset+"; mkdir -p '/srv/a b'; mount -t tmpfs -o size=1024k tmpfs '/srv/a b'")
	if got := kit.Run(with(sdk.With{"source": "nas:/a", "type": "nfs", "options": "ro"})); got.Outcome != "failed" || got.Effects != "none" ||
		!strings.Contains(got.Reason, "tmpfs is mounted there, not nas:/a") || lab(t, m, state) != fstab+mounted+end {
		t.Errorf("another mount: %s (%s), then %q", got.Outcome, got.Reason, lab(t, m, state))
	}
	// The kernel loses options that the step takes away, and gets those that only fstab has.
	for i, s := range []struct {
		options, state string
		noexec         bool
	}{{"size=1024k,noexec", "mounted", true}, {"size=1024k", "mounted", false}, {"size=1024k,noexec", "present", false}, {"size=1024k,noexec", "mounted", true}} {
		if i == 0 {
			lab(t, m, reset)
		}
		got := kit.Run(with(sdk.With{"options": s.options, "state": s.state}))
		if flags := lab(t, m, "findmnt -no OPTIONS '/srv/a b'"); got.Outcome != "changed" || strings.Contains(flags, "noexec") != s.noexec {
			t.Errorf("%s with %s: %s (%s), mounted with %s", s.state, s.options, got.Outcome, got.Reason, flags)
		}
		if again := kit.Run(with(sdk.With{"options": s.options, "state": s.state})); again.Outcome != "unchanged" {
			t.Errorf("%s with %s again: %s (%s)", s.state, s.options, again.Outcome, again.Reason)
		}
	}
	lab(t, m, reset)
	if got := kit.Run(with(sdk.With{"type": "nosuchfs"})); got.Outcome != "failed" || lab(t, m, state) != fstab+end {
		t.Errorf("what cannot be mounted: %s (%s), then %q", got.Outcome, got.Reason, lab(t, m, state))
	}
	lab(t, m, "mkdir -p '/srv/a b'; mount -t tmpfs -o size=1024k tmpfs '/srv/a b'; cd '/srv/a b' && { sleep 1000 >/dev/null 2>&1 & }")
	if got := kit.Run(with(sdk.With{"state": "absent"})); got.Outcome != "failed" || !strings.Contains(got.Reason, "busy") || lab(t, m, state) != fstab+mounted+end {
		t.Errorf("what is in use: %s (%s), then %q", got.Outcome, got.Reason, lab(t, m, state))
	}
	lab(t, m, "kill $(pidof sleep)")
	fresh := func(t *testing.T) *plugintest.Kit { t.Helper(); return on(t, m, mount.Def()) }
	survive(t, m, fresh, reset, state, with(nil), fstab+line+mounted+end)
	survive(t, m, fresh, "mountpoint -q '/srv/a b' || mount -t tmpfs tmpfs '/srv/a b'; printf '"+fstab+"tmpfs /srv/a\\\\040b tmpfs defaults 0 0\\n' >/etc/fstab", state, with(sdk.With{"state": "absent"}), fstab+end)
}

// A tree of files: modes and owners stay, what is not in the source goes only when asked, links of
// the host are not followed.
func TestLabCopy(t *testing.T) {
	t.Parallel()
	m := servers.StartMachine(t)
	fresh := func(t *testing.T) *plugintest.Kit {
		t.Helper()
		return on(t, m, copytree.Def()).Artifact("site/index.html", "hello\n").Artifact("site/sub/it's \"odd\" $x ü", "odd\n").
			Artifact("site/sub/app.conf.tmpl", "host={{.Host}} port={{.Vars.port}}\n")
	}
	const state = `cd /srv/w 2>/dev/null || exit 0
find . | sort | while IFS= read -r f; do [ -L "$f" ] && echo "$f -> $(readlink "$f")" && continue; echo "$(stat -c '%A %U:%G' "$f") $f $([ -f "$f" ] && cat "$f")"; done | sed 's/ $//'`
	const folder, index, sub, odd = "drwxr-xr-x root:root .", "-rw-r--r-- root:root ./index.html hello", "drwxr-xr-x root:root ./sub", "-rw-r--r-- root:root ./sub/it's \"odd\" $x ü odd"
	conf := "-rw-r--r-- root:root ./sub/app.conf host=m1 port=80"
	all := func(l ...string) string { return strings.Join(l, "\n") }
	with := func(more sdk.With) sdk.With {
		w := sdk.With{"source": "site", "path": "/srv/w", "templates": true, "vars": sdk.With{"port": 80}}
		maps.Copy(w, more)
		return w
	}
	whole := all(folder, index, sub, conf, odd)
	parts := []part{
		{"rm -rf /srv/w", with(nil), "changed", whole},
		{"echo other >/srv/w/index.html; chmod 600 /srv/w/index.html; chown 1:2 /srv/w/index.html", with(nil), "changed", all(folder, "-rw------- daemon:bin ./index.html hello", sub, conf, odd)},
		{"", with(sdk.With{"owner": "root:root", "mode": "0644"}), "changed", whole},
		{"rm /srv/w/index.html; ln -s /etc/passwd /srv/w/index.html; ln -s x /srv/w/extra; mkdir -p /srv/w/old/er; touch '/srv/w/old/er/ b '", with(sdk.With{"delete": true}), "changed", whole},
		{"", with(sdk.With{"vars": sdk.With{"port": 81}}), "changed", strings.Replace(whole, "port=80", "port=81", 1)},
		{"rm -rf /srv/w; mkdir /srv/w /srv/away; ln -s /srv/away /srv/w/sub", with(nil), "failed", all(folder, "./sub -> /srv/away")},
		{"rm -rf /srv/w; mkdir -p /srv/w/index.html", with(nil), "failed", all(folder, "drwxr-xr-x root:root ./index.html")},
		{"", with(sdk.With{"owner": "nosuch"}), "failed", all(folder, "drwxr-xr-x root:root ./index.html")},
	}
	tell(t, m, fresh(t), state, parts)
	if text := lab(t, m, "cat /etc/passwd | head -n 1; ls -A /srv/away"); !strings.HasPrefix(text, "root:") || strings.Contains(text, "\n") {
		t.Errorf("a link of the host was followed: %q", text)
	}
	survive(t, m, fresh, "rm -rf /srv/w; mkdir /srv/w; echo old >/srv/w/index.html; touch /srv/w/gone", state, with(sdk.With{"delete": true}), whole)

	// busybox has other programs of these names.
	lab(t, m, "mkdir /opt/bb && busybox --install -s /opt/bb && rm -rf /srv/w")
	plain := m.Run
	kit := plugintest.New(t, copytree.Def()).Artifact("site/index.html", "hello\n").Artifact("site/sub/it's \"odd\" $x ü", "odd\n").Artifact("site/sub/app.conf.tmpl", "host={{.Host}} port={{.Vars.port}}\n")
	kit.Host("m1").Handle(func(ctx context.Context, c plugintest.Call) plugintest.Reply {
		stdout, stderr, code, err := plain(ctx, "PATH=/opt/bb exec /usr/bin/busybox sh -c "+sdk.Quote(c.Command), strings.NewReader(c.Stdin))
		return plugintest.Reply{Stdout: stdout, Stderr: stderr, Code: code, Err: err}
	})
	tell(t, m, kit, state, parts[:6])
	lab(t, m, "rm /opt/bb/stat; rm -rf /srv/away") // a router may lack it
	tell(t, m, kit, state, parts[:6])
}

// A disk that is full in the middle: nothing is replaced, and with room a retry finishes.
func TestLabCopyToAFullDisk(t *testing.T) {
	t.Parallel()
	m := servers.StartMachine(t)
	big := strings.Repeat("0123456789abcdef", 1<<14) // 256 KiB
	kit := on(t, m, copytree.Def())
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		kit.Artifact("site/"+name, name+big)
	}
	lab(t, m, "mkdir -p /srv/w && mount -t tmpfs -o size=1200k tmpfs /srv/w && echo old | tee /srv/w/a >/srv/w/b")
	with := sdk.With{"source": "site", "path": "/srv/w"}
	if got := kit.Run(with); got.Outcome != "failed" || !strings.Contains(got.Reason, "nothing was replaced\nhint: is the disk full, or a quota reached? See df -h on the host") {
		t.Errorf("%s (%s)", got.Outcome, got.Reason)
	}
	if now := lab(t, m, "cd /srv/w && ls -A && cat *"); now != "a\nb\nold\nold" {
		t.Errorf("something was replaced or left: %q", now)
	}
	lab(t, m, "mount -o remount,size=8m /srv/w")
	if got := kit.Run(with); got.Outcome != "changed" || lab(t, m, "cd /srv/w && ls -A | tr '\\n' ' '; cat * | wc -c") != "a b c d e f 1572870" {
		t.Errorf("%s (%s), %q", got.Outcome, got.Reason, lab(t, m, "ls -lA /srv/w"))
	}
}
