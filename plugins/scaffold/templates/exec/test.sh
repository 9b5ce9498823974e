#!/bin/sh
# The script against a turnus-host of our own: a folder is the host.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/host/etc" "$work/run"
cat >"$work/bin/turnus-host" <<END
#!/bin/sh
case \$1 in
get) [ -e "$work/host\$2" ] || { echo "no such file" >&2; exit 254; }; cp "$work/host\$2" "\$3" ;;
put) cp "\$2" "$work/host\$3" ;;
esac
END
chmod +x "$work/bin/turnus-host"
ensure() { (cd "$work/run" && echo '{"path":"/etc/motd","text":"hello"}' | PATH="$work/bin:$PATH" TURNUS_CHECK=${1-} "$here/ensure.sh"); }
fail() { echo "FAIL: $1" >&2; exit 1; }

ensure 1 | grep -q '"changed"' || fail "check mode does not report what it would change"
[ ! -e "$work/host/etc/motd" ] || fail "check mode has written"
ensure | grep -q '"changed"' || fail "the first run does not say changed"
[ "$(cat "$work/host/etc/motd")" = hello ] || fail "the file is not right"
if ensure | grep -q '"changed"'; then fail "the second run says changed"; fi
echo ok
