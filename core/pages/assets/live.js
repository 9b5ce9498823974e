// Keeps a page up to date: what differs is put on it, so that focus, selected text and scroll
// positions stay.
import { Stream, fill } from "./stream.js";
import { localTimes } from "./times.js";

const summaryEvery = 5000;

// typed reports whether an attribute is what a person did to the page: text, ticks, choices, details
// opened.
function typed(name, element) {
  if (name === "open") return element.matches("details");
  if (name === "selected") return element.matches("option");
  return (name === "value" || name === "checked") && element.matches("input:not([type=hidden])");
}

// Live puts new states into an element. A form that is no longer there leaves the focus at what the
// page is now.
export class Live {
  constructor(status, root, handlers) {
    this.status = status;
    this.root = root;
    this.waiting = new Map(); // of parts: id → HTML
    document.addEventListener("focusin", (e) => { this.gone &&= e.target === root; });
    this.told = this.summary();
    this.about = [""]; // what was said last of the connection
    this.stream = new Stream(status.dataset.view, status.dataset.seen ?? "", {
      page: (html) => this.page(html),
      parts: (html) => this.parts(html),
      ...handlers,
    }, (text, link) => this.say(text, link));
  }

  say(text, link) {
    this.about = [text, link];
    const words = text || (this.gone ? "The form that you were in is gone: its action does not apply now." : "");
    fill(this.status, words, link);
    this.status.className = words ? "stale" : "";
  }

  page(html) {
    this.waiting.clear();
    this.put(() => {
      this.morph(this.root, html, "innerHTML");
      localTimes(this.root);
    });
  }

  // Parts are read and put on the page one after the other, in tasks of their own: a large page
  // stays usable while they come. Of a part that changed again only the newest is.
  parts(html) {
    for (const text of html.split("<!--part-->")) { // each alone: behind a p, a tr would be dropped
      const id = /\sid="([^"]*)"/.exec(text)?.[1]; // as HTML: a key, and not the id
      if (id) this.waiting.set(id, text);
    }
    this.next ??= setTimeout(() => this.part(), 0);
  }

  part() {
    this.next = undefined;
    const end = performance.now() + 10;
    for (const [key, text] of this.waiting) {
      this.waiting.delete(key);
      const one = document.createElement("template");
      one.innerHTML = text;
      const part = one.content.firstElementChild, old = document.getElementById(part.id);
      if (old) this.put(() => this.replace(old, part));
      if (performance.now() > end) break;
    }
    if (this.waiting.size > 0) this.next = setTimeout(() => this.part(), 0);
  }

  // A picture is not morphed, which takes ten times as long, unless the focus is in it.
  replace(old, part) {
    localTimes(part);
    if (old.localName !== "span" || old.contains(document.activeElement)) this.morph(old, part, "outerHTML");
    else if (!this.squares(old.firstElementChild, part.firstElementChild)) old.replaceWith(part);
  }

  // squares replaces what differs of a picture, if it has as many squares as before.
  squares(old, part) {
    if (old?.localName !== "svg" || part?.localName !== "svg" || old.childElementCount !== part.childElementCount) return false;
    for (const { name, value } of part.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    const now = [...part.children];
    [...old.children].forEach((square, i) => { if (!square.isEqualNode(now[i])) square.replaceWith(now[i]); });
    return true;
  }

  morph(at, html, morphStyle) {
    Idiomorph.morph(at, html, { morphStyle, callbacks: { beforeAttributeUpdated: (name, element) => !typed(name, element) } });
  }

  put(change) {
    const within = this.root.contains(document.activeElement);
    change();
    if (within && !this.root.contains(document.activeElement)) {
      this.gone = true;
      this.root.focus({ preventScroll: true });
      this.say(...this.about); // parts may come later than a line about the connection
    }
    this.announce();
  }

  summary() { return this.root.querySelector("[data-summary]")?.textContent ?? ""; }

  // A screen reader hears the newest summary, at most every few seconds.
  announce() {
    if (this.saying || this.summary() === this.told) return;
    this.saying = setTimeout(() => {
      this.saying = undefined;
      this.told = this.summary();
      document.getElementById("said").textContent = this.told;
    }, summaryEvery);
  }
}
