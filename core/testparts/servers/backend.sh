#!/bin/sh
# RAUC's custom boot loader of a bootlab device. An activated slot has one try until it is good.
cd "${0%/*}/boot" || exit 1
case $1 in
get-primary) cat primary ;;
set-primary)
  [ ! -e ../flags/activate-fails ] || exit 1
  echo 1 >"$2.tries" && echo "$2" >primary.new && mv primary.new primary ;;
get-state) [ "$(cat "$2.tries")" -gt 0 ] && echo good || echo bad ;;
set-state)
  [ ! -e ../flags/good-is-a-lie ] || exit 0
  if [ "$3" = good ]; then echo 3 >"$2.tries"; else echo 0 >"$2.tries"; fi ;;
*) exit 1 ;;
esac
