package user

import (
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// lookScript prints what is known of the user $n, of the number $uid and of the groups $want, and
// whether its hash is that on standard input. It reads the files itself: busybox has no getent, and
// usermod changes nothing else.
const lookScript = shell.Prelude + `IFS= read -r hash
if command -v useradd >/dev/null && command -v usermod >/dev/null; then echo "tool shadow"
elif command -v adduser >/dev/null; then echo "tool busybox"; fi
` + showScript + `[ "$gid" ] || { id "$n" >/dev/null 2>&1 && echo elsewhere; }
[ -z "$uid" ] || while IFS=: read -r u _ i _ || [ "$u" ]; do
  [ "$i" = "$uid" ] && [ "$u" != "$n" ] && echo "taken $u"
done </etc/passwd
while IFS=: read -r g _ i m || [ "$g" ]; do
  [ "$i" != "$gid" ] || echo "primary $g"
  case ,$m, in *,"$n",*) echo "in $g" ;; esac
  case " $want " in *" $g "*) echo "group $g" ;; esac
done </etc/group
if [ -r /etc/shadow ]; then
  echo shadow
  while IFS=: read -r u h _ || [ "$u" ]; do
    [ "$u" != "$n" ] || [ "$h" != "$hash" ] || echo password
  done </etc/shadow
fi
[ "$hash" ] || echo password
exit 0
`

// showScript prints the fields of the user in /etc/passwd.
const showScript = `gid=
while IFS=: read -r u _ i g c d s || [ "$u" ]; do
  [ "$u" = "$n" ] || continue
  gid=$g
  printf 'uid %s\ncomment %s\nhome %s\nshell %s\n' "$i" "$c" "$d" "$s"
  break
done </etc/passwd
`

// actScript runs the command lines up to the first that fails, and prints the fields of the user
// then.
func actScript(name string, lines []string) string {
	var b strings.Builder
	b.WriteString(shell.Prelude + shell.OnlyRoot + sdk.Vars("n", name) + "IFS= read -r hash\n")
	for _, line := range lines {
		b.WriteString(line + " >&2 || refused\n")
	}
	return b.String() + showScript + "exit 0\n"
}
