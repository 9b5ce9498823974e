package transport

import (
	"fmt"
	pathpkg "path"
	"strings"

	"github.com/turnus/turnus/plugins/sdk/shell"
)

// The scripts below run on the host by POSIX sh. Go code distinguishes these exit codes.
const (
	exitNoTool   = 71 // nothing computes SHA-256 there
	exitMismatch = 72
	exitRefused  = 73 // with the reason on stderr
)

// enterFolder goes to the folder of $f, whose last part is then $t. From here on every name is
// relative, so that a folder on the way that is renamed or replaced leads nowhere else. safe is set
// where only root and this login can give names in the folder.
const enterFolder = shell.Enter + `t=${f##*/} up=. w= inner=
enter "${f%/*}/" || exit 73
set -- $(LC_ALL=C ls -ldn .)
safe=; if [ "$3" = 0 ] || [ -O . ]; then
[ "${1#d????w}" = "$1" ] && [ "${1#d???????w}" = "$1" ] && [ "${1#d}" != "$1" ] && safe=1; fi
`

// takePrivate moves the part to a folder that only this login can enter: where others can give
// names, the part could be exchanged before each command that changes or copies it. The move back
// must not go into a folder that took the file's name: mv -T, or -h on BSD. A validate command gets
// such a folder also where nobody else can give names: what it leaves there is removed.
const takePrivate = `move=-f
if [ -z "$safe" ] || [ -n "$v" ]; then
umask 077; w=$b.d
mkdir -- "./$w" && cd -P -- "./$w" || refuse "the new file needs a folder of its own, and none can be made beside it"
up=..
set -- $(LC_ALL=C ls -ldn .)
case $safe$1 in 1d* | drwx------* | drwx--S---*) [ -O . ] ;; *) false ;; esac || refuse "$w was replaced by another user"
for move in -fT -fh ${safe:+-f} ""; do [ -n "$move" ] && mv "$move" -- "../$b" "./$b" 2>/dev/null && break; done
[ -n "$move" ] || refuse "the part file was taken away, or mv lacks -T: see the folder by ls -ld"
set -- $(LC_ALL=C ls -ldn "./$b")
[ -f "./$b" ] && [ ! -L "./$b" ] && [ -O "./$b" ] && [ "$2" = 1 ] || refuse "the part file was replaced by another user"
fi
`

// leaveFolder removes the rest of the upload, also if a signal ends the script: it ignores a
// second one, and so do its programs. The signal may come between the steps of takePrivate. PIPE
// comes if nobody reads the output any more and the shell reports that a program was terminated.
const leaveFolder = `leave() {
trap '' HUP INT TERM PIPE
[ -z "$inner" ] || rm -rf -- "./$w"
rm -f -- "./$b" "./$b.old" "$up/$b"
[ -z "$w" ] || { [ "${PWD##*/}" != "$w" ] || cd -P ..; rm -f -- "./$b"; rmdir -- "./$w" 2>/dev/null; }
}
refuse() { echo "$1" >&2; leave; exit 73; }
trap 'leave; exit 1' HUP INT TERM PIPE
`

// checkNew runs the validate command in a folder inside that of takePrivate: files that the command
// leaves beside the new one are removed with the folder.
const checkNew = `inner=1
mkdir -- "./$w" && mv -f -- "./$b" "./$w/$b" || refuse "the new file cannot be moved to a folder of its own"
valid "$w/$b" || refuse "$why"
mv -f -- "./$w/$b" "./$b" || { leave; exit 72; }
`

// keptMode sets m to the mode of the file that the part replaces: stat is GNU's or busybox's, then
// BSD's, and where there is none ls has the bits, without setuid and its like.
var keptMode = fmt.Sprintf(`m=%04o
if [ -f "$up/$t" ] && [ ! -L "$up/$t" ]; then
m=$(stat -c %%a -- "$up/$t" 2>/dev/null) || m=$(stat -f %%Lp -- "$up/$t" 2>/dev/null) || {
set -- $(LC_ALL=C ls -ldn "$up/$t")
bits() { printf %%s "$l" | cut -c "$1" | tr st xx | tr -dc rwx; }
l=$1; m=u=$(bits 2-4),g=$(bits 5-7),o=$(bits 8-10)
}
fi
`, newMode)

// removeFolder defines the function away, which removes the folder $1 that takePrivate made. The
// folder inside it goes whole if only this login can have put something there.
const removeFolder = `away() {
(cd -P -- "./$1" 2>/dev/null && [ -O . ] && rm -f -- "./${1%.d}" "./${1%.d}.old" && [ -d "./$1" ] || exit
set -- "$1" $(LC_ALL=C ls -ldn .)
case $2 in d????w* | d???????w*) ;; *) rm -rf -- "./$1" ;; esac)
rmdir -- "./$1" 2>/dev/null
}
`

// sweepScript removes part files of uploads to $t that were cut: of an older fence, whose worker
// the host refuses from now on, and of another queue after a day without a byte. It starts a
// program only if there is one. It needs removeFolder.
func sweepScript(fence Fence, host string) string {
	if fence.Queue == "" {
		return ""
	}
	return fence.fill(`for o in "./$t".part.*_*_*_*; do
r=${o#"./$t.part."}
k=${r%%_*} r=${r#*_}
e=${r%%_*} r=${r#*_}
c=${r%%_*}
case $k in *[!0-9a-f]*) continue ;; ????????????) ;; *) continue ;; esac
case $e:$c in *[!0-9:]* | *:*:* | :* | *:) continue ;; esac
if [ "$k" = KEY ]; then [ "$e" -lt EPOCH ] || { [ "$e" -eq EPOCH ] && [ "$c" -lt COUNT ]; } || continue
else [ "$(find "$o" -prune -mtime +0 2>/dev/null)" ] || continue; fi
if [ -d "$o" ] && [ ! -L "$o" ]; then away "${o#./}"
else rm -f -- "$o" 2>/dev/null; fi
done
`, host)
}

// finishing selects parts of a finishScript.
type finishing struct {
	receive bool // its input is the content of the part file, after the hash
	check   bool // verifies the hash
	early   bool // the part had the hash before
}

// finishScript gives the part file owner and mode, verifies it, keeps a copy of the old file and
// renames the part over it. With check, the first line of its input is the hash: every user of the
// host can read a command, and a hash shows a short secret. Without check, this process has read
// the part back by its name and compared it. The owner of the folder may be another user, who
// exchanges its entries for links at any moment: see takePrivate. If early, the part had the hash
// before, by its name in the folder: that counts only where nobody else can give names. The hash
// is compared after the mode was set, because a later write would clear setuid.
func finishScript(part, host string, put Put, how finishing) string {
	check, early := how.check, how.early
	var b strings.Builder
	if put.Validate != "" {
		b.WriteString(shell.Valid)
	}
	if check {
		b.WriteString(shell.Sum)
		fmt.Fprintf(&b, "read -r want\ncommand -v sha256sum >/dev/null 2>&1 || command -v shasum >/dev/null 2>&1 || command -v openssl >/dev/null 2>&1 || exit %d\n", exitNoTool)
	}
	fmt.Fprintf(&b, "f=%s b=%s own=%s v=%s\n", shell.Quote(put.Path), shell.Quote(pathpkg.Base(part)), shell.Quote(put.Owner), shell.Quote(shell.ValidateCommand(put.Validate)))
	b.WriteString(enterFolder)
	b.WriteString(leaveFolder + removeFolder + sweepScript(put.Fence, host))
	if how.receive {
		b.WriteString("e=$( { umask 077; set -C; cat >\"./$b\"; } 2>&1) || refuse \"$e\"\n")
	}
	b.WriteString("[ -d \"./$t\" ] && refuse \"$f is a directory\"\n[ -L \"./$b\" ] && refuse \"the part file was replaced by a symbolic link\"\n")
	b.WriteString(takePrivate)
	// A rename brings the new file's owner along; without an order to change it, it stays.
	b.WriteString("if [ -z \"$own\" ] && [ -e \"$up/$t\" ]; then own=$(stat -c %u:%g -- \"$up/$t\" \"./$b\" 2>/dev/null)\n" +
		"[ \"${own%%\n*}\" = \"${own##*\n}\" ] && own=\nown=${own%%\n*}; fi\n")
	b.WriteString("if [ -n \"$own\" ]; then e=$(chown -h -- \"$own\" \"./$b\" 2>&1) || refuse \"$e\"; fi\n")
	if put.Mode == 0 {
		b.WriteString(keptMode)
	} else {
		fmt.Fprintf(&b, "m=%04o\n", put.Mode)
	}
	b.WriteString("e=$(chmod \"$m\" \"./$b\" 2>&1) || refuse \"$e\"\n")
	if put.Validate != "" { // before the hash, which shows that the command changed nothing
		if !check { // nothing computes SHA-256 there
			b.WriteString("k=$(cksum <\"./$b\") || refuse \"its checksum cannot be computed\"\n")
		}
		b.WriteString(checkNew)
		if !check {
			b.WriteString("[ \"$(cksum <\"./$b\")\" = \"$k\" ] || { leave; exit 72; }\n")
		}
	}
	if check {
		if early && put.Validate == "" {
			b.WriteString("[ -n \"$safe\" ] || ")
		}
		b.WriteString("{ s=$(sum <\"./$b\") || refuse \"its hash cannot be computed\"\n[ \"${s%% *}\" = \"$want\" ] || { leave; exit 72; }; }\n")
	}
	if put.Backup != "" {
		fmt.Fprintf(&b, "if [ -f \"$up/$t\" ] && [ ! -L \"$up/$t\" ]; then old=\"$up/$t\"%s; [ -d \"$old\" ] && refuse \"$old is a directory\"\n"+
			"e=$(cp -pP -- \"$up/$t\" \"./$b.old\" 2>&1) || refuse \"$e\"\n"+
			"[ -f \"./$b.old\" ] && [ ! -L \"./$b.old\" ] || refuse \"$f was replaced by another user\"\n"+
			"e=$(mv $move -- \"./$b.old\" \"$old\" 2>&1) || refuse \"$e\"; fi\n", shell.Quote(put.Backup))
	}
	b.WriteString("sync -- \"./$b\" 2>/dev/null\n")
	b.WriteString("e=$(mv $move -- \"./$b\" \"$up/$t\" 2>&1) || refuse \"$e\"\n[ -z \"$w\" ] || leave\nexit 0\n")
	return b.String()
}

// removeScript removes the rest of a transfer that failed, and of those before it: the disk may be
// full of them.
func removeScript(part, host string, put Put) string {
	script := removeFolder + fmt.Sprintf("p=%s; rm -f -- \"$p\"; [ ! -d \"$p.d\" ] || [ -L \"$p.d\" ] || (cd -P -- \"${p%%/*}/\" && away \"${p##*/}.d\")\n", shell.Quote(part))
	if sweep := sweepScript(put.Fence, host); sweep != "" {
		script += "f=" + shell.Quote(put.Path) + "\n" + enterFolder + sweep
	}
	return script
}

// earlySumScript succeeds when the part has the hash that is its input. Of the tools it takes the
// fastest: openssl is three times as fast as coreutils' sha256sum.
func earlySumScript(part string) string {
	return shell.Sum + fmt.Sprintf("p=%s\nread -r want\ns=$(openssl dgst -r -sha256 <\"$p\" 2>/dev/null) || s=$(sum <\"$p\") || exit %d\n[ \"${s%%%% *}\" = \"$want\" ] || exit %d\n",
		shell.Quote(part), exitNoTool, exitMismatch)
}

// receiveScript writes stdin to a new part file that only the user can read.
func receiveScript(part string) string {
	return fmt.Sprintf("%sp=%s; umask 077; set -C; enter \"${p%%/*}/\" || exit %[3]d; e=$( { cat >\"./${p##*/}\"; } 2>&1 ) || { echo \"$e\" >&2; exit %[3]d; }", shell.Enter, shell.Quote(part), exitRefused)
}

// sendScript prints "MODE SIZE" and then the file.
//
// Others may not read all that this login may. So where others can give names, a link counts if
// only this login or root can have put it there. Any other link must lead to a file of the owner of
// the folder.
func sendScript(path string) string {
	return shell.Enter + shell.Reading + shell.Hidden + mayFollow + fmt.Sprintf("f=%s; [ -e \"$f\" ] || { ! hidden \"$f\" || exit 1; echo \"$f: no such file\" >&2; exit %d; }\n"+
		"[ -f \"$f\" ] || { echo \"$f is not a regular file\" >&2; exit %d; }\n"+
		"enter \"${f%%/*}/\" || exit %[3]d\n"+
		"if alone; then { stat -L -c '%%a %%s' \"./${f##*/}\" || exit %[4]d; } && exec cat \"./${f##*/}\"; fi\n"+
		"[ -d /proc/self/fd ] || exit %[4]d\n"+
		"pin \"${f##*/}\" || mine \"${f##*/}\" || its || "+
		"{ echo \"$f is a link to a file of another user, and anybody may have planted it: fetch the file itself\" >&2; exit %[3]d; }\n"+
		"stat -L -c '%%a %%s' /proc/self/fd/3 && exec cat <&3", shell.Quote(path), exitMissing, exitRefused, exitNoTool)
}

// mayFollow defines functions for a link that pin has opened. Another user may have exchanged the
// link before or afterwards: mine compares the file that it leads to.
const mayFollow = `mine() {
me=$(id -u)
set -- "$1" $(LC_ALL=C ls -ldn . "./$1")
ours "$2" "$4" "${13}" && [ "$(inode -L "./$1")" = "$(inode -L /proc/self/fd/3)" ]
}
its() { u=$(stat -c %u .) && [ "$u" != 0 ] && [ ! -O . ] && [ "$(stat -L -c %u /proc/self/fd/3)" = "$u" ]; }
`

const exitMissing = 74
