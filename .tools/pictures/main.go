// Command pictures records a command in a pseudo terminal and writes an animated SVG: no script, no
// font, no link to elsewhere, dark or light as the reader's page is.
//
//	pictures -out FILE [-columns N] [-rows N] [-limit 5m] COMMAND [ARGUMENT...]
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

const (
	maxOutput = 16 << 20 // bytes of the command's output
	maxBytes  = 200_000  // of the picture
	coarsest  = 4 * time.Second
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "pictures: "+err.Error())
		os.Exit(1)
	}
}

func run() error {
	out := flag.String("out", "", "write the picture to `FILE`")
	columns := flag.Uint("columns", 100, "columns of the terminal, 40 to 200")
	rows := flag.Uint("rows", 28, "rows of the terminal, 10 to 60")
	limit := flag.Duration("limit", 5*time.Minute, "fail when the command takes longer")
	flag.Parse()
	if *out == "" || flag.NArg() == 0 || *columns < 40 || *columns > 200 || *rows < 10 || *rows > 60 || *limit > 10*time.Minute {
		flag.Usage()
		return errors.New("wrong usage")
	}
	chunks, err := record(flag.Args(), uint16(*columns), uint16(*rows), *limit)
	if err != nil {
		return err
	}
	typed := strings.Join(append([]string{filepath.Base(flag.Arg(0))}, flag.Args()[1:]...), " ")
	chunks = append(typing(typed), chunks...)
	for every := 100 * time.Millisecond; every <= coarsest; every += every / 2 {
		picture := draw(play(chunks, int(*columns), int(*rows), every), int(*columns), int(*rows), "Recording of "+typed)
		if len(picture) <= maxBytes {
			fmt.Fprintf(os.Stderr, "%s: %d bytes, a frame each %s\n", *out, len(picture), every)
			return os.WriteFile(*out, picture, 0o644)
		}
	}
	return fmt.Errorf("write %s: a picture with a frame each %s is above %d bytes", *out, coarsest, maxBytes)
}

// chunk is output of the command, and when it came after the chunk before.
type chunk struct {
	pause time.Duration
	text  []byte
}

// typing is the prompt at which somebody types the command.
func typing(command string) []chunk {
	list := []chunk{{text: []byte("\x1b[1;32m$\x1b[0m ")}, {pause: 600 * time.Millisecond}}
	for i := range len(command) {
		list = append(list, chunk{pause: 60 * time.Millisecond, text: []byte(command[i : i+1])})
	}
	return append(list, chunk{pause: 400 * time.Millisecond, text: []byte("\r\n")})
}

// record runs the command in a pseudo terminal. It fails when the command fails.
func record(command []string, columns, rows uint16, limit time.Duration) ([]chunk, error) {
	home, err := os.MkdirTemp("", "pictures")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(home)
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "LANG=C.UTF-8"}
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: columns, Rows: rows})
	if err != nil {
		return nil, err
	}
	defer terminal.Close()
	over := time.AfterFunc(limit, func() { _ = cmd.Process.Kill() })
	defer over.Stop()
	chunks, err := read(terminal)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(command, " "), err)
	}
	return chunks, nil
}

// read collects output until the command has closed the terminal, which Linux reports as an error.
func read(terminal io.Reader) ([]chunk, error) {
	var chunks []chunk
	buf, size, last := make([]byte, 64<<10), 0, time.Now()
	for {
		n, err := terminal.Read(buf)
		if n > 0 {
			now := time.Now()
			chunks = append(chunks, chunk{pause: now.Sub(last), text: append([]byte(nil), buf[:n]...)})
			last = now
		}
		if size += n; size > maxOutput {
			return nil, fmt.Errorf("more than %d bytes of output", maxOutput)
		}
		if err != nil {
			return chunks, nil
		}
	}
}

// play shows the chunks to a terminal emulator and returns a frame for each interval in which the
// screen changed.
func play(chunks []chunk, columns, rows int, every time.Duration) []frame {
	screen := vt.NewEmulator(columns, rows)
	defer screen.Close()
	go func() { _, _ = io.Copy(io.Discard, screen) }() // answers to questions that the command asks the terminal
	var frames []frame
	var at, shown time.Duration
	for _, c := range chunks {
		if at += c.pause; at-shown >= every {
			frames = appendFrame(frames, shown, screen)
			shown = at
		}
		_, _ = screen.Write(c.text)
	}
	return append(appendFrame(frames, shown, screen), frame{at: at + holdLast})
}

// holdLast is how long the last frame stays.
const holdLast = 7 * time.Second

func appendFrame(frames []frame, at time.Duration, screen *vt.Emulator) []frame {
	rows := make([]string, screen.Height())
	for y := range rows {
		rows[y] = rowMarkup(screen, y)
	}
	if n := len(frames); n > 0 && equal(frames[n-1].rows, rows) {
		return frames
	}
	return append(frames, frame{at: at, rows: rows})
}
