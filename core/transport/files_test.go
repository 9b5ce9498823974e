package transport

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
)

func content(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func digest(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// expectOnly checks what a folder holds: no part file may be left.
func expectOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("folder holds %q, expected %q", got, names)
	}
}

// emptyBin is a PATH with everything that the scripts need but the tools that hash.
func emptyBin(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range []string{"cat", "chmod", "chown", "cksum", "cp", "ls", "mkdir", "mv", "rm", "rmdir", "stat", "sync"} {
		p, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(p, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// The same transfers over every way that a host may leave.
func TestPutAndGet(t *testing.T) {
	t.Parallel()
	ways := []struct {
		name   string
		config []string
	}{
		{"SFTP", nil},
		{"cat, without SFTP", []string{"Subsystem sftp /nonexistent"}},
		{"SFTP, no tool to hash", []string{"SetEnv PATH=" + emptyBin(t)}},
		{"cat, no tool to hash", []string{"Subsystem sftp /nonexistent", "SetEnv PATH=" + emptyBin(t)}},
		{"SFTP only", []string{"ForceCommand internal-sftp"}},
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			s, p := startSSHD(t, servers.SSHDConfig(way.config...))
			h := s.Host("web1")
			for _, size := range []int{0, 1, 3 << 20} {
				dir := t.TempDir()
				file := filepath.Join(dir, "it's a $file")
				data := content(size)
				put := Put{Path: file, Mode: 0o640, Size: int64(size), SHA256: digest(data), Backup: ".old"}
				for round := range 2 {
					w, err := p.Put(testContext(t), h, put, bytes.NewReader(data))
					if err != nil {
						t.Fatalf("%d bytes, round %d: %v", size, round, err)
					}
					if w.Size != int64(size) || w.SHA256 != digest(data) {
						t.Errorf("written %+v", w)
					}
				}
				got, err := os.ReadFile(file)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d bytes: file differs (%v)", size, err)
				}
				if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o640 {
					t.Errorf("mode %v %v", st.Mode(), err)
				}
				expectOnly(t, dir, "it's a $file", "it's a $file.old")
				var back bytes.Buffer
				info, err := p.Get(testContext(t), h, file, core.Become{}, int64(size)+1, &back)
				if err != nil || !bytes.Equal(back.Bytes(), data) || info != (FileInfo{int64(size), 0o640, digest(data)}) {
					t.Errorf("%d bytes: got back %d, %+v, %v", size, back.Len(), info, err)
				}
			}
			testFaultP4(t, p, h)
			testFileErrors(t, p, h)
		})
	}
}

// A file that only its owner may read stays so when nobody gives a mode, and a new one has the
// usual mode. Red with 0644 for mode 0, and with keptMode's stat taken out where its ls is.
func testFaultP4(t *testing.T, p *Pool, h core.Host) {
	t.Helper()
	for _, c := range []struct{ before, want os.FileMode }{{0, 0o644}, {0o600, 0o600}, {0o640, 0o640}, {0o750, 0o750}} {
		file := filepath.Join(t.TempDir(), "f")
		if c.before != 0 {
			if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(file, c.before); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.Put(testContext(t), h, Put{Path: file, Size: 3}, strings.NewReader("new")); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != c.want {
			t.Errorf("a file of mode %v has %v afterwards (%v), expected %v", c.before, st.Mode(), err, c.want)
		}
	}
}

// Where there is no stat, ls knows the mode.
func TestFaultP4WithoutStat(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"sh", "ls", "cut", "tr", "chmod", "mv", "rm", "sync", "sha256sum", "cat"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	file, part := filepath.Join(dir, "f"), filepath.Join(dir, "f.part")
	for path, mode := range map[string]os.FileMode{file: 0o610, part: 0o600} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", finishScript(part, "", Put{Path: file}, finishing{}))
	cmd.Env = []string{"PATH=" + bin}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o610 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
}

// The owner of the folder may plant links; what root writes, owns and opens must not go through
// them.
func TestPutWritesThroughNoPlantedLink(t *testing.T) {
	for name, config := range map[string][]string{"shell": nil, "SFTP only": {"ForceCommand internal-sftp"}} {
		t.Run(name, func(t *testing.T) {
			s, p := startSSHD(t, servers.SSHDConfig(config...))
			dir, elsewhere := t.TempDir(), t.TempDir()
			file, victim := filepath.Join(dir, "rc"), filepath.Join(elsewhere, "victim")
			write(t, file, []byte("mine"))
			write(t, victim, []byte("precious"))
			if err := errors.Join(os.Chmod(victim, 0o600), os.Symlink(victim, file+".bak")); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Put(testContext(t), s.Host("web1"), Put{Path: file, Mode: 0o666, Size: 3, Backup: ".bak"}, strings.NewReader("new")); err != nil {
				t.Fatal(err)
			}
			for path, want := range map[string]string{file: "new", file + ".bak": "mine", victim: "precious"} {
				if got, err := os.ReadFile(path); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v; want %q", path, got, err, want)
				}
			}
			if err := errors.Join(os.Remove(file+".bak"), os.Symlink(elsewhere, file+".bak")); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Put(testContext(t), s.Host("web1"), Put{Path: file, Size: 4, Backup: ".bak"}, strings.NewReader("next")); err == nil && name == "shell" {
				t.Error("a link to a folder was taken for the backup's name")
			}
			expectOnly(t, elsewhere, "victim")
		})
	}
}

// Between the transfer and its end the folder's owner puts a link in the place of the part.
func TestFinishRefusesALinkAsItsPart(t *testing.T) {
	dir := t.TempDir()
	part, file, victim := filepath.Join(dir, "f.part"), filepath.Join(dir, "f"), filepath.Join(dir, "victim")
	finish := func() error {
		return exec.CommandContext(t.Context(), "/bin/sh", "-c", finishScript(part, "", Put{Path: file, Owner: fmt.Sprint(os.Getuid()), Mode: 0o666}, finishing{})).Run()
	}
	write(t, victim, []byte("precious"))
	if err := errors.Join(os.Chmod(victim, 0o600), os.Symlink(victim, part)); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := finish(); !errors.As(err, &exit) || exit.ExitCode() != exitRefused {
		t.Errorf("%v, expected exit code %d", err, exitRefused)
	}
	if st, err := os.Stat(victim); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the link's target: %v, %v", st.Mode(), err)
	}
	write(t, part, []byte("new"))
	if err := finish(); err != nil {
		t.Errorf("negative control: %v", err)
	}
}

// Others may write to the folder, and what is made in it gets its group and setgid: also the folder
// in which the script holds the part.
func TestFinishInASharedFolderWithSetgid(t *testing.T) {
	dir := t.TempDir()
	part, file := filepath.Join(dir, "f.part"), filepath.Join(dir, "f")
	write(t, part, []byte("new"))
	if err := os.Chmod(dir, os.ModeSetgid|0o777); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", finishScript(part, "", Put{Path: file, Mode: 0o644}, finishing{})).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	expectOnly(t, dir, "f")
}

func testFileErrors(t *testing.T, p *Pool, h core.Host) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ten"), make([]byte, 10))
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	gets := map[string]error{"absent": core.ErrNotFound, "sub": core.ErrInvalid, "ten": core.ErrInvalid}
	for name, want := range gets {
		var out bytes.Buffer
		_, err := p.Get(testContext(t), h, filepath.Join(dir, name), core.Become{}, 9, &out)
		if !errors.Is(err, want) || errors.Is(err, core.ErrUnreachable) || out.Len() > 0 {
			t.Errorf("get %s: got %v and %d bytes, expected %v", name, err, out.Len(), want)
		}
	}
	puts := []struct {
		name string
		put  Put
		data io.Reader
		says string
	}{
		{"relative", Put{Path: "x"}, strings.NewReader(""), "clean absolute path"},
		{"a size that is none", Put{Path: dir + "/x", Size: math.MaxInt64}, strings.NewReader("four"), "size 9223372036854775807: expected at most"},
		{"a negative size", Put{Path: dir + "/x", Size: -2}, strings.NewReader("four"), "size -2: expected"},
		{"source too short", Put{Path: dir + "/x", Size: 5}, strings.NewReader("four"), "less than"},
		{"source too long", Put{Path: dir + "/x", Size: 3}, strings.NewReader("four"), "more than 3"},
		{"wrong sha256", Put{Path: dir + "/x", Size: -1, SHA256: digest([]byte("other"))}, strings.NewReader("four"), "expected " + digest([]byte("other"))},
		{"source fails", Put{Path: dir + "/x", Size: -1}, io.MultiReader(strings.NewReader("some"), failing{}), "tape broken"},
		{"no folder", Put{Path: dir + "/none/x", Size: -1}, strings.NewReader(""), "none"},
		{"a folder is there", Put{Path: dir + "/sub", Size: -1}, strings.NewReader(""), "is a directory"},
		{"unknown owner", Put{Path: dir + "/x", Size: -1, Owner: "no-such-user"}, strings.NewReader(""), "no-such-user"},
	}
	for _, tt := range puts {
		_, err := p.Put(testContext(t), h, tt.put, tt.data)
		if err == nil || !strings.Contains(err.Error(), tt.says) || errors.Is(err, core.ErrUnreachable) {
			t.Errorf("put, %s: got %v, expected %q", tt.name, err, tt.says)
		}
	}
	expectOnly(t, dir, "sub", "ten")
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("tape broken") }

// A host without SFTP may end the script before its input ends. Bytes that the source gives
// afterwards are not counted: the result is being read. Red without the end of the source.
func TestSourceIsNotCountedAfterTheTransfer(t *testing.T) {
	f := startFake(t, "127.33.0.21", nil) // each script succeeds immediately
	p := newPool(t, nil)
	r, err := p.resolve(f.host("h"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	late := readerFunc(func(b []byte) (int, error) {
		<-ended
		return copy(b, "late"), nil
	})
	src := &source{r: late, ctx: testContext(t), limit: maxSize, sum: sha256.New()}
	w, err := (&upload{p: p, r: r, put: Put{Path: "/f", Size: -1}, part: "/f.part"}).send(src.ctx, src)
	close(ended)
	if err != nil || w != (Written{0, digest(nil)}) {
		t.Errorf("%+v, %v, expected an empty file", w, err)
	}
	if n, err := src.Read(make([]byte, 10)); n != 0 || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a late read gives %d bytes, %v", n, err)
	}
}

// A file that was written concurrently and then cut may have holes: a part file's length proves
// nothing, so it is hashed, never resumed, and removed.
func TestTrapCutTransferIsNotResumed(t *testing.T) { // pkg/sftp#472
	s, p := startSSHD(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	write(t, file, []byte("old"))
	ctx, cancel := context.WithCancel(testContext(t))
	src := io.MultiReader(bytes.NewReader(content(1<<20)), readerFunc(func([]byte) (int, error) {
		cancel()
		return 0, ctx.Err()
	}))
	if _, err := p.Put(ctx, s.Host("web1"), Put{Path: file, Size: -1}, src); err == nil {
		t.Fatal("expected an error")
	}
	expectOnly(t, dir, "f")
	if got, _ := os.ReadFile(file); string(got) != "old" {
		t.Errorf("file was touched: %q", got)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// A server makes a part file, and a backup, that only the login can read: another user who opens
// the file before its chmod could read all that is written later. Content that looks like the
// packet of an open arrives as it is. Red without private, where the server's umask gives 0644,
// and without its count of the rest of a packet.
func TestSFTPMakesPrivateFiles(t *testing.T) {
	t.Parallel()
	s, p := startSSHD(t)
	r, err := p.resolve(s.Host("web1"))
	if err != nil {
		t.Fatal(err)
	}
	c, done, err := p.sftp(testContext(t), r)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	file, data := filepath.Join(t.TempDir(), "f"), "\x00\x00\x00\x10\x03id..fff\x00\x00\x00\x0a\x00\x00\x00\x00"
	for _, flags := range []int{os.O_WRONLY | os.O_CREATE | os.O_EXCL, os.O_WRONLY} {
		f, err := c.OpenFile(file, flags)
		if err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(file); err != nil || st.Mode() != 0o600 {
			t.Errorf("a new file: %v, %v; expected 0600", st.Mode(), err)
		}
		_, err = f.Write([]byte(data))
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != data {
			t.Errorf("it holds %q, %v", got, err)
		}
	}
}

// The hash is computed on the host: a part file that was altered there is refused.
func TestPutRefusesAPartThatDiffersOnTheHost(t *testing.T) {
	s, p := startSSHD(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	tampered := false
	src := io.MultiReader(strings.NewReader("hello"), readerFunc(func([]byte) (int, error) {
		list, err := filepath.Glob(file + ".part.*")
		if err != nil || len(list) != 1 {
			t.Errorf("part files %v %v", list, err)
			return 0, io.EOF
		}
		if st, err := os.Stat(list[0]); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("part file can be read by others: %v %v", st.Mode(), err)
		}
		tampered = os.WriteFile(list[0], []byte("longer than what was sent"), 0o600) == nil
		return 0, io.EOF
	}))
	_, err := p.Put(testContext(t), s.Host("web1"), Put{Path: file, Size: -1}, src)
	if !tampered || err == nil || !strings.Contains(err.Error(), "verification failed") {
		t.Errorf("tampered %v: got %v, expected a failed verification", tampered, err)
	}
	expectOnly(t, dir)
}

// The hash of a large part is compared before the rest is done. Where others can give names in the
// folder they may exchange the part in between: it is compared again. Control: a folder of this
// login alone.
func TestPutRefusesALargePartExchangedAfterItsHash(t *testing.T) {
	t.Parallel()
	bin, dir := emptyBin(t), t.TempDir()
	sum, err := exec.LookPath("sha256sum")
	mkdir, err2 := exec.LookPath("mkdir") // of takePrivate: the part is still in the shared folder
	shim := fmt.Sprintf("#!/bin/sh\nfor f in %s/f.part.*; do echo secret >\"$f\"; done\nexec %s \"$@\"\n", dir, mkdir)
	if err := errors.Join(err, err2, os.Symlink(sum, bin+"/sha256sum"), os.Remove(bin+"/mkdir"), os.WriteFile(bin+"/mkdir", []byte(shim), 0o755)); err != nil {
		t.Fatal(err)
	}
	s, p := startSSHD(t, servers.SSHDConfig("SetEnv PATH="+bin))
	want := content(largePut)
	for _, shared := range []bool{false, true} {
		if shared {
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		_, err := p.Put(testContext(t), s.Host("web1"), Put{Path: dir + "/f", Size: largePut}, bytes.NewReader(want))
		if refused := err != nil && strings.Contains(err.Error(), "verification failed"); refused != shared || err != nil && !refused {
			t.Errorf("others may write to the folder: %t: %v", shared, err)
		}
		if got, err := os.ReadFile(dir + "/f"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("others may write to the folder: %t: the file has %d bytes, %v", shared, len(got), err)
		}
		expectOnly(t, dir, "f")
	}
}

// A user owns a folder on the way, and put a link to a folder of root's in it: no upload gets
// there. Control: into a folder in its place it does.
func TestFaultS2NoPlantedFolderOnTheWayIsEntered(t *testing.T) {
	if os.Geteuid() != 0 {
		testparts.Able(t, "a folder that a stranger owns and root writes to", syscall.EPERM)
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	run := func(script string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
		cmd.Dir, cmd.Stdin = base, strings.NewReader("content")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("mkdir -p root user/good && ln -s ../root user/evil && chown -h 65534 user user/evil"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for folder, good := range map[string]bool{"user/good": true, "user/evil": false} {
		dir := filepath.Join(base, folder)
		out, err := run(receiveScript(dir + "/f.part"))
		if (err == nil) != good {
			t.Errorf("%s: receive: %v, %s", folder, err, out)
		}
		if !good { // as if the link came later
			if err := os.WriteFile(dir+"/f.part", nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		out, err = run(finishScript(dir+"/f.part", "", Put{Path: dir + "/f", Mode: 0o644}, finishing{}))
		if _, there := os.Lstat(dir + "/f"); (err == nil) != good || (there == nil) != good {
			t.Errorf("%s: finish: %v, %s", folder, err, out)
		}
	}
}

// A small file is one command, with its owner, mode and backup; a larger one is also a transfer.
func TestASmallPutIsOneCommand(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]int{1: 1, smallPut: 1, smallPut + 1: 2} {
		s, p := startSSHD(t)
		dir := t.TempDir()
		data := content(size)
		if _, err := p.Put(testContext(t), s.Host("web1"), Put{Path: dir + "/f", Size: int64(size), SHA256: digest(data)}, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(s.Log(), "Starting session: "); n != want {
			t.Errorf("%d bytes: %d commands, expected %d", size, n, want)
		}
		if got, err := os.ReadFile(dir + "/f"); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: the file has %d, %v", size, len(got), err)
		}
		expectOnly(t, dir, "f")
	}
}

// A small file that arrives in part replaces nothing. Control: all of it arrives.
func TestASmallPutThatArrivesInPartReplacesNothing(t *testing.T) {
	t.Parallel()
	for sent, good := range map[string]bool{"new": true, "ne": false, "": false, "newer": false} {
		dir := t.TempDir()
		write(t, dir+"/f", []byte("old"))
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", finishScript(dir+"/f.part", "", Put{Path: dir + "/f"}, finishing{receive: true, check: true}))
		cmd.Stdin = strings.NewReader(digest([]byte("new")) + "\n" + sent)
		err := cmd.Run()
		if got, _ := os.ReadFile(dir + "/f"); (err == nil) != good || string(got) != map[bool]string{true: "new", false: "old"}[good] {
			t.Errorf("%q: %v; the file has %q", sent, err, got)
		}
		expectOnly(t, dir, "f")
	}
}

// A full disk names the next command, also without SFTP. Control: another failure names none.
func TestPutToAFullDiskNamesTheNextCommand(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"cat: write error: No space left on device": true, "cat: ./f: Permission denied": false} {
		bin := emptyBin(t)
		cat := filepath.Join(bin, "cat")
		if err := errors.Join(os.Remove(cat), os.WriteFile(cat, []byte("#!/bin/sh\necho '"+text+"' >&2\nexit 1\n"), 0o755)); err != nil {
			t.Fatal(err)
		}
		s, p := startSSHD(t, servers.SSHDConfig("Subsystem sftp /nonexistent", "SetEnv PATH="+bin))
		_, err := p.Put(testContext(t), s.Host("web1"), Put{Path: filepath.Join(t.TempDir(), "f"), Size: 1}, strings.NewReader("x"))
		if err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "See df -h on the host") != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
