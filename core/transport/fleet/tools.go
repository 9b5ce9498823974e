package fleet

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// tool is a program whose options are letters. It refuses others, as real ones do, and words that
// it does not use.
type tool struct {
	letters string // one that has a value is followed by a colon, and by + if it may come again
	least   int    // words that follow them
	most    int
	usage   string
	root    bool // it is for root alone, one at a time
	run     func(context.Context, *call, options) int
}

// many is more words than a command has.
const many = maxCommand

// options are the letters that were given, with their values; several are one a line.
type options map[byte]string

func (o options) has(letter byte) bool {
	_, ok := o[letter]
	return ok
}

// toolOf finds a tool by its name; nil when there is none.
func toolOf(name string) *tool {
	switch name {
	case "ln":
		return &tool{"sfnP", 2, 2, "ln [-sfnP] TARGET NAME", false, ln}
	case "mv":
		return &tool{"fT", 2, many, "mv [-fT] SOURCE... TARGET", false, transfer}
	case "cp":
		return &tool{"fTpP", 2, many, "cp [-fTpP] SOURCE... TARGET", false, transfer}
	case "rm":
		return &tool{"rRf", 0, many, "rm [-rf] FILE...", false, entries}
	case "rmdir", "touch":
		return &tool{"", 1, many, name + " FILE...", false, entries}
	case "mkdir":
		return &tool{"m:p", 1, many, "mkdir [-p] [-m MODE] FOLDER...", false, entries}
	case "truncate":
		return &tool{"s:", 1, many, "truncate -s 0 FILE...", false, entries}
	case "mktemp":
		return &tool{"d", 0, 0, "mktemp [-d]", false, mktemp}
	case "readlink":
		return &tool{"f", 1, 1, "readlink [-f] FILE", false, readlink}
	case "sed":
		return &tool{"nEe:+", 0, many, sedUsage, false, sed}
	case "tr":
		return &tool{"d", 1, 2, trUsage, false, tr}
	case "cut":
		return &tool{"d:f:", 0, 0, "cut -d DELIMITER -f FIELD <FILE", false, cut}
	case "xargs":
		return &tool{"0", 1, many, "xargs -0 COMMAND [WORD]...", false, xargs}
	case "find":
		return &tool{"", 0, many, "", false, find}
	case "tar":
		return &tool{"xtpof:", 0, 0, "tar -t|-x [-po] -f FILE", false, untar}
	case "gzip":
		return &tool{"dc", 0, 0, "gzip -dc <FILE", false, gunzip}
	case "hostname":
		return &tool{"", 0, 1, "hostname [NAME]", false, hostname}
	case "id":
		return &tool{"ugGn", 0, 1, "id [-u|-g|-G] [-n] [USER]", false, id}
	case "getent":
		return &tool{"", 1, 2, "getent passwd|group [KEY]", false, getent}
	case "su":
		return &tool{"s:", 1, many, "su [-s SHELL] USER -c COMMAND", false, su}
	case "useradd":
		return &tool{"u:g:d:s:c:mr", 1, 1, "useradd [-mr] [-u UID] [-g GROUP] [-d HOME] [-s SHELL] [-c COMMENT] LOGIN", true, useradd}
	case "usermod":
		return &tool{"u:g:d:s:c:aG:", 1, 1, "usermod [-u UID] [-g GROUP] [-d HOME] [-s SHELL] [-c COMMENT] [-a -G GROUPS] LOGIN", true, usermod}
	case "userdel":
		return &tool{"r", 1, 1, "userdel [-r] LOGIN", true, userdel}
	case "groupadd":
		return &tool{"g:r", 1, 1, "groupadd [-r] [-g GID] GROUP", true, groupadd}
	case "groupmod":
		return &tool{"g:", 1, 1, "groupmod -g GID GROUP", true, groupmod}
	case "groupdel":
		return &tool{"", 1, 1, "groupdel GROUP", true, groupdel}
	case "gpasswd":
		return &tool{"d:", 1, 1, "gpasswd -d USER GROUP", true, gpasswd}
	case "chpasswd":
		return &tool{"e", 0, 0, "chpasswd -e", true, chpasswd}
	case "mount":
		return &tool{"t:o:", 1, 2, mountUsage, true, mountTool}
	case "umount", "swapoff":
		return &tool{"", 1, 1, name + " WHAT", true, unmount}
	case "swapon":
		return &tool{"o:", 1, 1, "swapon [-o OPTIONS] DEVICE", true, swapon}
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
	case !ok || len(c.args) < t.least || len(c.args) > t.most:
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
			before, again := got[letter]
			word = word[1:]
			switch {
			case !known || letter == ':' || letter == '+':
				c.fail(0, "invalid option -- '%c'", letter)
				return nil, false
			case !strings.HasPrefix(after, ":"):
				got[letter] = ""
				continue
			case again && !strings.HasPrefix(after, ":+"):
				c.fail(0, "option given more than once -- '%c'", letter)
				return nil, false
			case word == "" && len(c.args) == 0:
				c.fail(0, "option requires an argument -- '%c'", letter)
				return nil, false
			case word == "":
				word, c.args = c.args[0], c.args[1:]
			}
			if again {
				word = before + "\n" + word
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
