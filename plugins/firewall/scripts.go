package firewall

import (
	"strconv"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// The scripts below run on the host by POSIX sh. A push has a folder of its own, push-ID, under the table's folder:
//
//	new.nft restore.nft   what is applied, and what brings the old table back
//	guard deadline        the timer's program, and its end on the clock of /proc/uptime, which nobody sets
//	armed                 until it is decided: renamed to confirmed by the worker, or to reverting by the timer. One rename wins
//	reverted              the old table is back
//
// lock, beside the folders, is a link to the push that is under way: made by ln, which is atomic, and taken away by whoever decided.

// preamble of every script. State is told in lines of a word and its value.
const preamble = `LC_ALL=C; PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; export LC_ALL PATH
umask 077
now() { read -r up rest </proc/uptime; up=${up%%.*}; }
boot() { cat /proc/sys/kernel/random/boot_id; }
there() { nft list tables | grep -qx "table $T"; }
alone() { unshare -n /bin/sh -c "$@"; }
live() {
  if there; then nft -j list table $T | sed 's/^/live /'; nft -s list table $T | sed 's/^/livetext /'
  else nft list tables >/dev/null || exit 65; echo absent; fi
}
state() {
  for s in armed confirmed reverting reverted; do if [ -e "$1/$s" ]; then echo "state $s"; fi; done
}
`

// lookScript changes nothing: the candidate comes on stdin and lies in a temporary folder meanwhile.
const lookScript = `command -v nft >/dev/null 2>&1 || { echo "nft is not installed" >&2; exit 65; }
nft list tables >/dev/null || exit 65
unshare -n true || { echo "unshare -n does not work here: the ruleset must be loaded in an empty network namespace first" >&2; exit 65; }
t=$(mktemp -d) || exit 65
trap 'rm -rf "$t"' EXIT
trap 'exit 65' HUP INT TERM
cat >"$t/new" || exit 65
now; echo "uptime $up"
nft --version | sed 's/^/version /'
live
{
  alone '[ -z "$2" ] || for i in /sys/class/net/*; do i=${i##*/}; ip link add "$i" type dummy || ip link add "$i" type bridge; done 2>/dev/null
    nft -f "$1" || exit 1; nft -j list ruleset | sed "s/^/want /"; nft -s list ruleset | sed "s/^/wanttext /"' sh "$t/new" "$LINKS" >"$t/out" 2>"$t/err" &&
  cat "$t/out" && nft -c -f "$t/new" >"$t/out" 2>"$t/err"
} || sed "s|^$t/new|ruleset|; s/^/bad /" "$t/err"
if [ -L "$D/lock" ]; then
  p=$(readlink "$D/lock")
  echo "lock $p"
  state "$D/$p"
  for f in key job deadline boot widens; do [ ! -r "$D/$p/$f" ] || sed "s/^/$f /" "$D/$p/$f"; done
  [ "$(cat "$D/$p/boot" 2>/dev/null)" = "$(boot)" ] || echo stale
fi
[ ! -r "$D/applied" ] || sed 's/^/applied /' "$D/applied"
[ ! -r "$D/widened" ] || sed 's/^/widened /' "$D/widened"
if [ -n "$PERSIST" ] && cmp -s "$PERSIST" "$t/new"; then echo persisted; fi
exit 0
`

// widenScript writes the table that comes on stdin as JSON as text, and sees whether it loads. It changes nothing.
const widenScript = `t=$(mktemp -d) || exit 65
trap 'rm -rf "$t"' EXIT
trap 'exit 65' HUP INT TERM
cat >"$t/json" || exit 65
{
  alone '[ -z "$2" ] || for i in /sys/class/net/*; do i=${i##*/}; ip link add "$i" type dummy || ip link add "$i" type bridge; done 2>/dev/null
    nft -j -f "$1" >&2 || exit 1; nft -s list table $3 || exit 1' sh "$t/json" "$LINKS" "$T" >"$t/text" 2>"$t/err" &&
  { echo "add table $T; delete table $T; "; cat "$t/text"; } >"$t/new" &&
  alone '[ -z "$2" ] || for i in /sys/class/net/*; do i=${i##*/}; ip link add "$i" type dummy || ip link add "$i" type bridge; done 2>/dev/null
    nft -f "$1" || exit 1; nft -j list ruleset | sed "s/^/want /"; nft -s list ruleset | sed "s/^/wanttext /"' sh "$t/new" "$LINKS" >"$t/out" 2>"$t/err" &&
  cat "$t/out" && nft -c -f "$t/new" >"$t/out" 2>"$t/err"
} || sed "s|^$t/||; s/^/bad /" "$t/err"
exit 0
`

// armScript stages what comes on stdin, keeps the old table as a file that loads, and starts the timer.
const armScript = `mkdir -p "$D" && cd "$D" && mkdir "$ID" || exit 65
now; deadline=$((up + WAIT))
printf '%s\n' "$KEY" >"$ID/key"; printf '%s\n' "$JOB" >"$ID/job"; boot >"$ID/boot"; echo $deadline >"$ID/deadline"
[ "$MODE" != widen ] || printf '%s\n' "$HASH $NEW" >"$ID/widens"
cat >"$ID/new.nft" || exit 65
stale() {
  q=$(readlink lock) || return 1
  [ "$(cat "$q/boot" 2>/dev/null)" = "$(boot)" ] || return 0
  [ ! -e "$q/confirmed" ] && [ ! -e "$q/reverted" ] || return 0
  [ ! -e "$q/armed" ] && [ ! -e "$q/reverting" ] && [ "$up" -gt $(($(cat "$q/deadline") + 5)) ]
}
if stale && mkdir takeover; then
  if stale; then rm -f lock; fi
  rmdir takeover
fi
if ! ln -sn "$ID" lock 2>/dev/null || [ "$(readlink lock)" != "$ID" ]; then
  p=$(readlink lock); echo "busy $p"; sed 's/^/job /' "$p/job" 2>/dev/null; sed 's/^/deadline /' "$p/deadline" 2>/dev/null
  echo "uptime $up"
  rm -rf "$ID"; exit 0
fi
giveup() { echo "refused $1"; rm -f "$ID/armed" lock; rm -rf "$ID"; exit 0; }
for old in push-*; do [ "$old" = "$ID" ] || rm -rf "$old"; done
{
  echo "add table $T"; echo "delete table $T"
  if there; then nft list table $T || exit 1; fi
} >"$ID/restore.nft" || giveup "the old table cannot be listed"
e=$(nft -c -f "$ID/restore.nft" 2>&1) || giveup "what nft lists of the old table does not load: $e"
if there; then
  alone '[ -z "$2" ] || for i in /sys/class/net/*; do i=${i##*/}; ip link add "$i" type dummy || ip link add "$i" type bridge; done 2>/dev/null
    nft -f "$1" || exit 1; nft -j list ruleset | sed "s/^/live /"; nft -s list ruleset | sed "s/^/livetext /"' sh "$ID/restore.nft" "$LINKS" || giveup "the snapshot of the old table does not load"
else echo absent; fi
cat >"$ID/guard" <<'GUARD'
` + guardScript + `GUARD
: >"$ID/armed"
sync
P=$(pwd)/$ID
ticks() { i=0; while [ ! -s "$P/ticking" ] && [ $i -lt 50 ]; do i=$((i + 1)); sleep 0.1 2>/dev/null || sleep 1; done; [ -s "$P/ticking" ]; }
if ! { [ -d /run/systemd/system ] && command -v systemd-run >/dev/null 2>&1 &&
    systemd-run --quiet --collect --unit="turnus-firewall-$ID" /bin/sh "$P/guard" </dev/null >/dev/null 2>&1 && ticks; }; then
  if command -v setsid >/dev/null 2>&1; then env -i PATH="$PATH" setsid /bin/sh "$P/guard" </dev/null >/dev/null 2>&1 &
  else env -i PATH="$PATH" nohup /bin/sh "$P/guard" </dev/null >/dev/null 2>&1 & fi
  ticks || giveup "the timer did not start"
fi
echo armed
`

// guardScript is the dead man's switch. It needs nothing but sh, sleep, mv and nft; not the connection, not the worker. A clean
// environment keeps it out of reach when the worker ends what it started. "guard now" takes the push back at once.
const guardScript = `#!/bin/sh
# Turnus: puts the old firewall table back unless the push is confirmed in time.
trap '' HUP INT TERM PIPE
LC_ALL=C; export LC_ALL
cd "${0%/*}" || exit 1
if [ "$1" != now ]; then
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
until nft -f restore.nft 2>failed; do
  n=$((n + 1)); [ $n -lt 600 ] || exit 1
  sleep 1
done
mv reverting reverted
[ "$(readlink ../lock)" != "${PWD##*/}" ] || rm -f ../lock
`

// applyScript applies while the timer surely runs and has most of its time left.
const applyScript = `cd "$D/$ID" || exit 65
[ -e armed ] && grep -q guard "/proc/$(cat ticking)/cmdline" 2>/dev/null || { echo "refused the timer is not running"; exit 0; }
now; read -r deadline <deadline
[ $((deadline - up)) -gt $((WAIT / 2)) ] || { echo "refused too little of confirm_timeout is left"; exit 0; }
e=$(nft -f new.nft 2>&1) || { echo "refused nft: $e" | tr '\n' ' '; exit 0; }
echo applied
`

// statusScript tells how a push stands.
const statusScript = `state "$D/$ID"
now; echo "uptime $up"
live
`

// confirmScript disarms, by the one rename that the timer cannot win too, and only then writes the file for the next boot.
const confirmScript = `cd "$D/$ID" || { echo "state gone"; exit 0; }
mv armed confirmed 2>/dev/null
if [ ! -e confirmed ]; then state .; exit 0; fi
echo "state confirmed"
printf '%s\n' "$HASH" >../applied.part && mv -f ../applied.part ../applied
rm -f ../widened
if [ -e widens ]; then cp widens ../widened.part && mv -f ../widened.part ../widened; fi
` + persistLines + `
[ "$(readlink ../lock)" != "$ID" ] || rm -f ../lock
exit 0
`

const persistLines = `if [ -n "$PERSIST" ]; then
  part=$PERSIST.part.$$
  if e=$(mkdir -p "${PERSIST%/*}/" 2>&1 && cp new.nft "$part" 2>&1 && sync && mv -f "$part" "$PERSIST" 2>&1); then echo persisted
  else rm -f "$part"; echo "refused $e" | tr '\n' ' '; echo; fi
fi`

// persistScript writes the file of a table that is live already; it comes on stdin.
const persistScript = `d=$(mktemp -d) && cd "$d" && cat >new.nft || exit 65
trap 'rm -rf "$d"' EXIT
` + persistLines + `
`

// revertScript asks the timer's own program to act now.
const revertScript = `[ ! -e "$D/$ID/guard" ] || /bin/sh "$D/$ID/guard" now
state "$D/$ID"
`

// script is a script with its variables.
func (p *push) script(text string) string {
	vars := []struct{ name, value string }{
		{"T", sdk.Quote(p.params.Table)},
		{"D", sdk.Quote(p.params.folder())},
		{"ID", sdk.Quote(p.id)},
		{"KEY", sdk.Quote(p.key)},
		{"JOB", sdk.Quote(p.job)},
		{"HASH", sdk.Quote(p.want.hash)},
		{"NEW", sdk.Quote(p.fresh.hash)},
		{"MODE", sdk.Quote(p.params.Mode)},
		{"PERSIST", sdk.Quote(p.params.Persist)},
		{"LINKS", sdk.Quote(p.links)},
		{"WAIT", strconv.Itoa(int((time.Duration(p.params.ConfirmTimeout) + time.Second - 1) / time.Second))},
	}
	var b strings.Builder
	for _, v := range vars {
		b.WriteString(v.name + "=" + v.value + "\n")
	}
	return b.String() + preamble + text
}

// answer is what a script told.
type answer struct {
	values map[string]string // the last of each word
	texts  map[string]*strings.Builder
}

func read(out string) answer {
	a := answer{values: map[string]string{}, texts: map[string]*strings.Builder{}}
	for line := range strings.Lines(out) {
		word, rest, _ := strings.Cut(strings.TrimRight(line, "\r\n"), " ")
		a.values[word] = rest
		if a.texts[word] == nil {
			a.texts[word] = &strings.Builder{}
		}
		_, _ = a.texts[word].WriteString(rest + "\n")
	}
	return a
}

func (a answer) has(word string) bool { _, ok := a.values[word]; return ok }

func (a answer) text(word string) string {
	if b := a.texts[word]; b != nil {
		return b.String()
	}
	return ""
}

func (a answer) number(word string) int { n, _ := strconv.Atoi(a.values[word]); return n }
