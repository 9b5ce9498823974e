package unarchive

import "github.com/turnus/turnus/plugins/sdk/shell"

// refused is the exit code of doScript for an archive that must not be unpacked.
const refused = 65

// headScript makes $p the real path, because root's own link may lead into a folder of a user. A
// login that is root works beside it by names: open prints a folder above it in which others could
// exchange them.
const headScript = "LC_ALL=C; export LC_ALL\n" + shell.Sum + shell.Enter + `above=${p%/*}
while [ ! -d "$above/" ]; do above=${above%/*}; done
enter "$above/" || exit 1
p=${here%/}${p#"$above"} n=$p.turnus-new o=$p.turnus-old
open() {
  [ "$(id -u)" = 0 ] || return 0
  d=${here%/}
  set -- /.
  while [ "$d" ]; do set -- "$@" "$d/."; d=${d%/*}; done
  { ls -ldn -- "$@" || echo "? ? ? ? ? ? ? ? $here"; } | while read -r mode x uid x x x x x d; do
    case $mode in
    d????????[tT]*) [ "$uid" = 0 ] ;;
    d????w* | d???????w*) false ;;
    *) [ "$uid" = 0 ] ;;
    esac || { d=${d%/.}; echo "open ${d:-/}"; break; }
  done
}
`

// askScript prints what is at the path, and of which archive, and "stranger" if the host does not
// know the owner. The owner of the folder may exchange the mark for another file, so only a digest
// is shown of it.
const askScript = headScript + shell.IDs + `ids "$owner" || echo stranger
if [ "$a" ]; then
  [ -f "$a" ] || { echo noarchive; exit 0; }
  s=$(sum <"$a") && echo "sum $s" || exit 1
fi
open
[ $t != zip ] || command -v unzip >/dev/null 2>&1 || echo nounzip
for f in "$n" "$o"; do { [ ! -e "$f" ] && [ ! -L "$f" ]; } || echo leftover; done
if [ -L "$p" ] || { [ -e "$p" ] && [ ! -d "$p" ]; }; then echo "kind other"; exit 0; fi
[ -d "$p" ] || exit 0
if [ -L "$p/.turnus-unarchive" ]; then echo planted
elif [ -f "$p/.turnus-unarchive" ]; then sed -n 's/^sha256:/mark &/p' "$p/.turnus-unarchive" || exit 1
fi
here=$(ls -A "$p") || exit 1
[ -z "$here" ] || echo "kind full"
exit 0
`

// doScript unpacks to $n, which only this login can enter, checks what it got, and puts it in the
// place of the old folder. Names are read from the list of the archive. Links are checked where
// they lie: no list shows exactly what they are. A name with a line break could pretend to be a
// link in the list of ls. A signal ends the script at any moment: leave ignores a second one, and
// so do its programs. Then the old folder is at its place, or the new one is whole.
const doScript = headScript + `umask 022
refuse() { echo "$1" >&2; exit 65; }
fail() { echo "$1" >&2; exit 1; }
[ -z "$(open)" ] || fail "others may write to a folder on the way now: run the step again"
back=
leave() {
  trap '' HUP INT TERM PIPE
  cd /
  if [ "$back" ]; then if [ -e "$p" ]; then rm -rf "$o"; else mv "$o" "$p"; fi; fi
  rm -rf "$n"
}
trap leave EXIT
trap 'exit 1' HUP INT TERM PIPE
rm -rf "$n" || exit 1
if [ "$done" = true ]; then rm -rf "$o"; exit; fi
mkdir -p "${p%/*}/" && (umask 077; mkdir "$n") && mkdir "$n/x" || exit 1
if [ -z "$a" ]; then
  a=$n/archive
  cat >"$a" || fail "the archive did not arrive whole"
fi
is "$want" "$a" || fail "the archive did not arrive whole, or another process changed it"
case $t in
zip) unzip -l "$a" >"$n/list" && sed 1,3d "$n/list" | sed 's/^ *[0-9]* *[0-9-]* *[0-9:]* *//' >"$n/names" ;;
tgz) gzip -dc <"$a" >/dev/null && gzip -dc <"$a" | tar -tf - >"$n/names" ;;
tar) tar -tf - <"$a" >"$n/names" ;;
esac || fail "the archive cannot be read"
name=$(grep -E '^/|^\.\.(/|$)|/\.\.(/|$)' "$n/names" | head -n 1)
[ -z "$name" ] || refuse "the name $name leads out of its folder"
case $t in
zip) unzip -q -o "$a" -d "$n/x" </dev/null >&2 ;;
tgz) gzip -dc <"$a" | (cd "$n/x" && tar -xof -) 2>"$n/why" ;;
tar) (cd "$n/x" && tar -xof -) <"$a" 2>"$n/why" ;;
esac || {
  why=$(grep -v -e 'not recoverable' -e 'xit.*previous errors' -e 'time stamp' "$n/why" 2>/dev/null | tail -n 1)
  fail "it was not unpacked: ${why:+$why: }the archive has a link out of its folder or is damaged, or the disk is full"
}
cd -P "$n/x" && top=$PWD || exit 1
[ -z "$(find . -name '*
*')" ] || refuse "it has a name with a line break"
other=$(find . ! -type f ! -type d ! -type l | head -n 1)
[ -z "$other" ] || refuse "$other is a device or a named pipe"
find . -type f -links +1 -exec ls -ldin {} \; | sort | {
  inode= links=0 seen=0
  while read -r i mode l rest; do
    [ "$i" = "$inode" ] || { [ $seen = $links ] || exit 1; inode=$i links=$l seen=0; }
    seen=$((seen + 1))
  done
  [ $seen = $links ]
} || refuse "it has a link to a file out of its folder"
find . -type l | while IFS= read -r f; do
  to=$(readlink "$f") || to=/
  real=$(readlink -f "$f" 2>/dev/null)
  case $to in /*) exit 1 ;; ..|../*|*/..|*/../*) [ "$real" ] || exit 1 ;; esac
  case ${real:-$top}/ in "$top"/*) ;; *) exit 1 ;; esac
done || refuse "it has a link that leads out of its folder"
x=$n/x
if [ "$strip" = true ]; then
  set -- * .[!.]* ..?*
  for f in "$@"; do [ -e "$f" ] || [ -L "$f" ] || continue; [ "$x" = "$n/x" ] && [ -d "$f" ] && [ ! -L "$f" ] && x=$n/x/$f && continue; x=; break; done
  [ "$x" ] && [ "$x" != "$n/x" ] || refuse "strip: expected one folder in it, and nothing beside that"
fi
cd / || exit 1
rm -rf "$x/.turnus-unarchive" && printf '%s\n' "$mark" | cat >"$x/.turnus-unarchive" || fail "the mark of the archive was not written"
chmod 755 "$x" || exit 1
if [ -d "$p" ]; then
  mode=$(stat -c %a "$p" 2>/dev/null) && chmod "$mode" "$x"
  rm -rf "$o" || exit 1
fi
[ -z "$owner" ] || chown -R -h "$owner" "$x" || exit 1
if [ -d "$p" ]; then back=1; mv "$p" "$o" || exit 1; fi
mv "$x" "$p" || exit 1
trap '' HUP INT TERM PIPE
rm -rf "$o"
`
