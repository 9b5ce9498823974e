#!/bin/sh
# Records the archives beside this file: what the last version before the control plane was rebuilt leaves behind.
# upgrade_record_test.go says which runs and schedules there are, and when the processes end; upgrade_beside_test.go, which
# runs here too, lets processes of both versions meet. Needs Redis, PostgreSQL (pg_dump in PATH) and the right to make
# namespaces: records name their machine, which is called service here. The tokens in them open nothing any more.
#
#   cmd/turnus/e2e/testdata/upgrade/record.sh [COMMIT]
set -eu
commit=${1:-b4f2b9ec}
cd "$(dirname "$0")/../../../../.."
old=$(mktemp -d)
trap 'git worktree remove --force "$old/tree"; rm -rf "$old"' EXIT
git worktree add --detach "$old/tree" "$commit"
(cd "$old/tree" && go build -trimpath -o "$old/turnus" ./cmd/turnus)
go build ./cmd/turnus/... # so that the tests begin at once
unshare --uts sh -c 'hostname service && exec "$@"' sh \
	go test -tags record -count=1 -v -run '^Test(Record|Beside)' ./cmd/turnus/e2e -record.binary "$old/turnus" -record.commit "$commit"
