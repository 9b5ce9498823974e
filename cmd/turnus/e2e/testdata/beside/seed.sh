# Makes in the folder $1 what the hosts of the lab have before: a repository of packages, a repository of git, an old file.
set -e
mkdir -p "$1/srv/repo" "$1/srv/git" "$1/etc/apt" "$1/usr/bin" "$1/b/DEBIAN" "$1/b/usr/share/demo"
cd "$1"
printf 'Package: demo\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@example.net>\nDescription: t\n' >b/DEBIAN/control
echo 1.0 >b/usr/share/demo/version
dpkg-deb --build --root-owner-group b srv/repo/demo_1.0.deb >/dev/null
rm -r b
(cd srv/repo && dpkg-scanpackages -m . >Packages 2>/dev/null)
echo 'deb [trusted=yes] file:/srv/repo ./' >etc/apt/sources.list
export HOME="$1" GIT_CONFIG_NOSYSTEM=1
git init -q -b main w
cd w
for n in 1 2 3; do echo "$n" >"f$n"; done
git add .
git -c user.email=t@example.net -c user.name=t commit -qm one
git tag v1
git clone -q --bare . ../srv/git/app.git
cd ..
rm -rf w
echo old >etc/app.old
printf '#!/bin/sh\n' >usr/bin/crontab # Ansible's cron asks for it, and does not call it here
chmod 755 usr/bin/crontab
