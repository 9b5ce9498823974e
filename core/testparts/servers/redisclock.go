package servers

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnus/turnus/core/testparts"
)

//go:embed testdata/leap.c
var leapSource []byte

// StartRedisOnClock is StartRedis with a wall clock that leap moves by d, forward or back, as often
// as a test wants. Connections are in the clear.
func StartRedisOnClock(tb testing.TB) (s *Redis, leap func(d time.Duration)) {
	tb.Helper()
	dir := tempDir(tb)
	source, lib, file := filepath.Join(dir, "leap.c"), filepath.Join(dir, "leap.so"), filepath.Join(dir, "offset")
	must(tb, os.WriteFile(source, leapSource, 0o600))
	must(tb, os.WriteFile(file, make([]byte, 8), 0o600))
	cc := exec.CommandContext(tb.Context(), testparts.Need(tb, "gcc", "gcc"), "-shared", "-fPIC", "-O1", "-o", lib, source) //nolint:gosec // the test's own program
	if out, err := cc.CombinedOutput(); err != nil {
		tb.Fatalf("compile leap.c: %v: %s", err, out)
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	must(tb, err)
	tb.Cleanup(func() { _ = f.Close() })
	off := time.Duration(0)
	leap = func(d time.Duration) {
		tb.Helper()
		off += d
		_, err := f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(off.Microseconds())), 0)
		must(tb, err)
	}
	s = &Redis{Addr: filepath.Join(dir, "s"), Socket: true, Dir: dir, Guard: NewRedisGuard(tb, dir, false), env: []string{"LD_PRELOAD=" + lib, "LEAP_FILE=" + file}}
	s.start(tb, []string{"--port", "0", "--unixsocket", s.Addr})
	return s, leap
}
