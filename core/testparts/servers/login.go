package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/core/testparts"
)

// Login is a user who is not root, with a password, on a server that has its own /etc/passwd,
// shadow, sudoers and doas.conf: those of the machine stay as they are.
type Login struct {
	User, Password string
	Home           string // of the user, who alone may read it
}

// loginID is the numeric id of the login: one that no package of Debian uses.
const loginID = 54321

// UnprivilegedLogin makes such a login, with these lines in sudoers and in doas.conf, where %s
// stands for the user. It needs root, for a mount namespace.
func UnprivilegedLogin(tb testing.TB, authorized ssh.PublicKey, sudoers, doasConf string) (Login, SSHDOption) {
	tb.Helper()
	if os.Geteuid() != 0 {
		testparts.Able(tb, "a mount namespace with a login of its own", syscall.EPERM)
	}
	for program, pkg := range map[string]string{"sudo": "sudo", "doas": "opendoas", "unshare": "util-linux", "openssl": "openssl"} {
		testparts.Need(tb, program, pkg)
	}
	dir, err := os.MkdirTemp("", "login") //nolint:usetesting // the login must reach it, and a test's folder is its user's alone
	must(tb, err)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(tb, os.Chmod(dir, 0o755)) //nolint:gosec // as above
	l := Login{User: "ops", Password: "right horse", Home: filepath.Join(dir, "home")}
	must(tb, os.Mkdir(l.Home, 0o700))
	must(tb, os.Chown(l.Home, loginID, loginID))
	hash, err := exec.CommandContext(tb.Context(), "openssl", "passwd", "-6", l.Password).Output() //nolint:gosec // a constant above
	must(tb, err)
	fill := func(s string) string { return strings.ReplaceAll(s, "%s", l.User) + "\n" }
	must(tb, os.Mkdir(filepath.Join(dir, "etc"), 0o755)) //nolint:gosec // as /etc
	var mounts strings.Builder
	fmt.Fprintf(&mounts, "mount -t tmpfs tmpfs %s/etc && cp -a /etc/. %s/etc/ && ", dir, dir)
	for _, f := range []struct {
		path, text string
		mode       os.FileMode
	}{
		{"/etc/passwd", readFile(tb, "/etc/passwd") + fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\napp:x:%d:%d::/nonexistent:/bin/sh\n", l.User, loginID, loginID, l.Home, loginID+1, loginID+1), 0o644},
		{"/etc/group", readFile(tb, "/etc/group") + fmt.Sprintf("%s:x:%d:\napp:x:%d:\n", l.User, loginID, loginID+1), 0o644},
		{"/etc/shadow", readFile(tb, "/etc/shadow") + fmt.Sprintf("%s:%s:19000:0:99999:7:::\napp:!:19000:0:99999:7:::\n", l.User, strings.TrimSpace(string(hash))), 0o640},
		{"/etc/sudoers", "Defaults secure_path=/usr/sbin:/usr/bin:/sbin:/bin\nroot ALL=(ALL:ALL) ALL\n" + fill(sudoers), 0o440},
		{"/etc/doas.conf", fill(doasConf), 0o400},
	} {
		file := filepath.Join(dir, filepath.Base(f.path))
		must(tb, os.WriteFile(file, []byte(f.text), f.mode))
		must(tb, os.Chmod(file, f.mode))
		fmt.Fprintf(&mounts, "cp -p %s %s/etc/ && ", file, dir)
	}
	keys := filepath.Join(dir, "authorized_keys")
	must(tb, os.WriteFile(keys, []byte(AuthorizedKey(authorized)+"\n"), 0o644)) //nolint:gosec // public
	fmt.Fprintf(&mounts, "mount --bind %s/etc /etc && ", dir)
	return l, func(o *sshdOptions) {
		o.prefix = []string{"unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", mounts.String() + `exec "$@"`, "sh"}
		o.config = append(o.config, "AuthorizedKeysFile "+keys)
		o.user = l.User
	}
}

func readFile(tb testing.TB, path string) string {
	tb.Helper()
	text, err := os.ReadFile(path)
	must(tb, err)
	return string(text)
}
