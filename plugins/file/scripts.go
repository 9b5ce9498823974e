package file

import (
	"crypto/rand"
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// The scripts below change what is at $p for a login that may be root, while the folder may belong
// to another user, who exchanges its entries for links at any moment. They enter the folder once
// and use names that are relative to it; safe is set where only root and this login can give names
// there. Where others also can, they work in a folder of their own inside it, $w, which only this
// login can enter, and move the result back without following a link: mv -T, or -h on BSD.
const (
	headScript  = "LC_ALL=C; export LC_ALL\n" + shell.Enter
	enterScript = headScript + `enter "${p%/*}/" || exit 1` + "\n" + folderScript
)

const folderScript = `t=${p##*/} up=.
fail() { echo "$p: $1" >&2; leave; exit 1; }
leave() { [ $up = . ] || { rm -f ./x; cd .. && rmdir "./$w"; }; }
set -- $(ls -ldn .)
safe=; if [ "$3" = 0 ] || [ -O . ]; then case $1 in d????w*|d???????w*) ;; d*) safe=1;; esac; fi
private() {
  (umask 077; mkdir "./$w") && cd -P "./$w" || fail "others may write to the folder, and none for this login alone can be made in it"
  up=..
  set -- $(ls -ldn .)
  case $1 in drwx------* | drwx--S---*) [ -O . ];; *) false;; esac || { up=.; fail "its folder was replaced by another user"; }
}
moved() { for m in -fT -fh; do mv $m -- "$1" "$2" 2>/dev/null && return; done; false; }
`

// attributesScript sets the owner $o and the mode $m of the file or directory, where they are
// given.
const attributesScript = enterScript + shell.Held + `if [ "$k" = directory ]; then
  here=$PWD
  cd -P "./$t" && [ "$PWD" = "${here%/}/$t" ] || fail "was replaced, it is no directory any more"
  x=.
elif [ "$safe" ]; then
  x=./$t
else
  private
  held "$t" || fail "others may write to its folder, and $why"
  x=./x
fi
[ "$k" = directory ] || [ -f "$x" ] && [ ! -L "$x" ] || fail "was replaced, it is no $k any more"
[ -z "$o" ] || chown -h "$o" "$x" || fail "its owner stays"
[ -z "$m" ] || chmod "$m" "$x" || fail "its mode stays"
leave
`

// directoryScript makes the directory and sets its owner and mode from inside.
const directoryScript = headScript + `reach "${p%/*}/" || exit 1
` + folderScript + `here=$PWD
mkdir "./$t" && cd -P "./$t" || exit 1
[ "$PWD" = "${here%/}/$t" ] && [ -O . ] || fail "was replaced by another user"
[ -z "$o" ] || chown "$o" . || exit 1
chmod "$m" .
`

// linkScript makes the link to $l, or puts it in the place of another.
const linkScript = enterScript + `if [ "$safe" ]; then
  ln -sfn -- "$l" "./$t" && { [ -z "$o" ] || chown -h "$o" "./$t"; }
  exit
fi
private
ln -s -- "$l" ./x && { [ -z "$o" ] || chown -h "$o" ./x; } || fail "the link cannot be made"
moved ./x "../$t" || fail "others may write to its folder, and something else took its place, or mv lacks -T"
leave
`

// keepScript gives the file the name $b.
const keepScript = enterScript + `moved "./$t" "./$b" && exit
[ "$safe" ] && [ ! -d "./$b" ] || fail "cannot be renamed to $b"
mv -f -- "./$t" "./$b"
`

// absentScript removes what is there by the program $r.
const absentScript = enterScript + `$r -- "./$t"
`

// scripted puts variables before a script.
func scripted(script string, vars ...any) string {
	return sdk.Vars("w", ".turnus-"+strings.ToLower(rand.Text())) + sdk.Vars(vars...) + script
}
