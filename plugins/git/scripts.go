package git

import (
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// asOwner runs a script in the folder, as its owner where the login is root and the owner another.
// With enter=reach the folder is made. The script works in its working directory, and $there is set
// if that is the folder: the path may lead elsewhere a moment later.
func asOwner(folder, enter, vars, script string) string {
	return sdk.Vars("p", folder, "go", enter, "script", vars+settings+script) + ownerScript
}

const ownerScript = "LC_ALL=C; export LC_ALL\n" + shell.Enter + `command -v git >/dev/null 2>&1 || { echo nogit; exit 0; }
cd / && umask 022
there=
if [ "$go" = reach ] || [ -d "$p/" ]; then
  $go "$p/" || exit 1
  there=1
  set -- $(ls -ldn .)
  uid=$3
elif [ -e "$p" ] || [ -L "$p" ]; then echo other
fi
script="there=$there
$script"
if [ "$there" ] && [ "$uid" != 0 ] && [ "$(id -u)" = 0 ]; then
  set -- $(ls -ld .)
  case $3 in *[!0-9]*) ;; *) echo "the owner $3 of $p has no name on the host: make that user first" >&2; exit 1 ;; esac
  exec su -s /bin/sh "$3" -c "$script" </dev/null
fi
exec sh -c "$script" </dev/null
`

// settings keep git from asking, and from following the user's environment.
const settings = `LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_ASKPASS=true GIT_SSH_COMMAND="${GIT_SSH_COMMAND:-ssh} -oBatchMode=yes" GIT_ALLOW_PROTOCOL=https:http:ssh:git:file
export LC_ALL GIT_TERMINAL_PROMPT GIT_ASKPASS GIT_SSH_COMMAND GIT_ALLOW_PROTOCOL
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
mark=.git/turnus-unfinished
`

// askScript checks the clone, and asks the repository for the version. It takes no lock of the
// clone: nothing is written.
const askScript = `GIT_OPTIONAL_LOCKS=0; export GIT_OPTIONAL_LOCKS
if [ "$there" ] && [ -d .git ]; then
  head=$(git rev-parse -q --verify 'HEAD^{commit}') && echo "head $head"
  echo "origin $(git config --get remote.origin.url)"
  if [ -e "$mark" ]; then echo unfinished
  elif [ -z "$head" ]; then # a step that ended before its mark has put no file there
    echo unfinished
    [ "$(ls -A)" = .git ] || echo other
  else
    s=$(git status --porcelain --untracked-files=no) || exit 1
    [ -z "$s" ] || printf '%s\n' "$s" | head -n 5 | sed 's/^/dirty /'
  fi
elif [ "$there" ]; then
  [ -z "$(ls -A)" ] || echo other
  cd / || exit 1
fi
case $version in *[!0-9a-f]*) ;; *) [ ${#version} -lt 40 ] || exit 0 ;; esac
if refs=$(git ls-remote -- "$url" "$version" "$version^{}" 2>&1); then
  while read -r l; do echo "ref $l"; done <<END
$refs
END
else
  echo "failed $(printf '%s\n' "$refs" | grep -v '^hint' | head -n 1)"
fi
exit 0
`

// doScript makes a mark before it touches files of the clone: what is half checked out is then no
// local change, and the next step finishes it. Before the mark, git reports whether a file that it
// does not track is in the way. A full disk may have left a part of a new .git: git init completes
// it, except for an empty HEAD.
const doScript = `if [ "$(git rev-parse --git-dir 2>/dev/null)" != .git ]; then
  [ -s .git/HEAD ] || rm -f .git/HEAD
  git init -q . || exit 1
fi
case $(git config --get remote.origin.url) in
"$url") ;;
'') git remote add origin "$url" ;;
*) git config remote.origin.url "$url" ;;
esac || exit 1
n=
[ "$depth" = 0 ] || n=--depth=$depth
git cat-file -e "$want^{commit}" 2>/dev/null || git fetch -q $n --no-tags origin "${ref:-$want}" ||
  { [ -z "$ref" ] && git fetch -q --tags origin '+refs/heads/*:refs/remotes/origin/*'; } || exit 1
git cat-file -e "$want^{commit}" || { echo "the repository changed meanwhile, or has no commit $want: run the step again" >&2; exit 1; }
if [ -e "$mark" ]; then rm -f .git/index.lock
elif git rev-parse -q --verify HEAD >/dev/null; then
  git read-tree -m -u --dry-run HEAD "$want" || exit 1
fi
: >"$mark" && git -c advice.detachedHead=false checkout -q -f --detach "$want" -- && rm -f "$mark"
`
