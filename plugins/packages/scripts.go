package packages

import "github.com/turnus/turnus/plugins/sdk/shell"

// askScript prints "change WHAT" for each thing that the package manager would do to bring the
// packages "$@" to $state, or "failed WHY". $refresh is the age in seconds from which the lists are
// stale; 0 is never.
//
// apt-get, dnf and opkg upgrade an installed package that they are to install, so they are asked
// for the missing names alone.
// The simulation shows whether a name that dpkg does not know, as of a virtual package, is provided
// by another. It takes no lock and works for every user. It prints Conf for each package, and for
// one that is only unpacked, as after a power cut, nothing else.
//
// "nolists" is that the host has no lists of packages at all.
const askScript = shell.Prelude + lockScript + thereScript + `lists() { for l in "$@"; do [ -e "$l" ] && return; done; echo nolists; }
old() { # stale unless one of the files or folders has changed since; find of busybox has no -newermt
  [ "$refresh" -gt 0 ] || return
  for l in "$@"; do t=$(date -r "$l" +%s 2>/dev/null) && [ $(($(date +%s) - t)) -lt "$refresh" ] && return; done
  echo stale
}
if command -v apt-get >/dev/null 2>&1; then
  echo "manager apt"
  old /var/lib/apt/lists /var/lib/apt/lists/partial
  lists /var/lib/apt/lists/*_Packages*
  want=
  for p in "$@"; do
    n=${p%%=*} v=
    case $p in *=*) v=${p#*=} ;; esac
    have=$(dpkg-query -W -f '${db:Status-Status} ${Version}\n' -- "$n" 2>/dev/null | sed -n 's/^installed //p')
    case $state in
    present) [ -n "$have" ] && { [ -z "$v" ] || [ "$v" = "$have" ]; } || want="$want $p" ;;
    absent) ! there "$n" || want="$want $n" ;;
    latest) want="$want $p" ;;
    esac
  done
  [ -n "$want" ] || exit 0
  verb=install new=
  [ $state = absent ] && verb=remove
  if out=$(apt-get -s -q -y -o APT::Cmd::Pattern-Only=true --allow-downgrades $verb $want 2>&1); then
    printf '%s\n' "$out" | sed -n -e 's/^Inst \([^ ]*\) \[\([^]]*\)\] (\([^ ]*\) .*/change upgrade \1 \2 to \3/p' -e 's/^Inst \([^ ]*\) (\([^ ]*\) .*/change install \1 \2/p' -e 's/^Remv \([^ ]*\) \[\([^]]*\)\].*/change remove \1 \2/p'
    printf '%s\n' "$out" | while read -r what name rest; do
      case $what in Inst) new="$new $name " ;; Conf) case $new in *" $name "*) ;; *) echo "change configure $name" ;; esac ;; esac
    done
  else
    printf '%s\n' "$out" | sed -n 's/^E: /failed /p'
  fi
elif command -v dnf >/dev/null 2>&1 || command -v yum >/dev/null 2>&1; then
  echo "manager dnf"
  dnf=$(command -v dnf || command -v yum)
  old /var/cache/dnf/.turnus-refreshed # each command of dnf writes into the folder
  lists /var/cache/dnf/*.solv /var/cache/yum/*
  want=
  for p in "$@"; do
    have=$(rpm -q --qf '%{VERSION}-%{RELEASE} ' -- "$p" 2>/dev/null) || # NAME.ARCH and NAME-VERSION are no provides
      have=$(rpm -q --whatprovides --qf '%{VERSION}-%{RELEASE} ' -- "$p" 2>/dev/null) || have=
    have=${have%% *}
    case $state$have in
    absent) ;;
    absent*) echo "change remove $p $have" ;;
    present | latest) echo "change install $p" && want="$want $p" ;;
    latest*)
      patient "$dnf" -q -C --setopt=exit_on_lock=1 check-update -- "$p" >/dev/null 2>&1
      [ $? = 100 ] && echo "change upgrade $p $have" ;;
    esac
  done
  [ -z "$want" ] || patient "$dnf" -q -C --setopt=exit_on_lock=1 --assumeno install -- $want 2>&1 | sed -n -e '/^Error: Unable to find/s/^Error: /failed /p' -e '/^Error: Cache-only/s/^Error: /failed /p'
elif command -v apk >/dev/null 2>&1; then
  echo "manager apk"
  old /var/cache/apk/.turnus-refreshed # each install writes into /lib/apk
  lists /var/cache/apk/APKINDEX.* /lib/apk/db/APKINDEX.* /etc/apk/cache/APKINDEX.*
  for p in "$@"; do
    if apk info -q -e "$p" >/dev/null 2>&1; then have=1; else have=; fi
    case $state$have in
    absent1) echo "change remove $p" ;;
    present | latest) echo "change install $p" ;;
    latest1) case $(apk add -u -s "$p" 2>/dev/null) in *Upgrading*) echo "change upgrade $p" ;; esac ;;
    esac
    [ $state = absent ] || [ "$have" ] || out=$(apk add -s "$p" 2>&1) || printf '%s\n' "$out" | while read -r l; do echo "failed $l"; done
  done
elif command -v opkg >/dev/null 2>&1; then
  echo "manager opkg"
  old /var/opkg-lists /tmp/opkg-lists /usr/lib/opkg/lists /var/lib/opkg/lists /var/opkg-lists/* /tmp/opkg-lists/* /usr/lib/opkg/lists/* /var/lib/opkg/lists/*
  lists /var/opkg-lists/* /tmp/opkg-lists/* /usr/lib/opkg/lists/* /var/lib/opkg/lists/*
  for p in "$@"; do
    have=$(opkg status "$p" 2>/dev/null | sed -n '/^Version: /{s///;h;}; /^Status: .* installed/{g;p;}')
    case $state in
    present) [ -n "$have" ] || { echo "change install $p"; opkg info "$p" 2>/dev/null | grep -q . || echo "failed no package $p in the lists"; } ;;
    absent) [ -z "$have" ] || echo "change remove $p $have" ;;
    latest)
      if [ -z "$have" ]; then echo "change install $p"; else
        opkg list-upgradable 2>/dev/null | sed -n "s/^$p - \(.*\) - \(.*\)/change upgrade $p \1 to \2/p"
      fi ;;
    esac
  done
fi
exit 0
`

// doScript brings the packages "$@" to $state by $manager, or refreshes the lists. It asks nothing,
// and keeps edited configuration files.
//
// A name that is not there must not be a regular expression: a dot would install what it matches.
//
// Its standard error names the process that has the lock as apt does: "held by process PID (NAME)".
const doScript = shell.Prelude + `DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=a; export DEBIAN_FRONTEND NEEDRESTART_MODE
exec </dev/null
` + lockScript + thereScript + `apt() { apt-get -q -y -o APT::Cmd::Pattern-Only=true -o DPkg::Lock::Timeout="$wait" -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold --allow-downgrades "$@"; }
case $manager in
apt)
  case $state in
  refresh) patient apt-get -q -o APT::Update::Error-Mode=any update && touch /var/lib/apt/lists ;;
  absent)
    for p in "$@"; do
      shift
      ! there "${p%%=*}" || set -- "$@" "${p%%=*}"
    done
    [ $# = 0 ] || apt remove "$@" ;;
  latest) apt install "$@" ;;
  present)
    for p in "$@"; do
      shift
      case $(dpkg-query -W -f '${db:Status-Status}=${Version}' -- "${p%%=*}" 2>/dev/null) in
      installed="${p#*=}") ;;
      installed=*) case $p in *=*) set -- "$@" "$p" ;; esac ;;
      *) set -- "$@" "$p" ;;
      esac
    done
    [ $# = 0 ] || apt install "$@" ;;
  esac ;;
dnf)
  dnf=$(command -v dnf || command -v yum)
  dnf() { patient "$dnf" -q -y --setopt=exit_on_lock=1 "$@"; }
  case $state in
  refresh) case $dnf in */dnf) set -- --refresh ;; *) set -- ;; esac; dnf makecache "$@" && touch /var/cache/dnf/.turnus-refreshed ;;
  absent) dnf remove -- "$@" ;;
  present)
    for p in "$@"; do
      shift
      rpm -q -- "$p" >/dev/null 2>&1 || rpm -q --whatprovides -- "$p" >/dev/null 2>&1 || set -- "$@" "$p"
    done
    [ $# = 0 ] || dnf install -- "$@" ;;
  latest) dnf install -- "$@" && dnf upgrade -- "$@" ;;
  esac ;;
apk)
  case $state in
  refresh) apk --wait "$wait" update -q && mkdir -p /var/cache/apk && touch /var/cache/apk/.turnus-refreshed ;;
  absent) apk --wait "$wait" del -q "$@" ;;
  present) apk --wait "$wait" add -q "$@" ;;
  latest) apk --wait "$wait" add -q -u "$@" ;;
  esac ;;
opkg)
  case $state in
  refresh) patient opkg update ;;
  absent) patient opkg remove "$@" ;;
  present)
    for p in "$@"; do
      shift
      have=$(patient opkg status "$p") || exit
      printf '%s\n' "$have" | grep -q '^Status: .* installed' || set -- "$@" "$p"
    done
    [ $# = 0 ] || patient opkg install "$@" ;;
  latest) patient opkg install "$@" && patient opkg upgrade "$@" ;;
  esac ;;
esac
`

// renewScript refreshes the lists, asks again, and installs where there is something to do. Its
// output is the answer alone.
const renewScript = `
work refresh >&2 || exit
answer=$(ask) || exit
printf '%s\n' "$answer"
case $answer in
*"
failed "*) ;;
*"
change "*) work "$state" >&2 ;;
esac
`

// thereScript asks dpkg for a package. After a removal that was killed, a package may be
// half-configured: it is still there.
const thereScript = `there() { dpkg-query -W -f '${db:Status-Status}\n' -- "$1" 2>/dev/null | grep -qvx -e not-installed -e config-files; }
`

// lockScript runs a command again while another process has the lock, for $wait seconds at most:
// one of dnf, which ends with 200 then, of opkg, or apt-get update, which waits for no lock itself.
const lockScript = `patient() {
  tries=$wait
  while :; do
    said=$("$@" 2>&1); code=$?
    case $code-$said in
    [!0]*"ermission denied"*) printf '%s\n' "$said" >&2; return $code ;;
    200-* | [!0]*"ould not lock "* | [!0]*"ould not get lock "*) [ "$tries" -gt 0 ] && tries=$((tries - 1)) && sleep 1 && continue ;;
    0-*) [ -z "$said" ] || printf '%s\n' "$said"; return 0 ;;
    *) printf '%s\n' "$said" >&2; return $code ;;
    esac
    pid=$(printf '%s\n' "$said" | sed -n 's/.*locked by \([0-9]*\).*/\1/p' | tail -n 1)
    printf '%s\n' "$said" >&2
    [ -z "$pid" ] || echo "held by process $pid ($(cat "/proc/$pid/comm" 2>/dev/null))" >&2
    return $code
  done
}
`
