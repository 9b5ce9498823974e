#!/bin/sh
# Params come as JSON on stdin. Printed lines go to the operator, those that are events to Turnus.
set -eu
params=$(cat)
param() { printf '%s' "$params" | jq -r --arg name "$1" '.[$name]'; }
event() { jq -cn "$@"; } # {"event": …} on one line

path=$(param path)
printf '%s\n' "$(param text)" >want
: >have
code=0
turnus-host get "$path" have 2>why || code=$?
if [ "$code" != 0 ] && ! grep -q 'no such file\|not found\|not exist' why; then
  cat why >&2
  exit "$code"
fi
event --argjson size "$(wc -c <want)" '{event: "output", name: "size", value: $size}'
if [ "$code" = 0 ] && cmp -s want have; then
  exit 0
fi
event --arg title "$path" --rawfile before have --rawfile after want '{event: "diff", title: $title, before: $before, after: $after}'
event '{event: "changed"}'
[ -n "$TURNUS_CHECK" ] || turnus-host put want "$path"
