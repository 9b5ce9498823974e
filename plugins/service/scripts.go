package service

import "github.com/turnus/turnus/plugins/sdk/shell"

// lookScript prints what is known of the service $n. systemctl show succeeds for units that do not
// exist: LoadState shows it. A systemd that is installed and does not run, as in a container,
// manages nothing.
//
// It prints "waits" for a service that died and that systemd starts again later, "enabled" for one
// that starts with the host, "static" for one that systemd can neither enable nor disable, and
// "undo" for one that can be disabled.
//
// It prints "unseen" for one that cannot report whether it runs. A script of OpenWrt without procd
// prints its help, with exit code 0, when it is asked.
const lookScript = shell.Prelude + `enabled() { echo enabled; echo undo; }
if [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1; then
  echo "init systemd"
  s=$(systemctl show -p LoadState -p ActiveState -p SubState -- "$n") || exit 1
  case $s in *LoadState=loaded*|*LoadState=masked*) echo known ;; esac
  case $s in *SubState=auto-restart*) echo waits ;; *ActiveState=active*|*ActiveState=reloading*|*ActiveState=activating*) echo active ;; esac
  is=$(systemctl is-enabled -- "$n" 2>/dev/null)
  if [ "$is" = indirect ]; then # it starts with those that its Also= names
    for also in $(systemctl cat -- "$n" 2>/dev/null | sed -n 's/^Also=//p'); do
      case $(systemctl is-enabled -- "$also" 2>/dev/null) in enabled) is=enabled ;; esac
    done
  fi
  case $is in enabled|enabled-runtime|alias) echo undo ;; esac
  case $is in enabled|alias|generated) echo enabled ;; static) echo static ;; esac
elif command -v rc-service >/dev/null 2>&1; then
  echo "init openrc"
  rc-service -e "$n" 2>/dev/null && echo known
  rc-service "$n" status >/dev/null 2>&1 && echo active
  for f in /etc/runlevels/*/"$n"; do [ -e "$f" ] && enabled && break; done
elif [ -e /etc/rc.common ]; then
  echo "init procd"
  [ -x "/etc/init.d/$n" ] && echo known
  case $("/etc/init.d/$n" running 2>/dev/null && echo yes) in *Syntax:*) echo unseen ;; *yes) echo active ;; esac
  "/etc/init.d/$n" enabled >/dev/null 2>&1 && enabled
elif [ -d /etc/init.d ]; then
  echo "init sysv"
  [ -x "/etc/init.d/$n" ] && echo known && "/etc/init.d/$n" status >/dev/null 2>&1 && echo active
  for f in /etc/rc[2345].d/S[0-9][0-9]"$n"; do [ -e "$f" ] && enabled && break; done
fi
exit 0
`

// actScript does the actions that are its arguments, by the manager $i, and then waits $t seconds
// for what was started. Of what died it prints the log since this start.
const actScript = shell.Prelude + `do_systemd() {
  systemctl "$1" -- "$n" || return
  [ "$1" != disable ] || [ "$(systemctl is-enabled -- "$n" 2>/dev/null)" != enabled-runtime ] || systemctl disable --runtime -- "$n"
}
do_openrc() {
  case $1 in
  enable) rc-update add "$n" default ;;
  disable) # rc-update -a fails unless the service is in all runlevels
    set --
    for f in /etc/runlevels/*/"$n"; do [ ! -e "$f" ] || { f=${f%/*} && set -- "$@" "${f##*/}"; }; done
    rc-update del "$n" "$@" ;;
  *) rc-service "$n" "$1" ;;
  esac
}
do_procd() { "/etc/init.d/$n" "$1"; }
do_sysv() {
  case $1 in
  enable) if command -v update-rc.d >/dev/null 2>&1; then update-rc.d "$n" defaults && update-rc.d "$n" enable; else chkconfig "$n" on; fi ;;
  disable) if command -v update-rc.d >/dev/null 2>&1; then update-rc.d "$n" disable; else chkconfig "$n" off; fi ;;
  *) "/etc/init.d/$n" "$1" ;;
  esac
}
runs() {
  case $i in
  systemd) case $(systemctl show -p ActiveState -- "$n") in *=active|*=reloading) ;; *) false ;; esac ;;
  openrc) rc-service "$n" status ;;
  procd) "/etc/init.d/$n" running ;;
  *) "/etc/init.d/$n" status ;;
  esac >/dev/null 2>&1
}
if [ "$i" = systemd ]; then
  case $(systemctl show -p NeedDaemonReload -- "$n") in *=yes) systemctl daemon-reload || exit 1 ;; esac
  [ "$t" = 0 ] || systemctl reset-failed -- "$n" 2>/dev/null
  since=$(date +%s.%N)
fi
started=
for a in "$@"; do
  "do_$i" "$a" >&2 || exit 1
  case $a in start|restart|reload) started=1 ;; esac
done
[ "$started" ] || exit 0
sleep "$t"
if ! runs; then
  echo died
  if [ "$i" = systemd ] && command -v journalctl >/dev/null 2>&1; then
    journalctl -q --no-pager -n 10 -o cat --since "@$since" -u "$n" 2>/dev/null | sed 's/^/log /'
  fi
fi
exit 0
`
