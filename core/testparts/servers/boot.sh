# Boots PID 1 of the namespaces that this shell was started in, on an overlay of / that is gone with
# it. $1 is a folder for it; the rest is PID 1.
set -e
folder=$1
shift
mount -t tmpfs tmpfs "$folder"
mkdir "$folder/up" "$folder/work" "$folder/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$folder/up,workdir=$folder/work" "$folder/root"
cd "$folder/root"
mount -t proc proc proc
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs dev
for d in null zero random urandom full tty; do
  touch "dev/$d"
  mount --bind "/dev/$d" "dev/$d"
done
mkdir dev/pts dev/shm
mount -t devpts devpts dev/pts -o newinstance,ptmxmode=0666
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
: >etc/machine-id
exec env -i container=turnus PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . "$@"
