package fleet

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/turnus/turnus/core/testparts"
)

// interpret runs a script on a host without a connection.
func interpret(tb testing.TB, h *host, script, stdin string) (stdout, stderr string, code int) {
	tb.Helper()
	var out, errs bytes.Buffer
	code = newShell(h, nil, 1, stdio{in: strings.NewReader(stdin), out: &out, err: &errs}).main(context.Background(), script)
	return out.String(), errs.String(), code
}

// portable scripts mean the same to any POSIX shell.
var portable = []struct {
	script, want string
	code         int
}{
	{"echo a b", "a b\n", 0},
	{"echo 'a  b' \"c  d\" e\\ f", "a  b c  d e f\n", 0},
	{"printf '%s-%s\\n' a b c", "a-b\nc-\n", 0},
	{"true && echo yes || echo no", "yes\n", 0},
	{"false && echo yes || echo no", "no\n", 0},
	{"false; echo $?", "1\n", 0},
	{"exit 7; echo never", "", 7},
	{"exit 300", "", 44},
	{"! false && echo not", "not\n", 0},
	{"X='a  b'; echo $X \"$X\" ${X}c", "a b a  b a bc\n", 0},
	{"export K='it'\\''s'; exec /bin/sh -c 'echo \"$K\"'", "it's\n", 0},
	{"exec /bin/sh -c 'echo in; exit 3'; echo never", "in\n", 3},
	{"echo ${NONE:-x y} ${NONE-z} \"${NONE:-}\" ${HOME:+set}", "x y z  set\n", 0},
	{"A=1 B=2; echo $A$B; A=3 true; echo $A", "12\n1\n", 0},
	{"echo \"$(echo one; echo two)\" $(printf 'a\\nb\\n')", "one\ntwo a b\n", 0},
	{"if false; then echo a; elif true; then echo b; else echo c; fi", "b\n", 0},
	{"if false; then echo a; else echo c; fi", "c\n", 0},
	{"for x in a 'b c' d; do echo \"<$x>\"; done", "<a>\n<b c>\n<d>\n", 0},
	{"case abc in x|ab*) echo yes;; *) echo no;; esac; case '' in a) echo a;; esac; case d in (d????w*) ;; d*) echo d; esac", "yes\nd\n", 0},
	{"case x in\n  a) echo a ;;\n  'x') case y in y) echo y; echo z;; esac ;;\nesac && echo on", "y\nz\non\n", 0},
	{"set --; set -- \"$@\" a; echo $#; for x in \"$@\"; do echo $x; done; cd /; echo /b?n /no-such-* '/b?n'", "1\na\n/bin /no-such-* /b?n\n", 0},
	{"until true; do echo never; done; while false; do echo never; done", "", 0},
	{"(X=in; echo $X); echo \"[$X]\"", "in\n[]\n", 0},
	{"{ echo a; echo b; } | cat | wc -l | cat", "2\n", 0},
	{"echo hello | grep -q ell && echo found", "found\n", 0},
	{"echo out; echo err >&2", "out\n", 0},
	{"{ echo out; echo err >&2; } 2>/dev/null >&2", "", 0},
	{"echo both 2>&1", "both\n", 0},
	{"set -e; false; echo never", "", 1},
	{"set -e; false || true; if false; then :; fi; echo on", "on\n", 0},
	{"set -- a 'b c'; echo $# \"$2\"; for x in \"$@\"; do echo $x; done", "2 b c\na\nb c\n", 0},
	{"sh -c 'echo $1-$0' zero one", "one-zero\n", 0},
	{"echo a # comment\necho b", "a\nb\n", 0},
	{"echo a\\\nb", "ab\n", 0},
	{"test -d / && [ a = a ] && [ 2 -gt 1 ] && ! [ -e /nothing-here ] && echo ok", "ok\n", 0},
	{"[ -n '' ] || [ -z '' ] && echo empty", "empty\n", 0},
	{"head -c 5 /dev/zero | wc -c", "5\n", 0},
	{"yes | head -n 2", "y\ny\n", 0},
	{"basename /a/b; dirname /a/b", "b\n/a\n", 0},
	{"env -i 2>/dev/null; cd / && pwd", "/\n", 0},
	{"command -v echo >/dev/null && echo there", "there\n", 0},
	{"timeout 5 true && echo in-time; timeout 0.01 sleep 5; echo $?", "in-time\n124\n", 0},
	{"echo $((", "", 2},
	{"echo 'open", "", 2},
	{"if true; then echo", "", 2},
	{"nosuchprogram-x", "", 127},
	{"f() { echo \"<$1>\"; return 3; echo never; }; f a; echo $?; f 'b c' || echo failed", "<a>\n3\n<b c>\nfailed\n", 0},
	{"refuse() { echo \"$1\" >&2; exit 73; }\n[ -d / ] && refuse no; echo never", "", 73},
	{"g() { [ $1 = x ] && return 5; echo $1; }; g x; echo $? $(g y)", "5 y\n", 0},
	{"s='abc  -'; echo \"${s%% *}\" ${s#a} ${s##*b} ${s%-}", "abc bc - c - abc\n", 0},
	{"p=/a/b/c.tar.gz; echo ${p##*/} ${p%/*} ${p%%.*} ${p#*.} \"${p%.gz}\"", "c.tar.gz /a/b /a/b/c tar.gz /a/b/c.tar\n", 0},
	{"end='\n'; l='one\ntwo'; echo \"${l%%\"$end\"*}\"", "one\n", 0},
	{"echo -n x; echo y", "xy\n", 0},
	{"printf 'a  b\\n c \\n' | { IFS=; read -r x; echo \"<$x>\"; read -r x; echo \"<$x>\"; read -r x || echo \"end<$x>\"; }", "<a  b>\n< c >\nend<>\n", 0},
	{"printf ' c \\n' | { read x; echo \"<$x>\"; }", "<c>\n", 0},
	{"echo \"a\\$b\\\"c\\d\"", "a$b\"c\\d\n", 0},
	{"x=5; echo $((x * 2 + 1)) $(( (1 + 2) % 2 )); : $((x += 2)); echo $x", "11 1\n7\n", 0},
	{"x=v; cat <<E; cat <<'E'; cat <<-E\n$x $((1+1)) $(echo c)\nE\n$x \\$\nE\n\t\ttabs\n\tE\necho on", "v 2 c\n$x \\$\ntabs\non\n", 0},
	{"read a b <<E\none two three\nE\necho \"$a|$b\"", "one|two three\n", 0},
	{"echo `echo old \\`echo style\\``", "old style\n", 0},
	{"echo ${none:=made} $none ${#none}; echo ${none:?never}; (: ${absent:?gone}) 2>/dev/null; echo $?", "made made 4\nmade\n2\n", 0},
	{"for i in 1 2 3 4; do [ $i = 2 ] && continue; [ $i = 4 ] && break; echo $i; done", "1\n3\n", 0},
	{"for i in 1 2; do for j in a b; do [ $j = b ] && continue 2; echo $i$j; done; done", "1a\n2a\n", 0},
	{"for i in 1 2; do for j in a b; do break 2; done; done; echo $i$j; while break; do echo never; done; echo on", "1a\non\n", 0},
	{"i=0; while [ $i -lt 3 ]; do i=$((i + 1)); case $i in 2) continue;; esac; echo $i; done; until [ $i = 0 ]; do i=$((i-1)); done; echo $i", "1\n3\n0\n", 0},
	{"set -- a b c; shift; echo $# $1; shift 2; echo $#; for x; do echo $x; done; set -- x; for x; do echo $x; done", "2 b\n0\nx\n", 0},
	{"set -- 1 2 3 4 5 6 7 8 9 ten; echo ${10} $10; IFS=,; echo \"$*\"; echo \"[$@]\"", "ten 10\n1,2,3,4,5,6,7,8,9,ten\n[1 2 3 4 5 6 7 8 9 ten]\n", 0},
	{"IFS=: read a b <<E\nx:y:z\nE\necho \"$a $b\"; echo 'a:b' | { IFS=: read -r x y; echo $y; }", "x y:z\nb\n", 0},
	{"printf 'a\\\\\nb\n' | { read x; echo \"$x\"; }; printf 'a\\\\tb\n' | { read -r x; printf '%s\n' \"$x\"; }", "ab\na\\tb\n", 0},
	{"x=$(exit 3); echo $?; x=$(true); echo $?; x=plain; echo $?", "3\n0\n0\n", 0},
	{"f() { local x=in y; x=$x!; echo $x; }; x=out; f; echo $x", "in!\nout\n", 0},
	{"x=1; export y=2; sh -c 'echo \"$x-$y\"'; x=3 sh -c 'echo $x'; export x; sh -c 'echo $x'", "-2\n3\n1\n", 0},
	{"trap 'echo end' EXIT; (echo in); echo on; exit 4", "in\non\nend\n", 4},
	{"trap 'echo end' EXIT; trap - EXIT; trap 'echo never' TERM HUP; sh -c 'trap \"echo inner\" 0; true'; echo on", "inner\non\n", 0},
	{"(exit 3) & wait $!; echo $?; sleep 0.01 & wait; echo $?", "3\n0\n", 0},
	{"set -u; echo ${none-ok}; echo $none; echo never", "ok\n", 2},
	{"set -f; cd /; echo b?n; set +f; echo b?n; echo /[a-c]in '/[b]in'", "b?n\nbin\n/bin /[b]in\n", 0},
	{"set -e; f() { false; echo continue; }; f && echo yes; x=$(false) || echo no; f; echo never", "continue\nyes\nno\n", 1},
	{"set -e; ! true; (false) || echo no; false | true; echo on; (false); echo never", "no\non\n", 1},
	{"set -e; x=$(false); echo never", "", 1},
	{"f() (exit 4); f; echo $?; { echo a; } >/dev/null; if (exit 1) then echo b; else echo c; fi", "4\nc\n", 0},
	{"exec 2>&1; echo err >&2; exec >/dev/null; echo never", "err\n", 0},
	{"{ exec 2>&1; }; echo err >&2; echo a >&- 2>/dev/null || true", "err\n", 0},
	{"f() { return 2 || echo never; }; f; echo $?; eval 'echo a; (exit 6)'; echo $?; eval ''; echo $?", "2\na\n6\n0\n", 0},
	{"echo a; exit; echo never", "a\n", 0},
	{"f() { echo $?; }; false || f; (exit 5); exit", "1\n", 5},
	{"printf 'b\\na\\nb\\n' | sort -u; printf '1\\n2\\n3\\n' | tail -n 2; printf 'a\\nb\\n' | sort -r | tail -n 1", "a\nb\n2\n3\na\n", 0},
	{"case a] in [!a]?) echo a;; [!x]?) echo b;; esac; case '*' in \\*) echo star;; esac; case x in *) ;; esac; echo $?", "b\nstar\n0\n", 0},
	{"x='a b'; y=$x; echo \"$y\"; echo ${x%%\" \"*} ${x#*' '}; echo \"~\"", "a b\na b\n~\n", 0},
	{"printf '%d-%5s-%-3s|%03d\\n' 7 ab c 5; printf '%b' 'a\\nb\\n'; printf '%x%%\n' 255", "7-   ab-c  |005\na\nb\nff%\n", 0},
	{"set -u; case $- in *u*) echo u;; esac", "u\n", 0},
	{"yes | while read x; do echo $x; break; done | cat", "y\n", 0},
	{"cd /usr && cd bin && pwd && cd - >/dev/null && pwd; cd -P -- /usr/bin/ && pwd", "/usr/bin\n/usr\n/usr/bin\n", 0},
	{"echo a; if", "", 2},
	{"unset -f f; f() { echo f; }; unset -f f; f", "", 127},
	{"command -v cd f; command -v nosuch-x; echo $?", "cd\n127\n", 0},
	{"printf ' # c\n a b\nd\n' | sed -n '/^[[:space:]]*#/d; s/[[:space:]]//g; /./{p;q;}'; printf '1\n2\n3\n4\n' | sed 1,3d; printf ab | sed 's/\\(a\\)\\(b\\)/\\2&\\1\\//'", "ab\n4\nbaba/", 0},
	{"echo x.y+z | sed -E 's/[.](y)\\+/<\\1>/'; printf 'aXbX\nc\n' | sed -n 's/X/-/gp'; echo 'a*b(c)' | sed 's,*b(,-,'; printf 'a\nb\nc\n' | sed 2p | wc -l", "x<y>z\na-b-\na-c)\n4\n", 0},
	{"printf 'a/../b\n..\nc..d\n' | grep -E '^/|^\\.\\.(/|$)|/\\.\\.(/|$)'; echo a+b | grep -c a+b; echo ab | grep -qx 'a.' && echo x; echo A.B | grep -iF a.b; echo axb | grep -F a.b", "a/../b\n..\n1\nx\nA.B\n", 1},
	{"echo a:b:c | cut -d: -f2; echo none | cut -d : -f 2; printf 'a\nb' | tr '\n' ' '; echo; echo hello | tr -d l; echo abc | tr a-b x; printf 'b\\0a b\\0' | xargs -0 printf '<%s>'", "b\nnone\na b\nheo\nxxc\n<b><a b>", 0},
	{"cd $(mktemp -d) && mkdir -p a/b && echo x >a/f && ln a/f a/g && ln -s f a/l && ln -s nowhere a/d; ls a; readlink a/l; cat a/l; [ -L a/l ] && [ ! -e a/d ] && [ -L a/d ] && stat -c '%a %h %F' a/f a/l; [ -f a/l ] && echo file", "b\nd\nf\ng\nl\nf\nx\n644 2 regular file\n777 1 symbolic link\nfile\n", 0},
	{"cd $(mktemp -d) && mkdir -p a/b && touch a/f && ln a/f a/g && ln -s b a/l; find . -type f -links +1 | sort; find . ! -type d -name l; find a ! -path 'a/*'; find . -type f -exec echo {} \\; | wc -l; cd a/l && pwd | grep -c l$; pwd -P | grep -c b$; cd -P .. && pwd -P | grep -c a$", "./a/f\n./a/g\n./a/l\na\n2\n1\n1\n1\n", 0},
	{"cd $(mktemp -d) && echo 1 >f && ln -s f l && ln f l 2>/dev/null || echo exists; ln -sfn /etc l; readlink l; readlink f; mkdir d; mv -fT f d 2>/dev/null || echo folder; mv f d && mv -T d e && ls e; readlink -f ./e/../e/f | grep -c e/f$; ln -f e/f e/f 2>/dev/null || ln -sf e/f e/f 2>/dev/null || cat e/f; rm l; [ -d /etc ] && echo stays; rm -r e; ls", "exists\n/etc\nfolder\nf\n1\n1\nstays\n", 0},
	{"cd $(mktemp -d) && printf '1\n2\n' >f && exec 8<f 9<. && read x <&8 && read y <&8 && echo $x$y; exec 3>g; echo a >&3; { echo b >&3; } >/dev/null; cat g; ls /proc/self/fd/9/; (echo c >&7) 2>/dev/null || echo closed", "12\na\nb\nf\ng\nclosed\n", 0},
	{"umask 077; umask; cd $(mktemp -d); (umask 027; mkdir m; touch n); stat -c %a m n; chmod u+x,g=w,o-r n; stat -c %a n; chmod 2755 m; chmod 700 m; stat -c %A m; chmod 00700 m; stat -c %a m; chmod 4755 n; stat -c %A n; touch p; stat -c %a p", "0077\n750\n640\n720\ndrwx--S---\n700\n-rwsr-xr-x\n600\n", 0},
	{"cd $(mktemp -d) && ln -s b a && ln -s a b; [ -e a ] || echo loop; cat a 2>/dev/null || echo no; ln -s . here; echo x >here/here/f && cat f", "loop\nno\nx\n", 0},
	{"printf 'a::c:d:e\n:x: y :\nz:\n' | while IFS=: read -r p q r; do echo \"<$p><$q><$r>\"; done; echo ' a  b : c  ' | { IFS=': ' read x y; echo \"<$x><$y>\"; }", "<a><><c:d:e>\n<><x>< y >\n<z><><>\n<a><b : c>\n", 0},
	{"printf 'a:\n' | { IFS=: read x; echo \"<$x>\"; }; printf 'a\\\\ b c\n' | { read x y; echo \"<$x><$y>\"; }; [ '!' != '!' ] || echo same; [ '!' = '!' ] && [ ! x = y ] && [ ! '' ] && echo not", "<a>\n<a b><c>\nsame\nnot\n", 0},
	{"yes | grep -q y && echo found; echo abc | sed -e s/a/x/ -e s/b/y/; cd $(mktemp -d) && mkdir -m 700 -p x/y && stat -c %a x x/y; ln -s x l; echo 1 >f; cp -pP l f; readlink f; ls", "found\nxyc\n755\n700\nx\nf\nl\nx\n", 0},
	{"x=abcabc; echo ${x%c*} ${x%%c*} ${x#*b} ${x##*b}", "abcab ab cabc c\n", 0},
}

func TestShell(t *testing.T) {
	f := start(t, Config{Hosts: 1})
	for _, tc := range portable {
		out, stderr, code := interpret(t, f.hosts[0], tc.script, "")
		if out != tc.want || code != tc.code {
			t.Errorf("%s\n got %q, exit %d (%s)\nwant %q, exit %d", tc.script, out, code, stderr, tc.want, tc.code)
		}
	}
}

// The table above is what a real shell does, not what ours happens to do.
func TestShellTableAgreesWithDash(t *testing.T) {
	sh := testparts.Need(t, "dash", "dash")
	for _, tc := range portable {
		if strings.Contains(tc.script, "env -i") {
			continue // ours has no empty environment
		}
		cmd := exec.Command(sh, "-c", tc.script)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/"}
		out, err := cmd.Output()
		if string(out) != tc.want || cmd.ProcessState.ExitCode() != tc.code {
			t.Errorf("%s\ndash: %q, exit %d, %v\nwant: %q, exit %d", tc.script, out, cmd.ProcessState.ExitCode(), err, tc.want, tc.code)
		}
	}
}

func TestPrograms(t *testing.T) {
	f := start(t, Config{Hosts: 1})
	h := f.hosts[0]
	for _, tc := range []struct {
		name, script, want string
		code               int
	}{
		{"write and read", "echo hi > /tmp/a && cat /tmp/a && echo more >> /tmp/a && wc -l /tmp/a", "hi\n2 /tmp/a\n", 0},
		{"hash", "printf abc | sha256sum; printf abc > /tmp/h; sha256sum /tmp/h",
			"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  -\n" +
				"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  /tmp/h\n", 0},
		{"move", "mkdir -p /srv/x/y && touch /srv/x/y/f && mv /srv/x /srv/z && ls /srv /srv/z/y", "z\nf\n", 0},
		{"copy into a folder", "echo 1 > /tmp/c; cp /tmp/c /opt && cat /opt/c", "1\n", 0},
		{"modes", "touch /tmp/m; chmod 0640 /tmp/m; chown www-data:users /tmp/m; stat -c '%a %U:%G %s' /tmp/m; chown nosuch /tmp/m", "640 www-data:users 0\n", 1},
		{"remove", "mkdir /tmp/d; touch /tmp/d/x; rmdir /tmp/d || rm -rf /tmp/d; test -e /tmp/d || echo gone", "gone\n", 0},
		{"remove base", "rm /etc/hostname; cat /etc/hostname", "", 1},
		{"missing", "cat /nope", "", 1},
		{"force", "rm -f /nope; echo $?", "0\n", 0},
		{"temporary", "f=$(mktemp); test -f $f && echo made", "made\n", 0},
		{"absolute path", "/usr/bin/echo x; /bin/true", "x\n", 0},
		{"sudo", "sudo -n -H -u root -- id -u; doas -u www-data id -un; id -un; sudo sh -c 'echo $SUDO_USER $HOME'; sudo -u nosuch id", "0\nwww-data\nturnus\nturnus /root\n", 1},
		{"stdin", "cat; tee /tmp/t < /dev/null", "input", 0},
		{"script file", "echo 'echo $1' > /tmp/s; sh /tmp/s arg", "arg\n", 0},
		{"null", "echo x > /dev/null; cat /dev/null", "", 0},
		{"proc is read-only", "echo x > /proc/new", "", 2},
		{"owners", "touch /tmp/o; stat -L -c %u:%g -- /tmp/o; chown -- root /tmp/o; ls -lnd /tmp/o | grep -q ' 0 1000 ' && id -g", "1000:1000\n1000\n", 0},
		{"flood", "flood 1000 | wc -c", "1000\n", 0},
		{"identity", "[ $(hostname) = $(uname -n) ] && [ $(hostname) = \"$(cat /etc/hostname)\" ]", "", 1}, // removed above
	} {
		out, stderr, code := interpret(t, h, tc.script, "input")
		if out != tc.want || code != tc.code {
			t.Errorf("%s: got %q, exit %d (%s); want %q, exit %d", tc.name, out, code, stderr, tc.want, tc.code)
		}
	}
	if _, stderr, code := interpret(t, h, "nosuch -x", ""); code != 127 || stderr != "sh: 1: nosuch: not found on a simulated host (turnus lab --help)\n" {
		t.Errorf("an unknown command: exit %d, %q", code, stderr)
	}
	if n := h.fs.bytes; n < 0 || n > 200 {
		t.Errorf("%d bytes counted", n)
	}
}

func TestServices(t *testing.T) {
	h := start(t, Config{Hosts: 1}).hosts[0]
	for _, tc := range []struct {
		script, want string
		code         int
	}{
		{"systemctl is-active nginx; systemctl stop nginx.service && systemctl is-active nginx", "active\ninactive\n", 3},
		{"systemctl reload nginx", "", 1},
		{"systemctl restart nginx && systemctl is-active --quiet nginx && echo up", "up\n", 0},
		{"systemctl status nginx | tail -n 1; systemctl is-enabled nginx", "     Active: active (running)\nenabled\n", 0},
		{"systemctl restart nosuch", "", 5},
		{"nginx -t 2>&1 | tail -n 1", "nginx: configuration file /etc/nginx/nginx.conf test is successful\n", 0},
		{"echo 'http {' >/etc/nginx/nginx.conf; nginx -t 2>&1 | head -n 1", "nginx: [emerg] unexpected end of file, expecting \"}\" in /etc/nginx/nginx.conf:2\n", 0},
		{"nginx -t", "", 1},
		{"systemctl disable --now cron; systemctl is-active cron; systemctl enable --now cron; systemctl is-active cron", "inactive\nactive\n", 0},
		{"systemctl reload nginx || systemctl is-active nginx; systemctl restart nginx || systemctl is-active nginx", "active\ninactive\n", 3},
	} {
		out, stderr, code := interpret(t, h, tc.script, "")
		if out != tc.want || code != tc.code {
			t.Errorf("%s: got %q, exit %d (%s); want %q, exit %d", tc.script, out, code, stderr, tc.want, tc.code)
		}
	}
}

func TestFullDisk(t *testing.T) {
	f := start(t, Config{Hosts: 1})
	h := f.hosts[0]
	if out, _, _ := interpret(t, h, "echo before >/tmp/f; df | tail -n 1", ""); !strings.Contains(out, " 20% /") {
		t.Errorf("df: %q", out)
	}
	if err := f.SetProfile(h.name, Profile{FullDisk: true}); err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{"echo more >>/tmp/f", "cat /etc/hostname >/tmp/new", "echo x | tee /tmp/new >/dev/null", "cp /etc/hostname /tmp/new"} {
		if _, stderr, code := interpret(t, h, script, ""); code != 1 || !strings.Contains(stderr, "No space left on device") {
			t.Errorf("%s: exit %d, %q", script, code, stderr)
		}
	}
	if out, _, _ := interpret(t, h, "cat /tmp/f; df | tail -n 1", ""); !strings.HasPrefix(out, "before\n") || !strings.Contains(out, "100% /") {
		t.Errorf("after it: %q", out)
	}
	if err := f.SetProfile(h.name, OK()); err != nil {
		t.Fatal(err)
	}
	if out, stderr, code := interpret(t, h, "echo more >>/tmp/f && cat /tmp/f", ""); out != "before\nmore\n" {
		t.Errorf("mended: %q, exit %d, %q", out, code, stderr)
	}
}

// A host that goes silent, or shows another key, ends the connections that it has.
func TestBreakingAHostEndsItsConnections(t *testing.T) {
	f := start(t, Config{Hosts: 1, Name: func(int) string { return "web1" }, KeyDir: t.TempDir()})
	for _, p := range []Profile{Silent(), ChangedKey()} {
		c := mustDial(t, f, f.Hosts()[0])
		if err := f.SetProfile("web1", p); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err == nil {
			t.Errorf("%s: the connection ended without an error", p.Kind)
		}
		if err := f.SetProfile("web1", OK()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(f.cfg.KeyDir); err != nil {
		t.Errorf("the folder of the key: %v", err)
	}
}

func TestBackgroundOutlivesItsCommand(t *testing.T) {
	f := start(t, Config{Hosts: 1})
	c := mustDial(t, f, f.Hosts()[0])
	if _, _, code, err := run(t, c, "(sleep 0.05; touch /tmp/done) >/dev/null 2>&1 & echo started", ""); code != 0 {
		t.Fatal(err)
	}
	eventually(t, "the background command has run", func() bool {
		_, err := f.hosts[0].fs.stat("/tmp/done")
		return err == nil
	})
}

func TestShellIsBounded(t *testing.T) {
	f := start(t, Config{Hosts: 1})
	for _, script := range []string{
		strings.Repeat("(", 10_000), strings.Repeat("$(", 10_000), strings.Repeat("${a:-", 10_000),
		"echo " + strings.Repeat("\"$(", 10_000), "X='eval \"$X\"'; eval \"$X\"",
		"f() { f; }; f", strings.Repeat("f() ", 10_000),
	} {
		if _, _, code := interpret(t, f.hosts[0], script, ""); code != 2 {
			t.Errorf("%.20q…: exit %d", script, code)
		}
	}
}

func FuzzShell(f *testing.F) {
	for _, tc := range portable {
		f.Add(tc.script)
	}
	f.Fuzz(func(t *testing.T, script string) {
		new(scripts).unwrap(script) // must neither panic nor run away
	})
}

// The shapes of what the transport and the built-in job types send.
func TestScriptsOfTheTransport(t *testing.T) {
	f := start(t, Config{Hosts: 1})
	const finish = `sum() {
  if command -v sha256sum >/dev/null 2>&1; then sha256sum <"$1"
  elif command -v shasum >/dev/null 2>&1; then shasum -a 256 <"$1"
  else return 71; fi
}
p='/tmp/f.part' f='/tmp/f' own=''
refuse() { echo "$1" >&2; rm -f -- "$p"; exit 73; }
s=$(sum "$p") || exit 71
[ "${s%% *}" = ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad ] || { rm -f -- "$p"; exit 72; }
[ -d "$f" ] && refuse "$f is a directory"
[ -L "$p" ] && refuse "$p was replaced by a symbolic link"
if [ -z "$own" ] && [ -e "$f" ]; then own=$(stat -c %u:%g -- "$f" 2>/dev/null)
[ "$own" = "$(stat -c %u:%g -- "$p" 2>/dev/null)" ] && own=; fi
if [ -n "$own" ]; then e=$(chown -h -- "$own" "$p" 2>&1) || refuse "$e"; fi
e=$(chmod 0640 "$p" 2>&1) || refuse "$e"
if [ -e "$f" ]; then old="$f"'.old'; [ -d "$old" ] && refuse "$old is a directory"
e=$(cp -p -- "$f" "$p.old" 2>&1 && mv -f -- "$p.old" "$old" 2>&1) || { rm -f -- "$p.old"; refuse "$e"; }; fi
sync -- "$p" 2>/dev/null
e=$(mv -f -- "$p" "$f" 2>&1) || refuse "$e"
echo done`
	const receive = `umask 077; set -C; e=$( { cat >'/tmp/f.part'; } 2>&1 ) || { echo "$e" >&2; exit 73; }; echo ok`
	for _, tc := range []struct {
		name, script, stdin, want string
		code                      int
	}{
		{"receive", receive, "abc", "ok\n", 0},
		{"finish", finish, "", "done\n", 0},
		{"what it wrote", "stat -c '%a %s' /tmp/f; cat /tmp/f; ls /tmp", "", "640 3\nabcf\n", 0},
		{"receive other bytes", receive, "abd", "ok\n", 0},
		{"refuse other bytes", finish, "", "", 72},
		{"nothing is left of them", "ls /tmp; cat /tmp/f", "", "f\nabc", 0},
	} {
		out, stderr, code := interpret(t, f.hosts[0], tc.script, tc.stdin)
		if out != tc.want || code != tc.code {
			t.Fatalf("%s: got %q, exit %d (%s); want %q, exit %d", tc.name, out, code, stderr, tc.want, tc.code)
		}
	}
}
