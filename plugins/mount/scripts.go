package mount

import "github.com/turnus/turnus/plugins/sdk/shell"

// realScript resolves a source to its device, if it is one.
const realScript = shell.Prelude + `real() {
  case $1 in UUID=* | LABEL=* | PARTUUID=* | PARTLABEL=*) set -- "$(findfs "$1" 2>/dev/null)" ;; esac
  case $1 in /*) readlink -f "$1" 2>/dev/null || printf '%s\n' "$1" ;; *) printf '%s\n' "$1" ;; esac
}
last() { # the last mount at the path: its source and flags
  source= flags=
  while read -r id up device root at f rest; do
    [ "$at" = "$ep" ] || continue
    flags=$f rest=" $rest"
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
const doScript = realScript + `cmd() { "$@" </dev/null >&2; }
for a in "$@"; do
  case $a-$t in
  mount-swap) case $o in defaults | sw) cmd swapon "$s" ;; *) cmd swapon -o "$o" "$s" ;; esac ;;
  unmount-swap) cmd swapoff "$s" ;;
  mount-*) mkdir -p "$p" && cmd mount -t "$t" -o "$o" "$s" "$p" ;;
  remount-*) cmd mount -o "remount,$o" "$s" "$p" ;; # with a source it adds no options of fstab
  unmount-*) while [ "$(active)" ]; do cmd umount "$p" || exit 1; done ;;
  write-*)
    n=/etc/.fstab.new
    rm -f $n
    if [ -e /etc/fstab ]; then cp -p /etc/fstab $n; else (umask 022; : >$n); fi && cat >$n && chmod u+w $n || { rm -f $n; exit 1; }
    [ "$(cat /etc/fstab 2>/dev/null)" = "$old" ] || { rm -f $n; echo "another process changed /etc/fstab meanwhile: run the step again" >&2; exit 1; }
    mv -f $n /etc/fstab || exit 1
    [ ! -d /run/systemd/system ] || cmd systemctl daemon-reload ;;
  esac || exit 1
done
`
