package fleet

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// A tool refuses an option that it does not have, and prints how it is used.
func TestToolsRefuseUnknownOptions(t *testing.T) {
	h := start(t, Config{Hosts: 1}).hosts[0]
	for _, name := range []string{
		"ln", "readlink", "sed", "tr", "cut", "xargs", "tar", "gzip", "hostname", "id", "getent", "su", "useradd", "usermod", "userdel",
		"groupadd", "groupmod", "groupdel", "gpasswd", "chpasswd", "mount", "umount", "swapon", "swapoff", "mv", "cp", "rm", "rmdir", "mkdir", "touch", "truncate", "mktemp",
	} {
		_, stderr, code := interpret(t, h, "sudo "+name+" -Z a b", "")
		if code == 0 || !strings.Contains(stderr, "invalid option -- 'Z'") || !strings.Contains(stderr, "Usage: "+name) {
			t.Errorf("%s: exit %d, %q", name, code, stderr)
		}
	}
	interpret(t, h, "yes | head -c 1048577 >/tmp/large", "")
	for script, want := range map[string]string{
		"find . -newer x": "unknown predicate '-newer'", "sed y/a/b/": "expected one of s, d, p, q", "sed 's/a'": "unterminated", "sed '/a/{p'": "unmatched", "sed 's/[/x/'": "invalid regular expression",
		"tar -cf x y": "invalid option -- 'c'", "tar -xtf x": "Usage: tar", "gzip -d": "Usage: gzip", "useradd -u": "requires an argument", "systemctl mask nginx": "Unknown command verb",
		"chmod u+z /tmp": "invalid mode", "su anna": "Usage: su", "su anna -c true x": "Usage: su",
		"umount /srv /opt": "Usage: umount", "useradd anna berta": "Usage: useradd", "userdel a b": "Usage: userdel", "readlink -f a b": "Usage: readlink", "ln -s f a b": "Usage: ln", "tar -xf x y": "Usage: tar",
		"useradd -u 5 -u 6 anna": "more than once", "tr '[:upper:]' '[:lower:]'": "no classes of letters", "tr -d a b": "Usage: tr", "mv -n a b": "invalid option", "cp -n a b": "invalid option",
		"cp -a a b": "invalid option", "cp a b c": "not a directory", "ln -sfT f d": "invalid option", "mktemp -d /var/tmp/t.XXXX": "Usage: mktemp", "truncate -s 2 /etc/motd": "only truncate -s 0", "mount /srv": "Usage: mount",
		"sh -c 'exec 8</etc/motd; echo lost >&8'": "8: Bad file descriptor", "sh -c 'exec 9<>/tmp/f; echo more >&9'": "does not have <>",
		"tail -n 1 /tmp/large": "larger than 1 MiB", "sort /tmp/large": "larger than 1 MiB", "wc -l /tmp/large": "larger than 1 MiB", "sh /tmp/large": "larger than 1 MiB",
	} {
		if _, stderr, code := interpret(t, h, "sudo "+script, ""); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %q, expected %q", script, code, stderr, want)
		}
	}
}

// Accounts, settings of the kernel and mounts are for root alone, and refuse what a real host does.
func TestToolsOfRoot(t *testing.T) {
	h := start(t, Config{Hosts: 1}).hosts[0]
	for _, tc := range []struct {
		script, stderr string
		code           int
	}{
		{"useradd anna", "only root", 1},
		{"hostname other", "must be root", 1},
		{"echo 1 >/proc/sys/net/ipv4/ip_forward", "Permission denied", 2},
		{"cat /etc/shadow", "Permission denied", 1},
		{"su turnus -c true", "Authentication failure", 1},
		{"sudo useradd root", "already exists", 9},
		{"sudo useradd -u 33 anna", "'33' already exists", 4},
		{"sudo useradd -u x anna", "invalid ID", 3},
		{"sudo useradd -g nosuch anna", "does not exist", 6},
		{"sudo usermod -s /bin/sh nosuch", "does not exist", 6},
		{"sudo usermod -a -G nosuch root", "does not exist", 6},
		{"sudo userdel turnus", "currently used", 8},
		{"sudo groupdel www-data", "primary group of user 'www-data'", 8},
		{"sudo groupadd -g 4 new", "already exists", 4},
		{"sudo gpasswd -d root adm", "not a member", 3},
		{"echo nosuch:! | sudo chpasswd -e", "line 1", 1},
		{"sudo sh -c 'echo x >/proc/sys/vm/swappiness'", "Invalid argument", 1},
		{"sudo sh -c 'echo 1 2 >/proc/sys/vm/swappiness'", "Invalid argument", 1},
		{"sudo sh -c 'echo x >/proc/sys/kernel/random/boot_id'", "Permission denied", 2},
		{"sudo chmod 444 /proc/uptime", "Operation not permitted", 1},
		{"ln /proc/uptime /tmp/clock", "Operation not permitted", 1},
		{"sudo mount -t nfs server:/x /srv", "unknown filesystem type 'nfs'", 32},
		{"sudo mount -t ext4 /etc/motd /srv", "not a block device", 32},
		{"sudo mount -t tmpfs tmpfs /nosuch", "mount point does not exist", 32},
		{"sudo umount /srv", "not mounted", 32},
		{"sudo swapon /etc/motd", "not a block device", 255},
	} {
		if _, stderr, code := interpret(t, h, tc.script, ""); code != tc.code || !strings.Contains(stderr, tc.stderr) {
			t.Errorf("%s: exit %d, %q; expected %d, %q", tc.script, code, stderr, tc.code, tc.stderr)
		}
	}
	if tree, err := h.fleet.Tree(h.name); err != nil || len(tree) > 0 {
		t.Errorf("something was changed: %v, %v", tree, err)
	}
}

// A boot takes what the files of the host hold, and forgets the rest.
func TestBoot(t *testing.T) {
	h := start(t, Config{Hosts: 1}).hosts[0]
	interpret(t, h, `sudo sh -c 'echo kept >/etc/hostname; hostname lost; echo "vm.swappiness = 10" >/etc/sysctl.d/a.conf; echo vm.max_map_count=9 >/etc/sysctl.conf; chmod 700 /run/systemd/system; echo 7 >/proc/sys/kernel/panic
echo "tmpfs /srv tmpfs nosuid 0 0" >>/etc/fstab; mount -t tmpfs tmpfs /opt; systemctl stop nginx; systemctl disable ntp; touch /tmp/x'`, "")
	const ask = "hostname; cat /proc/sys/vm/swappiness /proc/sys/vm/max_map_count /proc/sys/kernel/panic; [ -d /run/systemd/system ] && echo systemd; cut -d ' ' -f 5 </proc/self/mountinfo; systemctl is-active nginx; systemctl is-active ntp; ls /tmp"
	if out, stderr, _ := interpret(t, h, ask, ""); out != "lost\n60\n65530\n7\nsystemd\n/\n/opt\ninactive\nactive\nx\n" {
		t.Errorf("before: %q, %s", out, stderr)
	}
	h.stopped = nil
	h.boot()
	if out, _, _ := interpret(t, h, ask, ""); out != "kept\n10\n9\n0\nsystemd\n/\n/srv\nactive\ninactive\n" {
		t.Errorf("after: %q", out)
	}
}

// A host stores a bounded number of files, and no name of an archive leads out of its folder.
func TestArchivesAreBounded(t *testing.T) {
	pack := func(entries ...tar.Header) string {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		for _, h := range entries {
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		_ = w.Flush() // an entry may lack its content
		return out.String()
	}
	var many []tar.Header
	for i := range maxHostFiles + 10 {
		many = append(many, tar.Header{Name: fmt.Sprintf("f%d", i), Mode: 0o644, Typeflag: tar.TypeReg})
	}
	long := strings.Repeat("n/", maxTarget)
	for name, c := range map[string]struct{ archive, stderr string }{
		"many small files":    {pack(many...), "No space left on device"},
		"a huge size":         {pack(tar.Header{Name: "big", Size: 1 << 40}), "No space left on device"},
		"a sparse file":       {sparse(t, pack(tar.Header{Name: "s", Size: 512, Format: tar.FormatUSTAR})), "Sparse files are not simulated"},
		"a name out of it":    {pack(tar.Header{Name: "a/../../x", Typeflag: tar.TypeReg}), "contains '..'"},
		"a link out of it":    {pack(tar.Header{Name: "l", Typeflag: tar.TypeLink, Linkname: "../etc/motd"}), "contains '..'"},
		"a long name":         {pack(tar.Header{Name: long, Typeflag: tar.TypeDir}), "name too long"},
		"through a link":      {pack(tar.Header{Name: "e", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, tar.Header{Name: "e/motd", Typeflag: tar.TypeReg}), "Cannot create symlink"},
		"what is no archive":  {strings.Repeat("x", 1024), "not look like"},
		"one that is cut off": {pack(tar.Header{Name: "a", Size: 10}), "unexpected EOF"},
	} {
		f := start(t, Config{Hosts: 1})
		h := f.hosts[0]
		_, stderr, code := interpret(t, h, "mkdir /tmp/a && cd /tmp/a && tar -xof -", c.archive)
		tree, err := f.Tree(h.name)
		if code != 2 || !strings.Contains(stderr, c.stderr) || err != nil || len(h.fs.nodes) > maxHostFiles || h.fs.bytes > 1<<20 {
			t.Errorf("%s: exit %d, %.200q, %d entries, %d bytes, %v", name, code, stderr, len(h.fs.nodes), h.fs.bytes, err)
		}
		for p := range tree {
			if p != "/tmp/a" && !strings.HasPrefix(p, "/tmp/a/") {
				t.Errorf("%s: it changed %s", name, p)
			}
		}
	}
	f := start(t, Config{Hosts: 1})
	if _, _, code := interpret(t, f.hosts[0], "mkdir /tmp/a && cd /tmp/a && tar -xof -", pack(many[:100]...)); code != 0 || len(f.hosts[0].fs.nodes) != 101 {
		t.Errorf("control: exit %d, %d entries", code, len(f.hosts[0].fs.nodes))
	}
}

// sparse puts records before an archive of one entry that make it a sparse file of 512 MiB.
func sparse(t *testing.T, entry string) string {
	t.Helper()
	body := ""
	for _, r := range []string{"GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=s", fmt.Sprintf("GNU.sparse.realsize=%d", 1<<29)} {
		n := len(r) + 2
		for len(fmt.Sprint(n))+len(r)+2 != n {
			n++
		}
		body += fmt.Sprintf("%d %s\n", n, r)
	}
	head := []byte(entry[:512])
	head[156] = 'x'
	copy(head[124:136], fmt.Sprintf("%011o\x00", len(body)))
	copy(head[148:156], "        ")
	sum := 0
	for _, b := range head {
		sum += int(b)
	}
	copy(head[148:156], fmt.Sprintf("%06o\x00 ", sum))
	content := make([]byte, 512)
	copy(content, "0\n")
	return string(head) + body + strings.Repeat("\x00", 512-len(body)) + entry + string(content) + strings.Repeat("\x00", 1024)
}

// Paths over links end, however they are made.
func TestLinksAreBounded(t *testing.T) {
	h := start(t, Config{Hosts: 1}).hosts[0]
	long := strings.Repeat("x/", maxTarget)
	if _, _, code := interpret(t, h, "ln -s "+long+" /tmp/l", ""); code == 0 {
		t.Error("a long target is taken")
	}
	if _, _, code := interpret(t, h, "ln -s /tmp/a/a /tmp/a; ln -s /tmp/b /tmp/c; ln -s /tmp/c /tmp/b; cat /tmp/a/"+long+" /tmp/b", ""); code != 1 {
		t.Errorf("exit %d", code)
	}
	h = start(t, Config{Hosts: 1}).hosts[0]
	for _, script := range []string{
		"mkdir -p /tmp/" + long, "touch /tmp/f; mv -f /tmp/f /tmp/" + strings.Repeat("y", maxTarget),
		"mkdir -p /tmp/d/" + long[:maxTarget-8-len("/tmp/d/")] + "; mkdir /tmp/" + strings.Repeat("y", 99) + "; mv /tmp/d /tmp/" + strings.Repeat("y", 99),
	} {
		if _, stderr, code := interpret(t, h, script, ""); code == 0 || !strings.Contains(stderr, "name too long") {
			t.Errorf("a long path is made: exit %d, %.200q", code, stderr)
		}
	}
}

// A table of accounts that is a link is changed where the link leads, and is left as it was on a
// full disk.
func TestAccountsBehindALink(t *testing.T) {
	f := start(t, Config{Hosts: 1})
	h := f.hosts[0]
	for target, want := range map[string]string{
		"/tmp/users": "carl", "/nosuch/users": "No such file", "/proc/uptime": "Permission denied", "/dev/null": "Permission denied", "/srv": "Is a directory",
	} {
		out, stderr, _ := interpret(t, h, "cp /etc/passwd /tmp/users; sudo sh -c 'ln -sf "+target+" /etc/passwd; useradd carl; readlink /etc/passwd; id -un carl; groupdel carl; rm /etc/passwd; mv /tmp/users /etc/passwd; userdel carl'", "")
		if !strings.HasPrefix(out, target+"\n") || !strings.Contains(out+stderr, want) {
			t.Errorf("%s: %q, %q", target, out, stderr)
		}
	}
	if err := f.SetProfile(h.name, Profile{FullDisk: true}); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := interpret(t, h, "rm /etc/group; sudo groupadd new", "")
	if _, err := h.fs.stat(groupFile); code == 0 || err == nil || !strings.Contains(stderr, "No space left") {
		t.Errorf("full disk: exit %d, %q, %v", code, stderr, err)
	}
}

// A command that is ended takes along a tool that reads without an end.
func TestToolsEndWithTheirCommand(t *testing.T) {
	h := start(t, Config{Hosts: 1}).hosts[0]
	for _, script := range []string{"sed s/a/b/ /dev/zero", "cat /dev/zero | tr a b", "cat /dev/zero | xargs -0 true", "yes | sed -n /never/p", "yes | grep never"} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			newShell(h, nil, 1, stdio{in: strings.NewReader(""), out: new(bytes.Buffer), err: new(bytes.Buffer)}).main(ctx, script)
		}()
		cancel()
		<-ended
	}
}

// FuzzTar gives a host archives of anybody: it neither panics nor stores without a bound.
func FuzzTar(f *testing.F) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	_ = w.WriteHeader(&tar.Header{Name: "a/b", Typeflag: tar.TypeSymlink, Linkname: "../.."})
	_ = w.Close()
	f.Add(out.Bytes())
	f.Add(binary.BigEndian.AppendUint64(nil, 1))
	fl, err := Start(context.Background(), Config{Hosts: 1})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = fl.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		h := fl.hosts[0]
		interpret(t, h, "mkdir -p /tmp/a && cd /tmp/a && tar -xf -; rm -rf /tmp/a", string(data))
		for p := range h.fs.nodes {
			if !strings.HasPrefix(p, "/tmp/") {
				t.Errorf("%q was made", p)
			}
		}
	})
}
