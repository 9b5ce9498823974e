package exec

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"time"
)

// idleGrace is that of a pipe that somebody holds open, though the script has ended.
const idleGrace = 500 * time.Millisecond

// output is one end of a script's stdout or stderr. It is over when the script has ended and all
// that it wrote has been read: a process that left the job, as a daemon does, may hold the pipe for
// good.
type output struct {
	file  *os.File
	ended <-chan struct{}
	after int // bytes read since: when they are more than a pipe holds, the rest is not the script's
}

// Read implements io.Reader.
func (o *output) Read(p []byte) (int, error) {
	over := false
	select {
	case <-o.ended:
		over = true
		if o.after >= 16*os.Getpagesize() {
			return 0, io.EOF
		}
		o.expire()
	default:
	}
	n, err := o.file.Read(p)
	if over {
		o.after += n
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	return n, err
}

// expire bounds the read that is under way, once the script has ended.
func (o *output) expire() { _ = o.file.SetReadDeadline(time.Now().Add(idleGrace)) }

// start starts the command. Its outputs are files, so that its Wait waits for the process only.
func start(cmd *exec.Cmd, ended <-chan struct{}) (stdout, stderr *output, err error) {
	var files [4]*os.File
	if files[0], files[1], err = os.Pipe(); err == nil {
		files[2], files[3], err = os.Pipe()
	}
	if err == nil {
		cmd.Stdout, cmd.Stderr = files[1], files[3]
		err = cmd.Start()
	}
	_, _ = files[1].Close(), files[3].Close() // nil is also an error
	if err != nil {
		_, _ = files[0].Close(), files[2].Close()
		return nil, nil, err
	}
	return &output{file: files[0], ended: ended}, &output{file: files[2], ended: ended}, nil
}
