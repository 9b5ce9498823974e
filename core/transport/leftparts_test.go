package transport

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/testparts/servers"
)

// leavePart uploads a half file, as a worker that is killed then: nobody removes the part.
func leavePart(t *testing.T, p *Pool, h core.Host, put Put) (part string) {
	t.Helper()
	r, err := p.resolve(h)
	if err != nil {
		t.Fatal(err)
	}
	u := p.upload(r, put)
	killed := errors.New("killed")
	ctx := testContext(t)
	half := io.MultiReader(bytes.NewReader(content(1<<16)), readerFunc(func([]byte) (int, error) {
		for ctx.Err() == nil { // the host's program makes the part when it has started
			if _, err := os.Stat(u.part); err == nil {
				return 0, killed
			}
			<-time.After(time.Millisecond)
		}
		return 0, ctx.Err()
	}))
	src := &source{r: half, ctx: ctx, limit: maxSize, sum: sha256.New()}
	if _, err := u.send(src.ctx, src); !errors.Is(err, killed) {
		t.Fatal(err)
	}
	if _, err := os.Stat(u.part); err != nil {
		t.Fatal(err)
	}
	return u.part
}

// The upload that follows a killed worker's removes its part file, also if it fails itself: the
// part may fill the disk. Other files stay, and so does a part that may be of an upload under way.
func TestPutRemovesThePartsOfOlderFences(t *testing.T) {
	t.Parallel()
	ways := map[string]func(*testing.T) (core.Host, *Pool){"SFTP": func(t *testing.T) (core.Host, *Pool) {
		t.Helper()
		s, p := startSSHD(t)
		return s.Host("web1"), p
	}, "SFTP only": func(t *testing.T) (core.Host, *Pool) {
		t.Helper()
		s, p := startSSHD(t, servers.SSHDConfig("ForceCommand internal-sftp"))
		return s.Host("web1"), p
	}}
	for _, shell := range shells(t) {
		ways[shell] = func(t *testing.T) (core.Host, *Pool) { t.Helper(); return shellOf(t, shell) }
	}
	yesterday := time.Now().Add(-25 * time.Hour)
	for way, start := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			h, p := start(t)
			queue := "queue-" + newExecID()
			now := Fence{Queue: queue, Count: 2<<26 | 8}
			for name, c := range map[string]struct {
				left  Fence
				old   bool
				stays bool
			}{
				"older":                    {Fence{queue, 2<<26 | 7}, false, false},
				"of an earlier epoch":      {Fence{queue, 1<<26 | 9}, false, false},
				"the same":                 {now, false, true},
				"newer":                    {Fence{queue, 2<<26 | 9}, false, true},
				"another queue":            {Fence{queue + "x", 1}, false, true},
				"another queue, yesterday": {Fence{queue + "x", 1}, true, false},
				"no fence, yesterday":      {Fence{}, true, true},
			} {
				for _, fails := range []bool{true, false} {
					dir := t.TempDir()
					path := filepath.Join(dir, "it's a $file [x]*")
					part := leavePart(t, p, h, Put{Path: path, Size: -1, Fence: c.left})
					others := []string{path + ".part.1_2_3_4", path + ".part.abcdefabcdef_1_x_2", path + "x" + strings.TrimPrefix(part, path)}
					for _, f := range append(others, part) {
						if f != part {
							write(t, f, nil)
						}
						if c.old {
							if err := os.Chtimes(f, yesterday, yesterday); err != nil {
								t.Fatal(err)
							}
						}
					}
					put := Put{Path: path, Size: 3, Fence: now}
					if fails {
						put.Size, put.SHA256 = -1, digest(nil)
					}
					_, err := p.Put(testContext(t), h, put, strings.NewReader("new"))
					if (err != nil) != fails {
						t.Fatalf("%s: %v", name, err)
					}
					if _, err := os.Lstat(part); (err == nil) != c.stays {
						t.Errorf("%s, the upload fails: %t: the part: %v", name, fails, err)
					}
					for _, f := range others {
						if _, err := os.Lstat(f); err != nil {
							t.Errorf("%s: %v", name, err)
						}
					}
				}
			}
		})
	}
}

// A worker and its command on the host are killed while the part is in a folder of its own, because
// others may write beside it. A validate command left files.
func TestPutRemovesTheFolderOfAPart(t *testing.T) {
	t.Parallel()
	s, p := startSSHD(t, servers.SSHDConfig("Subsystem sftp /nonexistent"))
	h, dir := s.Host("web1"), t.TempDir()
	path, queue := filepath.Join(dir, "f"), "queue-"+newExecID()
	part := leavePart(t, p, h, Put{Path: path, Size: -1, Fence: Fence{queue, 7}})
	folder := part + ".d"
	if err := errors.Join(os.Chmod(dir, 0o777), os.Mkdir(folder, 0o700), os.Rename(part, filepath.Join(folder, filepath.Base(part)))); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, filepath.Base(part)+".old"), nil)
	inner := filepath.Join(folder, filepath.Base(folder))
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(inner, "f.bak"), nil)
	if _, err := p.Put(testContext(t), h, Put{Path: path, Size: 3, Fence: Fence{queue, 8}}, strings.NewReader("new")); err != nil {
		t.Fatal(err)
	}
	expectOnly(t, dir, "f")
}

// A signal to the script and its program, as of a host that ends what a killed worker left running,
// leaves neither the part nor its folder. Others may write to the folder.
func TestFinishLeavesNothingAfterASignal(t *testing.T) {
	t.Parallel()
	for program, c := range map[string]struct {
		text string
		want string
	}{
		"cat":   {"kill -TERM $PPID $$", "old"},
		"mkdir": {"PROGRAM \"$@\"\nkill -TERM $PPID $$", "old"},
		"chmod": {"kill -TERM $PPID $$", "old"},
		"cp":    {"PROGRAM \"$@\"\nkill -TERM $PPID $$", "old"},
		"rmdir": {"kill -TERM $PPID $$\nexec PROGRAM \"$@\"", "new"},
	} {
		bin, dir := emptyBin(t), t.TempDir()
		part, file, shim := filepath.Join(dir, "f.part"), filepath.Join(dir, "f"), filepath.Join(bin, program)
		write(t, file, []byte("old"))
		found, err := os.Readlink(shim)
		if err == nil {
			err = os.Remove(shim)
		}
		if err := errors.Join(err, os.Chmod(dir, 0o777), os.WriteFile(shim, []byte("#!/bin/sh\n"+strings.ReplaceAll(c.text, "PROGRAM", found)+"\n"), 0o755)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", finishScript(part, "", Put{Path: file, Backup: ".bak"}, finishing{receive: true}))
		cmd.Env, cmd.Stdin = []string{"PATH=" + bin}, strings.NewReader("new")
		reader, writer, pipeErr := os.Pipe() // nobody reads what the worker would have read
		if err := errors.Join(pipeErr, reader.Close()); err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = writer
		err = errors.Join(cmd.Run(), writer.Close())
		got, _ := os.ReadFile(file)
		left, globErr := filepath.Glob(part + "*")
		if string(got) != c.want || len(left) > 0 || globErr != nil {
			t.Errorf("%s: %v; the file has %q, left are %q, %v", program, err, got, left, globErr)
		}
	}
}

// crowd is a folder with many files.
type crowd struct{ file os.FileInfo }

const crowded = 60000

func (c crowd) Filelist(*sftp.Request) (sftp.ListerAt, error) { return c, nil }

func (c crowd) ListAt(files []os.FileInfo, at int64) (int, error) {
	n := min(len(files), crowded-int(at))
	for i := range n {
		files[i] = c.file
	}
	if n < len(files) {
		return n, io.EOF
	}
	return n, nil
}

// A host may list files without end: of a large folder those that came first are taken, and the
// session still works.
func TestTheListOfAFolderIsBounded(t *testing.T) {
	t.Parallel()
	info, err := os.Stat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	server := sftp.NewRequestServer(theirs, sftp.Handlers{FileList: crowd{info}})
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve() }()
	defer func() { _ = theirs.Close(); <-ended }()
	in := &meter{Reader: ours}
	c, err := sftp.NewClientPipe(in, ours)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	got := len((&sftpClient{c, in}).list(testContext(t), "/"))
	if _, err := c.RealPath("/"); got < 1000 || got == crowded || err != nil {
		t.Errorf("%d files, then %v", got, err)
	}
}
