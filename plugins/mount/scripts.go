package mount

import "github.com/turnus/turnus/plugins/sdk/shell"

// realScript resolves a source to its device, if it is one.
const realScript = shell.Prelude + `real() {
  case $1 in UUID=* | LABEL=* | PARTUUID=* | PARTLABEL=*) set -- "$(findfs "$1" 2>/dev/null)" ;; esac
  case $1 in /*) readlink -f "$1" 2>/dev/null || printf '%s\n' "$1" ;; *) printf '%s\n' "$1" ;; esac
}
last() { # the last mount at the path: its number, source and flags
  number= source= flags=
  while read -r id up device root at f rest; do
    [ "$at" = "$ep" ] || continue
    number=$id flags=$f rest=" $rest"
    rest=${rest#* - }
    rest=${rest#* }
    source=${rest%% *}
  done </proc/self/mountinfo
}
active() {
  if [ "$t" = swap ]; then
    while read -r d rest; do [ "$d" = Filename ] || [ "$(real "$d")" != "$(real "$s")" ] || echo "$d"; done </proc/swaps
  else
    last && { [ -z "$source" ] || printf '%s\n' "$source"; }
  fi
}
`

// askScript prints what is mounted, by the last mount at the path: it hides those before it.
const askScript = realScript + `if [ -e /etc/fstab ]; then sed 's/^/fstab /' /etc/fstab && echo || exit 1; fi
if [ "$p" ] && [ -L "$p" -o -e "$p" ]; then echo "real $(readlink -f "$p")"; fi
a=$(active) || exit 1
[ "$t" = swap ] || { last && echo "flags $flags"; } || exit 1
[ -z "$a" ] || { echo "active $a"; echo "device $(real "$a")"; }
[ -z "$s" ] || echo "wanted $(real "$s")"
case $s in
//*) ;; # a share of a server
/*) [ -e "$s" ] || echo gone ;;
UUID=* | LABEL=* | PARTUUID=* | PARTLABEL=*) ! command -v findfs >/dev/null 2>&1 || findfs "$s" >/dev/null 2>&1 || echo gone ;;
esac
exit 0
`

// doScript does the actions "$@"; the new fstab is its standard input.
//
// The owner of a folder on the way can exchange its entries for links at any moment. There mount
// gets the folder that was entered, as . or as a name in it, and -c: it must not look for its path.
// A remount needs the name, because . is the folder below the mount. busybox has no -c, and looks
// for no path.
const doScript = realScript + shell.Enter + shell.Reading + `cmd() { "$@" </dev/null >&2; }
private() {
  c=
  (cd -P "$1" && while alone; do [ "$(pwd -P)" != / ] || exit 0; cd -P ..; done; exit 1) && return
  ! mount --version >/dev/null 2>&1 || c=-c
  false
}
same() {
  here=$(pwd -P)
  [ "$here" = "${1:-/}" ] || { echo "$p leads over a link, to $here: if no other user put it there, write the path without links" >&2; false; }
}
replaced() { echo "$p: another user replaced a folder on the way: see findmnt, and ls -l of the folders" >&2; false; }
inside() {
  enter "${p%/*}/" && same "${p%/*}" || return
  to=$p
  private . || { to=./${p##*/}; [ ! -L "$to" ] || replaced; }
}
again() { inside && cmd mount $c -o "remount,$o" "$s" "$to"; } # with a source it adds no options of fstab
attach() {
  reach "$p" && same "$p" && last || return
  before=$number
  if private ..; then cmd mount -t "$t" -o "$o" "$s" "$p"
  else cmd mount $c -t "$t" -o "$first" "$s" . && { [ "$first" = "$o" ] || again; }
  fi && last || return
  [ "$number" != "$before" ] || replaced
}
for a in "$@"; do
  case $a-$t in
  mount-swap) case $o in defaults | sw) cmd swapon "$s" ;; *) cmd swapon -o "$o" "$s" ;; esac ;;
  unmount-swap) cmd swapoff "$s" ;;
  mount-*) (attach) ;;
  remount-*) (again) ;;
  unmount-*) (inside || exit; while [ "$(active)" ]; do cmd umount $c "$to" || exit; done) ;;
  write-*)
    n=/etc/.fstab.new
    rm -f $n
    (umask 022; : >$n) || exit 1
    { [ ! -e /etc/fstab ] || cp -p /etc/fstab $n; } && cat >$n && chmod u+w $n || { rm -f $n; echo "/etc/fstab was not written" >&2; exit 1; }
    [ "$(cat /etc/fstab 2>/dev/null)" = "$old" ] || { rm -f $n; echo "another process changed /etc/fstab meanwhile: run the step again" >&2; exit 1; }
    mv -f $n /etc/fstab || exit 1
    [ ! -d /run/systemd/system ] || cmd systemctl daemon-reload ;;
  esac || exit 1
done
`
