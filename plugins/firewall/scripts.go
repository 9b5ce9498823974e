package firewall

import (
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// The scripts below run on the host by POSIX sh, around the lines of the sdk's dead man's switch. A
// push has the folder of its arming, push-ID, under the table's folder; in it new.nft is what is
// applied, and restore.nft what brings the old table back.

// preamble of every script, after the switch's own. State is printed in lines of a word and its
// value.
const preamble = `there() { nft list tables | grep -qxF "table $T"; }
scratch() { # how to get an empty network namespace; none where the kernel has no such thing
  if unshare -n true 2>/dev/null; then S=unshare
  elif ip netns add "turnus-$$" 2>/dev/null; then S=netns; ip netns del "turnus-$$"
  else S=none; fi
}
alone() { # LINKS: interfaces of the names that the host has, for rules that look them up when they load
  [ -n "$S" ] || scratch
  script=$1; shift
  [ -z "$LINKS" ] || script="for i in $(cd /sys/class/net && echo *); do ip link add \$i type dummy || ip link add \$i type bridge; done 2>/dev/null; $script"
  if [ "$S" = unshare ]; then unshare -n /bin/sh -c "$script" "$@"; return; fi
  ip netns add "turnus-$$" || return
  ip netns exec "turnus-$$" /bin/sh -c "$script" "$@"; s=$?
  ip netns del "turnus-$$"; return $s
}
live() {
  if there; then nft -j list table $T | sed 's/^/live /'; nft -s list table $T | sed 's/^/livetext /'
  else nft list tables >/dev/null || exit 65; echo absent; fi
}
`

// inspectScript changes nothing: the candidate comes on stdin and is in a temporary folder
// meanwhile.
func inspectScript(dead sdk.DeadMan) string { return inspectLines + dead.Other() + factLines }

const inspectLines = `command -v nft >/dev/null 2>&1 || { echo "nft is not installed" >&2; exit 65; }
nft list tables >/dev/null || exit 65
t=$(mktemp -d) || exit 65
trap 'rm -rf "$t"' EXIT
trap 'exit 65' HUP INT TERM
cat >"$t/new" || exit 65
now; echo "uptime $up"
nft --version | sed 's/^/version /'
live
scratch; echo "scratch $S"
{
  if [ "$S" != none ]; then
    alone 'nft -f "$1" || exit 1; nft -j list ruleset | sed "s/^/want /"; nft -s list ruleset | sed "s/^/wanttext /"' sh "$t/new" >"$t/out" 2>"$t/err" && cat "$t/out"
  fi &&
  nft -c -f "$t/new" >"$t/out" 2>"$t/err"
} || sed "s|^$t/new|ruleset|; s/^/bad /" "$t/err"
`

const factLines = `[ ! -r "$D/applied" ] || sed 's/^/applied /' "$D/applied"
[ ! -r "$D/source" ] || sed 's/^/source /' "$D/source"
[ ! -r "$D/widened" ] || sed 's/^/widened /' "$D/widened"
[ ! -r "$D/lock/widens" ] || sed 's/^/widens /' "$D/lock/widens"
if [ -n "$PERSIST" ] && cmp -s "$PERSIST" "$t/new"; then echo persisted; fi
[ ! -d "$PERSIST" ] || echo folder
exit 0
`

// widenScript writes the table that comes on stdin as JSON as text, and sees whether it loads. It
// changes nothing.
const widenScript = `t=$(mktemp -d) || exit 65
trap 'rm -rf "$t"' EXIT
trap 'exit 65' HUP INT TERM
cat >"$t/json" || exit 65
{
  alone 'nft -j -f "$1" >&2 || exit 1; nft -s list table $2 || exit 1' sh "$t/json" "$T" >"$t/text" 2>"$t/err" &&
  { echo "add table $T; delete table $T; "; cat "$t/text"; } >"$t/new" &&
  alone 'nft -f "$1" || exit 1; nft -j list ruleset | sed "s/^/want /"; nft -s list ruleset | sed "s/^/wanttext /"' sh "$t/new" >"$t/out" 2>"$t/err" &&
  cat "$t/out" && nft -c -f "$t/new" >"$t/out" 2>"$t/err"
} || sed "s|^$t/||; s/^/bad /" "$t/err"
exit 0
`

// armScript stages what comes on stdin, keeps the old table as a file that loads, and starts the
// timer.
func armScript(dead sdk.DeadMan) string {
	return dead.Take() + stageLines + dead.Start()
}

const stageLines = `cat >"$ID/new.nft" || giveup "the ruleset cannot be written"
[ "$MODE" != widen ] || printf '%s\n' "$HASH $NEW" >"$ID/widens"
{
  echo "add table $T"; echo "delete table $T"
  if there; then nft list table $T || exit 1; fi
} >"$ID/restore.nft" || giveup "the old table cannot be listed"
e=$(nft -c -f "$ID/restore.nft" 2>&1) || giveup "what nft lists of the old table does not load: $e"
scratch
if [ "$S" = none ]; then live
elif there; then
  alone 'nft -f "$1" || exit 1; nft -j list ruleset | sed "s/^/live /"; nft -s list ruleset | sed "s/^/livetext /"' sh "$ID/restore.nft" || giveup "the snapshot of the old table does not load"
else echo absent; fi
`

// applyScript applies while the timer surely runs and has most of its time left.
func applyScript(dead sdk.DeadMan) string { return dead.Held() + applyLines }

const applyLines = `e=$(nft -f new.nft 2>&1) || { echo "refused nft: $e" | tr '\n' ' '; exit 0; }
echo applied
`

// statusScript reports the state of a push.
const statusScript = `state "$D/$ID"
now; echo "uptime $up"
live
`

// confirmScript disarms, by the one rename that either it or the timer wins, and only then writes
// the file for the next boot.
func confirmScript(dead sdk.DeadMan) string {
	return dead.Disarm() + appliedLine + persistLines + "\n" + dead.Release()
}

const appliedLine = `printf '%s\n' "$HASH" >../applied.part && mv -f ../applied.part ../applied
printf '%s\n' "$SOURCE $HASH" >../source.part && mv -f ../source.part ../source
rm -f ../widened
if [ -e widens ]; then cp widens ../widened.part && mv -f ../widened.part ../widened; fi
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
func revertScript(dead sdk.DeadMan) string { return dead.Back() + "state \"$D/$ID\"\n" }

// dead is the push's dead man's switch.
func (p *push) dead() sdk.DeadMan {
	return sdk.DeadMan{
		Folder: p.params.folder(), ID: p.id, Key: p.key, Job: p.job, Name: "firewall",
		Within: time.Duration(p.params.ConfirmTimeout), Revert: "nft -f restore.nft",
	}
}

// script is a script with its variables.
func (p *push) script(text string) string {
	vars := sdk.Vars("T", p.params.Table, "HASH", p.want.hash, "NEW", p.fresh.hash, "SOURCE", p.source,
		"MODE", p.params.Mode, "PERSIST", p.params.Persist, "LINKS", p.links)
	return p.dead().Prelude() + vars + preamble + text
}
