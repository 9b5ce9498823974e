// Package shell owns what several scripts for hosts share. They run by POSIX sh.
//
// The package must not know which script uses it.
package shell

import "strings"

// Prelude begins the scripts that run the programs of administrators: a login that is not root
// often lacks their folders in its PATH. Messages are English.
const Prelude = "LC_ALL=C; PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; export LC_ALL PATH\n"

// FullDiskHint is the next step where [FullDisk] is true.
const FullDiskHint = "is the disk full, or a quota reached? See df -h on the host"

// FullDisk reports whether a program that prints the text failed because a disk is full. The last
// of the messages is git's.
func FullDisk(text string) bool {
	for _, message := range []string{"No space left on device", "isk quota exceeded", "Out of diskspace"} {
		if strings.Contains(text, message) {
			return true
		}
	}
	return false
}

// OnlyRoot is a script that defines the function refused: it ends the script after a program that
// only root may run has failed. Under another login, shadow ends with the false reason of a lock.
const OnlyRoot = `refused() {
  [ "$(id -u)" = 0 ] || echo "permission denied: only root can change users and groups" >&2
  exit 1
}
`

// Enter is a script that defines the functions enter and reach. Both go to the folder of an
// absolute path; reach makes the folders that do not exist.
//
// They fail, and print why, where another user may have planted a link on the way: the login may be
// root, and the other user owns a folder on the way and can exchange its entries at any moment.
//
// A link is followed if only root and this login can have put it there. Any other link is followed
// only if it leads to a folder of its own owner, who could write there without it. This is the rule
// of systemd-tmpfiles for unsafe transitions. The working directory is checked after each step, not
// the path before it: an exchange in between changes nothing. After cd -P, PWD is that directory as
// the system names it, and no program is started for it.
const Enter = `enter() {
  cd -P -- "$1" || return
  here=$PWD
  case $1 in "$here" | "${here%/}/") return ;; esac
  me=$(id -u) todo=$1/ here= hops=0
  cd / || return
  while [ "$todo" ]; do
    name=${todo%%/*} todo=${todo#*/}
    case $name in
    '' | .) ;;
    ..) cd -P .. && here=${PWD%/} || return ;;
    *) if [ -L "./$name" ]; then follow "$name"; else step "$name"; fi || return ;;
    esac
  done
}
reach() {
  above=${1%/} below=
  while [ "$above" ] && [ ! -d "$above/" ]; do below=${above##*/}/$below above=${above%/*}; done
  enter "$above/" || return
  here=${here%/}
  while [ "$below" ]; do
    name=${below%%/*} below=${below#*/}
    { [ -d "./$name" ] || mkdir "./$name"; } && step "$name" || return
  done
}
step() {
  here=$here/$1
  cd -P -- "./$1" && [ "$PWD" = "$here" ] || { echo "$here was replaced by another user" >&2; return 1; }
}
follow() {
  name=$1
  set -- $(LC_ALL=C ls -ldn . "./$name")
  if ours "$1" "$3" "${12}"; then
    hops=$((hops + 1))
    [ $hops -le 40 ] && to=$(readlink "./$name") || { echo "$here/$name: the link cannot be followed" >&2; return 1; }
    case $to in /*) cd / && here= || return ;; esac
    todo=$to/$todo
    return
  fi
  whose=${12} link=$here/$name
  cd -P -- "./$name" || return
  set -- $(LC_ALL=C ls -ldn .)
  [ "$whose" != 0 ] && [ "$3" = "$whose" ] || {
    echo "$link is a link to a folder of another user, and its owner may have planted it: name the folder itself, or run the step as the owner with become: {user: NAME}" >&2
    return 1
  }
  here=${PWD%/}
}
ours() {
  [ "$2" = 0 ] || [ "$2" = "$me" ] || return
  case $1 in
  d????????[tT]*) ;;
  d???????w*) false; return ;;
  d????w*) ;;
  *) return ;;
  esac
  [ "$3" = 0 ] || [ "$3" = "$me" ]
}
`

// Reading is a script that defines the functions alone and pin, for files of the working directory.
//
// alone succeeds where only root and this login can give names in the directory. Elsewhere another
// user can exchange the file for a link between a test and the read.
//
// Hence pin opens the file as descriptor 3. It succeeds if that is the file of the name itself, and
// not the target of a link.
const Reading = `alone() {
  set -- $(LC_ALL=C ls -ldn .)
  case $1 in d????w* | d???????w*) return 1 ;; esac
  [ "$3" = 0 ] || [ -O . ]
}
pin() {
  exec 3<"./$1"
  set -- "$(inode "" "./$1")" "$(inode -L /proc/self/fd/3)"
  [ "$1" ] && [ "$1" = "$2" ]
}
inode() {
  stat $1 -c %d:%i "$2" 2>/dev/null && return
  set -- $(ls -di $1 "$2")
  echo "$1"
}
`

// Held is a script that defines the function held. In a folder that only this login can enter, it
// gives a file of the folder around it the second name ./x, for a change of its owner or mode: held
// NAME. It fails and sets $why where another user may have linked a file of others to the name.
//
// The count of names is no proof alone: that user removes the name once it has the second one. The
// kernel forbids the link, or the file is of the one user who can write to the folder.
const Held = `held() {
  why="the file cannot get a second name"
  ln -P "../$1" ./x 2>/dev/null || ln "../$1" ./x || return
  why="it is no file any more"
  [ -f ./x ] && [ ! -L ./x ] || return
  why="the file has names elsewhere"
  set -- $(LC_ALL=C ls -ldn .. ./x)
  [ "${11}" = 2 ] || return
  case $1 in d????w* | d???????w*) ;; *) [ "$3" != "${12}" ] || { why=; return; } ;; esac
  why="the host lets them link files of others there: set fs.protected_hardlinks to 1 with the job type sysctl"
  guarded=
  { read -r guarded </proc/sys/fs/protected_hardlinks; } 2>/dev/null # dash gets no line end from there, and fails
  [ "$guarded" = 1 ] && why=
}
`

// Hidden is a script that defines the function hidden: it succeeds, and prints why, where this
// login may not enter a folder on the way to an absolute path. test -e is false there, whether the
// path exists or not. Call it only if test -e and test -L are false.
//
// cd is asked, because test -x of busybox fails for root with a folder without execute bits.
const Hidden = `hidden() {
  d=${1%/*}
  while [ "$d" ] && [ ! -d "$d/" ]; do case $d in */*) d=${d%/*} ;; *) d=. ;; esac; done
  if (cd "$d/") 2>/dev/null; then return 1; fi
  echo "$d cannot be entered by this login: permission denied" >&2
}
`

// IDs is a script that defines the function ids: it sets uid and gid to the numbers of an owner,
// USER or USER:GROUP, and gid to "" where no group is given. It fails if the host does not know the
// user or the group. busybox has no getent.
const IDs = `ids() {
  uid=${1%%:*} gid=${1#"${1%%:*}"} gid=${gid#:}
  case $uid in *[!0-9]*) uid=$(id -u -- "$uid" 2>/dev/null) || return ;; esac
  case $gid in *[!0-9]*) ;; *) return 0 ;; esac
  if line=$(getent group "$gid" 2>/dev/null); then line=${line#*:*:} gid=${line%%:*}; return; fi
  while IFS=: read -r name x number x || [ "$name" ]; do
    [ "$name" != "$gid" ] || { gid=$number; return; }
  done </etc/group
  false
}
`

// Sum is a script that defines two functions: sum prints the SHA-256 of its standard input, as the
// first word of a line, and is succeeds if a file has a hash: is HASH FILE. Call sum in a command
// substitution: its program takes the place of the shell.
const Sum = `sum() {
  if command -v sha256sum >/dev/null 2>&1; then exec sha256sum
  elif command -v shasum >/dev/null 2>&1; then exec shasum -a 256
  else exec openssl dgst -sha256 -r; fi
}
is() { s=$(sum <"$2") && [ "${s%% *}" = "$1" ]; }
`

// Valid is a script that defines the function valid. It runs the command $v, as [ValidateCommand]
// makes it, on a file of the working directory. If the command refuses the file, valid fails and
// sets $why. Without a command it succeeds.
//
// The command runs in /: a file that it leaves would keep the folder of the new file.
const Valid = `valid() {
  [ "$v" ] || return 0
  why=$(f=$PWD/$1; export f; cd / && /bin/sh -c "$v" </dev/null 2>&1) && return
  why="the validate command refused the new file, nothing was written: $(printf '%s' "$why" | tr '\n' ' ')"
  false
}
`

// ValidateCommand returns the command with the variable of the file in place of each %s, which may
// have quotes around it.
func ValidateCommand(command string) string {
	return strings.NewReplacer("'%s'", `"$f"`, `"%s"`, `"$f"`, "%s", `"$f"`).Replace(command)
}

// Mode reads the permission bits of an entry as ls prints them, such as -rwsr-xr-t. It ignores the
// mark of an access list behind them.
func Mode(text string) (mode uint32, ok bool) {
	if len(text) < 10 {
		return 0, false
	}
	for i, c := range text[1:10] {
		bit := uint32(1) << (8 - i)
		special := uint32(0o4000) >> (i / 3) // setuid, setgid, sticky
		switch c {
		case '-':
		case 's', 't':
			mode |= bit | special
		case 'S', 'T':
			mode |= special
		default:
			mode |= bit
		}
	}
	return mode, true
}
