# The first process of a boot of a bootlab device: DIR SLOT BOOT_ID. It is the init of its pid
# namespace: when it ends, everything does.
dir=$1 slot=$2 id=$3
[ $$ -eq 1 ] || { echo "bootlab: init is not process 1" >&2; exit 99; }
trap 'exit 129' USR1 # as reboot(2) ends it; HUP would do, but is ignored below nohup
stay() { while :; do sleep 1000 & wait $!; done; }
mount -t tmpfs none /run && mkdir -p /run/dbus /run/sshd /run/slot &&
  printf '%s\n' "$id" >/run/boot_id && mount --bind /run/boot_id /proc/sys/kernel/random/boot_id &&
  mount -o loop,ro "$dir/slot-$slot.img" /run/slot &&
  mkdir -p "$dir/data/etc" "$dir/data/work" && mount -t overlay -o "lowerdir=/etc,upperdir=$dir/data/etc,workdir=$dir/data/work" none /etc &&
  mkdir -p /etc/rauc && cp "$dir/system.conf" /etc/rauc/system.conf &&
  mount --bind /run/slot/os-release /usr/lib/os-release || exit 98 # as a kernel that panics
printf '%s\n' "$slot" >/run/booted
case $(cat /run/slot/behaviour) in
deaf) # never opens its door; the watchdog resets it
  sleep 1 & wait $!
  exit 97 ;;
dead) stay ;;
esac
dbus-daemon --config-file="$dir/dbus.conf" --fork --nopidfile || exit 96
rauc --override-boot-slot="$slot" service >>"$dir/rauc.log" 2>&1 &
n=0
while ! rauc status >/dev/null 2>&1; do
  n=$((n + 1)); [ $n -lt 300 ] || exit 95
  sleep 0.05
done
"$(command -v sshd || echo /usr/sbin/sshd)" -D -e -f "$dir/sshd_config" >>"$dir/sshd.log" 2>&1 &
n=0
until grep -q ':0016 00000000:0000 0A ' /proc/net/tcp; do # port 22, listening
  n=$((n + 1)); [ $n -lt 600 ] || exit 94
  sleep 0.05
done
: >"$dir/up"
stay
