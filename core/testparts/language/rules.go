// Package language checks texts for people: pages, help, errors, log messages and comments. It owns
// the list of words and the limits of lines and sentences.
package language

import (
	"fmt"
	"regexp"
	"sync"
)

// Limits of a page. A line of a table or of a code block has no limit.
const (
	MaxColumns     = 100
	MaxWords       = 40 // of a sentence
	MaxMedianWords = 14 // of the sentences of a page
	MaxPageLines   = 300
	// MaxDecisionLines counts the lines of a decision without its heading and empty lines.
	MaxDecisionLines = 10
)

// rule is a pattern that no sentence contains, and what to write instead.
type rule struct {
	name   string
	not    *regexp.Regexp
	unless *regexp.Regexp // a sentence that matches it uses the word in its standard sense
	write  string
	wrong  string // the negative control: a sentence that breaks the rule
	right  string // and one that does not
}

func words(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + pattern + `)\b`) }

func leading(pattern string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + pattern + `)\b`) }

var (
	list      = sync.OnceValue(rules)
	shownList = sync.OnceValue(shownRules)
	guideList = sync.OnceValue(guideRules)
)

// rules returns the list of words and constructions. Each rule has one name, which its finding
// shows.
func rules() []rule {
	return append(sentenceRules(), wordRules()...)
}

// sentenceRules are about syntax and idiom.
func sentenceRules() []rule {
	return []rule{
		{"anew", words(`anew`), nil, `"again"`, "statements were planned anew", "statements were planned again"},
		{"but for", words(`but for`), nil, `"except"`, "all hosts but for one", "all hosts except one"},
		{"besides", words(`besides`), nil, `"also"`, "Besides, it reports the host.", "It also reports the host."},
		{"too", regexp.MustCompile(`(?i),? too(?:$|[.,;:)])`), nil, `"also"`, "It checks the types, too.", "The file is too large."},
		{"for as because", regexp.MustCompile(`(?i), for (?:it|they|he|she|we|there|nobody|nothing|what|who)\b`), nil, `"because"`,
			"It waits, for it has no key.", "It waits for a key, because it has none."},
		{"tell", words(`tells?|told|telling`), nil, `"report", "print", "log", "show" or "send"`, "Stopped tells whether it ended.", "Stopped reports whether it ended."},
		{"is said", words(`(?:is|are|was|were) said|says? so|said so`), nil, `"reports", "states", or the message itself`, "the run waits and says so", "the run waits and reports why"},
		{"look", words(`look(?:s|ed|ing)? (?:at|whether|if|what|which|into)`), nil, `"check", "read" or "poll"`, "it looks whether the host is up", "it looks up the host"},
		{"found out", words(`found out|finds? out|finding out`), nil, `"list", "read" or "detect"`, "could not be found out", "cannot list runs"},
		{"for now", words(`for now`), nil, `nothing, or the time: "retrying in 5s"`, "windows are not published for now", "publishing windows failed, retrying in 5s"},
		{"by itself", words(`(?:by|of) (?:itself|themselves)`), nil, `nothing, or "automatically"`, "it continues by itself", "it continues"},
		{"leading clause", regexp.MustCompile(`^(?:Whoever|Whatever|Whichever|What|Who)\b[^?]*$`), nil, `a noun as the subject`,
			"Who really has none says so.", "What does it do?"},
		{"clause as a noun", words(`whoever|what (?:is|was) left|(?:to|for|of|by|from|with|than) who`), nil, `a noun: "remaining jobs", "clients", "the person who"`,
			"what is left to do", "the remaining jobs of the person who launched the run"},
		{"who as a noun", regexp.MustCompile(`[:;] who\b`), nil, `a noun: "a person who", "clients", "servers"`,
			"It is a file: who reads it waits.", "It is a file: its readers wait."},
		{"is what", leading(`CODE (?:is|are) (?:what|who)`), nil, `a noun: "X is the result of a job", or a verb`,
			"CODE is what a worker reports.", "CODE is the report of a worker."},
		{"inverted", leading(`(?:Kept|Asked|Counted|Refused|Taken|Wanted|Left|Given|Shown|Listed|Ignored|Needed) (?:is|are|was|were)`), nil, `the subject first`,
			"Kept are notifications of 30 days.", "Notifications are kept for 30 days."},
		{"nothing stops", words(`(?:nothing|nobody|no one|none) (?:stops?|prevents?|hinders?|but|else than|without)`), nil, `the positive: "hosts keep running"`,
			"nothing stops the hosts", "the hosts keep running"},
		{"double negative", words(`(?:not|never|nothing|nobody)(?: \w+)? without|not (?:un\w+ed|unless|until)|neither\b[^.;]*\bnot`), nil, `the positive statement`,
			"it does not start without a key", "it needs a key to start"},
		{"neither", regexp.MustCompile(`(?i)\bneither(?:$|[.,;)])`), nil, `"nor ..." in the same clause`, "with a group, two hosts neither.", "neither hosts nor groups"},
		{"has not to", words(`(?:has|have|had) not to|(?:is|are|was|were) not to be`), nil, `"must not" or "does not have to"`, "the writer has not to wait", "the writer does not have to wait"},
		{"is to be", words(`(?:is|are|was|were) to be`), nil, `"must be", "will be", or the verb`, "the run is to be paused", "the run must be paused"},
		{"by now", words(`by now`), nil, `"already", or nothing`, "the host is up by now", "the host is already up"},
		{"goes on", words(`go(?:es)? on|went on|going on`), nil, `"continue"`, "the run goes on", "the run continues"},
		{"there is not", words(`(?:that|which) there (?:is|are) not`), nil, `"does not exist"`, "a host that there is not", "a host that does not exist"},
		{"where it stands", words(`(?:where|how) (?:\w+ ){1,3}stands?`), nil, `"state", "phase" or "place"`, "it reports where a run stands", "it reports the state of a run"},
		{"of no use", words(`of (?:no|any) use|of use`), nil, `what failed`, "a window was of no use", "a missed window"},
		{"at once", words(`at once`), nil, `"at the same time" or "immediately"`, "two jobs at once", "two jobs at the same time"},
		{"lies", words(`(?:lies?|lay) (?:in|on)|stands? in|stood in|stands? for itself`), words(`(?:lies?|lay) on (?:the|a) disk`), `"is in"`, "the state lies in Redis", "the state is in Redis"},
	}
}

// wordRules hold one word for one thing.
func wordRules() []rule {
	return []rule{
		{"seal", words(`(?:re|un)?seal(?:s|ed|ing)?`), words(`vaults?`), `"encrypt", "encrypted", "re-encrypt"`, "the bytes are sealed", "two Vaults are sealed"},
		{"authority", words(`(?:[^ ]+ )?authorit(?:y|ies)`), words(`certificate authorit(?:y|ies)`), `"certificate authority" or "CA"`, "signed by an authority", "signed by a certificate authority"},
		{"budget", words(`budgets?`), nil, `"failure threshold" or "limit"`, "the budget is used up", "the failure threshold is reached"},
		{"done well", words(`done well|settled?|settles|settling`), nil, `"finished" or "succeeded"`, "hosts that were not done well", "hosts that did not succeed"},
		{"over", regexp.MustCompile(`(?i)\b(?:is|are|was|were) over(?:$|[.,;:)])`), nil, `"finished" or "ended"`, "once the job is over,", "the CPU is over the limit"},
		{"unfit", words(`unfit`), nil, `"no matching window"`, "an unfit host", "no matching window"},
		{"parked", words(`park(?:s|ed|ing)?|resting|h[eo]lds? (?:back|up)|held (?:back|up)`), nil, `"suspended", "blocked" or "waiting"`, "the job is parked", "the lock is held"},
		{"wake", words(`wakes?|woken|woke`), nil, `"signal"`, "wake the run", "signal the run"},
		{"fires", words(`fires|fired|firings?`), nil, `"triggers", "trigger", "fire time"`, "a schedule fires", "the next fire time"},
		{"fire", words(`(?:to|not|they|schedules?|expressions?) fire|skips? a fire`), words(`fire times?`), `"trigger" or "fire time"`, "when they fire", "a schedule skips a fire time"},
		{"given up", words(`g[ia]ve[sn]? up|giving up`), nil, `"dead-lettered", "retries exhausted" or "stops trying"`, "the message is given up", "the message is dead-lettered"},
		{"taken back", words(`(?:tak(?:e|es|en|ing)|took) (?:\w+ )?back`), nil, `"rolled back", "revoked" or "undone"`, "the change is taken back", "the change is rolled back"},
		{"forks", words(`forks|(?:free|worker|job) slots?|slots? of (?:a|the) (?:worker|node)|worker's slots?|(?:no|busy) slots?|(?:hold|free|jobs?) (?:a|its) slot`), nil, `"concurrency" or "host tasks at the same time"`, "50 forks", "the A/B slots of the device"},
		{"configs", words(`configs`), nil, `"settings" (of a process) or "config backups" (of devices)`, "configs of devices", "config backups of devices"},
		{"stir", words(`pok(?:e|es|ed|ing)|stir(?:s|red|ring)?|nudg(?:e|es|ed|ing)|hubs?`), nil, `"notify" or "broadcast"`, "the hub is poked", "GitHub notifies the server"},
		{"gate", words(`gates?|stash(?:es|ed)?|ownfiles|doors?|knocks?`), nil, `"admission", "barrier", "limiter", "state store" or "secure file"`, "the gate opens", "the barrier opens"},
		{"verdict", words(`verdicts?`), words(`verdict (?:maps?|statements?)`), `"result": outcome, reason, detail`, "the verdict of a step", "a verdict map of nftables"},
		{"book", words(`books?`), nil, `"playbook" or "window calendar"`, "a book of windows", "a window calendar"},
		{"service window", words(`service windows?`), nil, `"maintenance window" or "window"`, "its service window opens", "its maintenance window opens"},
		{"plugin host", words(`plugin hosts?`), nil, `"plugin runner"`, "the plugin host starts it", "the plugin runner starts it"},
	}
}

// shownRules are about words that the page of former versions may have.
func shownRules() []rule {
	return []rule{
		{"say", words(`says?|saying|said`), nil, `"show", "report", "list" or "have"`, "the page says where it is", "the page shows where it is"},
		{"dead", words(`dead`), words(`dead(?:-| )letter(?:s|ed)?|dead man's|former name|slow, dead`), `"killed", "ended" or "dead-lettered"`, "a dead worker", "a dead-lettered notification"},
		{"held", words(`(?:is|are|be|was|were) (?:then )?held`), words(`(?:locks?|hosts?|files?) (?:\w+ )?(?:is|are|be|was|were) held`), `"paused", "waiting" or "blocked"`, "the run is held", "the lock is held"},
		{"ended well", words(`ended well`), nil, `"succeeded"`, "the run ended well", "the run succeeded"},
	}
}

// guideRules add words that comments and tests also use in another sense.
func guideRules() []rule {
	return append(shownRules(), []rule{
		{"fresh", words(`fresh`), nil, `"new"`, "a fresh connection", "a new connection"},
		{"definitions", words(`(?:the|newest|old) definitions`), nil, `"project", "rules"`, "the newest definitions", "the newest project"},
	}...)
}

// Words returns what is wrong with the words of one sentence: the rule, the place and what to
// write.
func Words(sentence string) []string { return broken(list(), sentence) }

func broken(list []rule, sentence string) []string {
	var found []string
	for _, r := range list {
		at := r.not.FindString(sentence)
		if at == "" || r.unless != nil && r.unless.MatchString(sentence) {
			continue
		}
		found = append(found, fmt.Sprintf("%q in %q: write %s", at, short(sentence), r.write))
	}
	return found
}

func short(sentence string) string {
	if r := []rune(sentence); len(r) > 120 {
		return string(r[:117]) + "..."
	}
	return sentence
}
