// Shows what a host writes as it comes. At most 2,000 lines are in the page; the oldest go.
import { fill } from "./stream.js";
import { LogStream } from "./logstream.js";
import { keys, keysButton } from "./keys.js";
import { localTimes } from "./times.js";

const most = 2000;

export function startLog() {
  const lines = document.getElementById("lines");
  const status = document.getElementById("follow");
  const find = document.getElementById("find");
  const bindings = {
    j: ["scroll down", () => lines.scrollBy(0, 60)],
    k: ["scroll up", () => lines.scrollBy(0, -60)],
    n: ["go to the last line", () => toEnd()],
  };
  let follow = true, waiting = [], frame;

  const toEnd = () => { follow = true; lines.scrollTop = lines.scrollHeight; };
  if (find) {
    bindings["/"] = ["find in the output", () => find.focus()];
    keysButton(find.form, "/ find, j k scroll, n last line, ? help");
  }
  keys(bindings);
  if (!location.hash.startsWith("#b")) toEnd();
  if (!status) return;

  // Scrolling up stops following; scrolling to the end begins it again.
  const text = document.createElement("span");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Follow";
  button.hidden = true;
  button.addEventListener("click", () => { toEnd(); button.hidden = true; });
  status.replaceChildren(text, button);
  lines.addEventListener("scroll", () => {
    follow = lines.scrollTop + lines.clientHeight >= lines.scrollHeight - 8;
    button.hidden = follow;
  }, { passive: true });
  const say = (words, link) => { fill(text, words, link); status.className = words ? "stale" : ""; };

  // Output is text of nodes, in classes of the style sheet: it cannot be markup.
  const item = (pieces, kind) => {
    const li = document.createElement("li");
    li.className = kind;
    li.append(...pieces.map(({ c, t }) => {
      const span = document.createElement("span");
      if (/^a[0-7]( ab)?$|^ab$/.test(c ?? "")) span.className = c;
      span.textContent = t;
      return span;
    }));
    return li;
  };

  const flush = () => {
    frame = undefined;
    const added = waiting.slice(-most).map(([pieces, kind]) => item(pieces, kind));
    waiting = [];
    lines.append(...added);
    for (let extra = lines.children.length - most; extra > 0; extra--) lines.firstChild.remove();
    if (follow) lines.scrollTop = lines.scrollHeight;
  };

  const add = (pieces, kind) => {
    waiting.push([pieces, kind]);
    if (waiting.length > 2 * most) waiting = waiting.slice(-most);
    frame ??= requestAnimationFrame(flush);
  };

  new LogStream(status.dataset.live, {
    begin: () => { waiting = []; lines.replaceChildren(); say(""); }, // kept lines come again
    log: (data) => {
      const e = JSON.parse(data);
      if (e.h) add([{ t: e.h }], "head");
      for (const l of e.l ?? []) add(l, e.s ?? "");
    },
    done: async () => say(await renew() ? "The host has its outcome." : "The host has its outcome: load the page again for the steps, downloads and links to lines."),
  }, say);
}

// renew shows the outcome, the steps and the attempts as they are now. The lines stay.
async function renew() {
  const answer = await fetch(location.href).catch(() => undefined);
  if (!answer?.ok || answer.redirected) return false;
  const text = await answer.text().catch(() => undefined);
  if (text === undefined) return false;
  const page = new DOMParser().parseFromString(text, "text/html");
  const now = page.getElementById("facts"), facts = document.getElementById("facts");
  if (!now) return false;
  const focused = facts.contains(document.activeElement);
  facts.replaceChildren(...now.childNodes);
  if (focused) facts.focus({ preventScroll: true });
  localTimes(facts);
  return true;
}
