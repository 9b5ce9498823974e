package copytree

// lookScript says what is at the names of its standard input, with mode, owner and hash, and with
// $delete what else is there. Not every host has stat, and ls may change letters of a name: then it
// is asked for one name at a time.
const lookScript = `LC_ALL=C; export LC_ALL
if [ "$u" ]; then
  case $u in *[!0-9]*) u=$(id -u -- "$u" 2>/dev/null) ;; esac
  case $g in *[!0-9]*) g=$({ getent group "$g" 2>/dev/null || grep "^$g:" /etc/group; } | cut -d: -f3 | head -n 1); [ "$g" ] || u= ;; esac
  if [ "$u" ]; then echo "uid $u"; echo "gid $g"; else echo stranger; fi
fi
if [ -d "$p" ]; then echo "root d"; elif [ -e "$p" ] || [ -L "$p" ]; then echo "root o"; exit 0; else exit 0; fi
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
  find . -type d ! -name . ! -path './.turnus-copy*' | sed 's/^/xd /'
  find . ! -type d ! -path './.turnus-copy*' | sed 's/^/xf /'
fi
exit 0
`

// doScript unpacks its standard input beside the files, and then does what is in it: folders and
// files are made, put in place, set, removed.
const doScript = `LC_ALL=C; export LC_ALL
[ -d "$p" ] || { mkdir -p "$p" && fresh=1; } || exit 1
cd -- "$p" || exit 1
trap 'rm -rf "./$s"' EXIT
trap 'exit 1' HUP INT TERM
rm -rf "./$s" && (umask 077; mkdir "./$s") || exit 1
(cd "./$s" && tar -xpof -) && [ -f "./$s/ops" ] || { echo "the files did not arrive whole, nothing was replaced: the disk may be full" >&2; exit 1; }
while IFS= read -r line; do
  v=${line%% *} rest=${line#* }
  a=${rest%% *} f=${rest#* }
  case $v in
  d) { [ -d "$f" ] || mkdir "$f"; } && chmod "$a" "$f" ;;
  o) chown -h "$a" "$f" ;;
  m) chmod "$a" "$f" ;;
  f) { [ "$a" = - ] || chown -h "$a" "./$s/new/$f"; } && { [ ! -L "$f" ] || rm -f "$f"; } && [ ! -d "$f" ] && mv -f "./$s/new/$f" "$f" ;;
  x) rm -f "$f" ;;
  r) rmdir "$f" ;;
  esac || { echo "$f was not put in place" >&2; exit 1; }
done <"./$s/ops"
`
