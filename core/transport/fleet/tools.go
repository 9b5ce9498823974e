package fleet

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// tool is a program whose options are letters. It refuses others, as real ones do.
type tool struct {
	letters string // each that has a value is followed by a colon
	words   int    // how many words follow them at least
	usage   string
	root    bool // it is for root alone, one at a time
	run     func(context.Context, *call, options) int
}

// options are the letters that were given, with their values.
type options map[byte]string

func (o options) has(letter byte) bool {
	_, ok := o[letter]
	return ok
}

// toolOf finds a tool by its name; nil when there is none.
func toolOf(name string) *tool {
	switch name {
	case "ln":
		return &tool{"sfnPT", 2, "ln [-sfn] TARGET NAME", false, ln}
	case "readlink":
		return &tool{"f", 1, "readlink [-f] FILE", false, readlink}
	case "sed":
		return &tool{"nEe:", 0, "sed [-nE] SCRIPT [FILE]...", false, sed}
	case "tr":
		return &tool{"d", 1, "tr [-d] SET1 [SET2]", false, tr}
	case "cut":
		return &tool{"d:f:", 0, "cut -d DELIMITER -f FIELD", false, cut}
	case "xargs":
		return &tool{"0", 1, "xargs -0 COMMAND [WORD]...", false, xargs}
	case "find":
		return &tool{"", 0, "", false, find}
	case "tar":
		return &tool{"xtpof:", 0, "tar -t|-x [-po] -f FILE", false, untar}
	case "gzip":
		return &tool{"dc", 0, "gzip -dc", false, gunzip}
	case "hostname":
		return &tool{"", 0, "hostname [NAME]", false, hostname}
	case "id":
		return &tool{"ugGn", 0, "id [-u|-g|-G] [-n] [USER]", false, id}
	case "getent":
		return &tool{"", 1, "getent passwd|group [KEY]", false, getent}
	case "su":
		return &tool{"s:", 1, "su [-s SHELL] USER -c COMMAND", false, su}
	case "useradd":
		return &tool{"u:g:d:s:c:mr", 1, "useradd [-mr] [-u UID] [-g GROUP] [-d HOME] [-s SHELL] [-c COMMENT] LOGIN", true, useradd}
	case "usermod":
		return &tool{"u:g:d:s:c:aG:", 1, "usermod [-u UID] [-g GROUP] [-d HOME] [-s SHELL] [-c COMMENT] [-a -G GROUPS] LOGIN", true, usermod}
	case "userdel":
		return &tool{"r", 1, "userdel [-r] LOGIN", true, userdel}
	case "groupadd":
		return &tool{"g:r", 1, "groupadd [-r] [-g GID] GROUP", true, groupadd}
	case "groupmod":
		return &tool{"g:", 1, "groupmod -g GID GROUP", true, groupmod}
	case "groupdel":
		return &tool{"", 1, "groupdel GROUP", true, groupdel}
	case "gpasswd":
		return &tool{"d:", 1, "gpasswd -d USER GROUP", true, gpasswd}
	case "chpasswd":
		return &tool{"e", 0, "chpasswd -e", true, chpasswd}
	case "mount":
		return &tool{"t:o:", 1, "mount -t TYPE [-o OPTIONS] SOURCE PATH", true, mountTool}
	case "umount", "swapoff":
		return &tool{"", 1, name + " WHAT", true, unmount}
	case "swapon":
		return &tool{"o:", 1, "swapon [-o OPTIONS] DEVICE", true, swapon}
	}
	return nil
}

// start reads the options and runs the tool.
func (t *tool) start(ctx context.Context, c *call) int {
	o, ok := options{}, true
	if c.name != "find" { // whose tests look like options
		o, ok = c.options(t.letters)
	}
	switch {
	case !ok || len(c.args) < t.words:
		return c.misused(t.usage)
	case t.root && c.sh.uid != 0:
		return c.fail(1, "Permission denied: only root can do that")
	case t.root:
		c.sh.host.admin.Lock()
		defer c.sh.host.admin.Unlock()
	}
	return t.run(ctx, c, o)
}

// misused prints how a program is used.
func (c *call) misused(usage string) int {
	fmt.Fprintf(c.err, "Usage: %s\n", usage)
	return 2
}

// options takes leading options as getopt does. It reports false, and prints why, for one that is
// not among the letters.
func (c *call) options(letters string) (options, bool) {
	got := options{}
	for len(c.args) > 0 && len(c.args[0]) > 1 && c.args[0][0] == '-' {
		word := c.args[0][1:]
		c.args = c.args[1:]
		if word == "-" {
			break
		}
		for word != "" {
			letter := word[0]
			_, after, known := strings.Cut(letters, string(letter))
			word = word[1:]
			switch {
			case !known || letter == ':':
				c.fail(0, "invalid option -- '%c'", letter)
				return nil, false
			case !strings.HasPrefix(after, ":"):
				got[letter] = ""
				continue
			case word == "" && len(c.args) == 0:
				c.fail(0, "option requires an argument -- '%c'", letter)
				return nil, false
			case word == "":
				word, c.args = c.args[0], c.args[1:]
			}
			got[letter], word = word, ""
		}
	}
	return got, true
}

// print writes to the program's output; its exit code is that of a reader that left.
func (c *call) print(text string) int {
	_, err := io.WriteString(c.out, text)
	return c.wrote(err, 141)
}
