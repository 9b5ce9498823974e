#!/bin/sh
# What a host notes of itself: oracle RUN STEP SECONDS CODE. A line is appended at the begin, with
# the executions that are alive on this host, and one at the end. Times are seconds since boot.
me=/mnt/live/$$
echo "$TURNUS_FENCE:$1:$2" >$me
alive=-
for f in /mnt/live/*; do
  pid=${f##*/}
  [ "$pid" = $$ ] && continue
  if kill -0 "$pid" 2>/dev/null; then
    read -r other 2>/dev/null <"$f" && alive="$alive,$other"
  else
    rm -f "$f"
  fi
done
read -r now rest </proc/uptime
echo "begin $TURNUS_FENCE $1 $2 $$ $CHAOS_WORKER $alive $now" >>/mnt/log
sleep "$3"
read -r now rest </proc/uptime
echo "end $TURNUS_FENCE $1 $2 $$ $4 $now" >>/mnt/log
rm -f $me
exit "$4"
