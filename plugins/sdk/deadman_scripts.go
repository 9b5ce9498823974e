package sdk

import (
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk/shell"
)

// The work of a dead man's switch on the device, as lines of sh. Job types put their own lines
// between them, to save round trips. All come after [DeadMan.Prelude]. They speak in lines of a
// word and its value. An arming has a folder of its own, Folder/ID:
//
//	guard deadline boot   the timer's program, its end on the clock of /proc/uptime, and the boot that it is of
//	key job               whose it is
//	armed                 until it is decided: renamed to confirmed, or to reverting by the timer. One rename wins
//	reverted              it is done
//	ticking failed        process id of the timer that runs, and what reverting said last
//
// lock, beside the folders, is a link to the one that is under way: made by ln, which is atomic,
// and removed by the side that decided.

// Prelude sets D, ID, KEY, JOB, WAIT and UNIT, and makes the functions now (sets up, the device's
// uptime in seconds), boot (its boot id) and state (how the arming in a folder stands).
func (d DeadMan) Prelude() string {
	var b strings.Builder
	for _, v := range []struct{ name, value string }{
		{"D", Quote(d.Folder)}, {"ID", Quote(d.ID)}, {"KEY", Quote(d.Key)}, {"JOB", Quote(d.Job)},
		{"WAIT", strconv.Itoa(int((d.Within + time.Second - 1) / time.Second))},
		{"UNIT", Quote("turnus-" + d.Name + "-" + d.ID)},
	} {
		b.WriteString(v.name + "=" + v.value + "\n")
	}
	return b.String() + deadManPrelude
}

const deadManPrelude = shell.Prelude + `umask 077
now() { read -r up rest </proc/uptime; up=${up%%.*}; }
boot() { cat /proc/sys/kernel/random/boot_id; }
state() {
  for s in armed confirmed reverting reverted; do if [ -e "$1/$s" ]; then echo "state $s"; fi; done
}
`

// Take returns the script that makes the arming's folder, enters Folder and takes the lock, also
// from an arming that has ended. It replaces one of the same ID and Key that has ended, as an
// earlier attempt leaves it. The time begins. While another arming is under way it prints "busy
// ID", "job …", "deadline …", "uptime …", and ends.
//
// Afterwards giveup REASON undoes it all, prints "refused REASON" and ends the script. Lines that
// read standard input come after Take.
func (d DeadMan) Take() string { return takeScript }

const takeScript = `safe() { # who else may write to the folder, or put another in its place, chooses what the timer runs
  ls -ldn "$1" | {
    read -r mode links owner rest
    [ "$owner" = 0 ] || [ "$owner" = "$(id -u)" ] || exit 1
    case $mode in
    d????-??-*) ;;
    d????????[tT]*) [ "$1" = .. ] ;;
    *) exit 1 ;;
    esac
  }
}
mkdir -p "$D" && cd "$D" || exit 65
if [ -L "$D" ] || ! safe . || ! safe ..; then
  echo "refused $D is a link, or others than root and this login may write to it or to the folder above: chown, chmod go-w"; exit 0
fi
now; deadline=$((up + WAIT))
stale() {
  q=$(readlink lock) || return 1
  [ "$(cat "$q/boot" 2>/dev/null)" = "$(boot)" ] || return 0
  # this ID's own timer may be about to remove the lock
  if [ -e "$q/confirmed" ] || [ -e "$q/reverted" ]; then [ "$q" != "$ID" ]; return; fi
  [ ! -e "$q/armed" ] && [ ! -e "$q/reverting" ] && [ "$up" -gt $(($(cat "$q/deadline") + 5)) ]
}
if stale && mkdir ".takeover.$(boot)"; then # one that a power cut left behind is of another boot
  if stale; then rm -f lock; fi
  rmdir .takeover.*
fi
# without a key it is a Take that was cut, as by a full disk
if [ "$(readlink lock)" != "$ID" ] && { [ ! -s "$ID/key" ] || [ "$(cat "$ID/key")" = "$KEY" ]; }; then rm -rf "$ID"; fi
mkdir "$ID" || exit 65
printf '%s\n' "$KEY" >"$ID/key"; printf '%s\n' "$JOB" >"$ID/job"; boot >"$ID/boot"; echo $deadline >"$ID/deadline" || exit 65
if ! ln -sn "$ID" lock 2>/dev/null || [ "$(readlink lock)" != "$ID" ]; then
  p=$(readlink lock); echo "busy $p"; sed 's/^/job /' "$p/job" 2>/dev/null; sed 's/^/deadline /' "$p/deadline" 2>/dev/null
  echo "uptime $up"
  rm -rf "$ID"; exit 0
fi
giveup() { echo "refused $1"; rm -f "$ID/armed" lock; rm -rf "$ID"; exit 0; }
for old in */deadline; do
  old=${old%/deadline}
  [ "$old" = "$ID" ] || [ -L "$old" ] || [ ! -e "$old/deadline" ] || rm -rf "$old"
done
`

// Start arms: it comes after Take, in Folder. It prints "armed" when the timer surely runs.
func (d DeadMan) Start() string {
	return "cat >\"$ID/guard\" <<'" + guardEnd + "'\n" + guardHead + "back() {\n" + strings.TrimRight(d.Revert, "\n") + "\n}\n" + guardTail + guardEnd + "\n" + startScript
}

// The timer's program needs only sh, sleep, mv and the commands that revert; not the connection,
// not the worker. A clean environment keeps it out of reach when the worker ends what it started.
// "guard now" reverts immediately.
const (
	guardHead = `#!/bin/sh
# Turnus: takes a change back unless it is confirmed in time.
trap '' HUP INT TERM PIPE
` + shell.Prelude + `cd "${0%/*}" || exit 1
`
	guardTail = `if [ "$1" != now ]; then
  read -r deadline <deadline || exit 1
  (echo -900 >/proc/self/oom_score_adj) 2>/dev/null
  echo $$ >ticking
  while [ -e armed ]; do
    read -r up rest </proc/uptime
    [ "${up%%.*}" -lt "$deadline" ] || break
    sleep 1
  done
fi
mv armed reverting 2>/dev/null || exit 0
n=0
until (back) </dev/null >/dev/null 2>failed; do
  n=$((n + 1)); [ $n -lt 600 ] || exit 1
  sleep 1
done
mv reverting reverted
[ "$(readlink ../lock)" != "${PWD##*/}" ] || rm -f ../lock
`
	startScript = `: >"$ID/armed"
sync
P=$(pwd)/$ID
ticks() { i=0; while [ ! -s "$P/ticking" ] && [ $i -lt 50 ]; do i=$((i + 1)); sleep 0.1 2>/dev/null || sleep 1; done; [ -s "$P/ticking" ]; }
if ! { [ -d /run/systemd/system ] && command -v systemd-run >/dev/null 2>&1 &&
    systemd-run --quiet --collect --unit="$UNIT" /bin/sh "$P/guard" </dev/null >/dev/null 2>&1 && ticks; }; then
  if command -v setsid >/dev/null 2>&1; then env -i PATH="$PATH" setsid /bin/sh "$P/guard" </dev/null >/dev/null 2>&1 &
  else env -i PATH="$PATH" nohup /bin/sh "$P/guard" </dev/null >/dev/null 2>&1 & fi
  ticks || giveup "the timer did not start"
fi
echo armed
`
)

// Held returns the script that enters the arming's folder, and ends with "refused …" unless the
// timer surely runs and has more than half of its time left. Lines that change the device come
// after it.
func (d DeadMan) Held() string { return heldScript }

const heldScript = `cd "$D/$ID" || exit 65
[ -e armed ] && grep -q guard "/proc/$(cat ticking)/cmdline" 2>/dev/null || { echo "refused the timer is not running"; exit 0; }
now; read -r deadline <deadline
[ $((deadline - up)) -gt $((WAIT / 2)) ] || { echo "refused too little time is left until the device reverts"; exit 0; }
`

// Disarm returns the script that confirms by a rename, which either it or the timer wins, and
// enters the arming's folder. If the timer was first it prints the state, "state …", and ends.
// Lines that make the change permanent come after it, and then Release.
func (d DeadMan) Disarm() string { return disarmScript }

const disarmScript = `cd "$D/$ID" || { echo "state gone"; exit 0; }
mv armed confirmed 2>/dev/null
if [ ! -e confirmed ]; then state .; exit 0; fi
echo "state confirmed"
`

// Release lets others arm. It comes after Disarm, in the arming's folder.
func (d DeadMan) Release() string { return releaseScript }

const releaseScript = `[ "$(readlink ../lock)" != "$ID" ] || rm -f ../lock
`

// Back reverts now, by the timer's own program.
func (d DeadMan) Back() string { return backScript }

const backScript = `[ ! -e "$D/$ID/guard" ] || /bin/sh "$D/$ID/guard" now
`

// State returns the script that prints the state of the arming: "state …", "deadline …", "uptime
// …", and "stale" when the device was booted since.
func (d DeadMan) State() string { return stateScript }

const stateScript = `state "$D/$ID"
now; echo "uptime $up"
if [ -r "$D/$ID/deadline" ]; then
  for f in key job deadline; do sed "s/^/$f /" "$D/$ID/$f"; done
  [ "$(cat "$D/$ID/boot" 2>/dev/null)" = "$(boot)" ] || echo stale
fi
`

// Other returns the script that prints the arming under way in Folder: "lock ID", and of that
// "state …", "key …", "job …", "deadline …", "boot …", "uptime …", and "stale" when the device was
// booted since; nothing where nothing is. It changes nothing.
func (d DeadMan) Other() string { return otherScript }

const otherScript = `if [ -L "$D/lock" ]; then
  p=$(readlink "$D/lock")
  echo "lock $p"
  state "$D/$p"
  for f in key job deadline boot; do [ ! -r "$D/$p/$f" ] || sed "s/^/$f /" "$D/$p/$f"; done
  [ "$(cat "$D/$p/boot" 2>/dev/null)" = "$(boot)" ] || echo stale
  now; echo "uptime $up"
fi
`
