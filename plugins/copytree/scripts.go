package copytree

import "github.com/turnus/turnus/plugins/sdk/shell"

// lookScript prints what is at the names of its standard input, with mode, owner and hash, and with
// $delete what else is there. Not every host has stat, and ls may change letters of a name: then it
// is asked for one name at a time.
//
// A name with a line break would look like two names, of which the second may be any. A line
// without the // of the folder is the second: no name contains a slash.
const lookScript = "LC_ALL=C; export LC_ALL\n" + shell.Hidden + shell.IDs + `if ids "$o"; then echo "uid $uid"; echo "gid $gid"; else echo stranger; fi
if [ -d "$p" ]; then echo "root d"; elif [ -e "$p" ] || [ -L "$p" ]; then echo "root o"; exit 0; elif hidden "$p"; then exit 1; else exit 0; fi
cd -- "$p" || exit 1
[ ! -d ./.turnus-copy ] || echo leftover
sum() { if command -v sha256sum >/dev/null 2>&1; then xargs -0 sha256sum; else xargs -0 shasum -a 256; fi; }
there=$(while IFS= read -r f; do
  if [ -L "$f" ]; then echo "l $f"; elif [ -d "$f" ]; then echo "d $f"; elif [ -f "$f" ]; then echo "f $f"; elif [ -e "$f" ]; then echo "o $f"; fi
done)
only() { printf '%s\n' "$there" | sed -n "s/^[$1] //p" | tr '\n' '\0'; }
printf '%s\n' "$there"
case $there in *"f ./"*) only f | sum | sed 's/^/s /' ;; esac
case $there in *"f ./"* | *"d ./"*)
  if stat -c %a . >/dev/null 2>&1; then only fd | xargs -0 stat -c 'n %a %u %g %n'; else
    printf '%s\n' "$there" | sed -n 's/^[fd] //p' | while IFS= read -r f; do
      set -- $(ls -ldn "$f")
      echo "n $1 $3 $4 $f"
    done
  fi ;;
esac
if [ "$delete" = true ]; then
  find .//. | while IFS= read -r f; do
    case $f in
    .//. | .//./.turnus-copy | .//./.turnus-copy/*) continue ;;
    .//./*) f=${f#.//} ;;
    *) printf 'broken %s\n' "$last"; break ;;
    esac
    last=$f x=xf
    [ ! -d "$f" ] || [ -L "$f" ] || x=xd
    printf '%s %s\n' $x "$f"
  done
fi
exit 0
`

// doScript unpacks its standard input beside the files, and then does what is in it: folders and
// files are made, put in place, set, removed. The login may be root, and a folder may belong to
// another user, who exchanges its entries for links at any moment. So each folder is entered and
// compared with its path, and names are relative to it. Where others can also give names, files are
// kept in a folder $w inside it, which only this login can enter. A signal ends the script at any
// moment: clear ignores a second one, and so do its programs, so both folders go.
const doScript = "LC_ALL=C; export LC_ALL\n" + shell.Enter + shell.Held + `fail() { echo "$1" >&2; exit 1; }
is() { [ "$PWD" = "$1" ]; }
own() { set -- $(ls -ldn .); case $1 in drwx------* | drwx--S---*) [ -O . ] ;; *) false ;; esac; }
trusted() { set -- $(ls -ldn .); [ "$3" = 0 ] || [ -O . ] && case $1 in d????w*|d???????w*) false ;; esac; }
moved() { for m in -fT -fh; do mv $m "$1" "$2" 2>/dev/null && return; done; false; }
clear() {
  trap '' HUP INT TERM PIPE
  [ "${PWD##*/}" != "$w" ] || { rm -f ./x; cd -P ..; }
  rmdir "./$w" 2>/dev/null
  cd -P "$base" && is "$base" || return
  [ ! -d "./$s" ] || (cd -P "./$s" && is "$base/$s" && own && rm -rf ./new ./ops)
  rmdir "./$s" 2>/dev/null
}
command -v tar >/dev/null || fail "the host has no tar: install it with the job type package"
reach "$p" && base=$PWD || exit 1
from=$base/$s
trusted || { from=/proc/self/fd/9 && [ -d /proc/self/fd ]; } || fail "others may write to $base: run the step as the user of the folder, with become: {user: NAME}"
clear
trap clear EXIT
trap 'exit 1' HUP INT TERM PIPE
(umask 077; mkdir "./$s") && cd -P "./$s" && is "$base/$s" && own || exit 1
tar -xpof - && [ -f ./ops ] || fail "the files did not arrive whole, nothing was replaced"
exec 8<./ops 9<.
at() {
  n=${1##*/}
  [ "${1%/*}" != "$last" ] || return 0
  last=
  cd -P "$base" && is "$base" || return
  here=$base rest=${1%/*}/
  rest=${rest#./}
  while [ "$rest" ]; do
    into "${rest%%/*}" || return
    rest=${rest#*/}
  done
  safe=; ! trusted || safe=1
  last=${1%/*}
}
into() { cd -P "./$1" && is "$here/$1" && here=$here/$1; }
hold() { last=; (umask 077; mkdir "./$w") && cd -P "./$w" && is "$here/$w" && own; }
release() { rm -f ./x; cd .. && rmdir "./$w"; }
put() {
  if [ "$safe" ]; then { [ ! -L "./$n" ] || rm -f "./$n"; } && [ ! -d "./$n" ] && mv -f "$1" "./$n"; return; fi
  hold || return
  mv -f "$1" ./x && moved ./x "../$n"; set -- $?
  release && return $1
}
attribute() {
  if [ -d "./$n" ] && [ ! -L "./$n" ]; then
    last=
    [ "$n" = . ] || into "$n" || return
    $1 "$2" .; return
  fi
  if [ "$safe" ]; then [ -f "./$n" ] && [ ! -L "./$n" ] && $1 "$2" "./$n"; return; fi
  hold || return
  held "$n" && $1 "$2" ./x; set -- $?
  release && return $1
}
while IFS= read -r line <&8; do
  v=${line%% *} rest=${line#* }
  a=${rest%% *} f=${rest#* }
  at "$f" && case $v in
  d) { [ -d "./$n" ] || mkdir "./$n"; } && attribute chmod "$a" ;;
  o) attribute "chown -h" "$a" ;;
  m) attribute chmod "$a" ;;
  f) { [ "$a" = - ] || chown -h "$a" "$from/new/${f#./}"; } && put "$from/new/${f#./}" ;;
  x) rm -f "./$n" ;;
  r) rmdir "./$n" ;;
  esac || fail "$f was not put in place${why:+: others may write to its folder, and $why}"
done
`
